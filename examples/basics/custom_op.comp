// The GPU form of the kernel in custom_op.c.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"

layout(local_size_x = 64) in;

ROTA_KERNEL_BEGIN(3)
    uint count;
    uint backward;
    float alpha;
ROTA_KERNEL_END

void main() {
    uint i = rota_index();
    if (i >= pc.count) return;
    float x = rota_f32(rota_operand(0)).v[i];
    float s = sin(pc.alpha * x);
    rota_f32(rota_operand(2)).v[i] = pc.backward != 0u
                                         ? rota_f32(rota_operand(1)).v[i] * (1.0 + sin(2.0 * pc.alpha * x))
                                         : x + s * s / pc.alpha;
}
