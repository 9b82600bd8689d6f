/* rota_kernel_batch_norm_finish: the statistics of a channel of its chunks', and the running ones, a workgroup each. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 64) in;

ROTA_KERNEL_BEGIN(4) /* partial, running_mean, running_variance, stats */
uint outer;
uint channels;
uint inner;
uint flags;
uint chunk;
float eps;
float momentum;
uint dtype;
ROTA_KERNEL_END

shared float sums[64];

/* Over all invocations, in one order, in all of them. */
float sum_of_group(float value) {
    barrier(); /* who still reads the last ones */
    sums[gl_LocalInvocationIndex] = value;
    for (uint step = 32u; step > 0u; step /= 2u) {
        barrier();
        if (gl_LocalInvocationIndex < step) sums[gl_LocalInvocationIndex] += sums[gl_LocalInvocationIndex + step];
    }
    barrier();
    return sums[0];
}

void main() {
    const uint elements = pc.outer * pc.inner, chunks = (elements - 1u) / pc.chunk + 1u, c = rota_group_index();
    if (c >= pc.channels) return; /* all of them */
    const uint64_t squares = element_at(rota_operand(0), uint64_t(chunks) * pc.channels);
    const float n = float(elements);
    float sum = 0.0;
    for (uint i = gl_LocalInvocationIndex; i < chunks; i += 64u)
        sum += load(rota_operand(0), i * pc.channels + c) * float(min(pc.chunk, elements - i * pc.chunk));
    const float mean = sum_of_group(sum) / n;
    sum = 0.0;
    for (uint i = gl_LocalInvocationIndex; i < chunks; i += 64u) {
        const float off = load(rota_operand(0), i * pc.channels + c) - mean;
        sum += load(squares, i * pc.channels + c) + off * off * float(min(pc.chunk, elements - i * pc.chunk));
    }
    const float variance = sum_of_group(sum) / n;
    if (gl_LocalInvocationIndex != 0u) return;
    store(rota_operand(3), c, mean);
    store(rota_operand(3), pc.channels + c, 1.0 / sqrt(variance + pc.eps));
    store(rota_operand(1), c, (1.0 - pc.momentum) * load(rota_operand(1), c) + pc.momentum * mean);
    store(rota_operand(2), c,
          (1.0 - pc.momentum) * load(rota_operand(2), c) + pc.momentum * (variance * (n / (n - 1.0))));
}
