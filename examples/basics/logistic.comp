// The GPU form of the kernel in custom_kernel.c.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"

layout(local_size_x = 64) in;

ROTA_KERNEL_BEGIN(2)
    uint count;
    uint rate; // bindable 0, a float
ROTA_KERNEL_END

void main() {
    uint i = rota_index();
    if (i >= pc.count) return;
    float x = rota_f32(rota_operand(0)).v[i];
    rota_f32(rota_operand(1)).v[i] = rota_param_f32(0, pc.rate) * x * (1.0 - x);
}
