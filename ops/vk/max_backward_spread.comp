/* Last part of rota_kernel_max_backward_long: the gradient at the first position of all chunks, zeroes elsewhere. An
 * invocation per chunk and column. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 2
#include "typed.glsl"
#include "long.glsl"

layout(local_size_x = 64) in;

ROTA_LONG(3) /* first, dy, dx */

void main() {
    const uint chunks = chunk_count(), i = rota_index();
    if (rota_beyond(pc.outer * chunks * pc.inner)) return;
    const uint c = i / pc.inner % chunks, begin = c * pc.chunk, row = i / pc.inner / chunks, column = i % pc.inner;
    const uint64_t dx = uint64_t(row) * pc.n * pc.inner + column, firsts = uint64_t(row) * chunks * pc.inner + column;
    uint here = rota_u32(element_at(rota_operand(0), i)).v[0];
    if (here != pc.n) { /* unless one of an earlier chunk comes before */
        ROTA_EACH(other, 0u, c, 1u, {
            if (rota_u32(element_at(rota_operand(0), firsts + uint64_t(other) * pc.inner)).v[0] != pc.n) here = pc.n;
        })
    }
    const float gradient = load_any(rota_operand(1), row * pc.inner + column);
    ROTA_EACH(k, begin, chunk_end(begin), 1u, {
        store_any(rota_operand(2), dx + uint64_t(k) * pc.inner, k == here ? gradient : 0.0);
    })
}
