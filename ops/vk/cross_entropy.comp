/* rota_kernel_cross_entropy: log-sum-exp and loss of each row, a workgroup per row. A label outside gives
 * NaN, an ignored one 0. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 3
#include "value.glsl"
#include "workgroup.glsl"

ROTA_KERNEL_BEGIN(4) /* logits, labels, loss, lse */
uint rows;
uint classes;
int ignored;
float smoothing;
uint dtype;
uint pitch;
uint first;
uint all;
ROTA_KERNEL_END

void main() {
    const uint row = rota_group_index(), t = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    if (row >= pc.rows) return;
    const uint64_t logits = value_at(rota_operand(0), uint64_t(row) * pc.pitch);
    float maximum = ROTA_NEGATIVE_INFINITY;
    ROTA_EACH(c, t, pc.classes, size, { maximum = rota_larger(maximum, get(logits, c)); })
    maximum = workgroup_max(maximum);
    float sum = 0.0;
    ROTA_EACH(c, t, pc.classes, size, { sum += exp(get(logits, c) - maximum); })
    float total = 0.0;
    if (pc.smoothing != 0.0) {
        ROTA_EACH(c, t, pc.classes, size, { total += get(logits, c); })
        total = workgroup_sum(total);
    }
    sum = workgroup_sum(sum);
    const bool nothing = pc.all != 0u && maximum == ROTA_NEGATIVE_INFINITY; /* other parts may have more */
    const float lse = nothing ? ROTA_NEGATIVE_INFINITY : maximum + log(sum);
    if (t != 0u) return;
    const int given = load_i32(rota_operand(1), row);
    const uint label = uint(given) - pc.first, all = pc.all != 0u ? pc.all : pc.classes;
    store(rota_operand(3), row, lse);
    float loss = ROTA_NAN;
    if (given == pc.ignored)
        loss = 0.0;
    else if (uint(given) < all) { /* a negative one is far outside */
        const float at_label = label < pc.classes ? get(logits, label) : 0.0;
        loss = (pc.all != 0u ? 0.0 : lse) - (1.0 - pc.smoothing) * at_label - pc.smoothing * total / float(all);
    }
    store(rota_operand(2), row, loss);
}
