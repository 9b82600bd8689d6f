/* First part of rota_kernel_top_k_long: the keys of the k largest of each chunk, by a workgroup as in top_k.comp; 0
 * where a chunk has fewer. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 2
#include "typed.glsl"
#include "long.glsl"

layout(local_size_x = 64) in;

ROTA_LONG(2) /* x, keys */

#include "key.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) buffer rota_keys { uvec2 v[]; };
shared uvec2 tree[64];

void main() {
    const uint group = rota_group_index(), t = gl_LocalInvocationIndex, chunks = chunk_count();
    if (group >= pc.outer * chunks * pc.inner) return;
    const uint64_t column = group % pc.inner, row = group / pc.inner / chunks;
    const uint begin = group / pc.inner % chunks * pc.chunk, end = chunk_end(begin);
    uvec2 before = uvec2(0xFFFFFFFFu);
    for (uint k = 0u; k < pc.k; ++k) {
        uvec2 best = uvec2(0u);
        ROTA_EACH(i, begin + t, end, 64u, {
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
        if (t == 0u)
            rota_keys(rota_operand(1) + ((uint64_t(group / pc.inner) * pc.k + k) * pc.inner + column) * 8ul).v[0] =
                before;
    }
}
