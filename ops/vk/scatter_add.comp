/* rota_kernel_scatter_add: y += x by index along an axis; an invocation has a column's piece to itself, walks all of
 * the column's indices and adds in order. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 2
#include "typed.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(3)
uint outer;
uint n;
uint m;
uint inner;
uint dtype;
ROTA_KERNEL_END

/* scatter_pieces.h */
layout(constant_id = 3) const uint PIECES = 1u;

const uint AHEAD = 8u; /* indices on their way together; each.glsl says what else that is for */

/* The index last added to, from the piece's first, and its sum. */
uint now;
float sum;

void add(uint index, uint64_t x, uint64_t y, uint mine) {
    if (index >= mine) return;
    if (index != now) {
        if (now < mine) rota_f32(element_at(y, uint64_t(now) * pc.inner)).v[0] = sum;
        now = index;
        sum = rota_f32(element_at(y, uint64_t(index) * pc.inner)).v[0];
    }
    sum += load_any(rota_operand(0), x);
}

void main() {
    if (rota_beyond(pc.outer * PIECES * pc.inner)) return;
    const uint column = rota_index() % pc.inner, piece = rota_index() / pc.inner % PIECES;
    const uint64_t row = rota_index() / pc.inner / PIECES;
    const uint width = (pc.n - 1u) / PIECES + 1u, low = piece * width, mine = min(width, pc.n - low);
    const uint64_t x = row * pc.m * pc.inner + column;
    const uint64_t y = element_at(rota_operand(2), (row * pc.n + low) * pc.inner + column);
    now = mine;
    sum = 0.0;
    uint j = 0u;
    for (; j + (AHEAD - 1u) < pc.m; j += AHEAD) { /* no sum beyond 2^32 */
        uint index[AHEAD]; /* from the piece's first; outside of all: skipped */
        bool some = false;
        [[unroll]] for (uint a = 0u; a < AHEAD; ++a)
            index[a] = uint(rota_i32(element_at(rota_operand(1), x + uint64_t(j + a) * pc.inner)).v[0]) - low;
        [[unroll]] for (uint a = 0u; a < AHEAD; ++a) some = some || index[a] < mine;
        if (some)
            [[unroll]] for (uint a = 0u; a < AHEAD; ++a) add(index[a], x + uint64_t(j + a) * pc.inner, y, mine);
    }
    for (; j < pc.m; ++j)
        add(uint(rota_i32(element_at(rota_operand(1), x + uint64_t(j) * pc.inner)).v[0]) - low,
            x + uint64_t(j) * pc.inner, y, mine);
    if (now < mine) rota_f32(element_at(y, uint64_t(now) * pc.inner)).v[0] = sum;
}
