/* rota_kernel_layernorm_backward, and with RMS rota_kernel_rmsnorm_backward: the gradient of x, a workgroup per row. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 3
#include "value.glsl"
#include "workgroup.glsl"

ROTA_KERNEL_BEGIN(5) /* x, weight, stats, dy, dx */
uint rows;
uint dim;
uint flags;
float eps;
uint chunk;
uint dtype;
ROTA_KERNEL_END

const uint NORM_WEIGHT = 1u, NORM_ACCUMULATE = 4u;

float weighted(uint64_t dy, uint d) {
    return (pc.flags & NORM_WEIGHT) != 0u ? get(dy, d) * get(rota_operand(1), d) : get(dy, d);
}

void main() {
    const uint row = rota_group_index(), t = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    if (row >= pc.rows) return;
    const uint64_t first = uint64_t(row) * pc.dim;
    const uint64_t x = value_at(rota_operand(0), first), dy = value_at(rota_operand(3), first);
    const uint64_t dx = value_at(rota_operand(4), first);
#ifdef RMS
    const float mean = 0.0, rstd = load(rota_operand(2), row);
#else
    const uint64_t stats = element_at(rota_operand(2), uint64_t(row) * 2ul);
    const float mean = load(stats, 0u), rstd = load(stats, 1u);
#endif
    precise float sum = 0.0, sum_h = 0.0;
    ROTA_EACH(d, t, pc.dim, size, {
        const float g = weighted(dy, d);
        sum += g;
        sum_h = fma(g, (get(x, d) - mean) * rstd, sum_h);
    })
#ifdef RMS
    sum = 0.0;
#else
    sum = workgroup_sum(sum) / float(pc.dim);
#endif
    sum_h = workgroup_sum(sum_h) / float(pc.dim);
    ROTA_EACH(d, t, pc.dim, size, {
        /* No compiler chooses what is rounded here: with its operands in slots, which is compiled apart, it gives the
         * same bits. */
        precise const float g = weighted(dy, d) - sum;
        precise float value = rstd * fma(-((get(x, d) - mean) * rstd), sum_h, g);
        if ((pc.flags & NORM_ACCUMULATE) != 0u) value += get(dx, d);
        put(dx, d, value);
    })
}
