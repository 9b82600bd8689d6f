/* rota_kernel_cross_entropy_backward: (softmax - one hot) times the loss's gradient, an element an invocation. A row
 * whose label is outside gets NaN. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(5) /* logits, labels, lse, dloss, dlogits */
uint rows;
uint classes;
float scale;
ROTA_KERNEL_END

void main() {
    if (rota_beyond(pc.rows * pc.classes)) return;
    const uint i = rota_index(), row = i / pc.classes;
    const uint label = uint(load_i32(rota_operand(1), row));
    const float probability = exp(load(rota_operand(0), i) - load(rota_operand(2), row));
    const float hot = i % pc.classes == label ? 1.0 : 0.0;
    const float gradient = (probability - hot) * load(rota_operand(3), 0u) * pc.scale;
    store(rota_operand(4), i, label < pc.classes ? gradient : ROTA_NAN);
}
