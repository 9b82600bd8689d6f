/* CUDA kernels: layernorm and rmsnorm, forward, backward, and the partial sums of their weights' gradients. */
#include "ops/cuda/common.cuh"

/* y = (x - mean) * rstd * weight + bias: mean first, then the variance around it. */
template <bool BLOCK, int W, bool LAYER, typename A> ROTA_DEVICE void norm_row(const A &args) {
    const rota_norm_params &p = args.params;
    const row_threads<BLOCK> t;
    if (t.row >= p.rows) return;
    constexpr int Y = LAYER ? 3 : 2, STATS = LAYER ? 4 : 3;
    const bool has_weight = p.flags & ROTA_NORM_WEIGHT, has_bias = LAYER && (p.flags & ROTA_NORM_BIAS);
    const float *x = rota_operand<const float>(args, 0) + t.row * p.dim, *weight = rota_operand<const float>(args, 1);
    const float *bias = rota_operand<const float>(args, LAYER ? 2 : 1);
    float *y = rota_operand<float>(args, Y) + t.row * p.dim, *stats = rota_operand<float>(args, STATS);
    const bool whole = aligned16(x) && aligned16(y) && (!has_weight || aligned16(weight)) && (!has_bias || aligned16(bias));
    const float inverse = 1.0f / static_cast<float>(p.dim);
    float mean = 0.0f, squares = 0.0f;
    if (LAYER) {
        t.template walk<W>(p.dim, [&](uint32_t i) {
            const pack<W> value = load<W>(x + i, whole);
#pragma unroll
            for (int j = 0; j < W; j++) mean += value.v[j];
        });
        mean = t.sum(mean) * inverse;
    }
    t.template walk<W>(p.dim, [&](uint32_t i) {
        const pack<W> value = load<W>(x + i, whole);
#pragma unroll
        for (int j = 0; j < W; j++) squares = fmaf(value.v[j] - mean, value.v[j] - mean, squares);
    });
    const float rstd = 1.0f / sqrtf(t.sum(squares) * inverse + p.eps);
    t.template walk<W>(p.dim, [&](uint32_t i) {
        pack<W> value = load<W>(x + i, whole), w, b;
        if (has_weight) w = load<W>(weight + i, whole);
        if (has_bias) b = load<W>(bias + i, whole);
#pragma unroll
        for (int j = 0; j < W; j++) {
            value.v[j] = (value.v[j] - mean) * rstd;
            if (has_weight) value.v[j] *= w.v[j];
            if (has_bias) value.v[j] += b.v[j];
        }
        store(y + i, value, whole);
    });
    if (t.lane != 0) return;
    if (LAYER) stats[2 * t.row] = mean;
    stats[LAYER ? 2 * t.row + 1 : t.row] = rstd;
}

template <bool BLOCK, int W, typename A> ROTA_DEVICE void layernorm_row(const A &args) { norm_row<BLOCK, W, true>(args); }
template <bool BLOCK, int W, typename A> ROTA_DEVICE void rmsnorm_row(const A &args) { norm_row<BLOCK, W, false>(args); }
ROTA_KERNEL(layernorm, 5, rota_norm_params, ROTA_CUDA_ROW_THREADS) { ROTA_BY_ROW(args.params.dim, layernorm_row, args); }
ROTA_KERNEL(rmsnorm, 4, rota_norm_params, ROTA_CUDA_ROW_THREADS) { ROTA_BY_ROW(args.params.dim, rmsnorm_row, args); }

/* dx = rstd * (g - mean(g) - h * mean(g * h)) with g = dy * weight and h = (x - mean) * rstd; without mean(g) where the mean
 * was not subtracted. */
template <bool BLOCK, int W, bool LAYER, typename A> ROTA_DEVICE void norm_backward_row(const A &args) {
    const rota_norm_params &p = args.params;
    const row_threads<BLOCK> t;
    if (t.row >= p.rows) return;
    const bool has_weight = p.flags & ROTA_NORM_WEIGHT;
    const float *x = rota_operand<const float>(args, 0) + t.row * p.dim, *weight = rota_operand<const float>(args, 1);
    const float *stats = rota_operand<const float>(args, 2), *dy = rota_operand<const float>(args, 3) + t.row * p.dim;
    float *dx = rota_operand<float>(args, 4) + t.row * p.dim;
    const float mean = LAYER ? stats[2 * t.row] : 0.0f, rstd = stats[LAYER ? 2 * t.row + 1 : t.row];
    const bool whole = aligned16(x) && aligned16(dy) && aligned16(dx) && (!has_weight || aligned16(weight));
    float sum = 0.0f, sum_h = 0.0f;
    auto gradient = [&](uint32_t i) {
        pack<W> g = load<W>(dy + i, whole);
        if (has_weight) {
            const pack<W> w = load<W>(weight + i, whole);
#pragma unroll
            for (int j = 0; j < W; j++) g.v[j] *= w.v[j];
        }
        return g;
    };
    t.template walk<W>(p.dim, [&](uint32_t i) {
        const pack<W> value = load<W>(x + i, whole), g = gradient(i);
#pragma unroll
        for (int j = 0; j < W; j++) {
            sum += g.v[j];
            sum_h = fmaf(g.v[j], (value.v[j] - mean) * rstd, sum_h);
        }
    });
    const float inverse = 1.0f / static_cast<float>(p.dim);
    sum = LAYER ? t.sum(sum) * inverse : 0.0f;
    sum_h = t.sum(sum_h) * inverse;
    t.template walk<W>(p.dim, [&](uint32_t i) {
        const pack<W> value = load<W>(x + i, whole);
        pack<W> g = gradient(i);
#pragma unroll
        for (int j = 0; j < W; j++) g.v[j] = rstd * (g.v[j] - sum - (value.v[j] - mean) * rstd * sum_h);
        store(dx + i, g, whole);
    });
}

template <bool BLOCK, int W, typename A> ROTA_DEVICE void layernorm_backward_row(const A &args) {
    norm_backward_row<BLOCK, W, true>(args);
}
template <bool BLOCK, int W, typename A> ROTA_DEVICE void rmsnorm_backward_row(const A &args) {
    norm_backward_row<BLOCK, W, false>(args);
}
ROTA_KERNEL(layernorm_backward, 5, rota_norm_params, ROTA_CUDA_ROW_THREADS) {
    ROTA_BY_ROW(args.params.dim, layernorm_backward_row, args);
}
ROTA_KERNEL(rmsnorm_backward, 5, rota_norm_params, ROTA_CUDA_ROW_THREADS) {
    ROTA_BY_ROW(args.params.dim, rmsnorm_backward_row, args);
}

/* A thread adds up one column over a chunk of rows, in order. */
template <bool LAYER, typename A> ROTA_DEVICE void norm_backward_weight(const A &args) {
    const rota_norm_params &p = args.params;
    const uint64_t chunks = (static_cast<uint64_t>(p.rows) + p.chunk - 1) / p.chunk, i = rota_index();
    if (i >= chunks * p.dim) return;
    const uint64_t column = i % p.dim, begin = i / p.dim * p.chunk, end = min(begin + p.chunk, static_cast<uint64_t>(p.rows));
    const float *x = rota_operand<const float>(args, 0) + column, *stats = rota_operand<const float>(args, 1);
    const float *dy = rota_operand<const float>(args, 2) + column;
    float *partial = rota_operand<float>(args, 3);
    float sum = 0.0f, sum_h = 0.0f;
#pragma unroll 8
    for (uint64_t row = begin; row < end; row++) {
        const float mean = LAYER ? stats[2 * row] : 0.0f, rstd = stats[LAYER ? 2 * row + 1 : row];
        const float g = dy[row * p.dim];
        sum_h = fmaf(g, (x[row * p.dim] - mean) * rstd, sum_h);
        sum += g;
    }
    partial[i] = sum_h;
    if (LAYER) partial[chunks * p.dim + i] = sum;
}

ROTA_KERNEL(layernorm_backward_weight, 4, rota_norm_params, ROTA_CUDA_THREADS) { norm_backward_weight<true>(args); }
ROTA_KERNEL(rmsnorm_backward_weight, 4, rota_norm_params, ROTA_CUDA_THREADS) { norm_backward_weight<false>(args); }
