/* rota_kernel_check_finite: counts NaNs and infinities and finds the first. Integer atomics only, so the result does
 * not depend on the order. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(2)
uint count;
uint dtype;
ROTA_KERNEL_END

/* By words, two elements each of f16 (rota_dtype 1) and bf16. */
bool not_finite(uint64_t x, uint i) {
    if (pc.dtype == 0u) return (rota_u32(element_at(x, i)).v[0] & 0x7F800000u) == 0x7F800000u;
    const uint mask = pc.dtype == 1u ? 0x7C00u : 0x7F80u;
    return (rota_u32(element_at(x, i / 2u)).v[0] >> (i % 2u * 16u) & mask) == mask;
}

void main() {
    if (rota_index() > (pc.count - 1u) / 4u) return;
    const uint first = rota_index() * 4u;
    const uint64_t x = rota_operand(0);
    uint bad = 0u, position = 0xFFFFFFFFu;
    for (uint j = 0u; j < 4u && j < pc.count - first; ++j) {
        if (!not_finite(x, first + j)) continue;
        if (bad == 0u) position = first + j;
        ++bad;
    }
    if (bad == 0u) return;
    atomicAdd(rota_u32(rota_operand(1)).v[0], bad);
    atomicMin(rota_u32(rota_operand(1)).v[1], position);
}
