/* rota_kernel_unary_backward: dx[i] = dy[i] * f'(v[i]), four elements an invocation. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 3
#include "typed.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 2) const uint OP = 0u; /* rota_unary */

ROTA_KERNEL_BEGIN(3)
uint count;
uint op;
uint alpha;
uint beta;
uint dtype;
ROTA_KERNEL_END

#include "activation.glsl"

/* v is the op's output for EXP, SQRT, RECIPROCAL, RSQRT, TANH and SIGMOID, else its input. */
float derivative(float v, float alpha, float beta) {
    switch (OP) {
    case UNARY_AFFINE: return alpha;
    case UNARY_NEG: return -1.0;
    case UNARY_EXP: return v;
    case UNARY_LOG: return 1.0 / v;
    case UNARY_SQRT: return 0.5 / v;
    case UNARY_RELU: return v > 0.0 ? 1.0 : 0.0;
    case UNARY_GELU: return gelu_derivative(v);
    case UNARY_SILU: return silu_derivative(v);
    case UNARY_ABS: return v > 0.0 ? 1.0 : v < 0.0 ? -1.0 : v;
    case UNARY_SQUARE: return 2.0 * v;
    case UNARY_RECIPROCAL: return -v * v;
    case UNARY_RSQRT: return -0.5 * v * v * v;
    case UNARY_TANH: return 1.0 - v * v;
    case UNARY_SIGMOID: return v * (1.0 - v);
    case UNARY_SIN: return sine(v, 1u);
    case UNARY_COS: return -sine(v, 0u);
    case UNARY_GELU_ERF: return normal_below(v) + v * normal_density(v);
    case UNARY_SOFTPLUS: return sigmoid(v);
    case UNARY_HARDSWISH: return v <= -3.0 ? 0.0 : v >= 3.0 ? 1.0 : (2.0 * v + 3.0) / 6.0;
    case UNARY_LEAKY_RELU: return v > 0.0 ? 1.0 : alpha;
    case UNARY_ELU: return v > 0.0 ? 1.0 : alpha * exp(v);
    case UNARY_POW: return alpha == 0.0 ? 0.0 : alpha * power(v, alpha - 1.0);
    case UNARY_CLAMP: return v >= alpha && v <= beta ? 1.0 : 0.0;
    case UNARY_SOFTCAP: {
        const float t = safe_tanh(v / alpha);
        return 1.0 - t * t;
    }
    default: return 0.0; /* SIGN, FLOOR, CEIL, ROUND */
    }
}

void main() {
    const uint i = rota_index() * 4u;
    if (rota_index() > (pc.count - 1u) / 4u) return;
    const uint64_t v = rota_operand(0), dy = rota_operand(1), dx = rota_operand(2);
    const float alpha = rota_param_f32(0, pc.alpha), beta = rota_param_f32(1, pc.beta);
    const bool whole = pc.count - i >= 4u && aligned_any(v | dy | dx);
    const vec4 value = load4_any(v, i, pc.count, whole), gradient = load4_any(dy, i, pc.count, whole);
    vec4 result;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) result[j] = gradient[j] * derivative(value[j], alpha, beta);
    store4_any(dx, i, pc.count, whole, result);
}
