/* rota_kernel_exclusive_sum: a workgroup per row, eight neighbours an invocation a turn. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(3)
uint rows;
uint n;
ROTA_KERNEL_END

#include "scan.glsl"

#define EACH 8u

void main() {
    const uint row = rota_group_index(), t = gl_LocalInvocationIndex;
    if (row >= pc.rows) return;
    const uint64_t base = uint64_t(row) * pc.n;
    uint before = 0u;
    for (uint from = 0u; from < pc.n; from += SCAN_GROUP * EACH) {
        const uint first = from + t * EACH;
        uint values[EACH], own = 0u, total;
        [[unroll]] for (uint e = 0u; e < EACH; ++e) {
            const bool is_there = first < pc.n && e < pc.n - first;
            values[e] = is_there ? rota_u32(element_at(rota_operand(0), base + first + e)).v[0] : 0u;
            own += values[e];
        }
        uint sum = before + workgroup_sum_before(own, total);
        before += total;
        [[unroll]] for (uint e = 0u; e < EACH; ++e) {
            if (first < pc.n && e < pc.n - first) rota_u32(element_at(rota_operand(1), base + first + e)).v[0] = sum;
            sum += values[e];
        }
    }
    if (t == 0u) rota_u32(element_at(rota_operand(2), row)).v[0] = before;
}
