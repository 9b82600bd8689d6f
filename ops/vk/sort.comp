/* rota_kernel_sort: each key of a chunk, with its index, behind those of smaller digits and those of its own that come
 * before it; by a workgroup, eight neighbours an invocation a turn. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(5)
uint rows;
uint n;
uint chunk;
uint shift;
uint is_first;
ROTA_KERNEL_END

#include "sort.glsl"

#define GROUP 256u
#define EACH 8u
#define PAIRS 8u /* of digits d and d + 8, whose counts are the halves of a word: a turn has 2048 keys */

shared uint counts[PAIRS][GROUP];
shared uint next[DIGITS]; /* where the next key of a digit goes */

uint half_of(uint digit) { return digit / PAIRS * 16u; }

/* In the place of this invocation's counts those of all before it. */
void sum_up_before() {
    const uint t = gl_LocalInvocationIndex;
    uint own[PAIRS], sum[PAIRS], left[PAIRS];
    [[unroll]] for (uint w = 0u; w < PAIRS; ++w) own[w] = sum[w] = counts[w][t];
    barrier();
    for (uint step = 1u; step < GROUP; step <<= 1) {
        [[unroll]] for (uint w = 0u; w < PAIRS; ++w) left[w] = t >= step ? counts[w][t - step] : 0u;
        barrier();
        [[unroll]] for (uint w = 0u; w < PAIRS; ++w) counts[w][t] = sum[w] += left[w];
        barrier();
    }
    [[unroll]] for (uint w = 0u; w < PAIRS; ++w) counts[w][t] = sum[w] - own[w];
}

void main() {
    const uint t = gl_LocalInvocationIndex;
    const row_chunk c = chunk_of(rota_group_index(), pc.n, pc.chunk);
    if (c.row >= pc.rows) return;
    const uint64_t base = uint64_t(c.row) * pc.n;
    if (t < DIGITS)
        next[t] = rota_u32(element_at(rota_operand(2), (uint64_t(c.row) * DIGITS + t) * c.of + c.number)).v[0];
    for (uint from = c.begin; from < c.end; from += GROUP * EACH) {
        const uint first = from + t * EACH, mine = first < c.end ? min(EACH, c.end - first) : 0u;
        uint keys[EACH];
        [[unroll]] for (uint w = 0u; w < PAIRS; ++w) counts[w][t] = 0u;
        [[unroll]] for (uint e = 0u; e < EACH; ++e) {
            if (e >= mine) break;
            keys[e] = rota_u32(element_at(rota_operand(0), base + first + e)).v[0];
            const uint digit = keys[e] >> pc.shift & DIGITS - 1u;
            counts[digit % PAIRS][t] += 1u << half_of(digit);
        }
        sum_up_before();
        [[unroll]] for (uint e = 0u; e < EACH; ++e) {
            if (e >= mine) break;
            const uint digit = keys[e] >> pc.shift & DIGITS - 1u;
            const uint to = next[digit] + (counts[digit % PAIRS][t] >> half_of(digit) & 0xFFFFu);
            counts[digit % PAIRS][t] += 1u << half_of(digit);
            uint index = first + e;
            if (pc.is_first == 0u) index = rota_u32(element_at(rota_operand(1), base + index)).v[0];
            rota_u32(element_at(rota_operand(3), base + to)).v[0] = keys[e];
            rota_u32(element_at(rota_operand(4), base + to)).v[0] = index;
        }
        barrier();
        /* The last one's are now those of all. */
        if (t < DIGITS) next[t] += counts[t % PAIRS][GROUP - 1u] >> half_of(t) & 0xFFFFu;
        barrier();
    }
}
