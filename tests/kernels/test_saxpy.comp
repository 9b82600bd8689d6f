/* The example kernel of exec/vk/rota_kernel.glsl: out = scale * a + b. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(3)
    uint count;
    uint scale;
ROTA_KERNEL_END

void main() {
    uint i = rota_index();
    if (i >= pc.count) return;
    rota_f32 a = rota_f32(rota_operand(0)), b = rota_f32(rota_operand(1)), result = rota_f32(rota_operand(2));
    result.v[i] = rota_param_f32(0, pc.scale) * a.v[i] + b.v[i];
}
