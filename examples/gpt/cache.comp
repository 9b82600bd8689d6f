// A token's keys or values to its position in the cache: the GPU form of the kernel in decode.c.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"

layout(local_size_x = 64) in;

ROTA_KERNEL_BEGIN(3)
    uint heads;
    uint block;
    uint head_dim;
ROTA_KERNEL_END

void main() {
    uint i = rota_index();
    uint position = rota_u32(rota_operand(1)).v[0];
    if (i >= pc.heads * pc.head_dim || position >= pc.block) return;
    uint at = (i / pc.head_dim * pc.block + position) * pc.head_dim + i % pc.head_dim;
    rota_f32(rota_operand(2)).v[at] = rota_f32(rota_operand(0)).v[i];
}
