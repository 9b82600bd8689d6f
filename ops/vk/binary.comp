/* rota_kernel_binary: y = a (op) b, b strided. One element an invocation where b is strided, four where it is not. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 4
#include "typed.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 2) const uint OP = 0u;   /* rota_binary */
layout(constant_id = 3) const uint DIMS = 6u; /* innermost dimensions in use; 0: b is contiguous */

ROTA_KERNEL_BEGIN(3)
uint count;
uint op;
uint shape[6];
uint b_stride[6];
uint dtype;
ROTA_KERNEL_END

#include "activation.glsl"
#include "strided.glsl"

float apply(float a, float b) {
    switch (OP) { /* rota_binary */
    case 0u: return a + b;
    case 1u: return a - b;
    case 2u: return a * b;
    case 3u: return a / b;
    case 4u: return b - a;
    case 5u: return b / a;
    case 6u: return a < b || isnan(a) ? a : b;
    case 7u: return a > b || isnan(a) ? a : b;
    case 8u: return power(a, b);
    case 9u: return silu(a) * b;
    case 10u: return gelu(a + b);
    case 11u: return a == b ? 1.0 : 0.0;
    case 12u: return a == b ? 0.0 : 1.0;
    case 13u: return a < b ? 1.0 : 0.0;
    case 14u: return a <= b ? 1.0 : 0.0;
    case 15u: return a > b ? 1.0 : 0.0;
    default: return a >= b ? 1.0 : 0.0;
    }
}

void main() {
    const uint64_t a = rota_operand(0), b = rota_operand(1), y = rota_operand(2);
    if (DIMS == 0u) {
        const uint i = rota_index() * 4u;
        if (rota_index() > (pc.count - 1u) / 4u) return;
        const bool whole = pc.count - i >= 4u && aligned_any(a | b | y);
        const vec4 left = load4_any(a, i, pc.count, whole), right = load4_any(b, i, pc.count, whole);
        vec4 result;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) result[j] = apply(left[j], right[j]);
        store4_any(y, i, pc.count, whole, result);
        return;
    }
    const uint i = rota_index();
    if (rota_beyond(pc.count)) return;
    store_any(y, i, apply(load_any(a, i), load_any(b, strided_place(DIMS, i, pc.shape, pc.b_stride))));
}
