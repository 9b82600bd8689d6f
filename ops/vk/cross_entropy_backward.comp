/* rota_kernel_cross_entropy_backward: (softmax - one hot) times the loss's gradient, four elements an invocation. A row
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
uint first;
uint all;
ROTA_KERNEL_END

void main() {
    const uint count = pc.rows * pc.pitch, i = rota_index() * 4u;
    if (rota_index() > (count - 1u) / 4u) return;
    const uint64_t logits = rota_operand(0), dlogits = rota_operand(5);
    const bool whole = count - i >= 4u && values_aligned(logits | dlogits);
    const vec4 x = get4(logits, i, count, whole);
    const float scale = load(rota_operand(3), 0u) * load(rota_operand(4), 0u);
    uint row = i / pc.pitch, column = i % pc.pitch;
    int given = load_i32(rota_operand(1), row);
    float lse = load(rota_operand(2), row);
    const uint all = pc.all != 0u ? pc.all : pc.classes;
    vec4 result;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        const uint label = uint(given) - pc.first;
        const float hot = column == label ? 1.0 - pc.smoothing : 0.0;
        const float gradient = (exp(x[j] - lse) - hot - pc.smoothing / float(all)) * scale;
        result[j] = given == pc.ignored || column >= pc.classes ? 0.0 : uint(given) < all ? gradient : ROTA_NAN;
        if (++column == pc.pitch && row + 1u < pc.rows) {
            column = 0u;
            ++row;
            given = load_i32(rota_operand(1), row);
            lse = load(rota_operand(2), row);
        }
    }
    put4(dlogits, i, count, whole, result);
}
