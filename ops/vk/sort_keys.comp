/* rota_kernel_sort_keys: what elements are sorted by, one an invocation. By their bits, since a GPU may take numbers
 * below the normal ones for 0. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "bits.glsl"
#ifdef HALF
#include "half.glsl"
#endif

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(2)
uint n;
uint order;
uint dtype;
ROTA_KERNEL_END

#include "sort.glsl"

uint bits_of(uint i) {
    const uint bits = load_bits(rota_operand(0), i);
#ifdef HALF
    return pc.dtype == DTYPE_F16 ? floatBitsToUint(from_f16(bits)) : bits << 16;
#else
    return bits;
#endif
}

uint key_of(uint bits) {
    if (pc.order == ORDER_PROBABLE) return bits - 1u < INFINITY_BITS ? ~bits : 0xFFFFFFFFu;
    if (pc.dtype == DTYPE_U32) return bits;
    if (pc.dtype == DTYPE_I32) return bits ^ 0x80000000u;
    const uint magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > INFINITY_BITS) return NAN_KEY;
    return magnitude == 0u ? 0x80000000u : (bits >> 31) != 0u ? ~bits : bits | 0x80000000u;
}

void main() {
    if (rota_beyond(pc.n)) return;
    rota_u32(element_at(rota_operand(1), rota_index())).v[0] = key_of(bits_of(rota_index()));
}
