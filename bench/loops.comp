// The Vulkan form of rota-bench loops' kernels: loops_work, or with DOWN loops_down.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"

layout(local_size_x = 1) in;

ROTA_KERNEL_BEGIN(1)
#ifndef DOWN
    uint steps;
#endif
ROTA_KERNEL_END

void main() {
    rota_u32 cell = rota_u32(rota_operand(0));
#ifdef DOWN
    cell.v[0]--;
#else
    uint x = cell.v[0];
    for (uint i = 0u; i < pc.steps; i++) x = x * 1664525u + 1013904223u;
    cell.v[0] = x;
#endif
}
