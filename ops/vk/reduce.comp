/* rota_kernel_reduce: sum, maximum or sum of squares over chunks of the middle axis of [outer, n, inner]. Two shapes of
 * work, chosen by the host from the parameters: a workgroup per result (long chunks, short inner axis), or an
 * invocation per result (neighbours read neighbours). */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "workgroup.glsl"

layout(constant_id = 3) const uint OP = 0u; /* rota_reduce */
layout(constant_id = 4) const bool PER_INVOCATION = false;
const uint REDUCE_SUM = 0u, REDUCE_MAX = 1u;

ROTA_KERNEL_BEGIN(2)
uint op;
uint outer;
uint n;
uint inner;
uint chunk;
float scale;
ROTA_KERNEL_END

float combine(float total, float x) {
    if (OP == REDUCE_MAX) return rota_larger(total, x);
    return OP == REDUCE_SUM ? total + x : total + x * x;
}

void main() {
    const uint chunks = (pc.n - 1u) / pc.chunk + 1u, count = pc.outer * chunks * pc.inner;
    if (PER_INVOCATION ? rota_beyond(count) : rota_group_index() >= count) return;
    const uint result = PER_INVOCATION ? rota_index() : rota_group_index();
    const uint i = result % pc.inner, c = result / pc.inner % chunks, o = result / pc.inner / chunks;
    const uint begin = c * pc.chunk, end = pc.n - begin < pc.chunk ? pc.n : begin + pc.chunk;
    const uint64_t x = at(rota_operand(0), uint64_t(o) * pc.n * pc.inner + i);
    float total = OP == REDUCE_MAX ? ROTA_NEGATIVE_INFINITY : 0.0;
    const uint start = PER_INVOCATION ? 0u : gl_LocalInvocationIndex;
    const uint stride = PER_INVOCATION ? 1u : gl_WorkGroupSize.x;
    for (uint k = start; k < end - begin; k += stride)
        total = combine(total, rota_f32(at(x, uint64_t(begin + k) * pc.inner)).v[0]);
    if (!PER_INVOCATION) total = OP == REDUCE_MAX ? workgroup_max(total) : workgroup_sum(total);
    if (PER_INVOCATION || gl_LocalInvocationIndex == 0u)
        store(rota_operand(1), result, OP == REDUCE_MAX ? total : total * pc.scale);
}
