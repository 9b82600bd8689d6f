/* rota_kernel_cross_entropy_backward: (softmax - one hot) times the loss's gradient, an element an invocation. A row
 * whose label is outside gets NaN, an ignored one 0. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 2
#include "value.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(6) /* logits, labels, lse, dloss, inverse, dlogits */
uint rows;
uint classes;
int ignored;
float smoothing;
uint dtype;
uint pitch;
ROTA_KERNEL_END

void main() {
    if (rota_beyond(pc.rows * pc.pitch)) return;
    const uint i = rota_index(), row = i / pc.pitch, place = i % pc.pitch;
    const int given = load_i32(rota_operand(1), row);
    const uint label = uint(given);
    const float probability = exp(get(rota_operand(0), i) - load(rota_operand(2), row));
    const float hot = place == label ? 1.0 - pc.smoothing : 0.0;
    const float scale = load(rota_operand(3), 0u) * load(rota_operand(4), 0u);
    const float gradient = (probability - hot - pc.smoothing / float(pc.classes)) * scale;
    put(rota_operand(5), i, given == pc.ignored || place >= pc.classes ? 0.0 : label < pc.classes ? gradient : ROTA_NAN);
}
