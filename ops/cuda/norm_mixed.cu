/* CUDA kernels: layernorm_mixed and layernorm_mixed_gradient: layer norms whose rows are f32, as a residual stream's
 * sums are, where what comes from and goes to matrix products is of 16 bits. Each reads and writes every row once, with
 * the conversions and the sum that stand beside the norm. Calculation is in f32. */
#include "ops/cuda/norm_groups.cuh"
#include "ops/cuda/norm_mixed_params.h"

constexpr uint32_t W = norm_group::W;
static_assert(W == 8, "two vectors of f32, and one of 16 bits");

/* A thread's columns: four neighbours of each half of a row, so that what a warp moves at once of f32, 16 bytes a
 * thread, lies together. Operands begin at multiples of 16 bytes; their dtypes are known when the kernel runs. */
struct mixed_array {
    const void *p;
    uint32_t column, half, dtype; /* of the first of them; columns of half a row */
    ROTA_DEVICE pack<W> take_f32(uint64_t first) const {
        const values<false> from(p, column, dtype);
        const pack<4> low = from.load<4>(first, true), high = from.load<4>(first + half, true);
        return {{low.v[0], low.v[1], low.v[2], low.v[3], high.v[0], high.v[1], high.v[2], high.v[3]}};
    }
    ROTA_DEVICE void give_f32(uint64_t first, const pack<W> &value) const {
        const values<false> to(p, column, dtype);
        to.store<4>(first, {{value.v[0], value.v[1], value.v[2], value.v[3]}}, true);
        to.store<4>(first + half, {{value.v[4], value.v[5], value.v[6], value.v[7]}}, true);
    }
    ROTA_DEVICE pack<W> take_16(uint64_t first) const {
        const values<true> from(p, column, dtype);
        const uint2 low = *reinterpret_cast<const uint2 *>(from.p + first),
                    high = *reinterpret_cast<const uint2 *>(from.p + first + half);
        return from.open(make_uint4(low.x, low.y, high.x, high.y));
    }
    ROTA_DEVICE void give_16(uint64_t first, const pack<W> &value) const {
        const values<true> to(p, column, dtype);
        const uint4 closed = to.close(value);
        *reinterpret_cast<uint2 *>(to.p + first) = make_uint2(closed.x, closed.y);
        *reinterpret_cast<uint2 *>(to.p + first + half) = make_uint2(closed.z, closed.w);
    }
    ROTA_DEVICE pack<W> load(uint64_t first) const {
        return dtype == DTYPE_F32 ? take_f32(first) : take_16(first);
    }
    ROTA_DEVICE void store(uint64_t first, const pack<W> &value) const {
        if (dtype == DTYPE_F32)
            give_f32(first, value);
        else
            give_16(first, value);
    }
};

template <typename A>
ROTA_DEVICE mixed_array array_of(const A &args, int operand, const norm_group &g, uint32_t dtype) {
    return {rota_operand<const void>(args, operand), g.column / 2, args.params.norm.dim / 2, dtype};
}

ROTA_DEVICE mixed_array row_of(const float *shared, const norm_group &g, uint32_t dim) {
    return {shared, g.column / 2, dim / 2, DTYPE_F32};
}

/* A row's weight or bias in shared memory, for all groups; `otherwise` where there is none. */
ROTA_DEVICE void share(const mixed_array &to, const mixed_array &from, bool mine, bool there,
                       float otherwise) {
    if (!mine) return;
    pack<W> value;
#pragma unroll
    for (uint32_t j = 0; j < W; j++) value.v[j] = otherwise;
    if (there) value = from.load(0);
    to.give_f32(0, value);
}

struct mixed_shared {
    float2 parts[2 * norm_group::WARPS];
    float weight[ROTA_CUDA_WARP_ROW], bias[ROTA_CUDA_WARP_ROW];
};

/* Groups take rows in turns, and load the next row before they calculate. */
ROTA_KERNEL_BLOCKS(layernorm_mixed, 7, rota_cuda_mixed_norm_params, ROTA_CUDA_NORM_THREADS,
                   ROTA_CUDA_NORM_MIXED_BLOCKS) {
    __shared__ mixed_shared shared;
    const rota_norm_params &p = args.params.norm;
    norm_group g(p.dim, shared.parts);
    const bool mine = g.column < p.dim, residual = p.flags & ROTA_MIXED_RESIDUAL;
    const mixed_array x = array_of(args, 0, g, DTYPE_F32), r = array_of(args, 1, g, args.params.other),
                      sum = array_of(args, 4, g, DTYPE_F32), y = array_of(args, 5, g, p.dtype),
                      weights = row_of(shared.weight, g, p.dim), biases = row_of(shared.bias, g, p.dim);
    float *stats = rota_operand<float>(args, 6);
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * gridDim.y * g.groups, end = p.rows;
    uint64_t row = rota_group_index() * g.groups + g.group;
    pack<W> next = {}, next_r = {};
    auto fetch = [&](uint64_t of) {
        if (!mine || of >= end) return;
        next = x.load(of * p.dim);
        if (residual) next_r = r.load(of * p.dim);
    };
    fetch(row);
    const bool shares = mine && g.group == 0;
    share(weights, array_of(args, 2, g, DTYPE_F32), shares, p.flags & ROTA_NORM_WEIGHT, 1.0f);
    share(biases, array_of(args, 3, g, DTYPE_F32), shares, p.flags & ROTA_NORM_BIAS, 0.0f);
    __syncthreads();
    const float inverse = 1.0f / static_cast<float>(p.dim);
    for (; row < end; row += step) {
        pack<W> value = next;
        if (residual) {
#pragma unroll
            for (uint32_t j = 0; j < W; j++) value.v[j] += next_r.v[j];
            if (mine) sum.store(row * p.dim, value);
        }
        fetch(row + step);
        float total = 0.0f, spread = 0.0f;
#pragma unroll
        for (uint32_t j = 0; j < W; j++) total += value.v[j];
        const float mean = g.sum(mine ? total : 0.0f, 0.0f).x * inverse;
#pragma unroll
        for (uint32_t j = 0; j < W; j++) {
            value.v[j] -= mean;
            spread = fmaf(value.v[j], value.v[j], spread);
        }
        const float rstd = 1.0f / sqrtf(g.sum(mine ? spread : 0.0f, 0.0f).x * inverse + p.eps);
        if (!mine) continue;
        const pack<W> weight = weights.take_f32(0), bias = biases.take_f32(0);
#pragma unroll
        for (uint32_t j = 0; j < W; j++) value.v[j] = value.v[j] * rstd * weight.v[j] + bias.v[j];
        y.store(row * p.dim, value);
        if (g.column != 0) continue;
        stats[2 * row] = mean;
        stats[2 * row + 1] = rstd;
    }
}

struct mixed_gradient_shared {
    float2 parts[2 * norm_group::WARPS];
    float weight[ROTA_CUDA_WARP_ROW];
    float sums[norm_group::WARPS * 32 * W]; /* [groups, dim] */
};

/* A block has a chunk of rows, which its groups of warps take in turns. A thread keeps its columns' sums in registers,
 * and in the end the groups' sums are added up in their order. */
ROTA_KERNEL_BLOCKS(layernorm_mixed_gradient, 8, rota_cuda_mixed_norm_params, ROTA_CUDA_NORM_THREADS,
                   ROTA_CUDA_NORM_MIXED_GRADIENT_BLOCKS) {
    __shared__ mixed_gradient_shared shared;
    const rota_norm_params &p = args.params.norm;
    const uint32_t dim = p.dim;
    const uint64_t chunk = rota_group_index(),
                   chunks = (static_cast<uint64_t>(p.rows) + p.chunk - 1) / p.chunk;
    if (chunk >= chunks) return;
    norm_group g(dim, shared.parts);
    const bool mine = g.column < dim, add = p.flags & ROTA_MIXED_ADDEND,
               narrows = p.flags & ROTA_MIXED_NARROW;
    const uint64_t begin = chunk * p.chunk, end = min(begin + p.chunk, static_cast<uint64_t>(p.rows));
    const mixed_array x = array_of(args, 0, g, DTYPE_F32), dy = array_of(args, 3, g, p.dtype),
                      addend = array_of(args, 4, g, DTYPE_F32), dx = array_of(args, 5, g, DTYPE_F32),
                      narrow = array_of(args, 6, g, args.params.other),
                      weights = row_of(shared.weight, g, dim);
    const float *stats = rota_operand<const float>(args, 2);
    pack<W> next = {}, next_dy = {}, next_addend = {}, sum = {}, sum_h = {};
    float next_mean = 0.0f, next_rstd = 0.0f;
    auto fetch = [&](uint64_t of) {
        if (of >= end) return;
        next_mean = stats[2 * of];
        next_rstd = stats[2 * of + 1];
        if (!mine) return;
        next = x.load(of * dim);
        next_dy = dy.load(of * dim);
        if (add) next_addend = addend.load(of * dim);
    };
    fetch(begin + g.group);
    share(weights, array_of(args, 1, g, DTYPE_F32), mine && g.group == 0, p.flags & ROTA_NORM_WEIGHT, 1.0f);
    __syncthreads();
    const float inverse = 1.0f / static_cast<float>(dim);
    for (uint64_t row = begin + g.group; row < end; row += g.groups) {
        const float mean = next_mean, rstd = next_rstd;
        pack<W> h = next, gradient = next_dy;
        const pack<W> before = next_addend;
        fetch(row + g.groups);
        float total = 0.0f, total_h = 0.0f;
        if (mine) {
            const pack<W> weight = weights.take_f32(0);
#pragma unroll
            for (uint32_t j = 0; j < W; j++) {
                h.v[j] = (h.v[j] - mean) * rstd;
                sum_h.v[j] = fmaf(gradient.v[j], h.v[j], sum_h.v[j]);
                sum.v[j] += gradient.v[j];
                gradient.v[j] *= weight.v[j];
                total += gradient.v[j];
                total_h = fmaf(gradient.v[j], h.v[j], total_h);
            }
        }
        const float2 all = g.sum(total, total_h);
        if (!mine) continue;
#pragma unroll
        for (uint32_t j = 0; j < W; j++) {
            gradient.v[j] = rstd * fmaf(-h.v[j], all.y * inverse, gradient.v[j] - all.x * inverse);
            if (add) gradient.v[j] += before.v[j];
        }
        dx.store(row * dim, gradient);
        if (narrows) narrow.store(row * dim, gradient);
    }
    float *partial = rota_operand<float>(args, 7) + chunk * dim;
    const mixed_array own = row_of(shared.sums + g.group * dim, g, dim);
    if (mine) own.give_f32(0, sum_h);
    norm_gradient_add(g, dim, shared.sums, partial);
    __syncthreads(); /* the sums' memory is used again */
    if (mine) own.give_f32(0, sum);
    norm_gradient_add(g, dim, shared.sums, partial + chunks * dim);
}
