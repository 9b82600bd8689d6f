/* rota_kernel_binary: y = a (op) b, b strided. One element an invocation where b is strided, four where it is not
 * or where it is one row for all. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 4
#include "typed.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 2) const uint OP = 0u;   /* rota_binary */
layout(constant_id = 3) const uint DIMS =
    6u; /* innermost dimensions in use; 0: b is contiguous; BY_ROWS: it is a row */
const uint BY_ROWS = 7u;

ROTA_KERNEL_BEGIN(3)
uint count;
uint op;
uint shape[6];
uint b_stride[6];
uint dtype;
ROTA_KERNEL_END

#include "activation.glsl"
#include "binary.glsl"
#include "strided.glsl"

void main() {
    const uint64_t a = rota_operand(0), b = rota_operand(1), y = rota_operand(2);
    if (DIMS == 0u || DIMS == BY_ROWS) {
        const uint i = rota_index() * 4u;
        if (rota_index() > (pc.count - 1u) / 4u) return;
        const bool whole = pc.count - i >= 4u && aligned_any(a | b | y);
        const vec4 left = load4_any(a, i, pc.count, whole);
        const vec4 right = DIMS == 0u ? load4_any(b, i, pc.count, whole)
                                      : load4_any(b, i % pc.shape[5], pc.shape[5], whole);
        vec4 result;
        [[unroll]] for (uint j = 0u; j < 4u; ++j) result[j] = binary(OP, left[j], right[j]);
        store4_any(y, i, pc.count, whole, result);
        return;
    }
    const uint i = rota_index();
    if (rota_beyond(pc.count)) return;
    store_any(y, i, binary(OP, load_any(a, i), load_any(b, strided_place(DIMS, i, pc.shape, pc.b_stride))));
}
