/* rota_kernel_attention_backward_query: dq = scale * ds k, eight queries a workgroup, walking over the keys.
 * With DROPOUT that of rota_kernel_attention_dropout. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "attention.glsl"

#ifdef DROPOUT
ROTA_KERNEL_BEGIN(7) /* q, k, v, dout, stats, dq, draw */
#else
ROTA_KERNEL_BEGIN(6) /* q, k, v, dout, stats, dq */
#endif
uint batch;
uint heads;
uint queries;
uint keys;
#ifdef DROPOUT
uint dim_flags; /* of 16 bits each */
#else
uint dim;
uint flags;
float scale;
#endif
uint q_stride[3];
uint kv_stride[3];
uint out_stride[3];
ROTA_KERNEL_END

#include "attention_drop.glsl"

void main() {
    const uint blocks = (pc.queries - 1u) / ROWS + 1u, group = rota_group_index(), t = gl_LocalInvocationIndex;
    if (group >= pc.batch * pc.heads * blocks) return;
    const uint pair = group / blocks, b = pair / pc.heads, h = pair % pc.heads, query = group % blocks * ROWS;
    const uint rows = min(ROWS, pc.queries - query), behind = pc.keys - pc.queries;
    const uint end = CAUSAL ? min(pc.keys, query + rows + behind) : pc.keys;
    const uint64_t q = PLACE(0, pc.q_stride, b, h, query), dout = PLACE(3, pc.out_stride, b, h, query);
    const uint64_t dq = PLACE(5, pc.q_stride, b, h, query);
    const uint64_t stats = element_at(rota_operand(4), (uint64_t(pair) * pc.queries + query) * 2ul);

    READ_DRAW(6)
    for (uint first = 0u; first < DIM; first += COLUMNS) {
        const uint width = min(COLUMNS, DIM - first);
        vec4 total[KEPT];
        [[unroll]] for (uint i = 0u; i < KEPT; ++i) total[i] = vec4(0.0);
        for (uint key = 0u; key < end; key += LANES) {
            const uint lanes = min(LANES, pc.keys - key);
            const uint64_t k = PLACE(1, pc.kv_stride, b, h, key), v = PLACE(2, pc.kv_stride, b, h, key);
            float score[ROWS], dp[ROWS];
            dots(q, pc.q_stride[2], rows, k, pc.kv_stride[2], lanes, DIM, score);
            dots(dout, pc.out_stride[2], rows, v, pc.kv_stride[2], lanes, DIM, dp);
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
                float ds = 0.0;
#ifdef DROPOUT
                dp[r] *= DRAWN(pair, query + r, key + t);
#endif
                if (r < rows && t < lanes && (!CAUSAL || key + t <= query + r + behind))
                    ds = exp(fma(score[r], SCALE, -load(stats, 2u * r))) * (dp[r] - load(stats, 2u * r + 1u));
                weights[r * LANES + t] = ds;
            }
            ACCUMULATE(weights, k, pc.kv_stride[2], lanes, first, width, total)
        }
        FOR_KEPT(width, {
            if (row < rows)
                store4_any(value_at(dq, uint64_t(row) * pc.q_stride[2] + first), quad * 4u, width, false,
                           SCALE * total[i]);
        })
    }
}
