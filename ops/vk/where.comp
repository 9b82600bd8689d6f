/* rota_kernel_where: a or b by a condition, an element an invocation. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 4
#include "typed.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 2) const uint FLAGS = 0u;
layout(constant_id = 3) const uint DIMS = 6u;
const uint WHERE_INVERT = 1u, WHERE_NUMBER = 2u;

ROTA_KERNEL_BEGIN(4)
uint count;
uint flags;
float number;
uint dtype;
uint shape[6];
uint c_stride[6];
uint b_stride[6];
ROTA_KERNEL_END

#include "strided.glsl"

/* Elements as bits, so that NaNs stay as they are. */
#ifdef HALF
uint load_bits(uint64_t base, uint64_t i) { return uint(rota_u16(base + i * 2ul).v[0]); }
void store_bits(uint64_t base, uint64_t i, uint bits) { rota_u16(base + i * 2ul).v[0] = uint16_t(bits); }
uint bits_of(float value) { return narrow(value); }
const uint MAGNITUDE = 0x7FFFu;
#else
uint load_bits(uint64_t base, uint64_t i) { return rota_u32(base + i * 4ul).v[0]; }
void store_bits(uint64_t base, uint64_t i, uint bits) { rota_u32(base + i * 4ul).v[0] = bits; }
uint bits_of(float value) { return floatBitsToUint(value); }
const uint MAGNITUDE = 0x7FFFFFFFu;
#endif

void main() {
    const uint i = rota_index();
    if (rota_beyond(pc.count)) return;
    const uint c = load_bits(rota_operand(0), strided_place(DIMS, i, pc.shape, pc.c_stride));
    uint value;
    if (((c & MAGNITUDE) != 0u) != ((FLAGS & WHERE_INVERT) != 0u))
        value = load_bits(rota_operand(1), i);
    else if ((FLAGS & WHERE_NUMBER) != 0u)
        value = bits_of(pc.number);
    else
        value = load_bits(rota_operand(2), strided_place(DIMS, i, pc.shape, pc.b_stride));
    store_bits(rota_operand(3), i, value);
}
