/* CUDA kernels: reduce, max_backward, global_norm. Sums are trees that follow from the parameters. */
#include "ops/cuda/typed.cuh"

constexpr uint32_t WARPS = ROTA_CUDA_THREADS / 32;
constexpr uint32_t IN_FLIGHT = 8; /* rows of columns that a warp loads before it adds them up */

template <int OP> ROTA_DEVICE float first_value() {
    return OP == ROTA_REDUCE_MAX ? negative_infinity() : OP == ROTA_REDUCE_MIN ? -negative_infinity() : 0.0f;
}
ROTA_DEVICE float smaller(float a, float b) { return a != a || a < b ? a : b; }
/* Takes in an element; joins two totals. */
template <int OP> ROTA_DEVICE float take(float total, float x) {
    if (OP == ROTA_REDUCE_MAX) return larger(x, total);
    if (OP == ROTA_REDUCE_MIN) return smaller(x, total);
    return OP == ROTA_REDUCE_SUM ? total + x : fmaf(x, x, total);
}
template <int OP> ROTA_DEVICE float join(float a, float b) {
    return OP == ROTA_REDUCE_MAX ? larger(a, b) : OP == ROTA_REDUCE_MIN ? smaller(a, b) : a + b;
}

/* The same of an op that is only known now: for kinds of reduction whose time is in waiting for memory. */
ROTA_DEVICE float first_value_of(uint32_t op) {
    return op == ROTA_REDUCE_MAX ? negative_infinity() : op == ROTA_REDUCE_MIN ? -negative_infinity() : 0.0f;
}
ROTA_DEVICE float take_as(uint32_t op, float total, float x) {
    if (op == ROTA_REDUCE_SUM) return total + x;
    return op == ROTA_REDUCE_SUM_SQUARES ? fmaf(x, x, total)
           : op == ROTA_REDUCE_MAX       ? larger(x, total)
                                         : smaller(x, total);
}
ROTA_DEVICE float join_as(uint32_t op, float a, float b) {
    return op == ROTA_REDUCE_MAX ? larger(a, b) : op == ROTA_REDUCE_MIN ? smaller(a, b) : a + b;
}

/* The result that outer index o, chunk c and column i have, and where its elements begin. */
template <typename T> struct reduction {
    const T *x;
    void *y;
    uint32_t op, to;
    float *shared; /* of the block, WARPS * ROTA_CUDA_REDUCE_TILE_HALF */
    uint64_t outer, n, inner, chunk, chunks;
    float scale;
    ROTA_DEVICE const T *elements(uint64_t o, uint64_t c) const { return x + (o * n + c * chunk) * inner; }
    ROTA_DEVICE uint32_t length(uint64_t c) const { return static_cast<uint32_t>(min(chunk, n - c * chunk)); }
};

template <typename T> ROTA_DEVICE void put(const reduction<T> &r, uint64_t result, float total) {
    if (r.op == ROTA_REDUCE_SUM || r.op == ROTA_REDUCE_SUM_SQUARES) total *= r.scale;
    by_dtype(r.to, [&](auto type) { static_cast<decltype(type) *>(r.y)[result] = narrow<decltype(type)>(total); });
}

template <typename T> ROTA_DEVICE void reduce_each(const reduction<T> &r) {
    const uint64_t result = rota_group_index() * ROTA_CUDA_THREADS + threadIdx.x;
    if (result >= r.outer * r.chunks * r.inner) return;
    const uint64_t c = result / r.inner % r.chunks;
    const T *x = r.elements(result / r.inner / r.chunks, c) + result % r.inner;
    float total = first_value_of(r.op);
    const uint32_t length = r.length(c);
#pragma unroll 4
    for (uint32_t k = 0; k < length; k++) total = take_as(r.op, total, widen(x[k * r.inner]));
    put(r, result, total);
}

/* Rows. Four accumulators, so that long rows wait less for their sums. */
template <int OP, typename T, bool BLOCK> ROTA_DEVICE void reduce_row(const reduction<T> &r) {
    constexpr int W = 16 / sizeof(T);
    using vector = several<T, W>;
    const row_threads<BLOCK> t;
    if (t.row >= r.outer * r.chunks) return;
    const T *x = r.elements(t.row / r.chunks, t.row % r.chunks);
    const uint32_t length = r.length(t.row % r.chunks);
    float part[4];
#pragma unroll
    for (int j = 0; j < 4; j++) part[j] = first_value<OP>();
    if (r.n % W == 0 && r.chunk % W == 0) { /* every row starts at a whole vector, and is made of whole ones */
        const bool whole = aligned_to<vector>(r.x);
        t.template walk<W>(length, [&](uint32_t i) {
            vector value;
            if (whole)
                value = *reinterpret_cast<const vector *>(x + i);
            else
#pragma unroll
                for (int j = 0; j < W; j++) value.v[j] = x[i + j];
#pragma unroll
            for (int j = 0; j < W; j++) part[j % 4] = take<OP>(part[j % 4], widen(value.v[j]));
        });
    } else {
        t.template walk<1>(length, [&](uint32_t i) { part[0] = take<OP>(part[0], widen(x[i])); });
    }
    float total = join<OP>(join<OP>(part[0], part[1]), join<OP>(part[2], part[3]));
    total = t.combine(total, [](float a, float b) { return join<OP>(a, b); });
    if (t.lane == 0) put(r, t.row, total);
}

/* A block has a tile of columns of a chunk, a lane neighbouring ones; warp w takes rows w, w + WARPS, and so on. */
template <int OP, typename T> ROTA_DEVICE void reduce_column(const reduction<T> &r) {
    constexpr uint32_t W = sizeof(T) == 4 ? 1 : 8, TILE = 32 * W;
    static_assert(TILE == (sizeof(T) == 4 ? ROTA_CUDA_REDUCE_TILE : ROTA_CUDA_REDUCE_TILE_HALF),
                  "as the host counts blocks");
    using vector = several<T, W>;
    float(*part)[TILE] = reinterpret_cast<float(*)[TILE]>(r.shared);
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint64_t tiles = (r.inner + TILE - 1) / TILE, tile = rota_group_index() % tiles,
                   oc = rota_group_index() / tiles;
    if (oc >= r.outer * r.chunks) return;
    const uint64_t c = oc % r.chunks, column = tile * TILE + lane * W;
    const uint32_t length = r.length(c);
    float total[W];
#pragma unroll
    for (uint32_t j = 0; j < W; j++) total[j] = first_value<OP>();
    const T *x = r.elements(oc / r.chunks, c) + column;
    if (column + W <= r.inner && r.inner % W == 0 && aligned_to<vector>(r.x)) {
        uint32_t k = warp;
        for (; k + (IN_FLIGHT - 1) * WARPS < length; k += IN_FLIGHT * WARPS) {
            vector value[IN_FLIGHT];
#pragma unroll
            for (uint32_t f = 0; f < IN_FLIGHT; f++)
                value[f] = *reinterpret_cast<const vector *>(x + (k + f * WARPS) * r.inner);
#pragma unroll
            for (uint32_t f = 0; f < IN_FLIGHT; f++)
#pragma unroll
                for (uint32_t j = 0; j < W; j++) total[j] = take<OP>(total[j], widen(value[f].v[j]));
        }
        for (; k < length; k += WARPS) {
            const vector value = *reinterpret_cast<const vector *>(x + k * r.inner);
#pragma unroll
            for (uint32_t j = 0; j < W; j++) total[j] = take<OP>(total[j], widen(value.v[j]));
        }
    } else {
        for (uint32_t k = warp; k < length; k += WARPS)
#pragma unroll
            for (uint32_t j = 0; j < W; j++)
                if (column + j < r.inner) total[j] = take<OP>(total[j], widen(x[k * r.inner + j]));
    }
#pragma unroll
    for (uint32_t j = 0; j < W; j++) part[warp][lane * W + j] = total[j];
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < TILE; i += ROTA_CUDA_THREADS) {
        if (tile * TILE + i >= r.inner) return;
        float sum = part[0][i];
#pragma unroll
        for (uint32_t w = 1; w < WARPS; w++) sum = join<OP>(sum, part[w][i]);
        put(r, oc * r.inner + tile * TILE + i, sum);
    }
}

/* A block reads a chunk of few columns as one run; its step is a multiple of the columns, so each thread stays in
 * one. */
template <typename T> ROTA_DEVICE void reduce_narrow(const reduction<T> &r) {
    float *part = r.shared;
    const uint64_t oc = rota_group_index();
    if (oc >= r.outer * r.chunks) return;
    const uint32_t inner = static_cast<uint32_t>(r.inner), rows = ROTA_CUDA_THREADS / inner, step = rows * inner;
    const uint64_t c = oc % r.chunks, count = r.length(c) * r.inner;
    const T *x = r.elements(oc / r.chunks, c);
    float total = first_value_of(r.op);
    if (threadIdx.x < step) {
#pragma unroll 4
        for (uint64_t i = threadIdx.x; i < count; i += step) total = take_as(r.op, total, widen(x[i]));
    }
    part[threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x >= inner) return;
    for (uint32_t k = 1; k < rows; k++) total = join_as(r.op, total, part[k * inner + threadIdx.x]);
    put(r, oc * r.inner + threadIdx.x, total);
}

template <int OP, typename T> ROTA_DEVICE void reduce_as(rota_cuda_reduction kind, const reduction<T> &r) {
    if (kind == ROTA_CUDA_REDUCE_WARP)
        reduce_row<OP, T, false>(r);
    else if (kind == ROTA_CUDA_REDUCE_BLOCK)
        reduce_row<OP, T, true>(r);
    else
        reduce_column<OP>(r);
}

template <typename T, typename A> ROTA_DEVICE void reduce_from(const A &args, float *shared) {
    const rota_reduce_params &p = args.params;
    const rota_cuda_reduction kind = rota_cuda_reduction_of(&p);
    const reduction<T> r = {rota_operand<const T>(args, 0),
                            rota_operand<void>(args, 1),
                            p.op,
                            p.to,
                            shared,
                            p.outer,
                            p.n,
                            p.inner,
                            p.chunk,
                            (static_cast<uint64_t>(p.n) + p.chunk - 1) / p.chunk,
                            p.scale};
    if (kind == ROTA_CUDA_REDUCE_EACH) return reduce_each(r);
    if (kind == ROTA_CUDA_REDUCE_NARROW) return reduce_narrow(r);
    switch (p.op) {
    case ROTA_REDUCE_SUM:
        return reduce_as<ROTA_REDUCE_SUM>(kind, r);
    case ROTA_REDUCE_MAX:
        return reduce_as<ROTA_REDUCE_MAX>(kind, r);
    case ROTA_REDUCE_MIN:
        return reduce_as<ROTA_REDUCE_MIN>(kind, r);
    default:
        return reduce_as<ROTA_REDUCE_SUM_SQUARES>(kind, r);
    }
}

ROTA_KERNEL(reduce, 2, rota_reduce_params, ROTA_CUDA_ROW_THREADS) {
    __shared__ float shared[WARPS * ROTA_CUDA_REDUCE_TILE_HALF];
    by_dtype(args.params.from, [&](auto type) { reduce_from<decltype(type)>(args, shared); });
}

/* A warp per result where rows are contiguous, else a thread: neighbours read neighbours. */
template <typename T, typename A> ROTA_DEVICE void max_backward_of(const A &args) {
    const rota_max_backward_params &p = args.params;
    const T *x = rota_operand<const T>(args, 0), *y = rota_operand<const T>(args, 1),
            *dy = rota_operand<const T>(args, 2);
    T *dx = rota_operand<T>(args, 3);
    const T zero = narrow<T>(0.0f);
    const uint64_t results = static_cast<uint64_t>(p.outer) * p.inner, index = rota_group_index() * ROTA_CUDA_THREADS;
    if (p.inner == 1) {
        const uint64_t row = index / 32 + threadIdx.x / 32;
        if (row >= results) return;
        const uint32_t lane = threadIdx.x % 32;
        const float picked = widen(y[row]);
        x += row * p.n;
        dx += row * p.n;
        bool found = false;
        for (uint64_t first = 0; first < p.n; first += 32) {
            const uint64_t k = first + lane;
            const uint32_t hits = __ballot_sync(0xFFFFFFFFu, !found && k < p.n && widen(x[k]) == picked);
            const bool here = hits != 0 && lane == static_cast<uint32_t>(__ffs(static_cast<int>(hits))) - 1;
            if (k < p.n) dx[k] = here ? dy[row] : zero;
            found = found || hits != 0;
        }
        return;
    }
    const uint64_t result = index + threadIdx.x;
    if (result >= results) return;
    const uint64_t first = result / p.inner * p.n * p.inner + result % p.inner;
    const float picked = widen(y[result]);
    const T gradient = dy[result];
    bool found = false;
    for (uint64_t k = 0; k < p.n; k++) {
        const uint64_t element = first + k * p.inner;
        const bool here = !found && widen(x[element]) == picked;
        dx[element] = here ? gradient : zero;
        found = found || here;
    }
}

ROTA_KERNEL(max_backward, 4, rota_max_backward_params, ROTA_CUDA_THREADS) {
    by_dtype(args.params.dtype, [&](auto type) { max_backward_of<decltype(type)>(args); });
}

/* One block. */
ROTA_KERNEL(global_norm, 2, rota_global_norm_params, ROTA_CUDA_ROW_THREADS) {
    const float *partial = rota_operand<const float>(args, 0);
    float *out = rota_operand<float>(args, 1);
    const row_threads<true> t;
    float sum = 0.0f;
    t.walk<1>(args.params.count, [&](uint32_t i) { sum += partial[i]; });
    const float norm = sqrtf(t.sum(sum)), limit = args.params.max_norm;
    if (t.lane != 0) return;
    out[0] = norm;
    out[1] = norm != norm ? norm : norm > limit ? limit / norm : 1.0f;
}
