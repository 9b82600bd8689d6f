/* The smoke test's kernel: c = a + b. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(3)
uint count;
ROTA_KERNEL_END

void main() {
    uint i = rota_index();
    if (i >= pc.count) return;
    rota_f32(rota_operand(2)).v[i] = rota_f32(rota_operand(0)).v[i] + rota_f32(rota_operand(1)).v[i];
}
