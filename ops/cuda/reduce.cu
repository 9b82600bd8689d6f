/* CUDA kernels: reduce, max_backward, global_norm. Sums are trees that follow from the parameters. */
#include "ops/cuda/common.cuh"

constexpr uint32_t WARPS = ROTA_CUDA_THREADS / 32;

template <int OP> ROTA_DEVICE float first_value() { return OP == ROTA_REDUCE_MAX ? negative_infinity() : 0.0f; }
/* Takes in an element; joins two totals. */
template <int OP> ROTA_DEVICE float take(float total, float x) {
    if (OP == ROTA_REDUCE_MAX) return larger(x, total);
    return OP == ROTA_REDUCE_SUM ? total + x : fmaf(x, x, total);
}
template <int OP> ROTA_DEVICE float join(float a, float b) { return OP == ROTA_REDUCE_MAX ? larger(a, b) : a + b; }

/* The result that outer index o, chunk c and column i have, and where its elements begin. */
struct reduction {
    const float *x;
    float *y;
    uint64_t outer, n, inner, chunk, chunks;
    float scale;
    ROTA_DEVICE const float *elements(uint64_t o, uint64_t c) const { return x + (o * n + c * chunk) * inner; }
    ROTA_DEVICE uint32_t length(uint64_t c) const { return static_cast<uint32_t>(min(chunk, n - c * chunk)); }
};

template <int OP> ROTA_DEVICE void put(const reduction &r, uint64_t result, float total) {
    r.y[result] = OP == ROTA_REDUCE_MAX ? total : total * r.scale;
}

template <int OP> ROTA_DEVICE void reduce_each(const reduction &r) {
    const uint64_t result = rota_group_index() * ROTA_CUDA_THREADS + threadIdx.x;
    if (result >= r.outer * r.chunks * r.inner) return;
    const uint64_t c = result / r.inner % r.chunks;
    const float *x = r.elements(result / r.inner / r.chunks, c) + result % r.inner;
    float total = first_value<OP>();
    const uint32_t length = r.length(c);
#pragma unroll 4
    for (uint32_t k = 0; k < length; k++) total = take<OP>(total, x[k * r.inner]);
    put<OP>(r, result, total);
}

/* Rows. Two accumulators of four, so that long rows wait less for their sums. */
template <int OP, bool BLOCK> ROTA_DEVICE void reduce_row(const reduction &r) {
    const row_threads<BLOCK> t;
    if (t.row >= r.outer * r.chunks) return;
    const float *x = r.elements(t.row / r.chunks, t.row % r.chunks);
    const uint32_t length = r.length(t.row % r.chunks);
    float part[4];
#pragma unroll
    for (int j = 0; j < 4; j++) part[j] = first_value<OP>();
    if (r.n % 4 == 0 && r.chunk % 4 == 0) { /* every row starts at a whole vector, and is made of whole ones */
        const bool whole = aligned16(r.x);
        t.template walk<4>(length, [&](uint32_t i) {
            const pack<4> value = load<4>(x + i, whole);
#pragma unroll
            for (int j = 0; j < 4; j++) part[j] = take<OP>(part[j], value.v[j]);
        });
    } else {
        t.template walk<1>(length, [&](uint32_t i) { part[0] = take<OP>(part[0], x[i]); });
    }
    float total = join<OP>(join<OP>(part[0], part[1]), join<OP>(part[2], part[3]));
    total = t.combine(total, [](float a, float b) { return join<OP>(a, b); });
    if (t.lane == 0) put<OP>(r, t.row, total);
}

/* A block has 32 columns of a chunk; warp w takes rows w, w + WARPS, and so on. */
template <int OP> ROTA_DEVICE void reduce_column(const reduction &r) {
    __shared__ float part[WARPS][32];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint64_t tiles = (r.inner + 31) / 32, tile = rota_group_index() % tiles, oc = rota_group_index() / tiles;
    if (oc >= r.outer * r.chunks) return;
    const uint64_t c = oc % r.chunks, column = tile * 32 + lane;
    const uint32_t length = r.length(c);
    float total = first_value<OP>();
    if (column < r.inner) {
        const float *x = r.elements(oc / r.chunks, c) + column;
#pragma unroll 8
        for (uint32_t k = warp; k < length; k += WARPS) total = take<OP>(total, x[k * r.inner]);
    }
    part[warp][lane] = total;
    __syncthreads();
    if (warp != 0 || column >= r.inner) return;
#pragma unroll
    for (uint32_t w = 1; w < WARPS; w++) total = join<OP>(total, part[w][lane]);
    put<OP>(r, oc * r.inner + column, total);
}

/* A block reads a chunk of few columns as one run; its step is a multiple of the columns, so each thread stays in one. */
template <int OP> ROTA_DEVICE void reduce_narrow(const reduction &r) {
    __shared__ float part[ROTA_CUDA_THREADS];
    const uint64_t oc = rota_group_index();
    if (oc >= r.outer * r.chunks) return;
    const uint32_t inner = static_cast<uint32_t>(r.inner), rows = ROTA_CUDA_THREADS / inner, step = rows * inner;
    const uint64_t c = oc % r.chunks, count = r.length(c) * r.inner;
    const float *x = r.elements(oc / r.chunks, c);
    float total = first_value<OP>();
    if (threadIdx.x < step) {
#pragma unroll 4
        for (uint64_t i = threadIdx.x; i < count; i += step) total = take<OP>(total, x[i]);
    }
    part[threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.x >= inner) return;
    for (uint32_t k = 1; k < rows; k++) total = join<OP>(total, part[k * inner + threadIdx.x]);
    put<OP>(r, oc * r.inner + threadIdx.x, total);
}

template <int OP> ROTA_DEVICE void reduce_as(rota_cuda_reduction kind, const reduction &r) {
    switch (kind) {
    case ROTA_CUDA_REDUCE_EACH:
        return reduce_each<OP>(r);
    case ROTA_CUDA_REDUCE_WARP:
        return reduce_row<OP, false>(r);
    case ROTA_CUDA_REDUCE_BLOCK:
        return reduce_row<OP, true>(r);
    case ROTA_CUDA_REDUCE_COLUMN:
        return reduce_column<OP>(r);
    default:
        return reduce_narrow<OP>(r);
    }
}

ROTA_KERNEL(reduce, 2, rota_reduce_params, ROTA_CUDA_ROW_THREADS) {
    const rota_reduce_params &p = args.params;
    const rota_cuda_reduction kind = rota_cuda_reduction_of(&p);
    const reduction r = {rota_operand<const float>(args, 0), rota_operand<float>(args, 1), p.outer, p.n, p.inner, p.chunk,
                         (static_cast<uint64_t>(p.n) + p.chunk - 1) / p.chunk, p.scale};
    if (p.op == ROTA_REDUCE_SUM)
        reduce_as<ROTA_REDUCE_SUM>(kind, r);
    else if (p.op == ROTA_REDUCE_MAX)
        reduce_as<ROTA_REDUCE_MAX>(kind, r);
    else
        reduce_as<ROTA_REDUCE_SUM_SQUARES>(kind, r);
}

/* A warp per result where rows are contiguous, else a thread: neighbours read neighbours. */
ROTA_KERNEL(max_backward, 4, rota_max_backward_params, ROTA_CUDA_THREADS) {
    const rota_max_backward_params &p = args.params;
    const float *x = rota_operand<const float>(args, 0), *y = rota_operand<const float>(args, 1);
    const float *dy = rota_operand<const float>(args, 2);
    float *dx = rota_operand<float>(args, 3);
    const uint64_t results = static_cast<uint64_t>(p.outer) * p.inner, index = rota_group_index() * ROTA_CUDA_THREADS;
    if (p.inner == 1) {
        const uint64_t row = index / 32 + threadIdx.x / 32;
        if (row >= results) return;
        const uint32_t lane = threadIdx.x % 32;
        x += row * p.n;
        dx += row * p.n;
        bool found = false;
        for (uint64_t first = 0; first < p.n; first += 32) {
            const uint64_t k = first + lane;
            const uint32_t hits = __ballot_sync(0xFFFFFFFFu, !found && k < p.n && x[k] == y[row]);
            const bool here = hits != 0 && lane == static_cast<uint32_t>(__ffs(static_cast<int>(hits))) - 1;
            if (k < p.n) dx[k] = here ? dy[row] : 0.0f;
            found = found || hits != 0;
        }
        return;
    }
    const uint64_t result = index + threadIdx.x;
    if (result >= results) return;
    const uint64_t place = result / p.inner * p.n * p.inner + result % p.inner;
    const float maximum = y[result], gradient = dy[result];
    bool found = false;
    for (uint64_t k = 0; k < p.n; k++) {
        const uint64_t at = place + k * p.inner;
        const bool here = !found && x[at] == maximum;
        dx[at] = here ? gradient : 0.0f;
        found = found || here;
    }
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
