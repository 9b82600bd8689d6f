/* Last part of rota_kernel_cumulative_sum_long: as cumulative_sum.comp, but of each chunk, on top of the cumulative sum
 * of the chunks before it. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 3
#include "typed.glsl"
#include "long.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 2) const bool PER_INVOCATION = false;

ROTA_LONG(3) /* x, totals, y */

shared float sums[64];

void main() {
    const uint t = gl_LocalInvocationIndex, item = PER_INVOCATION ? rota_index() : rota_group_index();
    const uint chunks = chunk_count(), items = pc.outer * chunks * pc.inner;
    if (PER_INVOCATION ? rota_beyond(items) : item >= items) return;
    const uint c = item / pc.inner % chunks, begin = c * pc.chunk, length = chunk_end(begin) - begin;
    const uint64_t column = item % pc.inner, row = item / pc.inner / chunks;
    const uint64_t first = (row * pc.n + begin) * pc.inner + column;
    const bool reverse = pc.reverse != 0u, alone = reverse ? c + 1u == chunks : c == 0u;
    float carry = 0.0;
    if (!alone)
        carry = rota_f32(element_at(rota_operand(1), (row * chunks + (reverse ? c + 1u : c - 1u)) * pc.inner + column))
                    .v[0];
    if (PER_INVOCATION) {
        ROTA_EACH(k, 0u, length, 1u, {
            const uint64_t element = first + uint64_t(reverse ? length - 1u - k : k) * pc.inner;
            carry += load_any(rota_operand(0), element);
            store_any(rota_operand(2), element, carry);
        })
        return;
    }
    for (uint from = 0u; from < length; from += 64u) {
        const uint k = from + t;
        const uint64_t element = first + uint64_t(reverse ? length - 1u - k : k) * pc.inner;
        float sum = k < length ? load_any(rota_operand(0), element) : 0.0;
        sums[t] = sum;
        barrier();
        for (uint step = 1u; step < 64u; step <<= 1) {
            const float left = t >= step ? sums[t - step] : 0.0;
            barrier();
            sum += left;
            sums[t] = sum;
            barrier();
        }
        if (k < length) store_any(rota_operand(2), element, carry + sum);
        carry += sums[63];
        barrier();
    }
}
