/* rota_kernel_batch_norm_sums: sums over chunks of the elements of a channel, an invocation per chunk and channel. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 2
#include "value.glsl"

layout(local_size_x = 64) in;

ROTA_KERNEL_BEGIN(5) /* x, mean, spread, dy, partial */
uint outer;
uint channels;
uint inner;
uint flags;
uint chunk;
float eps;
float momentum;
uint dtype;
ROTA_KERNEL_END

const uint NORM_WEIGHT = 1u, NORM_BIAS = 2u, MEAN = 4u, SQUARES = 8u, BACKWARD = 16u, VARIANCE = 32u;

float rstd_of(uint c) {
    const float spread = load(rota_operand(2), c);
    return (pc.flags & VARIANCE) != 0u ? 1.0 / sqrt(spread + pc.eps) : spread;
}

void main() {
    const uint n = pc.outer * pc.inner, chunks = (n - 1u) / pc.chunk + 1u;
    if (rota_beyond(chunks * pc.channels)) return;
    const uint at_result = rota_index(), c = at_result % pc.channels, begin = at_result / pc.channels * pc.chunk;
    const uint end = n - begin < pc.chunk ? n : begin + pc.chunk;
    float sum = 0.0, more = 0.0, mean = 0.0, rstd = 0.0;
    if ((pc.flags & MEAN) == 0u) mean = load(rota_operand(1), c);
    if ((pc.flags & BACKWARD) != 0u) rstd = rstd_of(c);
    for (uint e = begin; e < end; ++e) {
        const uint64_t element = (uint64_t(e / pc.inner) * pc.channels + c) * pc.inner + e % pc.inner;
        const float x = get(value_at(rota_operand(0), element), 0u) - mean;
        if ((pc.flags & BACKWARD) != 0u) {
            const float dy = get(value_at(rota_operand(3), element), 0u);
            sum += dy * (x * rstd);
            more += dy;
        } else {
            sum += (pc.flags & SQUARES) != 0u ? x * x : x;
        }
    }
    store(rota_operand(4), at_result, sum);
    if ((pc.flags & BACKWARD) != 0u)
        store(element_at(rota_operand(4), uint64_t(chunks) * pc.channels), at_result, more);
}
