/* Every output from every input: see tests/kernels/kernels.c. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"
#include "test_kernel.glsl"

layout(local_size_x = 64) in;

ROTA_KERNEL_BEGIN(2)
    TEST_PARAMS
ROTA_KERNEL_END

void main() {
    uint i = rota_index();
    if (TEST_ENDS(i, pc.n)) return;
    rota_u32 a = rota_u32(rota_operand(0)), y = rota_u32(rota_operand(1));
    uint total = TEST_P + TEST_SEED;
    for (uint k = 0; k < pc.m; k++) total += a.v[k] * (k + i + 1u);
    y.v[i] = total;
}
