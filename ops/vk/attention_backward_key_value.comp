/* rota_kernel_attention_backward_key_value: dk = scale * ds^T q and dv = p^T dout, eight keys a workgroup, walking over
 * the queries. With DROPOUT those of rota_kernel_attention_dropout. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "attention.glsl"

#ifdef DROPOUT
ROTA_KERNEL_BEGIN(8) /* q, k, v, dout, stats, dk, dv, draw */
#else
ROTA_KERNEL_BEGIN(7) /* q, k, v, dout, stats, dk, dv */
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

shared float probabilities[ROWS * LANES];

void main() {
    const uint blocks = (pc.keys - 1u) / ROWS + 1u, group = rota_group_index(), t = gl_LocalInvocationIndex;
    if (group >= pc.batch * pc.heads * blocks) return;
    const uint pair = group / blocks, b = pair / pc.heads, h = pair % pc.heads, key = group % blocks * ROWS;
    const uint rows = min(ROWS, pc.keys - key), behind = pc.keys - pc.queries;
    const uint begin = CAUSAL && key > behind ? key - behind : 0u; /* the first query that sees a key of ours */
    const uint64_t k = PLACE(1, pc.kv_stride, b, h, key), v = PLACE(2, pc.kv_stride, b, h, key);
    const uint64_t dk = PLACE(5, pc.kv_stride, b, h, key), dv = PLACE(6, pc.kv_stride, b, h, key);

    READ_DRAW(7)
    for (uint first = 0u; first < DIM; first += COLUMNS) {
        const uint width = min(COLUMNS, DIM - first);
        vec4 total_k[KEPT], total_v[KEPT];
        [[unroll]] for (uint i = 0u; i < KEPT; ++i) total_k[i] = total_v[i] = vec4(0.0);
        for (uint query = begin; query < pc.queries; query += LANES) {
            const uint lanes = min(LANES, pc.queries - query);
            const uint64_t q = PLACE(0, pc.q_stride, b, h, query), dout = PLACE(3, pc.out_stride, b, h, query);
            float score[ROWS], dp[ROWS];
            dots(k, pc.kv_stride[2], rows, q, pc.q_stride[2], lanes, DIM, score);
            dots(v, pc.kv_stride[2], rows, dout, pc.out_stride[2], lanes, DIM, dp);
            float lse = 0.0, delta = 0.0;
            if (t < lanes) {
                const uint64_t stats = element_at(rota_operand(4), (uint64_t(pair) * pc.queries + query + t) * 2ul);
                lse = load(stats, 0u);
                delta = load(stats, 1u);
            }
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
                float p = 0.0, ds = 0.0;
                if (r < rows && t < lanes && (!CAUSAL || key + r <= query + t + behind)) {
                    p = exp(fma(score[r], SCALE, -lse));
#ifdef DROPOUT
                    const float kept = DRAWN(pair, query + t, key + r);
                    ds = p * (dp[r] * kept - delta);
                    p *= kept;
#else
                    ds = p * (dp[r] - delta);
#endif
                }
                weights[r * LANES + t] = ds;
                probabilities[r * LANES + t] = p;
            }
            ACCUMULATE(weights, q, pc.q_stride[2], lanes, first, width, total_k)
            ACCUMULATE(probabilities, dout, pc.out_stride[2], lanes, first, width, total_v)
        }
        FOR_KEPT(width, {
            if (row < rows) {
                const uint64_t element = uint64_t(row) * pc.kv_stride[2] + first;
                store4_any(value_at(dk, element), quad * 4u, width, false, SCALE * total_k[i]);
                store4_any(value_at(dv, element), quad * 4u, width, false, total_v[i]);
            }
        })
    }
}
