/* rota_kernel_adamw: one step in place on p, m and v, one element an invocation. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(5)
uint count;
uint has_factor;
uint lr;
uint step;
float beta1;
float beta2;
float eps;
float weight_decay;
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
    const float lr = rota_param_f32(0, pc.lr);
    const uint step = rota_param_u32(1, pc.step);
    float gradient = load(rota_operand(1), i);
    if (pc.has_factor != 0u) gradient *= load(rota_operand(4), 0u);
    const float first = pc.beta1 * load(m, i) + (1.0 - pc.beta1) * gradient;
    const float second = pc.beta2 * load(v, i) + (1.0 - pc.beta2) * gradient * gradient;
    store(m, i, first);
    store(v, i, second);
    const float corrected = first / one_minus_power(pc.beta1, step);
    const float root = sqrt(second / one_minus_power(pc.beta2, step)) + pc.eps;
    store(p, i, load(p, i) * (1.0 - lr * pc.weight_decay) - lr * (corrected / root));
}
