/* rota_kernel_batch_norm_moments: mean and sum of squares around it of a chunk of the elements of a channel, an
 * invocation each. They are taken around the chunk's first element, which is as near to its mean as any other. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 2
#include "value.glsl"

layout(local_size_x = 64) in;

ROTA_KERNEL_BEGIN(2) /* x, partial */
uint outer;
uint channels;
uint inner;
uint flags;
uint chunk;
float eps;
float momentum;
uint dtype;
ROTA_KERNEL_END

float x_at(uint e, uint c) {
    const uint64_t element = (uint64_t(e / pc.inner) * pc.channels + c) * pc.inner + e % pc.inner;
    return get(value_at(rota_operand(0), element), 0u);
}

void main() {
    const uint n = pc.outer * pc.inner, chunks = (n - 1u) / pc.chunk + 1u;
    if (rota_beyond(chunks * pc.channels)) return;
    const uint at_result = rota_index(), c = at_result % pc.channels, begin = at_result / pc.channels * pc.chunk;
    const uint end = n - begin < pc.chunk ? n : begin + pc.chunk;
    const float shift = x_at(begin, c), count = float(end - begin);
    float sum = 0.0, squares = 0.0;
    for (uint e = begin; e < end; ++e) {
        const float value = x_at(e, c) - shift;
        sum += value;
        squares += value * value;
    }
    store(rota_operand(1), at_result, shift + sum / count);
    store(element_at(rota_operand(1), uint64_t(chunks) * pc.channels), at_result,
          max(squares - sum * (sum / count), 0.0));
}
