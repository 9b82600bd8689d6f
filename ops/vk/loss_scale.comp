/* rota_kernel_loss_scale: the factor for gradients of a scaled loss, and the scale of the next step. One invocation. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 1) in;

ROTA_KERNEL_BEGIN(3) /* norm, state, factor */
uint interval;
float growth;
float backoff;
float max_norm;
ROTA_KERNEL_END

void main() {
    const uint64_t state = rota_operand(1);
    const float scale = load(state, 0u), norm = load(rota_operand(0), 0u) / scale;
    if ((floatBitsToUint(norm) & 0x7F800000u) == 0x7F800000u) {
        store(rota_operand(2), 0u, -1.0);
        store(state, 0u, scale * pc.backoff);
        store(state, 1u, 0.0);
        return;
    }
    store(rota_operand(2), 0u, (norm > pc.max_norm ? pc.max_norm / norm : 1.0) / scale);
    const float steps = load(state, 1u) + 1.0;
    const bool grow = steps >= float(pc.interval);
    store(state, 1u, grow ? 0.0 : steps);
    if (grow) store(state, 0u, scale * pc.growth);
}
