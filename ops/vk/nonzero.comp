/* rota_kernel_nonzero: the indices of what is not zero, and behind them the others, chunk by chunk. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "bits.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(4)
uint n;
uint chunk;
uint dtype;
ROTA_KERNEL_END

#include "nonzero.glsl"
#include "scan.glsl"

void main() {
    const uint c = rota_group_index();
    if (c > (pc.n - 1u) / pc.chunk) return;
    const uint begin = c * pc.chunk, end = chunk_end(begin), t = gl_LocalInvocationIndex;
    const uint all = rota_u32(rota_operand(2)).v[0];
    uint before = rota_u32(element_at(rota_operand(1), c)).v[0];
    for (uint from = 0u; from < end - begin; from += SCAN_GROUP * EACH) {
        const uint first = begin + from + t * EACH, found = nonzero_of(rota_operand(0), first, end);
        uint total;
        uint rank = before + workgroup_sum_before(bitCount(found), total);
        before += total;
        for (uint e = 0u; e < EACH && first < end && e < end - first; ++e) {
            const uint i = first + e;
            const bool is_found = (found >> e & 1u) != 0u;
            rota_u32(element_at(rota_operand(3), is_found ? rank : all + (i - rank))).v[0] = i;
            if (is_found) ++rank;
        }
    }
}
