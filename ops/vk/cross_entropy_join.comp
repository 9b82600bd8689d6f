/* rota_kernel_cross_entropy_join: log-sum-exp and loss of a row from those of parts of its classes, a row an
 * invocation. An ignored one has loss 0. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(4) /* parts, labels, loss, lse */
uint rows;
uint ranks;
int ignored;
ROTA_KERNEL_END

void main() {
    if (rota_beyond(pc.rows)) return;
    const uint row = rota_index();
    const uint64_t parts = rota_operand(0);
    float maximum = ROTA_NEGATIVE_INFINITY, sum = 0.0, loss = 0.0;
    for (uint r = 0u; r < pc.ranks; ++r) {
        const float part = load(parts, (2u * r + 1u) * pc.rows + row);
        maximum = isnan(maximum) || maximum > part ? maximum : part;
    }
    for (uint r = 0u; r < pc.ranks; ++r) {
        sum += exp(load(parts, (2u * r + 1u) * pc.rows + row) - maximum);
        loss += load(parts, 2u * r * pc.rows + row);
    }
    const float lse = maximum + log(sum);
    store(rota_operand(3), row, lse);
    store(rota_operand(2), row, load_i32(rota_operand(1), row) == pc.ignored ? 0.0 : lse + loss);
}
