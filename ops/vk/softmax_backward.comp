/* rota_kernel_softmax_backward: dx = scale * y * (dy - sum(y * dy)), a workgroup per row. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "workgroup.glsl"

ROTA_KERNEL_BEGIN(3)
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
    const uint64_t first = uint64_t(row) * pc.n;
    const uint64_t y = at(rota_operand(0), first), dy = at(rota_operand(1), first), dx = at(rota_operand(2), first);
    float sum = 0.0;
    for (uint k = t; k < visible; k += size) sum += load(y, k) * load(dy, k);
    sum = workgroup_sum(sum);
    for (uint k = t; k < pc.n; k += size)
        store(dx, k, k < visible ? pc.scale * load(y, k) * (load(dy, k) - sum) : 0.0);
}
