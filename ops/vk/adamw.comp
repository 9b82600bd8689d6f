/* rota_kernel_adamw: one step in place on p, m and v, one element an invocation. */
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

ROTA_KERNEL_BEGIN(6) /* p, g, m, v, factor, half */
uint count;
uint flags;
uint lr;
uint step;
float beta1;
float beta2;
float eps;
float weight_decay;
uint g_dtype;
uint half_dtype;
ROTA_KERNEL_END

/* 1 - beta^n with a small relative error: for d(n) = 1 - beta^n, d(n + m) = d(n) + d(m) - d(n) d(m), by squaring. */
float one_minus_power(float beta, uint n) {
    float result = 0.0, square = 1.0 - beta;
    for (; n != 0u; n >>= 1) {
        if ((n & 1u) != 0u) result = result + square - result * square;
        square = square * (2.0 - square);
    }
    return result;
}

void main() {
    const uint i = rota_index();
    if (rota_beyond(pc.count)) return;
    const uint64_t p = rota_operand(0), m = rota_operand(2), v = rota_operand(3);
    const bool rates = (pc.flags & UPDATE_RATES) != 0u;
    const float lr = rates ? load(rota_operand(4), 1u) : rota_param_f32(0, pc.lr);
    const uint step = rates ? uint(load(rota_operand(4), 2u)) : rota_param_u32(1, pc.step);
    const float factor = (pc.flags & UPDATE_FACTOR) != 0u ? load(rota_operand(4), 0u) : 1.0;
    float weight = load(p, i);
    if (!(factor < 0.0)) {
        const bool coupled = (pc.flags & UPDATE_COUPLED) != 0u;
        float gradient = GRADIENT(i) * factor;
        if (coupled) gradient += pc.weight_decay * weight;
        const float first = pc.beta1 * load(m, i) + (1.0 - pc.beta1) * gradient;
        const float second = pc.beta2 * load(v, i) + (1.0 - pc.beta2) * gradient * gradient;
        store(m, i, first);
        store(v, i, second);
        const float corrected = first / one_minus_power(pc.beta1, step);
        const float root = sqrt(second / one_minus_power(pc.beta2, step)) + pc.eps;
        weight = weight * (coupled ? 1.0 : 1.0 - lr * pc.weight_decay) - lr * (corrected / root);
        store(p, i, weight);
    }
    ROUND(5, i, weight);
}
