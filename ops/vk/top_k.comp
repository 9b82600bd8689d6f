/* rota_kernel_top_k: a workgroup per column finds the largest, then the largest of what comes after it, and so on. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 2
#include "typed.glsl"

layout(local_size_x = 64) in;

ROTA_KERNEL_BEGIN(3)
uint outer;
uint n;
uint inner;
uint k;
uint dtype;
ROTA_KERNEL_END

#include "each.glsl"
#include "key.glsl"

shared uvec2 tree[64];

void main() {
    const uint group = rota_group_index(), t = gl_LocalInvocationIndex;
    if (group >= pc.outer * pc.inner) return;
    const uint64_t row = group / pc.inner, column = group % pc.inner;
    uvec2 before = uvec2(0xFFFFFFFFu);
    for (uint k = 0u; k < pc.k; ++k) {
        uvec2 best = uvec2(0u);
        ROTA_EACH(i, t, pc.n, 64u, {
            const uvec2 key = key_of(load_any(rota_operand(0), (row * pc.n + i) * pc.inner + column), i);
            if (below(best, key) && below(key, before)) best = key;
        })
        tree[t] = best;
        barrier();
        for (uint size = 32u; size > 0u; size >>= 1) {
            if (t < size && below(tree[t], tree[t + size])) tree[t] = tree[t + size];
            barrier();
        }
        before = tree[0];
        barrier();
        if (t == 0u) {
            const uint64_t to = (row * pc.k + k) * pc.inner + column;
            const uint chosen = ~before.y;
            rota_i32(element_at(rota_operand(2), to)).v[0] = int(chosen);
            store_any(rota_operand(1), to, load_any(rota_operand(0), (row * pc.n + chosen) * pc.inner + column));
        }
    }
}
