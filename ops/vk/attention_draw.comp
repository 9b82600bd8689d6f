/* rota_kernel_attention_draw: what attention_dropout and its gradients read of their dropout. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"

layout(local_size_x = 32) in;

ROTA_KERNEL_BEGIN(1) /* draw */
uint threshold;
float kept;
uint stream;
uint seed;
uint step;
float scale;
uint first;
uint unused;
ROTA_KERNEL_END

void main() {
    if (rota_index() != 0u) return;
    rota_u32 draw = rota_u32(rota_operand(0));
    draw.v[0] = pc.threshold;
    draw.v[1] = floatBitsToUint(pc.kept);
    draw.v[2] = pc.stream;
    draw.v[3] = rota_param_u32(0, pc.seed);
    draw.v[4] = rota_param_u32(1, pc.step);
    draw.v[5] = floatBitsToUint(pc.scale);
    draw.v[6] = pc.first;
    draw.v[7] = pc.unused;
}
