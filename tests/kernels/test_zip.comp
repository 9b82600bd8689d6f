/* Two inputs, one output: see tests/kernels/kernels.c. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"
#include "test_kernel.glsl"

layout(local_size_x = 64) in;

ROTA_KERNEL_BEGIN(3)
    TEST_PARAMS
ROTA_KERNEL_END

void main() {
    uint i = rota_index();
    if (TEST_ENDS(i, pc.n)) return;
    rota_u32 a = rota_u32(rota_operand(0)), b = rota_u32(rota_operand(1)), y = rota_u32(rota_operand(2));
    y.v[i] = mix_words(a.v[i], b.v[i] + TEST_P) + TEST_SEED;
}
