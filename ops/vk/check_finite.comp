/* rota_kernel_check_finite: counts NaNs and infinities and finds the first. Integer atomics only, so the result does
 * not depend on the order. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(2)
uint count;
ROTA_KERNEL_END

void main() {
    if (rota_index() > (pc.count - 1u) / 4u) return;
    const uint first = rota_index() * 4u;
    const uint64_t x = rota_operand(0);
    uint bad = 0u, place = 0xFFFFFFFFu;
    for (uint j = 0u; j < 4u && j < pc.count - first; ++j) {
        const uint bits = rota_u32(at(x, first + j)).v[0];
        if ((bits & 0x7F800000u) != 0x7F800000u) continue;
        if (bad == 0u) place = first + j;
        ++bad;
    }
    if (bad == 0u) return;
    atomicAdd(rota_u32(rota_operand(1)).v[0], bad);
    atomicMin(rota_u32(rota_operand(1)).v[1], place);
}
