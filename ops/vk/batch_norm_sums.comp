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

const uint VARIANCE = 4u;

float rstd_of(uint c) {
    const float spread = load(rota_operand(2), c);
    return (pc.flags & VARIANCE) != 0u ? 1.0 / sqrt(spread + pc.eps) : spread;
}

void main() {
    const uint n = pc.outer * pc.inner, chunks = (n - 1u) / pc.chunk + 1u;
    if (rota_beyond(chunks * pc.channels)) return;
    const uint at_result = rota_index(), c = at_result % pc.channels, begin = at_result / pc.channels * pc.chunk;
    const uint end = n - begin < pc.chunk ? n : begin + pc.chunk;
    const float mean = load(rota_operand(1), c), rstd = rstd_of(c);
    float sum = 0.0, more = 0.0;
    for (uint e = begin; e < end; ++e) {
        const uint64_t element = (uint64_t(e / pc.inner) * pc.channels + c) * pc.inner + e % pc.inner;
        const float dy = get(value_at(rota_operand(3), element), 0u);
        sum += dy * ((get(value_at(rota_operand(0), element), 0u) - mean) * rstd);
        more += dy;
    }
    store(rota_operand(4), at_result, sum);
    store(element_at(rota_operand(4), uint64_t(chunks) * pc.channels), at_result, more);
}
