/* rota_kernel_layernorm, and with RMS rota_kernel_rmsnorm: a workgroup per row; mean, then variance, then result. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "workgroup.glsl"

#ifdef RMS
const uint Y = 2u, STATS = 3u; /* operands: x, weight, y, stats */
ROTA_KERNEL_BEGIN(4)
#else
const uint Y = 3u, STATS = 4u; /* operands: x, weight, bias, y, stats */
ROTA_KERNEL_BEGIN(5)
#endif
uint rows;
uint dim;
uint flags;
float eps;
uint chunk;
ROTA_KERNEL_END

const uint NORM_WEIGHT = 1u, NORM_BIAS = 2u;

void main() {
    const uint row = rota_group_index(), t = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    if (row >= pc.rows) return;
    const uint64_t first = uint64_t(row) * pc.dim, x = at(rota_operand(0), first), y = at(rota_operand(Y), first);
    float mean = 0.0, squares = 0.0;
#ifndef RMS
    for (uint d = t; d < pc.dim; d += size) mean += load(x, d);
    mean = workgroup_sum(mean) / float(pc.dim);
#endif
    for (uint d = t; d < pc.dim; d += size) {
        const float deviation = load(x, d) - mean;
        squares += deviation * deviation;
    }
    const float rstd = 1.0 / sqrt(workgroup_sum(squares) / float(pc.dim) + pc.eps);
    for (uint d = t; d < pc.dim; d += size) {
        float value = (load(x, d) - mean) * rstd;
        if ((pc.flags & NORM_WEIGHT) != 0u) value *= load(rota_operand(1), d);
#ifndef RMS
        if ((pc.flags & NORM_BIAS) != 0u) value += load(rota_operand(2), d);
#endif
        store(y, d, value);
    }
    if (t == 0u) {
#ifdef RMS
        store(rota_operand(STATS), row, rstd);
#else
        store(at(rota_operand(STATS), uint64_t(row) * 2ul), 0u, mean);
        store(at(rota_operand(STATS), uint64_t(row) * 2ul), 1u, rstd);
#endif
    }
}
