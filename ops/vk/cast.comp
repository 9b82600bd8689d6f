/* rota_kernel_cast: f32, f16 and bf16 among each other and to and from i32, and with BYTES to and from 8-bit floats,
 * four elements an invocation. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ROTA_USE_F16
#ifdef BYTES
#define ROTA_USE_BYTES
#endif
#include "elements.glsl"
#include "half.glsl"
#ifdef BYTES
#include "f8.glsl"
#endif

layout(local_size_x = 256) in;
layout(constant_id = 2) const uint FROM = 0u; /* rota_dtype */
layout(constant_id = 3) const uint TO = 1u;

ROTA_KERNEL_BEGIN(2)
uint count;
uint from;
uint to;
ROTA_KERNEL_END

const uint DTYPE_I32 = 3u; /* rota_dtype */

/* Bits tell a NaN, which a comparison need not. */
int to_i32(float value) {
    if ((floatBitsToUint(value) & 0x7FFFFFFFu) > 0x7F800000u) return 0;
    return value >= 2147483648.0 ? 0x7FFFFFFF : value <= -2147483648.0 ? int(0x80000000u) : int(value);
}

float from_any(uint i) {
#ifdef BYTES
    if (is_f8(FROM)) return from_f8(FROM, uint(rota_u8(rota_operand(0) + uint64_t(i)).v[0]));
#endif
    return FROM == DTYPE_I32 ? float(rota_i32(element_at(rota_operand(0), i)).v[0]) : load_as(FROM, rota_operand(0), i);
}

void to_any(uint i, float value) {
#ifdef BYTES
    if (is_f8(TO)) {
        rota_u8(rota_operand(1) + uint64_t(i)).v[0] = uint8_t(to_f8(TO, value));
        return;
    }
#endif
    if (TO == DTYPE_I32)
        rota_i32(element_at(rota_operand(1), i)).v[0] = to_i32(value);
    else
        store_as(TO, rota_operand(1), i, value);
}

void main() {
    if (rota_index() > (pc.count - 1u) / 4u) return;
    const uint first = rota_index() * 4u;
    for (uint j = 0u; j < 4u && j < pc.count - first; ++j) to_any(first + j, from_any(first + j));
}
