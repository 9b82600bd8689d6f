/* CUDA kernels: layernorm (with or without a sum before it) and rmsnorm, forward, backward, and the partial sums of
 * their weights' gradients. */
#include "ops/cuda/norm_groups.cuh"

/* y = (x - mean) * rstd * weight + bias: mean first, then the variance around it. */
template <bool HALF, bool BLOCK, int W, bool LAYER, bool RESIDUAL, typename A>
ROTA_DEVICE void norm_row(const A &args) {
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
    const bool whole = x.aligned() && y.aligned() && (!has_weight || weight.aligned()) &&
                       (!has_bias || bias.aligned()) && (!RESIDUAL || (r.aligned() && sum.aligned()));
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

/* Whether all of these operands, or'ed together, lie at multiples of 16 bytes. */
template <typename A, typename... I> ROTA_DEVICE bool all_aligned(const A &args, I... operands) {
    return ((reinterpret_cast<uint64_t>(rota_operand<const void>(args, operands)) | ...) & 15u) == 0;
}

struct layernorm_shared {
    float2 parts[2 * norm_group::WARPS];
    float weight[ROTA_CUDA_WARP_ROW], bias[ROTA_CUDA_WARP_ROW];
};

/* layernorm: groups take pairs of rows in turns, and load the next pair before they calculate. */
template <uint32_t DTYPE, bool WHOLE, typename A>
ROTA_DEVICE void layernorm_pairs(const A &args, layernorm_shared &shared) {
    using array = values<true>;
    constexpr uint32_t W = norm_group::W;
    const rota_norm_params &p = args.params;
    norm_group g(p.dim, shared.parts);
    const bool mine = g.column < p.dim;
    const array x(rota_operand<const void>(args, 0), g.column, DTYPE), y(rota_operand<void>(args, 3), g.column, DTYPE);
    const array weight(rota_operand<const void>(args, 1), g.column, DTYPE);
    const array bias(rota_operand<const void>(args, 2), g.column, DTYPE);
    float *stats = rota_operand<float>(args, 4);
    const uint64_t step = 2 * static_cast<uint64_t>(gridDim.x) * gridDim.y * g.groups, end = p.rows;
    uint64_t row = 2 * (rota_group_index() * g.groups + g.group);
    uint4 next[2] = {};
    auto fetch = [&](uint64_t first) {
#pragma unroll
        for (uint32_t r = 0; r < 2; r++)
            if (mine && first + r < end) next[r] = x.fetch((first + r) * p.dim, WHOLE);
    };
    fetch(row);
    g.share<WHOLE>(shared.weight, weight, mine && p.flags & ROTA_NORM_WEIGHT, 1.0f);
    g.share<WHOLE>(shared.bias, bias, mine && p.flags & ROTA_NORM_BIAS, 0.0f);
    __syncthreads();
    const float inverse = 1.0f / static_cast<float>(p.dim);
    for (; row < end; row += step) {
        pack<W> value[2] = {x.open(next[0]), x.open(next[1])};
        fetch(row + step);
        float mean[2] = {}, spread[2] = {};
#pragma unroll
        for (uint32_t r = 0; r < 2; r++)
#pragma unroll
            for (uint32_t j = 0; j < W; j++) mean[r] += value[r].v[j];
        float2 both = g.sum(mean[0], mean[1]);
        mean[0] = both.x * inverse;
        mean[1] = both.y * inverse;
#pragma unroll
        for (uint32_t r = 0; r < 2; r++)
#pragma unroll
            for (uint32_t j = 0; j < W; j++) {
                value[r].v[j] -= mean[r];
                spread[r] = fmaf(value[r].v[j], value[r].v[j], spread[r]);
            }
        both = g.sum(mine ? spread[0] : 0.0f, mine ? spread[1] : 0.0f);
        const float rstd[2] = {1.0f / sqrtf(both.x * inverse + p.eps), 1.0f / sqrtf(both.y * inverse + p.eps)};
        if (!mine) continue;
        const pack<W> w = values<false>(shared.weight, g.column, DTYPE_F32).template load<W>(0, true),
                      b = values<false>(shared.bias, g.column, DTYPE_F32).template load<W>(0, true);
#pragma unroll
        for (uint32_t r = 0; r < 2; r++) {
            if (row + r >= end) continue;
#pragma unroll
            for (uint32_t j = 0; j < W; j++) value[r].v[j] = value[r].v[j] * rstd[r] * w.v[j] + b.v[j];
            y.place((row + r) * p.dim, y.close(value[r]), WHOLE);
            if (g.column != 0) continue;
            stats[2 * (row + r)] = mean[r];
            stats[2 * (row + r) + 1] = rstd[r];
        }
    }
}

/* An absent weight or bias is bound to an operand that is read anyway. */
template <uint32_t DTYPE, typename A> ROTA_DEVICE void layernorm_of(const A &args, layernorm_shared &shared) {
    if (all_aligned(args, 0, 1, 2, 3))
        layernorm_pairs<DTYPE, true>(args, shared);
    else
        layernorm_pairs<DTYPE, false>(args, shared);
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
ROTA_KERNEL_BLOCKS(layernorm, 5, rota_norm_params, ROTA_CUDA_NORM_THREADS, ROTA_CUDA_NORM_GROUP_BLOCKS) {
    __shared__ layernorm_shared shared;
    if (!rota_cuda_norm_by_vectors(&args.params))
        ROTA_BY_VALUES(args.params.dtype, args.params.dim, layernorm_row, args);
    else if (args.params.dtype == DTYPE_BF16)
        layernorm_of<DTYPE_BF16>(args, shared);
    else
        layernorm_of<DTYPE_F16>(args, shared);
}
ROTA_KERNEL(residual_layernorm, 7, rota_norm_params, ROTA_CUDA_ROW_THREADS) {
    ROTA_BY_VALUES(args.params.dtype, args.params.dim, residual_layernorm_row, args);
}
ROTA_KERNEL(rmsnorm, 4, rota_norm_params, ROTA_CUDA_ROW_THREADS) {
    ROTA_BY_VALUES(args.params.dtype, args.params.dim, rmsnorm_row, args);
}

/* dx = (dx +) rstd * (g - mean(g) - h * mean(g * h)) with g = dy * weight and h = (x - mean) * rstd; without mean(g)
 * where the mean was not subtracted. */
template <bool HALF, bool BLOCK, int W, bool LAYER, typename A> ROTA_DEVICE void norm_backward_row(const A &args) {
    using array = values<HALF>;
    const rota_norm_params &p = args.params;
    const row_threads<BLOCK> t;
    if (t.row >= p.rows) return;
    const bool has_weight = p.flags & ROTA_NORM_WEIGHT, add = p.flags & ROTA_NORM_ACCUMULATE;
    const uint64_t first = t.row * p.dim;
    const array x(rota_operand<const void>(args, 0), first, p.dtype),
        dy(rota_operand<const void>(args, 3), first, p.dtype);
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
    const uint64_t column = i % p.dim, begin = i / p.dim * p.chunk,
                   end = min(begin + p.chunk, static_cast<uint64_t>(p.rows));
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

/* Both of the above in one pass. A block has a chunk of rows, which its groups of warps take in turns. A thread keeps
 * its columns' sums in registers, and in the end the groups' sums are added up in their order. */
struct norm_gradient_shared {
    float2 parts[2 * norm_group::WARPS];
    float weight[ROTA_CUDA_WARP_ROW];
    float sums[2 * norm_group::WARPS * 32 * norm_group::W]; /* [halves, groups, dim] */
};

template <bool LAYER, uint32_t DTYPE, bool WHOLE, typename A>
ROTA_DEVICE void norm_gradient_block(const A &args, norm_gradient_shared &shared) {
    using array = values<true>;
    constexpr uint32_t W = norm_group::W;
    const rota_norm_params &p = args.params;
    const uint32_t dim = p.dim;
    const uint64_t chunk = rota_group_index(), chunks = (static_cast<uint64_t>(p.rows) + p.chunk - 1) / p.chunk;
    if (chunk >= chunks) return;
    norm_group g(dim, shared.parts);
    const bool mine = g.column < dim, add = p.flags & ROTA_NORM_ACCUMULATE;
    const uint64_t begin = chunk * p.chunk, end = min(begin + p.chunk, static_cast<uint64_t>(p.rows));
    const array x(rota_operand<const void>(args, 0), g.column, DTYPE),
        dy(rota_operand<const void>(args, 3), g.column, DTYPE);
    const array weight(rota_operand<const void>(args, 1), g.column, DTYPE),
        dx(rota_operand<void>(args, 4), g.column, DTYPE);
    const float *stats = rota_operand<const float>(args, 2);
    uint4 next_x = {}, next_dy = {}, next_before = {};
    float next_mean = 0.0f, next_rstd = 0.0f;
    uint64_t row = begin + g.group, next = row * dim; /* what is fetched next, while rows are left */
    uint32_t left = row < end ? static_cast<uint32_t>((end - row + g.groups - 1) / g.groups) : 0;
    auto fetch = [&] {
        if (left == 0) return;
        if (mine) {
            next_x = x.fetch(next, WHOLE);
            next_dy = dy.fetch(next, WHOLE);
            if (add) next_before = dx.fetch(next, WHOLE);
        }
        if (LAYER) next_mean = stats[2 * row];
        next_rstd = stats[LAYER ? 2 * row + 1 : row];
    };
    pack<W> sum = {}, sum_h = {};
    fetch();
    g.share<WHOLE>(shared.weight, weight, mine && p.flags & ROTA_NORM_WEIGHT, 1.0f);
    __syncthreads();
    const float inverse = 1.0f / static_cast<float>(dim);
    while (left > 0) {
        const uint64_t here = next;
        const float mean = next_mean, rstd = next_rstd;
        const uint4 before = next_before;
        pack<W> h = x.open(next_x), gradient = dy.open(next_dy);
        row += g.groups;
        next += g.groups * dim;
        left--;
        fetch();
        float total = 0.0f, total_h = 0.0f;
        const pack<W> w = values<false>(shared.weight, g.column, DTYPE_F32).template load<W>(0, true);
#pragma unroll
        for (uint32_t j = 0; j < W; j++) {
            h.v[j] = (h.v[j] - mean) * rstd;
            sum_h.v[j] = fmaf(gradient.v[j], h.v[j], sum_h.v[j]);
            if (LAYER) sum.v[j] += gradient.v[j];
            gradient.v[j] *= w.v[j];
            if (LAYER) total += gradient.v[j];
            total_h = fmaf(gradient.v[j], h.v[j], total_h);
        }
        const float2 all = g.sum(total, total_h);
        total = all.x * inverse;
        total_h = all.y * inverse;
        const pack<W> addend = dx.open(before);
#pragma unroll
        for (uint32_t j = 0; j < W; j++) {
            gradient.v[j] = rstd * fmaf(-h.v[j], total_h, gradient.v[j] - total);
            if (add) gradient.v[j] += addend.v[j];
        }
        if (mine) dx.place(here, dx.close(gradient), WHOLE);
    }
    float *partial = rota_operand<float>(args, 5) + chunk * dim;
    norm_gradient_sums(g, dim, sum_h, shared.sums, partial);
    if (LAYER) norm_gradient_sums(g, dim, sum, shared.sums + g.groups * dim, partial + chunks * dim);
}

template <bool LAYER, uint32_t DTYPE, typename A>
ROTA_DEVICE void norm_gradient_of(const A &args, norm_gradient_shared &shared) {
    if (all_aligned(args, 0, 1, 3, 4))
        norm_gradient_block<LAYER, DTYPE, true>(args, shared);
    else
        norm_gradient_block<LAYER, DTYPE, false>(args, shared);
}
template <bool LAYER, typename A> ROTA_DEVICE void norm_gradient(const A &args, norm_gradient_shared &shared) {
    if (args.params.dtype == DTYPE_BF16)
        norm_gradient_of<LAYER, DTYPE_BF16>(args, shared);
    else
        norm_gradient_of<LAYER, DTYPE_F16>(args, shared);
}
#define ROTA_NORM_GRADIENT(name, LAYER)                                                                  \
    ROTA_KERNEL_BLOCKS(name, 6, rota_norm_params, ROTA_CUDA_NORM_THREADS, ROTA_CUDA_NORM_GROUP_BLOCKS) { \
        __shared__ norm_gradient_shared shared;                                                          \
        norm_gradient<LAYER>(args, shared);                                                              \
    }
ROTA_NORM_GRADIENT(layernorm_gradient, true)
ROTA_NORM_GRADIENT(rmsnorm_gradient, false)
