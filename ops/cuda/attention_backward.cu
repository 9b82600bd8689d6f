/* CUDA kernels: the gradients of attention, and of attention_dropout (m: 1, or what is drawn). With p = exp(scale * q
 * k^T - lse) (0 where masked), dp = m * (dout v^T) and ds = p * (dp - delta): dq = scale * ds k, dk = scale * ds^T q,
 * dv = (m * p)^T dout. */
#include "ops/cuda/attention.cuh"
#include "ops/cuda/attention_drop_scores.cuh"

/* {lse, out . dout} of each query, a warp per query. */
ROTA_KERNEL(attention_backward_prepare, 4, rota_attention_backward_params, ROTA_CUDA_THREADS) {
    const rota_attention_backward_params &p = args.params;
    const row_threads<false> t;
    if (t.row >= static_cast<uint64_t>(p.batch) * p.heads * p.queries) return;
    const uint64_t pair = t.row / p.queries;
    const uint64_t element =
        pair / p.heads * p.out_stride[0] + pair % p.heads * p.out_stride[1] + t.row % p.queries * p.out_stride[2];
    const float *out = rota_operand<const float>(args, 0) + element,
                *dout = rota_operand<const float>(args, 1) + element;
    float sum = 0.0f;
    t.walk<1>(p.dim, [&](uint32_t d) { sum = fmaf(out[d], dout[d], sum); });
    sum = t.sum(sum);
    if (t.lane != 0) return;
    float *stats = rota_operand<float>(args, 3) + 2 * t.row;
    stats[0] = rota_operand<const float>(args, 2)[t.row];
    stats[1] = sum;
}

/* Rows are queries, lanes are keys. */
template <int OUT, typename A> ROTA_DEVICE void query_columns(const A &args, attention_shared &s) {
    const auto &p = attention_arguments<A>::params(args);
    const bool causal = p.flags & ROTA_ATTENTION_CAUSAL;
    const attention_thread t;
    const attention_block block(p.batch, p.heads, p.queries, causal);
    if (block.beyond) return;
    const uint32_t rows = min(ROWS, p.queries - block.first), behind = p.keys - p.queries;
    const uint32_t end = causal ? min(p.keys, block.first + rows + behind) : p.keys;
    const uint64_t q_at = block.offset(p.q_stride, block.first), kv_at = block.offset(p.kv_stride, 0);
    const strided_rows q(rota_operand<const float>(args, 0) + q_at, p.q_stride[2], rows, p.dim);
    const strided_rows dout(rota_operand<const float>(args, 3) + block.offset(p.out_stride, block.first),
                            p.out_stride[2], rows, p.dim);
    const float *k = rota_operand<const float>(args, 1) + kv_at, *v = rota_operand<const float>(args, 2) + kv_at;
    const float *stats = rota_operand<const float>(args, 4) + 2 * (block.pair * p.queries + block.first);
    float *dq = rota_operand<float>(args, 5) + q_at;
    [[maybe_unused]] const auto drop = dropping_of(args, block.pair, p.queries, p.keys);
    float lse[R], delta[R], factor[R];
#pragma unroll
    for (int i = 0; i < R; i++) {
        const bool inside = t.row(i) < rows;
        lse[i] = inside ? stats[2 * t.row(i)] : 0.0f;
        delta[i] = inside ? stats[2 * t.row(i) + 1] : 0.0f;
        factor[i] = p.scale;
    }
    for (uint32_t first = 0; first < p.dim; first += OUT) {
        attention_result<OUT> total;
        total.clear();
        for (uint32_t key = 0; key < end; key += LANES) {
            const uint32_t lanes = min(LANES, p.keys - key);
            const strided_rows keys(k + static_cast<uint64_t>(key) * p.kv_stride[2], p.kv_stride[2], lanes, p.dim);
            const strided_rows values(v + static_cast<uint64_t>(key) * p.kv_stride[2], p.kv_stride[2], lanes, p.dim);
            float score[R][L], dp[R][L];
            dots(t, s, q, keys, score);
            dots(t, s, dout, values, dp);
            [[maybe_unused]] uint32_t kept = 0;
            if constexpr (attention_arguments<A>::DROPS)
                kept = kept_scores(drop, t, block.first, key);
#pragma unroll
            for (int i = 0; i < R; i++)
#pragma unroll
                for (int j = 0; j < L; j++) {
                    const uint32_t row = t.row(i), lane = t.lane(j);
                    const bool seen =
                        row < rows && lane < lanes && (!causal || key + lane <= block.first + row + behind);
                    if constexpr (attention_arguments<A>::DROPS)
                        dp[i][j] *= kept >> (4 * i + j) & 1u ? drop.kept : 0.0f;
                    score[i][j] = seen ? expf(score[i][j] * p.scale - lse[i]) * (dp[i][j] - delta[i]) : 0.0f;
                }
            put_weights(t, s, score);
            total.add(t, s, keys, first);
        }
        total.write(t, dq, p.q_stride[2], rows, first, p.dim, factor);
    }
}

/* Rows are keys, lanes are queries. */
template <int OUT, typename A> ROTA_DEVICE void key_value_columns(const A &args, attention_shared &s) {
    const auto &p = attention_arguments<A>::params(args);
    const bool causal = p.flags & ROTA_ATTENTION_CAUSAL;
    const attention_thread t;
    const attention_block block(p.batch, p.heads, p.keys, false);
    if (block.beyond) return;
    const uint32_t rows = min(ROWS, p.keys - block.first), behind = p.keys - p.queries;
    const uint32_t begin =
        causal && block.first > behind ? block.first - behind : 0; /* the first query that sees a key of ours */
    const uint64_t kv_at = block.offset(p.kv_stride, block.first);
    const strided_rows k(rota_operand<const float>(args, 1) + kv_at, p.kv_stride[2], rows, p.dim);
    const strided_rows v(rota_operand<const float>(args, 2) + kv_at, p.kv_stride[2], rows, p.dim);
    const float *q = rota_operand<const float>(args, 0) + block.offset(p.q_stride, 0);
    const float *dout = rota_operand<const float>(args, 3) + block.offset(p.out_stride, 0);
    const float *stats = rota_operand<const float>(args, 4) + 2 * block.pair * p.queries;
    float *dk = rota_operand<float>(args, 5) + kv_at, *dv = rota_operand<float>(args, 6) + kv_at;
    [[maybe_unused]] const auto drop = dropping_of(args, block.pair, p.queries, p.keys);
    float factor[R], one[R];
#pragma unroll
    for (int i = 0; i < R; i++) factor[i] = p.scale, one[i] = 1.0f;
    for (uint32_t first = 0; first < p.dim; first += OUT) {
        attention_result<OUT> total_k, total_v;
        total_k.clear();
        total_v.clear();
        for (uint32_t query = begin; query < p.queries; query += LANES) {
            const uint32_t lanes = min(LANES, p.queries - query);
            const strided_rows queries(q + static_cast<uint64_t>(query) * p.q_stride[2], p.q_stride[2], lanes, p.dim);
            const strided_rows douts(dout + static_cast<uint64_t>(query) * p.out_stride[2], p.out_stride[2], lanes,
                                     p.dim);
            float score[R][L], dp[R][L];
            dots(t, s, k, queries, score);
            dots(t, s, v, douts, dp);
            [[maybe_unused]] uint32_t kept = 0;
            if constexpr (attention_arguments<A>::DROPS)
                kept = kept_scores_across(drop, t, block.first, query);
#pragma unroll
            for (int j = 0; j < L; j++) {
                const uint32_t lane = t.lane(j);
                const uint64_t stat = 2ull * (query + min(lane, lanes - 1));
                const float lse = stats[stat], delta = stats[stat + 1];
#pragma unroll
                for (int i = 0; i < R; i++) {
                    const uint32_t row = t.row(i);
                    const bool seen =
                        row < rows && lane < lanes && (!causal || block.first + row <= query + lane + behind);
                    score[i][j] = seen ? expf(score[i][j] * p.scale - lse) : 0.0f;
                    if constexpr (attention_arguments<A>::DROPS) {
                        const float by = kept >> (4 * i + j) & 1u ? drop.kept : 0.0f;
                        dp[i][j] = seen ? score[i][j] * (dp[i][j] * by - delta) : 0.0f;
                        score[i][j] *= by;
                    } else {
                        dp[i][j] = seen ? score[i][j] * (dp[i][j] - delta) : 0.0f;
                    }
                }
            }
            put_weights(t, s, score);
            total_v.add(t, s, douts, first);
            __syncthreads(); /* the weights have been read */
            put_weights(t, s, dp);
            total_k.add(t, s, queries, first);
        }
        total_k.write(t, dk, p.kv_stride[2], rows, first, p.dim, factor);
        total_v.write(t, dv, p.kv_stride[2], rows, first, p.dim, one);
    }
}

ROTA_KERNEL_BLOCKS(attention_backward_query, 6, rota_attention_backward_params, THREADS, 3) {
    __shared__ attention_shared s;
    if (args.params.dim <= 32)
        query_columns<32>(args, s);
    else
        query_columns<64>(args, s);
}
ROTA_KERNEL_BLOCKS(attention_backward_query_wide, 6, rota_attention_backward_params, THREADS, 2) {
    __shared__ attention_shared s;
    query_columns<128>(args, s);
}

/* Two results a thread: 64 columns of each are all that registers hold. */
ROTA_KERNEL_BLOCKS(attention_backward_key_value, 7, rota_attention_backward_params, THREADS, 2) {
    __shared__ attention_shared s;
    if (args.params.dim <= 32)
        key_value_columns<32>(args, s);
    else
        key_value_columns<64>(args, s);
}

ROTA_KERNEL_BLOCKS(attention_dropout_backward_query, 7, rota_attention_drop_backward_params, THREADS, 3) {
    __shared__ attention_shared s;
    query_columns<64>(args, s);
}
ROTA_KERNEL_BLOCKS(attention_dropout_backward_query_wide, 7, rota_attention_drop_backward_params, THREADS, 2) {
    __shared__ attention_shared s;
    query_columns<128>(args, s);
}
ROTA_KERNEL_BLOCKS(attention_dropout_backward_key_value, 8, rota_attention_drop_backward_params, THREADS, 2) {
    __shared__ attention_shared s;
    key_value_columns<64>(args, s);
}
