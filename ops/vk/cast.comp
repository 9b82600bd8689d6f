/* rota_kernel_cast: f32, f16 and bf16 among each other, four elements an invocation. */
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

void main() {
    if (rota_index() > (pc.count - 1u) / 4u) return;
    const uint first = rota_index() * 4u;
    for (uint j = 0u; j < 4u && j < pc.count - first; ++j)
        store_as(TO, rota_operand(1), first + j, load_as(FROM, rota_operand(0), first + j));
}
