/* rota_kernel_scatter_add: y += x by index along an axis; an invocation has a column to itself and adds in order. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 2
#include "typed.glsl"
#include "each.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(3)
uint outer;
uint n;
uint m;
uint inner;
uint dtype;
ROTA_KERNEL_END

void main() {
    if (rota_beyond(pc.outer * pc.inner)) return;
    const uint column = rota_index() % pc.inner;
    const uint64_t row = rota_index() / pc.inner;
    ROTA_EACH(j, 0u, pc.m, 1u, {
        const uint64_t i = (row * pc.m + j) * pc.inner + column;
        const uint place = uint(rota_i32(at(rota_operand(1), i)).v[0]); /* outside: skipped */
        if (place < pc.n) {
            const uint64_t y = at(rota_operand(2), (row * pc.n + place) * pc.inner + column);
            rota_f32(y).v[0] = rota_f32(y).v[0] + load_any(rota_operand(0), i);
        }
    })
}
