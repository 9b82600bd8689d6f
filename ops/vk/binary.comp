/* rota_kernel_binary: y = a (op) b, b strided. One element an invocation where b is strided, four where it is not. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 2) const uint OP = 0u;   /* rota_binary */
layout(constant_id = 3) const uint DIMS = 6u; /* innermost dimensions in use; 0: b is contiguous */

ROTA_KERNEL_BEGIN(3)
uint count;
uint op;
uint shape[6];
uint b_stride[6];
ROTA_KERNEL_END

float apply(float a, float b) {
    switch (OP) { /* rota_binary */
    case 0u: return a + b;
    case 1u: return a - b;
    case 2u: return a * b;
    case 3u: return a / b;
    case 4u: return b - a;
    default: return b / a;
    }
}

void main() {
    const uint64_t a = rota_operand(0), b = rota_operand(1), y = rota_operand(2);
    if (DIMS == 0u) {
        const uint i = rota_index() * 4u;
        if (rota_index() > (pc.count - 1u) / 4u) return;
        const bool whole = pc.count - i >= 4u && aligned16(a | b | y);
        const vec4 left = load4(a, i, pc.count, whole), right = load4(b, i, pc.count, whole);
        vec4 result;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) result[j] = apply(left[j], right[j]);
        store4(y, i, pc.count, whole, result);
        return;
    }
    const uint i = rota_index();
    if (rota_beyond(pc.count)) return;
    uint rest = i;
    uint64_t b_index = 0ul;
    [[unroll]] for (int d = 5; d >= 0; --d) {
        if (5u - uint(d) + 1u < DIMS) {
            b_index += uint64_t(rest % pc.shape[d]) * pc.b_stride[d];
            rest /= pc.shape[d];
        } else if (5u - uint(d) + 1u == DIMS) {
            b_index += uint64_t(rest) * pc.b_stride[d];
        }
    }
    store(y, i, apply(load(a, i), rota_f32(at(b, b_index)).v[0]));
}
