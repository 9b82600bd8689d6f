/* What the built-in CUDA kernels share: vector accesses where the addresses allow, walks along rows, and reductions by
 * fixed trees. Which thread sums what never depends on addresses, so results do not depend on where the memory lies. */
#ifndef ROTA_OPS_CUDA_COMMON_CUH
#define ROTA_OPS_CUDA_COMMON_CUH

#include "rota_kernel.cuh"
#include "ops/cuda/shapes.h"

#define ROTA_DEVICE __device__ __forceinline__

/* rota_dtype */
constexpr uint32_t DTYPE_F32 = 0, DTYPE_F16 = 1, DTYPE_BF16 = 2, DTYPE_F8_E4M3FN = 5, DTYPE_F8_E5M2 = 6;

ROTA_DEVICE float not_a_number() { return __uint_as_float(0x7FC00000u); }
ROTA_DEVICE float negative_infinity() { return __uint_as_float(0xFF800000u); }

/* The larger; NaN if either is. */
ROTA_DEVICE float larger(float a, float b) { return a != a || a > b ? a : b; }

/* Whether an address, or several or'ed together, is a multiple of 16. */
ROTA_DEVICE bool aligned16(const void *p) { return (reinterpret_cast<uint64_t>(p) & 15u) == 0; }

/* W neighbouring floats; whole: all are there, and for W 4 the address is a multiple of 16. */
template <int W> struct pack {
    float v[W];
};
ROTA_DEVICE pack<1> load(const float *x, pack<1>, bool) { return {{*x}}; }
ROTA_DEVICE pack<4> load(const float *x, pack<4>, bool whole) {
    if (whole) {
        const float4 q = *reinterpret_cast<const float4 *>(x);
        return {{q.x, q.y, q.z, q.w}};
    }
    return {{x[0], x[1], x[2], x[3]}};
}
template <int W> ROTA_DEVICE pack<W> load(const float *x, bool whole) { return load(x, pack<W>(), whole); }
ROTA_DEVICE void store(float *y, pack<1> value, bool) { *y = value.v[0]; }
ROTA_DEVICE void store(float *y, pack<4> value, bool whole) {
    if (whole) {
        *reinterpret_cast<float4 *>(y) = make_float4(value.v[0], value.v[1], value.v[2], value.v[3]);
        return;
    }
#pragma unroll
    for (int j = 0; j < 4; j++) y[j] = value.v[j];
}

/* Elements [i, i + 4) of `count`; beyond it 0, or nothing. */
ROTA_DEVICE pack<4> load_four(const float *x, uint64_t i, uint64_t count, bool aligned) {
    if (i + 4 <= count) return load<4>(x + i, aligned);
    pack<4> value = {};
    for (int j = 0; j < 4; j++)
        if (i + j < count) value.v[j] = x[i + j];
    return value;
}
ROTA_DEVICE void store_four(float *y, uint64_t i, uint64_t count, bool aligned, const pack<4> &value) {
    if (i + 4 <= count) return store(y + i, value, aligned);
    for (int j = 0; j < 4; j++)
        if (i + j < count) y[i + j] = value.v[j];
}

/* An elementwise kernel's thread has GROUPS_OF_FOUR groups of four elements; the first element of one. */
constexpr int GROUPS_OF_FOUR = ROTA_CUDA_ELEMENTS / 4 / ROTA_CUDA_THREADS;
ROTA_DEVICE uint64_t element_of(int group) {
    return rota_group_index() * ROTA_CUDA_ELEMENTS + (group * ROTA_CUDA_THREADS + threadIdx.x) * 4u;
}

/* out[i] = f(in[0][i], in[1][i], ...) for all i < count; `out` may be one of the inputs. Blocks of ROTA_CUDA_THREADS,
 * one for each ROTA_CUDA_ELEMENTS. */
template <int INPUTS, typename F>
ROTA_DEVICE void each(const float *const (&in)[INPUTS], float *out, uint64_t count, F f) {
    bool aligned = aligned16(out);
#pragma unroll
    for (int k = 0; k < INPUTS; k++) aligned = aligned && aligned16(in[k]);
    pack<4> value[GROUPS_OF_FOUR][INPUTS];
#pragma unroll
    for (int g = 0; g < GROUPS_OF_FOUR; g++)
        if (element_of(g) < count) {
#pragma unroll
            for (int k = 0; k < INPUTS; k++) value[g][k] = load_four(in[k], element_of(g), count, aligned);
        }
#pragma unroll
    for (int g = 0; g < GROUPS_OF_FOUR; g++)
        if (element_of(g) < count) {
            pack<4> result;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float x[INPUTS];
#pragma unroll
                for (int k = 0; k < INPUTS; k++) x[k] = value[g][k].v[j];
                result.v[j] = f(x);
            }
            store_four(out, element_of(g), count, aligned, result);
        }
}

/* ---- Rows ---- */

/* The threads that share a row: a warp (a block has several rows), or a block of ROTA_CUDA_ROW_THREADS. */
template <bool BLOCK> struct row_threads {
    static constexpr uint32_t size = BLOCK ? ROTA_CUDA_ROW_THREADS : 32;
    uint32_t lane;
    uint64_t row;
    ROTA_DEVICE row_threads() {
        lane = BLOCK ? threadIdx.x : threadIdx.x % 32;
        row = BLOCK ? rota_group_index() : rota_group_index() * (ROTA_CUDA_THREADS / 32) + threadIdx.x / 32;
    }
    /* Combines a value of each thread by a fixed tree; all get the result. */
    template <typename F> ROTA_DEVICE float combine(float value, F f) const {
#pragma unroll
        for (int step = 16; step > 0; step /= 2) value = f(value, __shfl_xor_sync(0xFFFFFFFFu, value, step));
        if (!BLOCK) return value;
        __shared__ float part[ROTA_CUDA_ROW_THREADS / 32];
        if (lane % 32 == 0) part[lane / 32] = value;
        __syncthreads();
        value = part[lane % (ROTA_CUDA_ROW_THREADS / 32)];
#pragma unroll
        for (int step = ROTA_CUDA_ROW_THREADS / 64; step > 0; step /= 2)
            value = f(value, __shfl_xor_sync(0xFFFFFFFFu, value, step));
        __syncthreads();
        return value;
    }
    ROTA_DEVICE float sum(float value) const {
        return combine(value, [](float a, float b) { return a + b; });
    }
    /* NaN if any is. */
    ROTA_DEVICE float maximum(float value) const {
        return combine(value, [](float a, float b) { return larger(a, b); });
    }
    /* f(i) for every W-th element i of n that is this thread's. */
    template <int W, typename F> ROTA_DEVICE void walk(uint32_t n, F f) const {
#pragma unroll 4
        for (uint64_t i = lane * W; i < n; i += size * W) f(static_cast<uint32_t>(i));
    }
};

/* A thread's elements of a row of each of INPUTS arrays, in registers: all are loaded before the first is used, so that
 * many loads are in flight, and once for all passes over rows of up to `size * KEPT` elements. Longer ones are loaded
 * again. */
template <bool BLOCK, int W, int INPUTS = 1> struct kept_row {
    static constexpr uint32_t KEPT = W == 4 ? 32 : 8, K = KEPT / W, SPAN = row_threads<BLOCK>::size * KEPT;
    const float *x[INPUTS];
    pack<W> v[K][INPUTS];
    bool whole, kept = false;

    /* f(i, value) for each of this thread's elements i (W at a time) of n; value[k] is of array k. */
    template <typename F> ROTA_DEVICE void pass(const row_threads<BLOCK> &t, uint32_t n, F f) {
        for (uint64_t first = t.lane * W; first < n; first += SPAN) {
            if (!kept) {
#pragma unroll
                for (uint32_t k = 0; k < K; k++)
                    if (first + k * t.size * W < n) {
#pragma unroll
                        for (int a = 0; a < INPUTS; a++) v[k][a] = load<W>(x[a] + first + k * t.size * W, whole);
                    }
            }
#pragma unroll
            for (uint32_t k = 0; k < K; k++)
                if (first + k * t.size * W < n) f(static_cast<uint32_t>(first + k * t.size * W), v[k]);
        }
        kept = n <= SPAN;
    }
};

/* Calls run<BLOCK, W>(args) for rows of n: W 4 where rows are whole vectors, whether or not the addresses allow vector
 * accesses. */
#define ROTA_BY_ROW(n, run, args)                                                                            \
    do {                                                                                                     \
        const bool by_warp_ = (n) <= ROTA_CUDA_WARP_ROW, vectors_ = (n) % 4 == 0;                            \
        if (by_warp_ && vectors_)                                                                            \
            run<false, 4>(args);                                                                             \
        else if (by_warp_)                                                                                   \
            run<false, 1>(args);                                                                             \
        else if (vectors_)                                                                                   \
            run<true, 4>(args);                                                                              \
        else                                                                                                 \
            run<true, 1>(args);                                                                              \
    } while (0)

#endif
