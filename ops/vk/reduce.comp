/* rota_kernel_reduce: sum, maximum, minimum or sum of squares over chunks of the middle axis of [outer, n, inner]. Two
 * shapes of work, chosen by the host from the parameters: a workgroup per result (long chunks, short inner axis), or an
 * invocation per result (neighbours read neighbours). */
#version 460
#extension GL_GOOGLE_include_directive : require
#ifdef HALF /* any real dtypes */
#define ROTA_USE_F16
#endif
#include "elements.glsl"
#include "workgroup.glsl"
#ifdef HALF
#include "half.glsl"
layout(constant_id = 5) const uint FROM = 0u; /* rota_dtype */
layout(constant_id = 6) const uint TO = 0u;
#endif

layout(constant_id = 3) const uint OP = 0u; /* rota_reduce */
layout(constant_id = 4) const bool PER_INVOCATION = false;
const uint AHEAD = 8u;
const uint REDUCE_SUM = 0u, REDUCE_MAX = 1u, REDUCE_MIN = 3u;

ROTA_KERNEL_BEGIN(2)
uint op;
uint outer;
uint n;
uint inner;
uint chunk;
float scale;
uint from;
uint to;
ROTA_KERNEL_END

float smaller(float a, float b) { return isnan(a) || a < b ? a : b; }
ROTA_TREE(workgroup_min, smaller)

float combine(float total, float x) {
    if (OP == REDUCE_MAX) return rota_larger(total, x);
    if (OP == REDUCE_MIN) return smaller(total, x);
    return OP == REDUCE_SUM ? total + x : total + x * x;
}

float element(uint64_t i) {
#ifdef HALF
    return load_as64(FROM, rota_operand(0), i);
#else
    return rota_f32(element_at(rota_operand(0), i)).v[0];
#endif
}

void main() {
    const uint chunks = (pc.n - 1u) / pc.chunk + 1u, count = pc.outer * chunks * pc.inner;
    if (PER_INVOCATION ? rota_beyond(count) : rota_group_index() >= count) return;
    const uint result = PER_INVOCATION ? rota_index() : rota_group_index();
    const uint i = result % pc.inner, c = result / pc.inner % chunks, o = result / pc.inner / chunks;
    const uint begin = c * pc.chunk, end = pc.n - begin < pc.chunk ? pc.n : begin + pc.chunk;
    const uint64_t first = uint64_t(o) * pc.n * pc.inner + i;
    float total = OP == REDUCE_MAX ? ROTA_NEGATIVE_INFINITY : OP == REDUCE_MIN ? -ROTA_NEGATIVE_INFINITY : 0.0;
    const uint start = PER_INVOCATION ? 0u : gl_LocalInvocationIndex;
    const uint stride = PER_INVOCATION ? 1u : gl_WorkGroupSize.x;
    uint k = start;
    /* Several are on their way at a time; they are added up in their order all the same. */
    for (; k + (AHEAD - 1u) * stride < end - begin; k += AHEAD * stride) {
        float x[AHEAD];
        [[unroll]] for (uint j = 0u; j < AHEAD; ++j)
            x[j] = element(first + uint64_t(begin + k + j * stride) * pc.inner);
        [[unroll]] for (uint j = 0u; j < AHEAD; ++j) total = combine(total, x[j]);
    }
    for (; k < end - begin; k += stride)
        total = combine(total, element(first + uint64_t(begin + k) * pc.inner));
    if (!PER_INVOCATION)
        total = OP == REDUCE_MAX   ? workgroup_max(total)
                : OP == REDUCE_MIN ? workgroup_min(total)
                                   : workgroup_sum(total);
    if (!PER_INVOCATION && gl_LocalInvocationIndex != 0u) return;
    if (OP != REDUCE_MAX && OP != REDUCE_MIN) total *= pc.scale;
#ifdef HALF
    store_as(TO, rota_operand(1), result, total);
#else
    store(rota_operand(1), result, total);
#endif
}
