/* Last part of rota_kernel_top_k_long: an invocation per candidate, the chunks' best or all of x, counts those above
 * it, which is its position. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 2
#include "typed.glsl"
#include "long.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 3) const bool OF_ALL = false;

ROTA_LONG(4) /* x, keys, values, index */

#include "key.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) buffer rota_keys { uvec2 v[]; };

uvec2 candidate(uint64_t first, uint j) {
    const uint64_t element = first + uint64_t(j) * pc.inner;
    if (OF_ALL) return key_of(load_any(rota_operand(0), element), j);
    return rota_keys(rota_operand(1) + element * 8ul).v[0];
}

void main() {
    const uint count = OF_ALL ? pc.n : chunk_count() * pc.k, i = rota_index();
    if (rota_beyond(pc.outer * count * pc.inner)) return;
    const uint64_t row = i / pc.inner / count, column = i % pc.inner, first = row * count * pc.inner + column;
    const uvec2 own = candidate(first, i / pc.inner % count);
    uint above = own.x == 0u ? pc.k : 0u;
    ROTA_EACH(j, 0u, count, 1u, {
        if (below(own, candidate(first, j))) ++above;
    })
    if (above >= pc.k) return;
    const uint chosen = ~own.y;
    const uint64_t to = (row * pc.k + above) * pc.inner + column;
    rota_i32(element_at(rota_operand(3), to)).v[0] = int(chosen);
    store_any(rota_operand(2), to, load_any(rota_operand(0), (row * pc.n + chosen) * pc.inner + column));
}
