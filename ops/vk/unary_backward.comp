/* rota_kernel_unary_backward: dx[i] = dy[i] * f'(v[i]), four elements an invocation. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 2) const uint OP = 0u; /* rota_unary */

ROTA_KERNEL_BEGIN(3)
uint count;
uint op;
uint alpha;
uint beta;
ROTA_KERNEL_END

#include "activation.glsl"

/* v is the op's output for EXP and SQRT, else its input; AFFINE and NEG need no kernel of their own but are right. */
float derivative(float v) {
    switch (OP) {
    case UNARY_AFFINE: return rota_param_f32(0, pc.alpha);
    case UNARY_NEG: return -1.0;
    case UNARY_EXP: return v;
    case UNARY_LOG: return 1.0 / v;
    case UNARY_SQRT: return 0.5 / v;
    case UNARY_RELU: return v > 0.0 ? 1.0 : 0.0;
    case UNARY_GELU: return gelu_derivative(v);
    default: return silu_derivative(v);
    }
}

void main() {
    const uint i = rota_index() * 4u;
    if (rota_index() > (pc.count - 1u) / 4u) return;
    const uint64_t v = rota_operand(0), dy = rota_operand(1), dx = rota_operand(2);
    const bool whole = pc.count - i >= 4u && aligned16(v | dy | dx);
    const vec4 value = load4(v, i, pc.count, whole), gradient = load4(dy, i, pc.count, whole);
    vec4 result;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) result[j] = gradient[j] * derivative(value[j]);
    store4(dx, i, pc.count, whole, result);
}
