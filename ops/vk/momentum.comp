/* rota_kernel_momentum: a step of SGD with momentum or of Lion in place on p and m, one element an invocation. */
#version 460
#extension GL_GOOGLE_include_directive : require
#ifdef HALF
#define ROTA_USE_F16
#endif
#include "elements.glsl"
#ifdef HALF
#include "half.glsl"
#endif
#include "update.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(5) /* p, g, m, factor, half */
uint count;
uint flags;
uint lr;
float beta1;
float beta2;
float weight_decay;
uint g_dtype;
uint half_dtype;
ROTA_KERNEL_END

void main() {
    const uint i = rota_index();
    if (rota_beyond(pc.count)) return;
    const uint64_t p = rota_operand(0), m = rota_operand(2);
    const float lr = rota_param_f32(0, pc.lr);
    const float factor = (pc.flags & UPDATE_FACTOR) != 0u ? load(rota_operand(3), 0u) : 1.0;
    float weight = load(p, i);
    if (!(factor < 0.0)) {
        float gradient = GRADIENT(i) * factor;
        const float before = load(m, i);
        if ((pc.flags & UPDATE_SIGN) != 0u) {
            const float u = pc.beta1 * before + (1.0 - pc.beta1) * gradient;
            weight = weight * (1.0 - lr * pc.weight_decay) - lr * (u > 0.0 ? 1.0 : u < 0.0 ? -1.0 : u);
            store(m, i, pc.beta2 * before + (1.0 - pc.beta2) * gradient);
        } else {
            gradient += pc.weight_decay * weight;
            const float mean = pc.beta1 * before + gradient;
            weight -= lr * ((pc.flags & UPDATE_NESTEROV) != 0u ? gradient + pc.beta1 * mean : mean);
            store(m, i, mean);
        }
        store(p, i, weight);
    }
    ROUND(4, i, weight);
}
