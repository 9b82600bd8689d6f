/* CUDA kernels: cross_entropy_in_place: the loss of rows of 16-bit scores and its gradient, which takes their place, in
 * one read and one write; cross_entropy_piece: the same of some of the rows. Blocks take rows in turns. A thread keeps
 * its vectors of a row in shared memory, each at a place that is its own, and has those of the next row copied there as
 * it writes the gradient. */
#include "ops/cuda/ahead.h"
#include "ops/cuda/loss_params.h"
#include "ops/cuda/values.cuh"

constexpr uint32_t THREADS = ROTA_CUDA_LOSS_THREADS, WARPS = THREADS / 32;
constexpr float LOG2_E = 1.4426950408889634f;

/* 2^x, of exponents as quick_exp's. */
ROTA_DEVICE float quick_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Of two pairs of neighbours the larger ones, as fmaxf has it. */
template <uint32_t DTYPE> ROTA_DEVICE uint32_t larger_two(uint32_t a, uint32_t b) {
    uint32_t most = a;
#if __CUDA_ARCH__ >= 800 /* loss_cuda.c launches nothing on what is older */
    if (DTYPE == DTYPE_F16)
        asm("max.f16x2 %0, %1, %2;" : "=r"(most) : "r"(a), "r"(b));
    else
        asm("max.bf16x2 %0, %1, %2;" : "=r"(most) : "r"(a), "r"(b));
#endif
    return most;
}

/* Of all threads of a warp, or of each half of them, by a tree. */
template <uint32_t FROM, typename F> ROTA_DEVICE float of_warp(float value, F f) {
#pragma unroll
    for (uint32_t step = FROM; step > 0; step /= 2) value = f(value, __shfl_xor_sync(0xFFFFFFFFu, value, step));
    return value;
}

/* Rows that count: of integers, so in any order. A block of a piece looks at the labels of all, too: many at once,
 * since it writes no gradient before it knows. */
ROTA_DEVICE float inverse_count(const int32_t *labels, const rota_cross_entropy_params &p, int *shared) {
    int own = 0;
    const uint32_t fours = aligned16(labels) ? p.rows / 4 : 0;
#pragma unroll 8
    for (uint32_t i = threadIdx.x; i < fours; i += THREADS) {
        const int4 four = reinterpret_cast<const int4 *>(labels)[i];
        own += (four.x != p.ignored) + (four.y != p.ignored) + (four.z != p.ignored) + (four.w != p.ignored);
    }
#pragma unroll 4
    for (uint32_t i = 4 * fours + threadIdx.x; i < p.rows; i += THREADS) own += labels[i] != p.ignored;
    if (threadIdx.x == 0) *shared = 0;
    __syncthreads();
    atomicAdd(shared, own);
    __syncthreads();
    return 1.0f / static_cast<float>(*shared);
}

/* What a row comes to: the largest of its scores; of the others, sums over all. */
struct row_sums {
    float maximum, sum, total; /* sum: of exp(x - maximum) */
};

/* The threads' own, put together by all of the block's; `shared` has two places for each warp's, which rows take in
 * turns: whoever comes back to one has met all the others since they read it. */
ROTA_DEVICE row_sums of_block(row_sums s, row_sums *shared) {
    auto larger_of = [](float a, float b) { return larger(a, b); };
    auto add = [](float a, float b) { return a + b; };
    auto rise = [](row_sums &of, float maximum) {
        of.sum = of.maximum == negative_infinity() ? 0.0f : of.sum * quick_exp(of.maximum - maximum);
        of.maximum = maximum;
    };
    rise(s, of_warp<16>(s.maximum, larger_of));
    s.sum = of_warp<16>(s.sum, add);
    s.total = of_warp<16>(s.total, add);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = s;
    __syncthreads();
    s = shared[threadIdx.x % WARPS];
    rise(s, of_warp<WARPS / 2>(s.maximum, larger_of));
    s.sum = of_warp<WARPS / 2>(s.sum, add);
    s.total = of_warp<WARPS / 2>(s.total, add);
    return s;
}

/* A row in shared memory, of which a thread has every THREADS-th vector for itself. */
template <uint32_t DTYPE, bool SMOOTHED> struct kept_scores {
    uint4 *slots;
    uint32_t classes, used; /* used: vectors that have a score */
    ROTA_DEVICE kept_scores(uint4 *slots, uint32_t classes)
        : slots(slots), classes(classes), used((classes + 7) / 8) {}

    ROTA_DEVICE static pack<8> open(uint4 bits) { return values<true>(nullptr, 0, DTYPE).open(bits); }

    /* The last vector's places past the last score become what adds nothing. */
    ROTA_DEVICE void end_row() const {
        if (classes % 8 == 0 || threadIdx.x != (used - 1) % THREADS) return;
        uint16_t *last = reinterpret_cast<uint16_t *>(&slots[used - 1]);
        for (uint32_t j = classes % 8; j < 8; j++) last[j] = DTYPE == DTYPE_F16 ? 0xFC00 : 0xFF80;
    }

    /* First the maximum: a sum that starts from it has no branch. */
    ROTA_DEVICE row_sums sums() const {
        uint32_t most[4];
#pragma unroll
        for (int j = 0; j < 4; j++) most[j] = DTYPE == DTYPE_F16 ? 0xFC00FC00u : 0xFF80FF80u;
#pragma unroll 4
        for (uint32_t v = threadIdx.x; v < used; v += THREADS) {
            const uint4 bits = slots[v];
            const uint32_t word[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
            for (int j = 0; j < 4; j++) most[j] = larger_two<DTYPE>(most[j], word[j]);
        }
        const pack<8> all = open(make_uint4(most[0], most[1], most[2], most[3]));
        row_sums s = {all.v[0], 0.0f, 0.0f};
#pragma unroll
        for (int j = 1; j < 8; j++) s.maximum = fmaxf(s.maximum, all.v[j]);
        const float base = s.maximum == negative_infinity() ? 0.0f : s.maximum * LOG2_E;
        float sum[4] = {};
#pragma unroll 2
        for (uint32_t v = threadIdx.x; v < used; v += THREADS) {
            const pack<8> value = open(slots[v]);
#pragma unroll
            for (int j = 0; j < 8; j++) sum[j % 4] += quick_exp2(fmaf(value.v[j], LOG2_E, -base));
            if (!SMOOTHED) continue;
            if (8 * v + 8 <= classes) {
#pragma unroll
                for (int j = 0; j < 8; j++) s.total += value.v[j];
            } else {
#pragma unroll
                for (int j = 0; j < 8; j++)
                    if (8 * v + j < classes) s.total += value.v[j];
            }
        }
        s.sum = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        return s;
    }
};

struct loss_shared {
    row_sums warps[2][WARPS];
    int counted;
};

/* Rows [first, end) of all that the labels count; the scores begin with row `first`. */
template <uint32_t DTYPE, bool SMOOTHED, typename A>
ROTA_DEVICE void rows_in_place(const A &args, const rota_cross_entropy_params &p, uint64_t first, uint64_t end,
                               loss_shared &shared) {
    extern __shared__ uint4 slots[];
    const int32_t *labels = rota_operand<const int32_t>(args, 1);
    const uint32_t vectors = p.pitch / 8;
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * gridDim.y;
    const kept_scores<DTYPE, SMOOTHED> kept(slots, p.classes);
    uint64_t row = first + rota_group_index();
    if (row >= end) return;
    const uint4 *next = rota_operand<const uint4>(args, 0) + (row - first) * vectors;
    for (uint32_t v = threadIdx.x; v < kept.used; v += THREADS) copy_ahead(&slots[v], &next[v]);
    const float factor = inverse_count(labels, p, &shared.counted), log2_factor = log2f(factor);
    const float hot = 1.0f - p.smoothing, every = p.smoothing / static_cast<float>(p.classes);
    for (uint32_t turn = 0; row < end; row += step, turn ^= 1) {
        const values<true> scores(rota_operand<void>(args, 0), (row - first) * p.pitch, DTYPE);
        const int32_t given = labels[row];
        const uint32_t label = static_cast<uint32_t>(given); /* a negative one is far outside */
        const bool ignored = given == p.ignored, valid = label < p.classes;
        const float at_label = valid ? scores.at(label) : 0.0f; /* before its place is written */
        wait_for_copies();
        kept.end_row();
        const row_sums s = of_block(kept.sums(), shared.warps[turn]);
        const float lse = s.maximum + logf(s.sum);
        if (threadIdx.x == 0) {
            float loss = not_a_number();
            if (ignored)
                loss = 0.0f;
            else if (valid)
                loss = lse - hot * at_label - (SMOOTHED ? p.smoothing * s.total / static_cast<float>(p.classes) : 0.0f);
            rota_operand<float>(args, 2)[row] = loss;
            rota_operand<float>(args, 3)[row] = lse;
        }
        const float scale = valid ? factor : not_a_number();
        /* exp(x - lse) scale is 2^(x log2 e + offset). */
        const float offset = fmaf(-lse, LOG2_E, valid ? log2_factor : scale), shift = every * scale;
        const bool more = row + step < end;
        next += step * vectors;
        auto pass = [&](auto gradient) {
#pragma unroll 2
            for (uint32_t v = threadIdx.x; v < kept.used; v += THREADS) {
                const uint4 bits = slots[v];
                if (more) copy_ahead(&slots[v], &next[v]);
                scores.place(8 * v, gradient(bits), true);
            }
        };
        if (ignored)
            pass([&](uint4) { return make_uint4(0, 0, 0, 0); });
        else
            pass([&](uint4 bits) {
                pack<8> value = kept.open(bits);
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    value.v[j] = quick_exp2(fmaf(value.v[j], LOG2_E, offset));
                    if (SMOOTHED) value.v[j] -= shift;
                }
                return scores.close(value);
            });
        /* Once more what is otherwise, by the thread that wrote it. */
        if (valid && !ignored && threadIdx.x == label / 8 % THREADS)
            scores.put(label, (quick_exp(at_label - lse) - hot - every) * scale);
        if (p.classes % 8 != 0 && threadIdx.x == (kept.used - 1) % THREADS)
            for (uint32_t i = p.classes; i < 8 * kept.used; i++) scores.put(i, 0.0f);
        for (uint32_t v = kept.used + threadIdx.x; v < vectors; v += THREADS)
            scores.place(8 * v, make_uint4(0, 0, 0, 0), true);
    }
}

template <typename A>
ROTA_DEVICE void rows_of(const A &args, const rota_cross_entropy_params &p, uint64_t first, uint64_t end) {
    __shared__ loss_shared shared;
    if (p.dtype == DTYPE_BF16) {
        if (p.smoothing == 0.0f)
            rows_in_place<DTYPE_BF16, false>(args, p, first, end, shared);
        else
            rows_in_place<DTYPE_BF16, true>(args, p, first, end, shared);
    } else if (p.smoothing == 0.0f) {
        rows_in_place<DTYPE_F16, false>(args, p, first, end, shared);
    } else {
        rows_in_place<DTYPE_F16, true>(args, p, first, end, shared);
    }
}

ROTA_KERNEL_BLOCKS(cross_entropy_in_place, 4, rota_cross_entropy_params, ROTA_CUDA_LOSS_THREADS, 2) {
    rows_of(args, args.params, 0, args.params.rows);
}
ROTA_KERNEL_BLOCKS(cross_entropy_piece, 4, rota_cuda_loss_piece_params, ROTA_CUDA_LOSS_THREADS, 2) {
    rows_of(args, args.params.all, args.params.first, static_cast<uint64_t>(args.params.first) + args.params.count);
}
