/* rota_kernel_top_p_sums: the weights of a chunk, added up by a workgroup. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(2)
uint rows;
uint n;
uint chunk;
uint p;
ROTA_KERNEL_END

#include "top_p.glsl"

void main() {
    const uint t = gl_LocalInvocationIndex, group = rota_group_index();
    const row_chunk c = chunk_of(group, pc.n, pc.chunk);
    if (c.row >= pc.rows) return;
    const uint64_t keys = element_at(rota_operand(0), uint64_t(c.row) * pc.n);
    uint64_t sum = 0ul, total;
    for (uint i = c.begin + t; i < c.end; i += SCAN_GROUP) sum += weight_of(rota_u32(element_at(keys, i)).v[0]);
    workgroup_sum_before(sum, total);
    if (t > 0u) return;
    rota_u32 to = rota_u32(rota_operand(1) + uint64_t(group) * 8ul);
    to.v[0] = uint(total);
    to.v[1] = uint(total >> 32);
}
