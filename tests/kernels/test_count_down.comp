/* x[0]--: see tests/random/decide.c. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"

layout(local_size_x = 1) in;

ROTA_KERNEL_BEGIN(1)
ROTA_KERNEL_END

void main() { rota_u32(rota_operand(0)).v[0]--; }
