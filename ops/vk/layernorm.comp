/* rota_kernel_layernorm, with RMS rota_kernel_rmsnorm, with RESIDUAL rota_kernel_residual_layernorm: a workgroup per
 * row; mean, then variance, then result. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 3
#include "value.glsl"
#include "workgroup.glsl"

#if defined(RMS)
const uint WEIGHT = 1u, BIAS = 1u, Y = 2u, STATS = 3u; /* operands: x, weight, y, stats */
ROTA_KERNEL_BEGIN(4)
#elif defined(RESIDUAL)
const uint WEIGHT = 2u, BIAS = 3u, SUM = 4u, Y = 5u, STATS = 6u; /* operands: x, r, weight, bias, sum, y, stats */
ROTA_KERNEL_BEGIN(7)
#else
const uint WEIGHT = 1u, BIAS = 2u, Y = 3u, STATS = 4u; /* operands: x, weight, bias, y, stats */
ROTA_KERNEL_BEGIN(5)
#endif
uint rows;
uint dim;
uint flags;
float eps;
uint chunk;
uint dtype;
ROTA_KERNEL_END

const uint NORM_WEIGHT = 1u, NORM_BIAS = 2u;

float weighted(float value, uint d) {
    if ((pc.flags & NORM_WEIGHT) != 0u) value *= get(rota_operand(WEIGHT), d);
#ifndef RMS
    if ((pc.flags & NORM_BIAS) != 0u) value += get(rota_operand(BIAS), d);
#endif
    return value;
}

void main() {
    const uint row = rota_group_index(), t = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    if (row >= pc.rows) return;
    const uint64_t first = uint64_t(row) * pc.dim, y = value_at(rota_operand(Y), first);
#ifdef RESIDUAL
    const uint64_t x = value_at(rota_operand(SUM), first); /* what an invocation reads again it wrote itself */
    ROTA_EACH(d, t, pc.dim, size, {
        put(x, d, get(value_at(rota_operand(0), first), d) + get(value_at(rota_operand(1), first), d));
    })
#else
    const uint64_t x = value_at(rota_operand(0), first);
#endif
    float mean = 0.0, squares = 0.0;
#ifndef RMS
    ROTA_EACH(d, t, pc.dim, size, { mean += get(x, d); })
    mean = workgroup_sum(mean) / float(pc.dim);
#endif
    ROTA_EACH(d, t, pc.dim, size, {
        const float deviation = get(x, d) - mean;
        squares += deviation * deviation;
    })
    const float rstd = 1.0 / sqrt(workgroup_sum(squares) / float(pc.dim) + pc.eps);
    ROTA_EACH(d, t, pc.dim, size, { put(y, d, weighted((get(x, d) - mean) * rstd, d)); })
    if (t == 0u) {
#ifdef RMS
        store(rota_operand(STATS), row, rstd);
#else
        store(element_at(rota_operand(STATS), uint64_t(row) * 2ul), 0u, mean);
        store(element_at(rota_operand(STATS), uint64_t(row) * 2ul), 1u, rstd);
#endif
    }
}
