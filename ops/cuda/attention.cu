/* CUDA kernels: attention and attention_dropout, softmax(scale q k^T) v with a running maximum and sum (online softmax:
 * Milakov and Gimelshein, 2018). Those named `_wide` keep up to 128 columns of results, the others 64;
 * all take any dim. */
#include "ops/cuda/attention.cuh"
#include "ops/cuda/attention_drop_scores.cuh"

constexpr float LOG2_E = 1.4426950408889634f, LN_2 = 0.6931471805599453f;

/* The largest, or the sum, over the 16 threads of a row. */
ROTA_DEVICE float row_maximum(float x) {
#pragma unroll
    for (int step = 8; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, step));
    return x;
}
ROTA_DEVICE float row_sum(float x) {
#pragma unroll
    for (int step = 8; step > 0; step /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, step);
    return x;
}

template <int OUT, typename A> ROTA_DEVICE void attention_columns(const A &args, attention_shared &s) {
    const auto &p = attention_arguments<A>::params(args);
    const bool causal = p.flags & ROTA_ATTENTION_CAUSAL;
    const attention_thread t;
    const attention_block block(p.batch, p.heads, p.queries, causal);
    if (block.beyond) return;
    const uint32_t rows = min(ROWS, p.queries - block.first), behind = p.keys - p.queries;
    const uint32_t end = causal ? min(p.keys, block.first + rows + behind) : p.keys;
    const strided_rows q(rota_operand<const float>(args, 0) + block.offset(p.q_stride, block.first), p.q_stride[2],
                         rows, p.dim);
    const float *k = rota_operand<const float>(args, 1) + block.offset(p.k_stride, 0);
    const float *v = rota_operand<const float>(args, 2) + block.offset(p.v_stride, 0);
    float *out = rota_operand<float>(args, 3) + block.offset(p.out_stride, block.first);
    float *lse = rota_operand<float>(args, 4) + block.pair * p.queries + block.first;
    const float scale = p.scale * LOG2_E; /* scores in powers of 2 */
    [[maybe_unused]] const auto drop = dropping_of(args, block.pair, p.queries, p.keys);

    for (uint32_t first = 0; first < p.dim; first += OUT) {
        attention_result<OUT> total;
        float maximum[R], sum[R]; /* sum: of this thread's lanes */
        total.clear();
#pragma unroll
        for (int i = 0; i < R; i++) maximum[i] = negative_infinity(), sum[i] = 0.0f;
        for (uint32_t key = 0; key < end; key += LANES) {
            const uint32_t lanes = min(LANES, p.keys - key);
            float score[R][L];
            dots(t, s, q, {k + static_cast<uint64_t>(key) * p.k_stride[2], p.k_stride[2], lanes, p.dim}, score);
            const bool masked = lanes < LANES || (causal && key + LANES - 1 > block.first + behind);
#pragma unroll
            for (int i = 0; i < R; i++) {
                float highest = maximum[i];
#pragma unroll
                for (int j = 0; j < L; j++) {
                    const uint32_t lane = t.lane(j);
                    score[i][j] *= scale;
                    if (masked && (lane >= lanes || (causal && key + lane > block.first + t.row(i) + behind)))
                        score[i][j] = negative_infinity();
                    highest = fmaxf(highest, score[i][j]);
                }
                highest = row_maximum(highest);
                const float factor = exp2f(maximum[i] - highest);
                maximum[i] = highest;
                sum[i] *= factor;
#pragma unroll
                for (int j = 0; j < L; j++) {
                    score[i][j] = exp2f(score[i][j] - highest);
                    sum[i] += score[i][j];
                }
#pragma unroll
                for (int c = 0; c < total.C; c++) total.v[i][c] *= factor;
            }
            if constexpr (attention_arguments<A>::DROPS) {
                const uint32_t kept = kept_scores(drop, t, block.first, key);
#pragma unroll
                for (int i = 0; i < R; i++)
#pragma unroll
                    for (int j = 0; j < L; j++)
                        if (!(kept >> (4 * i + j) & 1u)) score[i][j] = 0.0f;
            }
            put_weights(t, s, score);
            total.add(t, s, {v + static_cast<uint64_t>(key) * p.v_stride[2], p.v_stride[2], lanes, p.dim}, first);
        }
        float inverse[R];
#pragma unroll
        for (int i = 0; i < R; i++) {
            sum[i] = row_sum(sum[i]);
            inverse[i] = 1.0f / sum[i];
            if constexpr (attention_arguments<A>::DROPS) inverse[i] *= drop.kept;
            if (first == 0 && t.x == 0 && t.row(i) < rows) lse[t.row(i)] = (maximum[i] + log2f(sum[i])) * LN_2;
        }
        total.write(t, out, p.out_stride[2], rows, first, p.dim, inverse);
    }
}

ROTA_KERNEL_BLOCKS(attention, 5, rota_attention_params, THREADS, 4) {
    __shared__ attention_shared s;
    if (args.params.dim <= 32)
        attention_columns<32>(args, s);
    else
        attention_columns<64>(args, s);
}
ROTA_KERNEL_BLOCKS(attention_wide, 5, rota_attention_params, THREADS, 2) {
    __shared__ attention_shared s;
    attention_columns<128>(args, s);
}
ROTA_KERNEL_BLOCKS(attention_dropout, 6, rota_attention_drop_params, THREADS, 3) {
    __shared__ attention_shared s;
    attention_columns<64>(args, s);
}
ROTA_KERNEL_BLOCKS(attention_dropout_wide, 6, rota_attention_drop_params, THREADS, 2) {
    __shared__ attention_shared s;
    attention_columns<128>(args, s);
}

/* What attention_dropout and its gradients read of their dropout. */
ROTA_KERNEL(attention_draw, 1, rota_attention_draw, 32) {
    if (rota_index() != 0) return;
    rota_attention_draw draw = args.params;
    draw.seed = rota_param_u32(args, 0, draw.seed);
    draw.step = rota_param_u32(args, 1, draw.step);
    *rota_operand<rota_attention_draw>(args, 0) = draw;
}
