/* rota_kernel_attention: softmax(scale q k^T) v with a running maximum and sum (online softmax: Milakov and Gimelshein,
 * 2018), eight queries a workgroup. With DROPOUT rota_kernel_attention_dropout. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "attention.glsl"

#ifdef DROPOUT
ROTA_KERNEL_BEGIN(6) /* q, k, v, out, lse, draw */
#else
ROTA_KERNEL_BEGIN(5) /* q, k, v, out, lse */
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
uint k_stride[3];
uint v_stride[3];
uint out_stride[3];
ROTA_KERNEL_END

#include "attention_drop.glsl"

shared float partial[LANES];
shared float row_maximum[ROWS];
shared float row_factor[ROWS];

void main() {
    const uint blocks = (pc.queries - 1u) / ROWS + 1u, group = rota_group_index(), t = gl_LocalInvocationIndex;
    if (group >= pc.batch * pc.heads * blocks) return;
    const uint pair = group / blocks, b = pair / pc.heads, h = pair % pc.heads, query = group % blocks * ROWS;
    const uint rows = min(ROWS, pc.queries - query), behind = pc.keys - pc.queries;
    const uint end = CAUSAL ? min(pc.keys, query + rows + behind) : pc.keys;
    const uint64_t q = PLACE(0, pc.q_stride, b, h, query), result = PLACE(3, pc.out_stride, b, h, query);

    READ_DRAW(5)
    for (uint first = 0u; first < DIM; first += COLUMNS) {
        const uint width = min(COLUMNS, DIM - first);
        vec4 total[KEPT];
        [[unroll]] for (uint i = 0u; i < KEPT; ++i) total[i] = vec4(0.0);
        float sum = 0.0; /* this invocation's part of row t / PARTS */
        barrier();
        if (t < ROWS) row_maximum[t] = ROTA_NEGATIVE_INFINITY;
        for (uint key = 0u; key < end; key += LANES) {
            const uint lanes = min(LANES, pc.keys - key);
            float score[ROWS];
            dots(q, pc.q_stride[2], rows, PLACE(1, pc.k_stride, b, h, key), pc.k_stride[2], lanes, DIM, score);
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
                const bool seen = t < lanes && (!CAUSAL || key + t <= query + r + behind);
                score[r] = seen ? score[r] * SCALE : ROTA_NEGATIVE_INFINITY;
                weights[r * LANES + t] = score[r];
            }
            barrier();
            float maximum = ROTA_NEGATIVE_INFINITY;
            [[unroll]] for (uint i = 0u; i < LANES / PARTS; ++i) {
                const float x = weights[t / PARTS * LANES + t % PARTS * (LANES / PARTS) + i];
                maximum = isnan(x) || x > maximum ? x : maximum;
            }
            partial[t] = maximum;
            barrier();
            if (t < ROWS) {
                const float before = row_maximum[t];
                maximum = before;
                for (uint i = 0u; i < PARTS; ++i) {
                    const float x = partial[t * PARTS + i];
                    maximum = isnan(x) || x > maximum ? x : maximum;
                }
                row_maximum[t] = maximum;
                row_factor[t] = exp(before - maximum);
            }
            barrier();
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) weights[r * LANES + t] = exp(score[r] - row_maximum[r]);
            FOR_KEPT(width, { total[i] *= row_factor[row]; })
            barrier();
            sum *= row_factor[t / PARTS];
            for (uint i = 0u; i < LANES / PARTS; ++i)
                sum += weights[t / PARTS * LANES + t % PARTS * (LANES / PARTS) + i];
#ifdef DROPOUT
            barrier(); /* the sum is of all of them */
            for (uint r = 0u; r < ROWS; ++r) weights[r * LANES + t] *= DRAWN(pair, query + r, key + t);
#endif
            const uint64_t v = PLACE(2, pc.v_stride, b, h, key);
            ACCUMULATE(weights, v, pc.v_stride[2], lanes, first, width, total)
        }
        barrier();
        partial[t] = sum;
        barrier();
        if (t < ROWS) {
            float denominator = 0.0;
            for (uint i = 0u; i < PARTS; ++i) denominator += partial[t * PARTS + i];
            row_factor[t] = denominator;
            if (t < rows && first == 0u)
                store(element_at(rota_operand(4), uint64_t(pair) * pc.queries), query + t,
                      row_maximum[t] + log(denominator));
        }
        barrier();
        FOR_KEPT(width, {
            if (row < rows)
                store4_any(value_at(result, uint64_t(row) * pc.out_stride[2] + first), quad * 4u, width, false,
                       total[i] / row_factor[row]);
        })
    }
}
