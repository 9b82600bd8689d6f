/* rota_kernel_softmax: a workgroup per row; maximum, sum, result in three passes over the row. Or its
 * logarithm. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 3
#include "value.glsl"
#include "workgroup.glsl"

ROTA_KERNEL_BEGIN(2)
uint rows;
uint n;
uint causal;
uint queries;
float scale;
uint log_form;
uint dtype;
ROTA_KERNEL_END

void main() {
    const uint row = rota_group_index(), t = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    if (row >= pc.rows) return;
    const uint visible = pc.causal != 0u ? row % pc.queries + pc.n - pc.queries + 1u : pc.n;
    const uint64_t first = uint64_t(row) * pc.n, x = value_at(rota_operand(0), first),
                   y = value_at(rota_operand(1), first);
    float maximum = ROTA_NEGATIVE_INFINITY;
    ROTA_EACH(k, t, visible, size, { maximum = rota_larger(maximum, pc.scale * get(x, k)); })
    maximum = workgroup_max(maximum);
    float sum = 0.0;
    ROTA_EACH(k, t, visible, size, { sum += exp(pc.scale * get(x, k) - maximum); })
    sum = workgroup_sum(sum);
    const float lse = maximum + log(sum);
    ROTA_EACH(k, t, pc.n, size, {
        if (pc.log_form != 0u)
            put(y, k, pc.scale * get(x, k) - lse);
        else
            put(y, k, k < visible ? exp(pc.scale * get(x, k) - maximum) / sum : 0.0);
    })
}
