/* rota_kernel_softmax_backward: dx = scale * y * (dy - sum(y * dy)), a workgroup per row. For the logarithm
 * of softmax, scale * (dy - exp(y) * sum(dy)). */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 3
#include "value.glsl"
#include "workgroup.glsl"

ROTA_KERNEL_BEGIN(3)
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
    const uint64_t first = uint64_t(row) * pc.n;
    const uint64_t y = value_at(rota_operand(0), first), dy = value_at(rota_operand(1), first);
    const uint64_t dx = value_at(rota_operand(2), first);
    float sum = 0.0;
    ROTA_EACH(k, t, visible, size, { sum += (pc.log_form != 0u ? 1.0 : get(y, k)) * get(dy, k); })
    sum = workgroup_sum(sum);
    ROTA_EACH(k, t, pc.n, size, {
        if (pc.log_form != 0u)
            put(dx, k, pc.scale * (get(dy, k) - exp(get(y, k)) * sum));
        else
            put(dx, k, k < visible ? pc.scale * get(y, k) * (get(dy, k) - sum) : 0.0);
    })
}
