/* rota_kernel_batch_norm_update: 1 / standard deviation and the running statistics, a channel an invocation. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 64) in;

ROTA_KERNEL_BEGIN(5) /* mean, variance, running_mean, running_variance, rstd */
uint outer;
uint channels;
uint inner;
uint flags;
uint chunk;
float eps;
float momentum;
uint dtype;
ROTA_KERNEL_END

void main() {
    const uint c = rota_index();
    if (rota_beyond(pc.channels)) return;
    const float n = float(pc.outer * pc.inner), variance = load(rota_operand(1), c);
    store(rota_operand(4), c, 1.0 / sqrt(variance + pc.eps));
    store(rota_operand(2), c,
          (1.0 - pc.momentum) * load(rota_operand(2), c) + pc.momentum * load(rota_operand(0), c));
    store(rota_operand(3), c,
          (1.0 - pc.momentum) * load(rota_operand(3), c) + pc.momentum * (variance * (n / (n - 1.0))));
}
