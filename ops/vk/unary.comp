/* rota_kernel_unary: y[i] = f(x[i]), four elements an invocation. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 2) const uint OP = 0u; /* rota_unary */

ROTA_KERNEL_BEGIN(2)
uint count;
uint op;
uint alpha;
uint beta;
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
    default: return silu(x);
    }
}

void main() {
    const uint i = rota_index() * 4u;
    if (rota_index() > (pc.count - 1u) / 4u) return;
    const uint64_t x = rota_operand(0), y = rota_operand(1);
    const float alpha = rota_param_f32(0, pc.alpha), beta = rota_param_f32(1, pc.beta);
    const bool whole = pc.count - i >= 4u && aligned16(x | y);
    const vec4 value = load4(x, i, pc.count, whole);
    vec4 result;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) result[j] = apply(value[j], alpha, beta);
    store4(y, i, pc.count, whole, result);
}
