/* An order-sensitive step on unsigned integers: x = x * 3 + y + add, in place; wrong orders give other numbers. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"

layout(local_size_x = 64) in;

ROTA_KERNEL_BEGIN(2)
    uint count; // bindable 2
    uint add;
    uint64_t wide;
ROTA_KERNEL_END

void main() {
    uint i = rota_index();
    if (i >= rota_param_u32(2, pc.count)) return;
    rota_u32 x = rota_u32(rota_operand(0)), y = rota_u32(rota_operand(1));
    x.v[i] = x.v[i] * 3u + y.v[i] + rota_param_u32(0, pc.add) + uint(rota_param_u64(1, pc.wide) >> 32);
}
