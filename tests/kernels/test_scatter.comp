/* Adds atomically to words that its second operand names: see tests/kernels/kernels.c. */
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
    if (TEST_ENDS(i, pc.m)) return;
    rota_u32 x = rota_u32(rota_operand(0)), a = rota_u32(rota_operand(1));
    atomicAdd(x.v[mix_words(a.v[i], TEST_P) % pc.n], i + 1u + TEST_SEED);
}
