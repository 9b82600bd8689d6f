/* CUDA kernels: attention and attention_dropout of f16 and bf16, and their gradients, from compute capability 8.0
 * on; attention_half.cuh has their parts, attention.cu and attention_backward.cu the formulas. `_64` and `_128`: the
 * largest dim. */
#include "ops/cuda/attention_bounded.h"
#include "ops/cuda/attention_drop_half.cuh"
#include "ops/cuda/attention_half.cuh"

extern __shared__ uint4 shared_vectors[];

#if __CUDA_ARCH__ >= 800

/* BLOCKS: of 16 rows a warp. */
template <typename T, int D, int BLOCKS, typename A> ROTA_DEVICE void forward(const A &args) {
    constexpr uint32_t ROWS = WARPS * BLOCKS * 16, LANES = 64, TILE = LANES * D * 2;
    static_assert(ROWS * D * 2 + 4 * TILE == ROTA_CUDA_ATTENTION_FORWARD_SHARED(D, ROWS), "launched with so much");
    const auto &p = attention_arguments<A>::params(args);
    const bool causal = p.flags & ROTA_ATTENTION_CAUSAL;
    const half_block<ROWS> block(p.batch, p.heads, p.queries, causal);
    if (block.beyond) return;
    const uint32_t rows = min(ROWS, p.queries - block.first), behind = p.keys - p.queries;
    const uint32_t end = causal ? min(p.keys, block.first + rows + behind) : p.keys, tiles = (end - 1) / LANES + 1;
    const T *k = rota_operand<const T>(args, 1) + block.offset(p.k_stride, 0);
    const T *v = rota_operand<const T>(args, 2) + block.offset(p.v_stride, 0);
    const uint32_t k_unit = copy_unit(k, p.k_stride[2]), v_unit = copy_unit(v, p.v_stride[2]);
    const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(shared_vectors));
    const rows_in_shared<D> queries = {shared};
    const auto tile = [&](uint32_t number) { return shared + ROWS * D * 2 + number * TILE; };
    const auto copy = [&](uint32_t j) {
        const uint32_t first = j * LANES, there = rows_left(p.keys, first);
        rows_in_shared<D>{tile(j % 2)}.template copy<LANES>(k + first * static_cast<uint64_t>(p.k_stride[2]),
                                                            p.k_stride[2], there, p.dim, k_unit);
        rows_in_shared<D>{tile(2 + j % 2)}.template copy<LANES>(v + first * static_cast<uint64_t>(p.v_stride[2]),
                                                                p.v_stride[2], there, p.dim, v_unit);
        copies_commit();
    };
    const T *q = rota_operand<const T>(args, 0) + block.offset(p.q_stride, block.first);
    queries.template copy<ROWS>(q, p.q_stride[2], rows, p.dim, copy_unit(q, p.q_stride[2]));
    copy(0);
    copies_wait<0>();
    __syncthreads();

    const uint32_t own = threadIdx.x / 32 * BLOCKS * 16; /* the warp's first row */
    const float scale = p.scale * LOG2_E;                /* scores in powers of 2 */
    [[maybe_unused]] const auto drop = dropping_of(args, block.pair, p.queries, p.keys);
    uint32_t left[BLOCKS][D / 16][4];
    warp_result<D> total[BLOCKS];
    float maximum[BLOCKS][2], sum[BLOCKS][2]; /* sum: of this thread's lanes */
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
#pragma unroll
        for (int i = 0; i < D / 16; i++) queries.left(own + b * 16, i * 16, left[b][i]);
        total[b].clear();
#pragma unroll
        for (int h = 0; h < 2; h++) maximum[b][h] = negative_infinity(), sum[b][h] = 0.0f;
    }
    for (uint32_t j = 0; j < tiles; j++) {
        if (j > 0) {
            copies_wait<0>();
            __syncthreads(); /* tile j is there for all, and all have left the one to fill */
        }
        if (j + 1 < tiles) copy(j + 1);
        const rows_in_shared<D> keys = {tile(j % 2)}, values = {tile(2 + j % 2)};
        const uint32_t key = j * LANES;
        kept_along<LANES, attention_arguments<A>::DROPS> kept[BLOCKS]; /* drawn while registers are free */
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) kept[b].draw(drop, block.first + own + b * 16, key);
        warp_result<LANES> score[BLOCKS];
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) score[b].clear();
#pragma unroll
        for (int i = 0; i < D / 16; i++)
#pragma unroll
            for (int n = 0; n < LANES / 16; n++) {
                uint32_t r[4];
                keys.right_across(n * 16, i * 16, r);
#pragma unroll
                for (int b = 0; b < BLOCKS; b++) score[b].template add<T>(n, left[b][i], r);
            }
        const bool masked = key + LANES > p.keys || (causal && key + LANES - 1 > block.first + own + behind);
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) {
            float highest[2] = {maximum[b][0], maximum[b][1]};
#pragma unroll
            for (int n = 0; n < score[b].BLOCKS; n++)
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    float &x = score[b].v[n][c];
                    x *= scale;
                    if (masked) {
                        const uint32_t lane = key + score[b].column(n, c),
                                       row = block.first + own + b * 16 + score[b].row(c);
                        if (lane >= p.keys || (causal && lane > row + behind)) x = negative_infinity();
                    }
                    highest[c / 2] = fmaxf(highest[c / 2], x);
                }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                highest[h] = fmaxf(highest[h], __shfl_xor_sync(0xFFFFFFFFu, highest[h], 1));
                highest[h] = fmaxf(highest[h], __shfl_xor_sync(0xFFFFFFFFu, highest[h], 2));
                const float factor = power_of_2(maximum[b][h] - highest[h]);
                maximum[b][h] = highest[h];
                sum[b][h] *= factor;
#pragma unroll
                for (int n = 0; n < total[b].BLOCKS; n++)
                    total[b].v[n][2 * h] *= factor, total[b].v[n][2 * h + 1] *= factor;
            }
#pragma unroll
            for (int n = 0; n < score[b].BLOCKS; n++)
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    score[b].v[n][c] = power_of_2(score[b].v[n][c] - highest[c / 2]);
                    sum[b][c / 2] += score[b].v[n][c];
                }
            if constexpr (attention_arguments<A>::DROPS)
#pragma unroll
                for (int n = 0; n < score[b].BLOCKS; n++)
#pragma unroll
                    for (int c = 0; c < 4; c++)
                        if (!kept[b].is(n, c)) score[b].v[n][c] = 0.0f;
        }
#pragma unroll
        for (int i = 0; i < LANES / 16; i++) {
            uint32_t a[BLOCKS][4];
#pragma unroll
            for (int b = 0; b < BLOCKS; b++) score[b].template as_left<T>(i, a[b]);
#pragma unroll
            for (int n = 0; n < D / 16; n++) {
                uint32_t r[4];
                values.right(i * 16, n * 16, r);
#pragma unroll
                for (int b = 0; b < BLOCKS; b++) total[b].template add<T>(n, a[b], r);
            }
        }
    }
    T *out = rota_operand<T>(args, 3) + block.offset(p.out_stride, block.first);
    float *lse = rota_operand<float>(args, 4) + block.pair * p.queries + block.first;
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
        const uint32_t first = own + b * 16;
        float inverse[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            sum[b][h] += __shfl_xor_sync(0xFFFFFFFFu, sum[b][h], 1);
            sum[b][h] += __shfl_xor_sync(0xFFFFFFFFu, sum[b][h], 2);
            inverse[h] = 1.0f / sum[b][h];
            if constexpr (attention_arguments<A>::DROPS) inverse[h] *= drop.kept;
            const uint32_t row = first + total[b].row(2 * h);
            if (threadIdx.x % 4 == 0 && row < rows) lse[row] = (maximum[b][h] + log2f(sum[b][h])) * LN_2;
        }
        total[b].write(out + first * static_cast<uint64_t>(p.out_stride[2]), p.out_stride[2], rows_left(rows, first),
                       p.dim, inverse);
    }
}

/* Rows are queries, lanes are keys. */
template <typename T, int D, uint32_t LANES, typename A> ROTA_DEVICE void backward_query(const A &args) {
    constexpr uint32_t ROWS = WARPS * 16, TILE = LANES * D * 2;
    static_assert(2 * ROWS * D * 2 + 4 * TILE <= ROTA_CUDA_ATTENTION_BACKWARD_SHARED(D, LANES),
                  "launched with so much");
    const auto &p = attention_arguments<A>::params(args);
    const bool causal = p.flags & ROTA_ATTENTION_CAUSAL;
    const half_block<ROWS> block(p.batch, p.heads, p.queries, causal);
    if (block.beyond) return;
    const uint32_t rows = min(ROWS, p.queries - block.first), behind = p.keys - p.queries;
    const uint32_t end = causal ? min(p.keys, block.first + rows + behind) : p.keys, tiles = (end - 1) / LANES + 1;
    const uint64_t q_at = block.offset(p.q_stride, block.first), kv_at = block.offset(p.kv_stride, 0);
    const T *q = rota_operand<const T>(args, 0) + q_at;
    const T *k = rota_operand<const T>(args, 1) + kv_at, *v = rota_operand<const T>(args, 2) + kv_at;
    const T *dout = rota_operand<const T>(args, 3) + block.offset(p.out_stride, block.first);
    const float *stats = rota_operand<const float>(args, 4) + 2 * (block.pair * p.queries + block.first);
    const uint32_t k_unit = copy_unit(k, p.kv_stride[2]), v_unit = copy_unit(v, p.kv_stride[2]);
    const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(shared_vectors));
    const rows_in_shared<D> queries = {shared}, douts = {shared + ROWS * D * 2};
    const auto tile = [&](uint32_t number) { return shared + 2 * ROWS * D * 2 + number * TILE; };
    const auto copy = [&](uint32_t j) {
        const uint32_t first = j * LANES, there = rows_left(p.keys, first);
        const uint64_t from = first * static_cast<uint64_t>(p.kv_stride[2]);
        rows_in_shared<D>{tile(j % 2)}.template copy<LANES>(k + from, p.kv_stride[2], there, p.dim, k_unit);
        rows_in_shared<D>{tile(2 + j % 2)}.template copy<LANES>(v + from, p.kv_stride[2], there, p.dim, v_unit);
        copies_commit();
    };
    queries.template copy<ROWS>(q, p.q_stride[2], rows, p.dim, copy_unit(q, p.q_stride[2]));
    douts.template copy<ROWS>(dout, p.out_stride[2], rows, p.dim, copy_unit(dout, p.out_stride[2]));
    copy(0);
    copies_wait<0>();
    __syncthreads();

    const uint32_t own = threadIdx.x / 32 * 16;
    const float scale = p.scale * LOG2_E;
    [[maybe_unused]] const auto drop = dropping_of(args, block.pair, p.queries, p.keys);
    uint32_t q_left[D / 16][4], dout_left[D / 16][4];
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        queries.left(own, i * 16, q_left[i]);
        douts.left(own, i * 16, dout_left[i]);
    }
    warp_result<D> total;
    total.clear();
    float lse[2], delta[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const uint32_t row = own + total.row(2 * h);
        lse[h] = row < rows ? stats[2 * row] * LOG2_E : 0.0f;
        delta[h] = row < rows ? stats[2 * row + 1] : 0.0f;
    }
    for (uint32_t j = 0; j < tiles; j++) {
        if (j > 0) {
            copies_wait<0>();
            __syncthreads();
        }
        if (j + 1 < tiles) copy(j + 1);
        const rows_in_shared<D> keys = {tile(j % 2)}, values = {tile(2 + j % 2)};
        const uint32_t key = j * LANES;
        kept_along<LANES, attention_arguments<A>::DROPS> kept;
        kept.draw(drop, block.first + own, key);
        warp_result<LANES> score, dp;
        score.clear();
        dp.clear();
        add_products<T, D, LANES>(q_left, keys, score);
        add_products<T, D, LANES>(dout_left, values, dp);
        if constexpr (attention_arguments<A>::DROPS)
#pragma unroll
            for (int n = 0; n < dp.BLOCKS; n++)
#pragma unroll
                for (int c = 0; c < 4; c++) dp.v[n][c] = kept.is(n, c) ? dp.v[n][c] * drop.kept : 0.0f;
        const bool masked = key + LANES > p.keys || (causal && key + LANES - 1 > block.first + own + behind);
#pragma unroll
        for (int n = 0; n < score.BLOCKS; n++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const uint32_t lane = key + score.column(n, c), row = block.first + own + score.row(c);
                const bool seen = !masked || (lane < p.keys && (!causal || lane <= row + behind));
                const float weight = power_of_2(fmaf(score.v[n][c], scale, -lse[c / 2]));
                score.v[n][c] = seen ? weight * (dp.v[n][c] - delta[c / 2]) : 0.0f;
            }
        add_weighted<T, D, LANES>(score, keys, total);
    }
    const float factor[2] = {p.scale, p.scale};
    total.write(rota_operand<T>(args, 5) + q_at + own * static_cast<uint64_t>(p.q_stride[2]), p.q_stride[2],
                rows_left(rows, own), p.dim, factor);
}

/* Rows are keys, lanes are queries. */
template <typename T, int D, uint32_t LANES, typename A> ROTA_DEVICE void backward_key_value(const A &args) {
    constexpr uint32_t ROWS = WARPS * 16, TILE = LANES * D * 2;
    static_assert(2 * ROWS * D * 2 + 4 * TILE + 2 * LANES * 8 <= ROTA_CUDA_ATTENTION_BACKWARD_SHARED(D, LANES),
                  "launched with so much");
    const auto &p = attention_arguments<A>::params(args);
    const bool causal = p.flags & ROTA_ATTENTION_CAUSAL;
    const half_block<ROWS> block(p.batch, p.heads, p.keys, false);
    if (block.beyond) return;
    const uint32_t rows = min(ROWS, p.keys - block.first), behind = p.keys - p.queries;
    const uint32_t begin = causal && block.first > behind ? (block.first - behind) / LANES * LANES : 0;
    const uint32_t tiles = (p.queries - 1 - begin) / LANES + 1; /* keys - behind are queries: one sees a key of ours */
    const uint64_t kv_at = block.offset(p.kv_stride, block.first);
    const T *k = rota_operand<const T>(args, 1) + kv_at, *v = rota_operand<const T>(args, 2) + kv_at;
    const T *q = rota_operand<const T>(args, 0) + block.offset(p.q_stride, 0);
    const T *dout = rota_operand<const T>(args, 3) + block.offset(p.out_stride, 0);
    const float *stats = rota_operand<const float>(args, 4) + 2 * block.pair * p.queries;
    const uint32_t q_unit = copy_unit(q, p.q_stride[2]), dout_unit = copy_unit(dout, p.out_stride[2]);
    const uint32_t shared = static_cast<uint32_t>(__cvta_generic_to_shared(shared_vectors));
    const rows_in_shared<D> keys = {shared}, values = {shared + ROWS * D * 2};
    const auto tile = [&](uint32_t number) { return shared + 2 * ROWS * D * 2 + number * TILE; };
    constexpr uint32_t STATS = 2 * ROWS * D * 2 + 4 * TILE;
    const auto copy = [&](uint32_t j) {
        const uint32_t first = begin + j * LANES, there = rows_left(p.queries, first);
        rows_in_shared<D>{tile(j % 2)}.template copy<LANES>(q + first * static_cast<uint64_t>(p.q_stride[2]),
                                                            p.q_stride[2], there, p.dim, q_unit);
        rows_in_shared<D>{tile(2 + j % 2)}.template copy<LANES>(dout + first * static_cast<uint64_t>(p.out_stride[2]),
                                                                p.out_stride[2], there, p.dim, dout_unit);
        if (threadIdx.x < 2 * LANES) {
            const bool inside = threadIdx.x < 2 * there;
            copy4(shared + STATS + (j % 2 * 2 * LANES + threadIdx.x) * 4,
                  inside ? stats + 2 * static_cast<uint64_t>(first) + threadIdx.x : stats, inside ? 4 : 0);
        }
        copies_commit();
    };
    keys.template copy<ROWS>(k, p.kv_stride[2], rows, p.dim, copy_unit(k, p.kv_stride[2]));
    values.template copy<ROWS>(v, p.kv_stride[2], rows, p.dim, copy_unit(v, p.kv_stride[2]));
    copy(0);

    const uint32_t own = threadIdx.x / 32 * 16;
    const float scale = p.scale * LOG2_E;
    [[maybe_unused]] const auto drop = dropping_of(args, block.pair, p.queries, p.keys);
    warp_result<D> total_k, total_v;
    total_k.clear();
    total_v.clear();
    for (uint32_t j = 0; j < tiles; j++) {
        copies_wait<0>();
        __syncthreads();
        if (j + 1 < tiles) copy(j + 1);
        const rows_in_shared<D> queries = {tile(j % 2)}, douts = {tile(2 + j % 2)};
        const float2 *of_lane =
            reinterpret_cast<const float2 *>(reinterpret_cast<const char *>(shared_vectors) + STATS) + j % 2 * LANES;
        const uint32_t query = begin + j * LANES;
        kept_across<LANES, attention_arguments<A>::DROPS> kept;
        kept.draw(drop, block.first + own, query);
        warp_result<LANES> score, dp;
        score.clear();
        dp.clear();
        add_products<T, D, LANES>(keys, own, queries, score);
        add_products<T, D, LANES>(values, own, douts, dp);
        const bool masked = query + LANES > p.queries || (causal && block.first + own + 15 > query + behind);
#pragma unroll
        for (int n = 0; n < score.BLOCKS; n++)
#pragma unroll
            for (int side = 0; side < 2; side++) {
                const float2 stat = of_lane[score.column(n, side)];
                const uint32_t lane = query + score.column(n, side);
#pragma unroll
                for (int c = side; c < 4; c += 2) {
                    const uint32_t row = block.first + own + score.row(c);
                    const bool seen = !masked || (lane < p.queries && (!causal || row <= lane + behind));
                    const float weight = power_of_2(fmaf(score.v[n][c], scale, -stat.x * LOG2_E));
                    if constexpr (attention_arguments<A>::DROPS) {
                        const bool keeps = kept.is(n, c);
                        score.v[n][c] = seen && keeps ? weight : 0.0f;
                        dp.v[n][c] = seen ? weight * ((keeps ? dp.v[n][c] * drop.kept : 0.0f) - stat.y) : 0.0f;
                    } else {
                        score.v[n][c] = seen ? weight : 0.0f;
                        dp.v[n][c] = seen ? weight * (dp.v[n][c] - stat.y) : 0.0f;
                    }
                }
            }
        add_weighted<T, D, LANES>(score, douts, total_v);
        add_weighted<T, D, LANES>(dp, queries, total_k);
    }
    const uint64_t row = own * static_cast<uint64_t>(p.kv_stride[2]);
    const float factor[2] = {p.scale, p.scale};
    float of_values[2] = {1.0f, 1.0f};
    if constexpr (attention_arguments<A>::DROPS) of_values[0] = of_values[1] = drop.kept;
    total_k.write(rota_operand<T>(args, 5) + kv_at + row, p.kv_stride[2], rows_left(rows, own), p.dim, factor);
    total_v.write(rota_operand<T>(args, 6) + kv_at + row, p.kv_stride[2], rows_left(rows, own), p.dim, of_values);
}

/* {lse, out . dout} of each query, a warp per query. */
template <typename T, typename A> ROTA_DEVICE void backward_prepare(const A &args) {
    const rota_attention_backward_params &p = args.params;
    const row_threads<false> t;
    if (t.row >= static_cast<uint64_t>(p.batch) * p.heads * p.queries) return;
    const uint64_t pair = t.row / p.queries;
    const uint64_t element =
        pair / p.heads * p.out_stride[0] + pair % p.heads * p.out_stride[1] + t.row % p.queries * p.out_stride[2];
    const T *out = rota_operand<const T>(args, 0) + element, *dout = rota_operand<const T>(args, 1) + element;
    float sum = 0.0f;
    t.walk<1>(p.dim, [&](uint32_t d) { sum = fmaf(static_cast<float>(out[d]), static_cast<float>(dout[d]), sum); });
    sum = t.sum(sum);
    if (t.lane != 0) return;
    float *stats = rota_operand<float>(args, 3) + 2 * t.row;
    stats[0] = rota_operand<const float>(args, 2)[t.row];
    stats[1] = sum;
}

#define BODY(call) call
#else
#define BODY(call) /* no matrix units for bf16, no such copies: never chosen (attention_select.c) */
#endif

#define ENTRIES(name, type, dim, blocks, lanes, forward_resident, backward_resident)                         \
    ROTA_KERNEL_BLOCKS(attention_##name, 5, rota_attention_params, ROTA_CUDA_ATTENTION_THREADS,              \
                       forward_resident) {                                                                   \
        BODY((forward<type, dim, blocks>(args)));                                                            \
    }                                                                                                        \
    ROTA_KERNEL_BLOCKS(attention_backward_query_##name, 6, rota_attention_backward_params,                   \
                       ROTA_CUDA_ATTENTION_THREADS, backward_resident) {                                     \
        BODY((backward_query<type, dim, lanes>(args)));                                                      \
    }                                                                                                        \
    ROTA_KERNEL_BLOCKS(attention_backward_key_value_##name, 7, rota_attention_backward_params,               \
                       ROTA_CUDA_ATTENTION_THREADS, backward_resident) {                                     \
        BODY((backward_key_value<type, dim, lanes>(args)));                                                  \
    }

/* With dropout. */
#define DROPOUT_ENTRIES(name, type, dim, blocks, lanes, forward_resident, backward_resident)                 \
    ROTA_KERNEL_BLOCKS(attention_dropout_##name, 6, rota_attention_drop_params,                              \
                       ROTA_CUDA_ATTENTION_THREADS, forward_resident) {                                      \
        BODY((forward<type, dim, blocks>(args)));                                                            \
    }                                                                                                        \
    ROTA_KERNEL_BLOCKS(attention_dropout_backward_query_##name, 7, rota_attention_drop_backward_params,      \
                       ROTA_CUDA_ATTENTION_THREADS, backward_resident) {                                     \
        BODY((backward_query<type, dim, lanes>(args)));                                                      \
    }                                                                                                        \
    ROTA_KERNEL_BLOCKS(attention_dropout_backward_key_value_##name, 8, rota_attention_drop_backward_params,  \
                       ROTA_CUDA_ATTENTION_THREADS, backward_resident) {                                     \
        BODY((backward_key_value<type, dim, lanes>(args)));                                                  \
    }

#define PREPARE(name, type)                                                                                  \
    ROTA_KERNEL(attention_backward_prepare_##name, 4, rota_attention_backward_params, ROTA_CUDA_THREADS) {   \
        BODY((backward_prepare<type>(args)));                                                                \
    }

PREPARE(f16, __half)
PREPARE(bf16, __nv_bfloat16)
ENTRIES(f16_64, __half, 64, 2, ROTA_CUDA_ATTENTION_HALF_LANES(64), 2, 3)
ENTRIES(bf16_64, __nv_bfloat16, 64, 2, ROTA_CUDA_ATTENTION_HALF_LANES(64), 2, 3)
ENTRIES(f16_128, __half, 128, 1, ROTA_CUDA_ATTENTION_HALF_LANES(128), 2, 2)
ENTRIES(bf16_128, __nv_bfloat16, 128, 1, ROTA_CUDA_ATTENTION_HALF_LANES(128), 2, 2)
ENTRIES(f16_bounded, __half, 64, 1, ROTA_CUDA_ATTENTION_BOUNDED_LANES, 2, 2)
ENTRIES(bf16_bounded, __nv_bfloat16, 64, 1, ROTA_CUDA_ATTENTION_BOUNDED_LANES, 2, 2)
DROPOUT_ENTRIES(f16_64, __half, 64, 2, ROTA_CUDA_ATTENTION_HALF_LANES(64), 2, 3)
DROPOUT_ENTRIES(bf16_64, __nv_bfloat16, 64, 2, ROTA_CUDA_ATTENTION_HALF_LANES(64), 2, 3)
DROPOUT_ENTRIES(f16_128, __half, 128, 1, ROTA_CUDA_ATTENTION_HALF_LANES(128), 2, 2)
DROPOUT_ENTRIES(bf16_128, __nv_bfloat16, 128, 1, ROTA_CUDA_ATTENTION_HALF_LANES(128), 2, 2)
DROPOUT_ENTRIES(f16_bounded, __half, 64, 1, ROTA_CUDA_ATTENTION_BOUNDED_LANES, 2, 2)
DROPOUT_ENTRIES(bf16_bounded, __nv_bfloat16, 64, 1, ROTA_CUDA_ATTENTION_BOUNDED_LANES, 2, 2)
