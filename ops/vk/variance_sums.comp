/* Third part of rota_kernel_variance_long: the sums of the squares of what each chunk differs from the mean by, by a
 * workgroup each, or, of columns, an invocation each. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 4
#include "typed.glsl"
#include "long.glsl"
#include "workgroup.glsl"

layout(constant_id = 3) const bool PER_INVOCATION = false;

ROTA_LONG(3) /* x, mean, sums */

void main() {
    const uint item = PER_INVOCATION ? rota_index() : rota_group_index();
    const uint chunks = chunk_count(), items = pc.outer * chunks * pc.inner;
    if (PER_INVOCATION ? rota_beyond(items) : item >= items) return;
    const uint begin = item / pc.inner % chunks * pc.chunk, row = item / pc.inner / chunks, column = item % pc.inner;
    const uint64_t first = uint64_t(row) * pc.n * pc.inner + column;
    const uint start = PER_INVOCATION ? 0u : gl_LocalInvocationIndex, stride = PER_INVOCATION ? 1u : gl_WorkGroupSize.x;
    const float mean = load(rota_operand(1), row * pc.inner + column);
    float squares = 0.0;
    ROTA_EACH(k, begin + start, chunk_end(begin), stride, {
        const float d = load_any(rota_operand(0), first + uint64_t(k) * pc.inner) - mean;
        squares += d * d;
    })
    if (!PER_INVOCATION) squares = workgroup_sum(squares);
    if (PER_INVOCATION || gl_LocalInvocationIndex == 0u) store(rota_operand(2), item, squares);
}
