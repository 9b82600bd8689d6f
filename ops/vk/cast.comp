/* rota_kernel_cast: f32, f16 and bf16 among each other and to and from i32, four elements an invocation. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ROTA_USE_F16
#include "elements.glsl"
#include "half.glsl"

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

void main() {
    if (rota_index() > (pc.count - 1u) / 4u) return;
    const uint first = rota_index() * 4u;
    for (uint j = 0u; j < 4u && j < pc.count - first; ++j) {
        const uint i = first + j;
        const float value = FROM == DTYPE_I32 ? float(rota_i32(element_at(rota_operand(0), i)).v[0])
                                              : load_as(FROM, rota_operand(0), i);
        if (TO == DTYPE_I32)
            rota_i32(element_at(rota_operand(1), i)).v[0] = to_i32(value);
        else
            store_as(TO, rota_operand(1), i, value);
    }
}
