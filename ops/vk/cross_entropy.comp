/* rota_kernel_cross_entropy: log-sum-exp and loss of each row, a workgroup per row. A label outside gives NaN. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "workgroup.glsl"

ROTA_KERNEL_BEGIN(4) /* logits, labels, loss, lse */
uint rows;
uint classes;
float scale;
ROTA_KERNEL_END

void main() {
    const uint row = rota_group_index(), t = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    if (row >= pc.rows) return;
    const uint64_t logits = at(rota_operand(0), uint64_t(row) * pc.classes);
    float maximum = ROTA_NEGATIVE_INFINITY;
    for (uint c = t; c < pc.classes; c += size) maximum = rota_larger(maximum, load(logits, c));
    maximum = workgroup_max(maximum);
    float sum = 0.0;
    for (uint c = t; c < pc.classes; c += size) sum += exp(load(logits, c) - maximum);
    const float lse = maximum + log(workgroup_sum(sum));
    if (t != 0u) return;
    const uint label = uint(load_i32(rota_operand(1), row)); /* a negative one is far outside */
    store(rota_operand(3), row, lse);
    float loss = ROTA_NAN;
    if (label < pc.classes) loss = lse - load(logits, label);
    store(rota_operand(2), row, loss);
}
