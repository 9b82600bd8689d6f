// The GPU form of bench/kernels.c, for OPERANDS operands.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "rota_kernel.glsl"

layout(local_size_x = 1) in;

ROTA_KERNEL_BEGIN(OPERANDS)
    uint seed;
    uint modes;
    uint words;
ROTA_KERNEL_END

void take(uint64_t address, uint i, inout uint value) {
    if ((pc.modes >> i & 1u) != 0u) value = value * 1664525u + rota_u32(address).v[0];
}

void give(uint64_t address, uint i, uint value) {
    if ((pc.modes >> (8u + i) & 1u) == 0u) return;
    for (uint w = 0u; w < pc.words; w++) rota_u32(address).v[w] = value;
}

void main() {
    uint value = rota_param_u32(0, pc.seed); // in a slot: bench_kernels_seeded
    take(rota_operand(0), 0u, value);
#if OPERANDS > 1
    take(rota_operand(1), 1u, value);
#endif
#if OPERANDS > 2
    take(rota_operand(2), 2u, value);
#endif
#if OPERANDS > 3
    take(rota_operand(3), 3u, value);
#endif
    give(rota_operand(0), 0u, value);
#if OPERANDS > 1
    give(rota_operand(1), 1u, value);
#endif
#if OPERANDS > 2
    give(rota_operand(2), 2u, value);
#endif
#if OPERANDS > 3
    give(rota_operand(3), 3u, value);
#endif
}
