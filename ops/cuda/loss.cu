/* CUDA kernels: cross_entropy_in_place: the loss of rows of 16-bit scores and its gradient, which takes their place, in
 * one read and one write; cross_entropy_piece: the same of some of the rows. Blocks take rows in turns. A thread keeps
 * its vectors of a row in shared memory, each at a place that is its own, and has those of the next row copied there as
 * it writes the gradient. */
#include "ops/cuda/ahead.h"
#include "ops/cuda/loss_params.h"
#include "ops/cuda/values.cuh"

constexpr uint32_t THREADS = ROTA_CUDA_LOSS_THREADS;
constexpr float LOG2_E = 1.4426950408889634f;

/* 2^x, of exponents as quick_exp's. */
ROTA_DEVICE float quick_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Of all of the block's threads, by a tree; `shared` has a place for each warp. */
template <typename F> ROTA_DEVICE float of_block(float value, float *shared, F f) {
#pragma unroll
    for (uint32_t step = 16; step > 0; step /= 2) value = f(value, __shfl_xor_sync(0xFFFFFFFFu, value, step));
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = shared[threadIdx.x % (THREADS / 32)];
#pragma unroll
    for (uint32_t step = THREADS / 64; step > 0; step /= 2) value = f(value, __shfl_xor_sync(0xFFFFFFFFu, value, step));
    __syncthreads();
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

struct row_sums {
    float maximum, sum, total;
};

/* One more vector: maximum and sum in one pass, as cross_entropy has it. */
ROTA_DEVICE void take(row_sums &s, pack<8> value, uint32_t i, const rota_cross_entropy_params &p) {
    if (i >= p.classes) return;
    if (p.smoothing != 0.0f) {
#pragma unroll
        for (int j = 0; j < 8; j++)
            if (i + j < p.classes) s.total += value.v[j];
    }
    if (i + 8 > p.classes) {
#pragma unroll
        for (int j = 1; j < 8; j++)
            if (i + j >= p.classes) value.v[j] = negative_infinity();
    }
    float most[8];
#pragma unroll
    for (int j = 0; j < 8; j++) most[j] = value.v[j];
#pragma unroll
    for (int step = 4; step > 0; step /= 2)
#pragma unroll
        for (int j = 0; j < step; j++) most[j] = fmaxf(most[j], most[j + step]);
    if (!(most[0] <= s.maximum)) {
        s.sum *= quick_exp(s.maximum - most[0]);
        s.maximum = most[0];
    }
    const float base = s.maximum == negative_infinity() ? 0.0f : s.maximum * LOG2_E;
#pragma unroll
    for (int j = 0; j < 8; j++) s.sum += quick_exp2(fmaf(value.v[j], LOG2_E, -base));
}

/* Rows [first, end) of all that the labels count; the scores begin with row `first`. */
template <typename A>
ROTA_DEVICE void rows_in_place(const A &args, const rota_cross_entropy_params &p, uint64_t first, uint64_t end) {
    extern __shared__ uint4 slots[];
    __shared__ float warps[THREADS / 32];
    __shared__ int counted;
    const int32_t *labels = rota_operand<const int32_t>(args, 1);
    const uint32_t vectors = p.pitch / 8;
    const uint64_t step = static_cast<uint64_t>(gridDim.x) * gridDim.y;
    uint64_t row = first + rota_group_index();
    if (row >= end) return;
    auto fetch = [&](uint64_t of) {
        const uint4 *from = rota_operand<const uint4>(args, 0) + (of - first) * vectors;
        for (uint32_t v = threadIdx.x; v < vectors; v += THREADS) copy_ahead(&slots[v], &from[v]);
    };
    fetch(row);
    const float factor = inverse_count(labels, p, &counted);
    const float hot = 1.0f - p.smoothing, every = p.smoothing / static_cast<float>(p.classes);
    for (; row < end; row += step) {
        const values<true> logits(rota_operand<void>(args, 0), (row - first) * p.pitch, p.dtype);
        const int32_t given = labels[row];
        const uint32_t label = static_cast<uint32_t>(given); /* a negative one is far outside */
        const bool ignored = given == p.ignored;
        const float at_label = label < p.classes ? logits.at(label) : 0.0f; /* before its place is written */
        row_sums s = {negative_infinity(), 0.0f, 0.0f};
        wait_for_copies();
        for (uint32_t v = threadIdx.x; v < vectors; v += THREADS) take(s, logits.open(slots[v]), 8 * v, p);
        const float highest = of_block(s.maximum, warps, [](float a, float b) { return larger(a, b); });
        const float part = s.maximum == negative_infinity() ? 0.0f : s.sum * quick_exp(s.maximum - highest);
        auto add = [](float a, float b) { return a + b; };
        const float lse = highest + logf(of_block(part, warps, add));
        const float total = p.smoothing != 0.0f ? of_block(s.total, warps, add) : 0.0f;
        if (threadIdx.x == 0) {
            float loss = not_a_number();
            if (ignored)
                loss = 0.0f;
            else if (label < p.classes)
                loss = lse - hot * at_label -
                       (p.smoothing != 0.0f ? p.smoothing * total / static_cast<float>(p.classes) : 0.0f);
            rota_operand<float>(args, 2)[row] = loss;
            rota_operand<float>(args, 3)[row] = lse;
        }
        const float scale = label < p.classes ? factor : not_a_number();
        /* exp(x - lse) scale is 2^(x log2 e + offset). */
        const float offset = fmaf(-lse, LOG2_E, log2f(scale)), shift = every * scale;
        const bool more = row + step < end;
        const uint4 *next = rota_operand<const uint4>(args, 0) + (row + step - first) * vectors;
        for (uint32_t v = threadIdx.x; v < vectors; v += THREADS) {
            const uint32_t i = 8 * v;
            pack<8> value = logits.open(slots[v]);
            if (more) copy_ahead(&slots[v], &next[v]);
            if (i + 8 <= p.classes && label - i >= 8 && !ignored) {
#pragma unroll
                for (int j = 0; j < 8; j++) value.v[j] = quick_exp2(fmaf(value.v[j], LOG2_E, offset)) - shift;
            } else {
#pragma unroll
                for (int j = 0; j < 8; j++)
                    value.v[j] = ignored || i + j >= p.classes
                                     ? 0.0f
                                     : (quick_exp(value.v[j] - lse) - (i + j == label ? hot : 0.0f) - every) * scale;
            }
            logits.place(i, logits.close(value), true);
        }
    }
}

ROTA_KERNEL_BLOCKS(cross_entropy_in_place, 4, rota_cross_entropy_params, ROTA_CUDA_LOSS_THREADS, 2) {
    rows_in_place(args, args.params, 0, args.params.rows);
}
ROTA_KERNEL_BLOCKS(cross_entropy_piece, 4, rota_cuda_loss_piece_params, ROTA_CUDA_LOSS_THREADS, 2) {
    rows_in_place(args, args.params.all, args.params.first,
                  static_cast<uint64_t>(args.params.first) + args.params.count);
}
