/* rota_kernel_unique, and, with COUNTS defined, rota_kernel_unique_counts: a workgroup per chunk of ascending keys,
 * eight neighbours an invocation a turn. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 256) in;

#ifdef COUNTS
ROTA_KERNEL_BEGIN(2)
#else
ROTA_KERNEL_BEGIN(6)
#endif
uint n;
uint chunk;
uint dtype;
ROTA_KERNEL_END

#include "scan.glsl"
#include "sort.glsl"

#define EACH 8u

uint key(uint i) { return rota_u32(element_at(rota_operand(0), i)).v[0]; }

/* Bit e: whether key first + e, which is before `end`, is the first of its kind. */
uint starts_of(uint first, uint end) {
    uint found = 0u;
    [[unroll]] for (uint e = 0u; e < EACH; ++e)
        if (first + e < end && (first + e == 0u || key(first + e) != key(first + e - 1u))) found |= 1u << e;
    return found;
}

uint value_of(uint key) {
    if (pc.dtype == DTYPE_U32) return key;
    if (pc.dtype == DTYPE_I32) return key ^ 0x80000000u;
    return (key >> 31) != 0u ? key & 0x7FFFFFFFu : ~key;
}

void main() {
    const uint t = gl_LocalInvocationIndex;
    const row_chunk c = chunk_of(rota_group_index(), pc.n, pc.chunk);
    if (c.row > 0u) return;
#ifdef COUNTS
    uint count = 0u, total;
    for (uint from = c.begin; from < c.end; from += SCAN_GROUP * EACH)
        count += bitCount(starts_of(from + t * EACH, c.end));
    workgroup_sum_before(count, total);
    if (t == 0u) rota_u32(element_at(rota_operand(1), c.number)).v[0] = total;
#else
    const uint all = rota_u32(rota_operand(3)).v[0];
    uint before = rota_u32(element_at(rota_operand(2), c.number)).v[0];
    for (uint from = c.begin; from < c.end; from += SCAN_GROUP * EACH) {
        const uint first = from + t * EACH, found = starts_of(first, c.end);
        uint total;
        uint rank = before + workgroup_sum_before(bitCount(found), total); /* of kinds that began before */
        before += total;
        for (uint e = 0u; e < EACH && first + e < c.end; ++e) {
            const uint i = first + e;
            const bool is_start = (found >> e & 1u) != 0u;
            rota_u32(element_at(rota_operand(4), is_start ? rank : all + (i - rank))).v[0] =
                is_start ? value_of(key(i)) : 0u;
            if (is_start) ++rank;
            const uint index = rota_u32(element_at(rota_operand(1), i)).v[0];
            if (index < pc.n) rota_u32(element_at(rota_operand(5), index)).v[0] = rank - 1u;
        }
    }
#endif
}
