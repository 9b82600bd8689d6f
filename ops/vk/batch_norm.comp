/* rota_kernel_batch_norm: an element an invocation. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 2
#include "value.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(6) /* x, mean, spread, weight, bias, y */
uint outer;
uint channels;
uint inner;
uint flags;
uint chunk;
float eps;
float momentum;
uint dtype;
ROTA_KERNEL_END

const uint NORM_WEIGHT = 1u, NORM_BIAS = 2u, VARIANCE = 4u;

float rstd_of(uint c) {
    const float spread = load(rota_operand(2), c);
    return (pc.flags & VARIANCE) != 0u ? 1.0 / sqrt(spread + pc.eps) : spread;
}

void main() {
    if (rota_beyond(pc.outer * pc.channels * pc.inner)) return;
    const uint i = rota_index(), c = i / pc.inner % pc.channels;
    float value = (get(rota_operand(0), i) - load(rota_operand(1), c)) * rstd_of(c);
    if ((pc.flags & NORM_WEIGHT) != 0u) value *= get(rota_operand(3), c);
    if ((pc.flags & NORM_BIAS) != 0u) value += get(rota_operand(4), c);
    put(rota_operand(5), i, value);
}
