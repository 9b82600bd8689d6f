/* rota_kernel_sort_counts: how many keys of a chunk have each digit, by a workgroup. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(2)
uint rows;
uint n;
uint chunk;
uint shift;
uint is_first;
ROTA_KERNEL_END

#include "sort.glsl"

shared uint counts[DIGITS];

void main() {
    const uint t = gl_LocalInvocationIndex;
    const row_chunk c = chunk_of(rota_group_index(), pc.n, pc.chunk);
    if (c.row >= pc.rows) return;
    const uint64_t keys = element_at(rota_operand(0), uint64_t(c.row) * pc.n);
    if (t < DIGITS) counts[t] = 0u;
    barrier();
    for (uint i = c.begin + t; i < c.end; i += gl_WorkGroupSize.x)
        atomicAdd(counts[rota_u32(element_at(keys, i)).v[0] >> pc.shift & DIGITS - 1u], 1u);
    barrier();
    if (t < DIGITS)
        rota_u32(element_at(rota_operand(1), (uint64_t(c.row) * DIGITS + t) * c.of + c.number)).v[0] = counts[t];
}
