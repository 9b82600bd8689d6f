/* CUDA kernels: layernorm (with or without a sum before it) and rmsnorm, forward, backward, and the partial sums of their
 * weights' gradients. */
#include "ops/cuda/values.cuh"

/* y = (x - mean) * rstd * weight + bias: mean first, then the variance around it. */
template <bool HALF, bool BLOCK, int W, bool LAYER, bool RESIDUAL, typename A> ROTA_DEVICE void norm_row(const A &args) {
    using array = values<HALF>;
    const rota_norm_params &p = args.params;
    const row_threads<BLOCK> t;
    if (t.row >= p.rows) return;
    constexpr int WEIGHT = RESIDUAL ? 2 : 1, BIAS = LAYER ? WEIGHT + 1 : 1, SUM = BIAS + 1;
    constexpr int Y = RESIDUAL ? SUM + 1 : BIAS + 1, STATS = Y + 1;
    const bool has_weight = p.flags & ROTA_NORM_WEIGHT, has_bias = LAYER && (p.flags & ROTA_NORM_BIAS);
    const uint64_t first = t.row * p.dim;
    const array x(rota_operand<const void>(args, 0), first, p.dtype), y(rota_operand<void>(args, Y), first, p.dtype);
    const array r(rota_operand<const void>(args, RESIDUAL ? 1 : 0), first, p.dtype);
    const array sum(rota_operand<void>(args, RESIDUAL ? SUM : Y), first, p.dtype);
    const array weight(rota_operand<const void>(args, WEIGHT), 0, p.dtype);
    const array bias(rota_operand<const void>(args, BIAS), 0, p.dtype);
    float *stats = rota_operand<float>(args, STATS);
    const bool whole = x.aligned() && y.aligned() && (!has_weight || weight.aligned()) && (!has_bias || bias.aligned()) &&
                       (!RESIDUAL || (r.aligned() && sum.aligned()));
    if (RESIDUAL) /* what a thread reads again it wrote itself */
        t.template walk<W>(p.dim, [&](uint32_t i) {
            pack<W> a = x.template load<W>(i, whole);
            const pack<W> b = r.template load<W>(i, whole);
#pragma unroll
            for (int j = 0; j < W; j++) a.v[j] += b.v[j];
            sum.template store<W>(i, a, whole);
        });
    kept_values<HALF, BLOCK, W> row = {{RESIDUAL ? sum : x}, whole};
    const float inverse = 1.0f / static_cast<float>(p.dim);
    float mean = 0.0f, squares = 0.0f;
    if (LAYER) {
        row.pass(t, p.dim, [&](uint32_t, const pack<W> *value) {
#pragma unroll
            for (int j = 0; j < W; j++) mean += value->v[j];
        });
        mean = t.sum(mean) * inverse;
    }
    row.pass(t, p.dim, [&](uint32_t, const pack<W> *value) {
#pragma unroll
        for (int j = 0; j < W; j++) squares = fmaf(value->v[j] - mean, value->v[j] - mean, squares);
    });
    const float rstd = 1.0f / sqrtf(t.sum(squares) * inverse + p.eps);
    row.pass(t, p.dim, [&](uint32_t i, const pack<W> *value) {
        pack<W> result, w, b;
        if (has_weight) w = weight.template load<W>(i, whole);
        if (has_bias) b = bias.template load<W>(i, whole);
#pragma unroll
        for (int j = 0; j < W; j++) {
            result.v[j] = (value->v[j] - mean) * rstd;
            if (has_weight) result.v[j] *= w.v[j];
            if (has_bias) result.v[j] += b.v[j];
        }
        y.template store<W>(i, result, whole);
    });
    if (t.lane != 0) return;
    if (LAYER) stats[2 * t.row] = mean;
    stats[LAYER ? 2 * t.row + 1 : t.row] = rstd;
}

template <bool HALF, bool BLOCK, int W, typename A> ROTA_DEVICE void layernorm_row(const A &args) {
    norm_row<HALF, BLOCK, W, true, false>(args);
}
template <bool HALF, bool BLOCK, int W, typename A> ROTA_DEVICE void residual_layernorm_row(const A &args) {
    norm_row<HALF, BLOCK, W, true, true>(args);
}
template <bool HALF, bool BLOCK, int W, typename A> ROTA_DEVICE void rmsnorm_row(const A &args) {
    norm_row<HALF, BLOCK, W, false, false>(args);
}
ROTA_KERNEL(layernorm, 5, rota_norm_params, ROTA_CUDA_ROW_THREADS) {
    ROTA_BY_VALUES(args.params.dtype, args.params.dim, layernorm_row, args);
}
ROTA_KERNEL(residual_layernorm, 7, rota_norm_params, ROTA_CUDA_ROW_THREADS) {
    ROTA_BY_VALUES(args.params.dtype, args.params.dim, residual_layernorm_row, args);
}
ROTA_KERNEL(rmsnorm, 4, rota_norm_params, ROTA_CUDA_ROW_THREADS) {
    ROTA_BY_VALUES(args.params.dtype, args.params.dim, rmsnorm_row, args);
}

/* dx = (dx +) rstd * (g - mean(g) - h * mean(g * h)) with g = dy * weight and h = (x - mean) * rstd; without mean(g) where the
 * mean was not subtracted. */
template <bool HALF, bool BLOCK, int W, bool LAYER, typename A> ROTA_DEVICE void norm_backward_row(const A &args) {
    using array = values<HALF>;
    const rota_norm_params &p = args.params;
    const row_threads<BLOCK> t;
    if (t.row >= p.rows) return;
    const bool has_weight = p.flags & ROTA_NORM_WEIGHT, add = p.flags & ROTA_NORM_ACCUMULATE;
    const uint64_t first = t.row * p.dim;
    const array x(rota_operand<const void>(args, 0), first, p.dtype), dy(rota_operand<const void>(args, 3), first, p.dtype);
    const array weight(rota_operand<const void>(args, 1), 0, p.dtype), dx(rota_operand<void>(args, 4), first, p.dtype);
    const float *stats = rota_operand<const float>(args, 2);
    const float mean = LAYER ? stats[2 * t.row] : 0.0f, rstd = stats[LAYER ? 2 * t.row + 1 : t.row];
    const bool whole = x.aligned() && dy.aligned() && dx.aligned() && (!has_weight || weight.aligned());
    kept_values<HALF, BLOCK, W, 2> row = {{x, dy}, whole};
    float sum = 0.0f, sum_h = 0.0f;
    auto gradient = [&](uint32_t i, pack<W> g) {
        if (!has_weight) return g;
        const pack<W> w = weight.template load<W>(i, whole);
#pragma unroll
        for (int j = 0; j < W; j++) g.v[j] *= w.v[j];
        return g;
    };
    row.pass(t, p.dim, [&](uint32_t i, const pack<W> *value) {
        const pack<W> g = gradient(i, value[1]);
#pragma unroll
        for (int j = 0; j < W; j++) {
            sum += g.v[j];
            sum_h = fmaf(g.v[j], (value[0].v[j] - mean) * rstd, sum_h);
        }
    });
    const float inverse = 1.0f / static_cast<float>(p.dim);
    sum = LAYER ? t.sum(sum) * inverse : 0.0f;
    sum_h = t.sum(sum_h) * inverse;
    row.pass(t, p.dim, [&](uint32_t i, const pack<W> *value) {
        pack<W> g = gradient(i, value[1]), before;
        if (add) before = dx.template load<W>(i, whole);
#pragma unroll
        for (int j = 0; j < W; j++) {
            g.v[j] = rstd * (g.v[j] - sum - (value[0].v[j] - mean) * rstd * sum_h);
            if (add) g.v[j] += before.v[j];
        }
        dx.template store<W>(i, g, whole);
    });
}

template <bool HALF, bool BLOCK, int W, typename A> ROTA_DEVICE void layernorm_backward_row(const A &args) {
    norm_backward_row<HALF, BLOCK, W, true>(args);
}
template <bool HALF, bool BLOCK, int W, typename A> ROTA_DEVICE void rmsnorm_backward_row(const A &args) {
    norm_backward_row<HALF, BLOCK, W, false>(args);
}
ROTA_KERNEL(layernorm_backward, 5, rota_norm_params, ROTA_CUDA_ROW_THREADS) {
    ROTA_BY_VALUES(args.params.dtype, args.params.dim, layernorm_backward_row, args);
}
ROTA_KERNEL(rmsnorm_backward, 5, rota_norm_params, ROTA_CUDA_ROW_THREADS) {
    ROTA_BY_VALUES(args.params.dtype, args.params.dim, rmsnorm_backward_row, args);
}

/* A thread adds up W neighbouring columns over a chunk of rows, in order. */
template <bool HALF, int W, bool LAYER, typename A> ROTA_DEVICE void norm_backward_columns(const A &args) {
    const rota_norm_params &p = args.params;
    const uint64_t chunks = (static_cast<uint64_t>(p.rows) + p.chunk - 1) / p.chunk, i = rota_index() * W;
    if (i >= chunks * p.dim) return;
    const uint64_t column = i % p.dim, begin = i / p.dim * p.chunk, end = min(begin + p.chunk, static_cast<uint64_t>(p.rows));
    const values<HALF> x(rota_operand<const void>(args, 0), column, p.dtype);
    const values<HALF> dy(rota_operand<const void>(args, 2), column, p.dtype);
    const float *stats = rota_operand<const float>(args, 1);
    float *partial = rota_operand<float>(args, 3);
    const bool whole = x.aligned() && dy.aligned();
    pack<W> sum = {}, sum_h = {};
#pragma unroll 8
    for (uint64_t row = begin; row < end; row++) {
        const float mean = LAYER ? stats[2 * row] : 0.0f, rstd = stats[LAYER ? 2 * row + 1 : row];
        const pack<W> g = dy.template load<W>(row * p.dim, whole), value = x.template load<W>(row * p.dim, whole);
#pragma unroll
        for (int j = 0; j < W; j++) {
            sum_h.v[j] = fmaf(g.v[j], (value.v[j] - mean) * rstd, sum_h.v[j]);
            sum.v[j] += g.v[j];
        }
    }
    const values<false> out(partial, 0, DTYPE_F32);
    const bool whole_out = out.aligned();
    out.template store<W>(i, sum_h, whole_out);
    if (LAYER) out.template store<W>(chunks * p.dim + i, sum, whole_out && p.dim % 4 == 0);
}

template <bool LAYER, typename A> ROTA_DEVICE void norm_backward_weight(const A &args) {
    if (args.params.dtype == DTYPE_F32)
        norm_backward_columns<false, 1, LAYER>(args);
    else if (args.params.dim % 8 == 0)
        norm_backward_columns<true, 8, LAYER>(args);
    else
        norm_backward_columns<true, 1, LAYER>(args);
}
ROTA_KERNEL(layernorm_backward_weight, 4, rota_norm_params, ROTA_CUDA_THREADS) { norm_backward_weight<true>(args); }
ROTA_KERNEL(rmsnorm_backward_weight, 4, rota_norm_params, ROTA_CUDA_THREADS) { norm_backward_weight<false>(args); }
