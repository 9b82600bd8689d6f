/* rota_kernel_softmax: a workgroup per row; maximum, sum, result in three passes over the row. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "workgroup.glsl"

ROTA_KERNEL_BEGIN(2)
uint rows;
uint n;
uint causal;
uint queries;
float scale;
ROTA_KERNEL_END

void main() {
    const uint row = rota_group_index(), t = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    if (row >= pc.rows) return;
    const uint visible = pc.causal != 0u ? row % pc.queries + pc.n - pc.queries + 1u : pc.n;
    const uint64_t x = at(rota_operand(0), uint64_t(row) * pc.n), y = at(rota_operand(1), uint64_t(row) * pc.n);
    float maximum = ROTA_NEGATIVE_INFINITY;
    for (uint k = t; k < visible; k += size) maximum = rota_larger(maximum, pc.scale * load(x, k));
    maximum = workgroup_max(maximum);
    float sum = 0.0;
    for (uint k = t; k < visible; k += size) sum += exp(pc.scale * load(x, k) - maximum);
    sum = workgroup_sum(sum);
    for (uint k = t; k < pc.n; k += size)
        store(y, k, k < visible ? exp(pc.scale * load(x, k) - maximum) / sum : 0.0);
}
