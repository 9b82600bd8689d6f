/* Six inputs, one in and out, one output: see tests/kernels/kernels.c. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"
#include "test_kernel.glsl"

layout(local_size_x = 64) in;

ROTA_KERNEL_BEGIN(8)
    TEST_PARAMS
ROTA_KERNEL_END

void main() {
    uint i = rota_index();
    if (TEST_ENDS(i, pc.n)) return;
    uint total = TEST_P + TEST_SEED;
    total = mix_words(total, rota_u32(rota_operand(0)).v[i]);
    total = mix_words(total, rota_u32(rota_operand(1)).v[i]);
    total = mix_words(total, rota_u32(rota_operand(2)).v[i]);
    total = mix_words(total, rota_u32(rota_operand(3)).v[i]);
    total = mix_words(total, rota_u32(rota_operand(4)).v[i]);
    total = mix_words(total, rota_u32(rota_operand(5)).v[i]);
    rota_u32 x = rota_u32(rota_operand(6)), y = rota_u32(rota_operand(7));
    uint old = x.v[i];
    x.v[i] = old ^ total;
    y.v[i] = old + total;
}
