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
#include "unary_backward.glsl"

void main() {
    const uint i = rota_index() * 4u;
    if (rota_index() > (pc.count - 1u) / 4u) return;
    const uint64_t v = rota_operand(0), dy = rota_operand(1), dx = rota_operand(2);
    const float alpha = rota_param_f32(0, pc.alpha), beta = rota_param_f32(1, pc.beta);
    const bool whole = pc.count - i >= 4u && aligned_any(v | dy | dx);
    const vec4 value = load4_any(v, i, pc.count, whole), gradient = load4_any(dy, i, pc.count, whole);
    vec4 result;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) result[j] = gradient[j] * derivative(OP, value[j], alpha, beta);
    store4_any(dx, i, pc.count, whole, result);
}
