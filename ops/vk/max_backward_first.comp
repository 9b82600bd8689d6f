/* First part of rota_kernel_max_backward_long: where in its chunk the maximum (or minimum) comes first; n: nowhere. An
 * invocation per chunk and column. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 2
#include "typed.glsl"
#include "long.glsl"

layout(local_size_x = 64) in;

ROTA_LONG(3) /* x, y, first */

void main() {
    const uint chunks = chunk_count(), i = rota_index();
    if (rota_beyond(pc.outer * chunks * pc.inner)) return;
    const uint begin = i / pc.inner % chunks * pc.chunk, row = i / pc.inner / chunks, column = i % pc.inner;
    const uint64_t x = uint64_t(row) * pc.n * pc.inner + column;
    const float picked = load_any(rota_operand(1), row * pc.inner + column);
    uint first = pc.n;
    ROTA_EACH(k, begin, chunk_end(begin), 1u, {
        if (first == pc.n && load_any(rota_operand(0), x + uint64_t(k) * pc.inner) == picked) first = k;
    })
    rota_u32(element_at(rota_operand(2), i)).v[0] = first;
}
