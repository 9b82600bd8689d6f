/* CUDA kernels along an axis: gather, scatter_add, one_hot, top_k, cumulative_sum, variance, variance_backward. */
#include "ops/cuda/typed.cuh"
#include "ops/scatter_pieces.h"

/* ---- By index ---- */

ROTA_KERNEL(gather, 3, rota_gather_params, ROTA_CUDA_THREADS) {
    const rota_gather_params &p = args.params;
    const uint64_t i = rota_index();
    if (i >= static_cast<uint64_t>(p.outer) * p.m * p.inner) return;
    const uint32_t index =
        static_cast<uint32_t>(rota_operand<const int32_t>(args, 1)[i]); /* a negative one is far outside */
    const uint64_t from = (i / p.inner / p.m * p.n + index) * p.inner + i % p.inner;
    by_dtype(p.dtype, [&](auto type) {
        using T = decltype(type);
        rota_operand<T>(args, 2)[i] = index < p.n ? rota_operand<const T>(args, 0)[from] : narrow<T>(not_a_number());
    });
}

/* A thread has a piece of a column of y to itself (scatter_pieces.h), walks all of the column's indices and adds in
 * order. */
ROTA_KERNEL(scatter_add, 3, rota_gather_params, ROTA_CUDA_THREADS) {
    constexpr uint32_t AHEAD = 8; /* indices on their way together */
    const rota_gather_params &p = args.params;
    const uint32_t pieces = rota_scatter_pieces(&p);
    const uint64_t item = rota_index();
    if (item >= static_cast<uint64_t>(p.outer) * pieces * p.inner) return;
    const uint64_t row = item / p.inner / pieces, column = item % p.inner;
    const uint32_t width = (p.n - 1) / pieces + 1, low = item / p.inner % pieces * width, mine = min(width, p.n - low);
    const int32_t *index = rota_operand<const int32_t>(args, 1) + row * p.m * p.inner + column;
    float *y = rota_operand<float>(args, 2) + (row * p.n + low) * p.inner + column;
    by_dtype(p.dtype, [&](auto type) {
        const auto *x = rota_operand<const decltype(type)>(args, 0) + row * p.m * p.inner + column;
        uint32_t now = mine; /* the index last added to, from the piece's first, and its sum */
        float sum = 0.0f;
        const auto add = [&](uint32_t target, uint64_t j) {
            if (target >= mine) return;
            if (target != now) {
                if (now < mine) y[static_cast<uint64_t>(now) * p.inner] = sum;
                now = target;
                sum = y[static_cast<uint64_t>(target) * p.inner];
            }
            sum += widen(x[j * p.inner]);
        };
        uint64_t j = 0;
        for (; j + AHEAD <= p.m; j += AHEAD) {
            uint32_t target[AHEAD]; /* outside of all pieces: skipped */
            bool some = false;
#pragma unroll
            for (uint32_t a = 0; a < AHEAD; a++) target[a] = static_cast<uint32_t>(index[(j + a) * p.inner]) - low;
#pragma unroll
            for (uint32_t a = 0; a < AHEAD; a++) some |= target[a] < mine;
            if (!some) continue;
#pragma unroll
            for (uint32_t a = 0; a < AHEAD; a++) add(target[a], j + a);
        }
        for (; j < p.m; j++) add(static_cast<uint32_t>(index[j * p.inner]) - low, j);
        if (now < mine) y[static_cast<uint64_t>(now) * p.inner] = sum;
    });
}

ROTA_KERNEL(one_hot, 2, rota_one_hot_params, ROTA_CUDA_THREADS) {
    const rota_one_hot_params &p = args.params;
    const uint64_t i = rota_index();
    if (i >= static_cast<uint64_t>(p.rows) * p.classes) return;
    const uint32_t index = static_cast<uint32_t>(rota_operand<const int32_t>(args, 0)[i / p.classes]);
    const float value = index >= p.classes ? not_a_number() : index == i % p.classes ? 1.0f : 0.0f;
    by_dtype(p.dtype, [&](auto type) { rota_operand<decltype(type)>(args, 1)[i] = narrow<decltype(type)>(value); });
}

/* Ordered as the values are, NaN above all; and, of equal values, by the smaller index. No key is 0 or all ones, so
 * that each is between what the search begins with. */
ROTA_DEVICE uint64_t key_of(float value, uint32_t index) {
    const uint32_t bits = __float_as_uint(value + 0.0f);
    const uint32_t ordered = value != value ? 0xFFFFFFFEu : bits >> 31 ? ~bits : bits | 0x80000000u;
    return static_cast<uint64_t>(ordered) << 32 | static_cast<uint32_t>(~index);
}

/* A warp per column finds the largest, then the largest of what comes after it, and so on. */
ROTA_KERNEL(top_k, 3, rota_top_k_params, ROTA_CUDA_THREADS) {
    const rota_top_k_params &p = args.params;
    const row_threads<false> t;
    if (t.row >= static_cast<uint64_t>(p.outer) * p.inner) return;
    const uint64_t row = t.row / p.inner, column = t.row % p.inner;
    by_dtype(p.dtype, [&](auto type) {
        using T = decltype(type);
        const T *x = rota_operand<const T>(args, 0) + row * p.n * p.inner + column;
        uint64_t before = ~0ull;
        for (uint64_t k = 0; k < p.k; k++) {
            uint64_t best = 0;
            for (uint32_t i = t.lane; i < p.n; i += 32) {
                const uint64_t key = key_of(widen(x[static_cast<uint64_t>(i) * p.inner]), i);
                if (key > best && key < before) best = key;
            }
#pragma unroll
            for (int step = 16; step > 0; step /= 2) {
                const uint64_t other = __shfl_xor_sync(0xFFFFFFFFu, best, step);
                best = other > best ? other : best;
            }
            before = best;
            if (t.lane != 0) continue;
            const uint64_t to = (row * p.k + k) * p.inner + column;
            const uint32_t chosen = ~static_cast<uint32_t>(best);
            rota_operand<int32_t>(args, 2)[to] = static_cast<int32_t>(chosen);
            rota_operand<T>(args, 1)[to] = x[static_cast<uint64_t>(chosen) * p.inner];
        }
    });
}

/* ---- Sums ---- */

/* A warp per row, 32 elements at a time; of columns a thread each. */
ROTA_KERNEL(cumulative_sum, 2, rota_cumulative_sum_params, ROTA_CUDA_THREADS) {
    const rota_cumulative_sum_params &p = args.params;
    const bool rows = p.inner == 1;
    const row_threads<false> t;
    const uint64_t item = rows ? t.row : rota_index();
    if (item >= static_cast<uint64_t>(p.outer) * p.inner) return;
    const uint64_t base = item / p.inner * p.n * p.inner + item % p.inner;
    auto element = [&](uint64_t k) { return base + (p.reverse ? p.n - 1 - k : k) * p.inner; };
    by_dtype(p.dtype, [&](auto type) {
        using T = decltype(type);
        const T *x = rota_operand<const T>(args, 0);
        T *y = rota_operand<T>(args, 1);
        float carry = 0.0f;
        if (!rows) {
            for (uint64_t k = 0; k < p.n; k++) {
                carry += widen(x[element(k)]);
                y[element(k)] = narrow<T>(carry);
            }
            return;
        }
        for (uint64_t first = 0; first < p.n; first += 32) {
            const uint64_t k = first + t.lane;
            float sum = k < p.n ? widen(x[element(k)]) : 0.0f;
#pragma unroll
            for (uint32_t step = 1; step < 32; step *= 2) {
                const float left = __shfl_up_sync(0xFFFFFFFFu, sum, step);
                if (t.lane >= step) sum += left;
            }
            if (k < p.n) y[element(k)] = narrow<T>(carry + sum);
            carry += __shfl_sync(0xFFFFFFFFu, sum, 31);
        }
    });
}

/* Two passes by a warp per row, or, of columns, a thread each. */
ROTA_KERNEL(variance, 3, rota_variance_params, ROTA_CUDA_THREADS) {
    const rota_variance_params &p = args.params;
    const bool rows = p.inner == 1;
    const row_threads<false> t;
    const uint64_t item = rows ? t.row : rota_index();
    if (item >= static_cast<uint64_t>(p.outer) * p.inner) return;
    const uint64_t base = item / p.inner * p.n * p.inner + item % p.inner;
    const uint64_t start = rows ? t.lane : 0, stride = rows ? 32 : 1;
    by_dtype(p.dtype, [&](auto type) {
        using T = decltype(type);
        const T *x = rota_operand<const T>(args, 0) + base;
        float sum = 0.0f, squares = 0.0f;
#pragma unroll 4
        for (uint64_t k = start; k < p.n; k += stride) sum += widen(x[k * p.inner]);
        if (rows) sum = t.sum(sum);
        const float mean = sum / static_cast<float>(p.n);
#pragma unroll 4
        for (uint64_t k = start; k < p.n; k += stride) {
            const float d = widen(x[k * p.inner]) - mean;
            squares += d * d;
        }
        if (rows) squares = t.sum(squares);
        if (rows && t.lane != 0) return;
        rota_operand<T>(args, 1)[item] = narrow<T>(squares * p.scale);
        rota_operand<float>(args, 2)[item] = mean;
    });
}

ROTA_KERNEL(variance_backward, 4, rota_variance_params, ROTA_CUDA_THREADS) {
    const rota_variance_params &p = args.params;
    const uint64_t i = rota_index();
    if (i >= static_cast<uint64_t>(p.outer) * p.n * p.inner) return;
    const uint64_t column = i / p.inner / p.n * p.inner + i % p.inner;
    by_dtype(p.dtype, [&](auto type) {
        using T = decltype(type);
        const float d = widen(rota_operand<const T>(args, 0)[i]) - rota_operand<const float>(args, 1)[column];
        rota_operand<T>(args, 3)[i] = narrow<T>(widen(rota_operand<const T>(args, 2)[column]) * (2.0f * p.scale) * d);
    });
}
