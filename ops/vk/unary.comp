/* rota_kernel_unary: y[i] = f(x[i]), four elements an invocation. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 3
#include "typed.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 2) const uint OP = 0u; /* rota_unary */

ROTA_KERNEL_BEGIN(2)
uint count;
uint op;
uint alpha;
uint beta;
uint dtype;
ROTA_KERNEL_END

#include "activation.glsl"

float apply(float x, float alpha, float beta) {
    switch (OP) {
    case UNARY_AFFINE: {
        precise float product = alpha * x;
        precise float sum = product + beta;
        return sum;
    }
    case UNARY_NEG: return -x;
    case UNARY_EXP: return exp(x);
    case UNARY_LOG: return x < 0.0 ? ROTA_NAN : log(x);
    case UNARY_SQRT: return x < 0.0 ? ROTA_NAN : sqrt(x);
    case UNARY_RELU: return x > 0.0 || isnan(x) ? x : 0.0;
    case UNARY_GELU: return gelu(x);
    case UNARY_SILU: return silu(x);
    case UNARY_ABS: return abs(x);
    case UNARY_SQUARE: return x * x;
    case UNARY_RECIPROCAL: return 1.0 / x;
    case UNARY_RSQRT: return x < 0.0 ? ROTA_NAN : 1.0 / sqrt(x);
    case UNARY_TANH: return safe_tanh(x);
    case UNARY_SIGMOID: return sigmoid(x);
    case UNARY_SIN: return sine(x, 0u);
    case UNARY_COS: return sine(x, 1u);
    case UNARY_SIGN: return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x;
    case UNARY_FLOOR: return floor(x);
    case UNARY_CEIL: return ceil(x);
    case UNARY_ROUND: return roundEven(x);
    case UNARY_GELU_ERF: return x * normal_below(x);
    case UNARY_SOFTPLUS: return softplus(x);
    case UNARY_HARDSWISH: return x * min(max(x + 3.0, 0.0), 6.0) / 6.0;
    case UNARY_LEAKY_RELU: return x > 0.0 ? x : alpha * x;
    case UNARY_ELU: return x > 0.0 ? x : alpha * expm1(x);
    case UNARY_POW: return power(x, alpha);
    case UNARY_CLAMP: return x < alpha ? alpha : x > beta ? beta : x;
    default: return alpha * safe_tanh(x / alpha);
    }
}

void main() {
    const uint i = rota_index() * 4u;
    if (rota_index() > (pc.count - 1u) / 4u) return;
    const uint64_t x = rota_operand(0), y = rota_operand(1);
    const float alpha = rota_param_f32(0, pc.alpha), beta = rota_param_f32(1, pc.beta);
    const bool whole = pc.count - i >= 4u && aligned_any(x | y);
    const vec4 value = load4_any(x, i, pc.count, whole);
    vec4 result;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) result[j] = apply(value[j], alpha, beta);
    store4_any(y, i, pc.count, whole, result);
}
