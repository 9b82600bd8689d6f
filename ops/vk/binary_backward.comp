/* rota_kernel_binary_backward: the gradients of both operands of an op of two tensors, an element an invocation. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 4
#include "typed.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 2) const uint OP = 6u; /* rota_binary */
layout(constant_id = 3) const uint DIMS = 6u;

ROTA_KERNEL_BEGIN(5)
uint count;
uint op;
uint flags;
uint dtype;
uint shape[6];
uint b_stride[6];
ROTA_KERNEL_END

#include "activation.glsl"
#include "strided.glsl"

vec2 derivatives(float a, float b) {
    switch (OP) {
    case 6u:
    case 7u: { /* the smaller or larger gets all, each half where they are alike */
        const bool first = OP == 6u ? a < b : a > b;
        return a == b ? vec2(0.5) : first ? vec2(1.0, 0.0) : vec2(0.0, 1.0);
    }
    case 8u:
        return vec2(b == 0.0 ? 0.0 : b * power(a, b - 1.0), a == 0.0 && b >= 0.0 ? 0.0 : power(a, b) * log(a));
    case 9u:
        return vec2(b * silu_derivative(a), silu(a));
    default:
        return vec2(gelu_derivative(a + b));
    }
}

void main() {
    const uint i = rota_index();
    if (rota_beyond(pc.count)) return;
    const float a = load_any(rota_operand(0), i);
    const float b = load_any(rota_operand(1), strided_place(DIMS, i, pc.shape, pc.b_stride));
    const vec2 gradient = load_any(rota_operand(2), i) * derivatives(a, b);
    if ((pc.flags & 1u) != 0u) store_any(rota_operand(3), i, gradient.x);
    if ((pc.flags & 2u) != 0u) store_any(rota_operand(4), i, gradient.y);
}
