/* CUDA kernels of results with a length: nonzero_counts, exclusive_sum, nonzero, select_rows. */
#include "ops/cuda/sums.cuh"

/* ---- nonzero ---- */

/* Elements as their bits. */
template <typename F> ROTA_DEVICE void by_bits(uint32_t dtype, F f) {
    if (dtype == DTYPE_F16 || dtype == DTYPE_BF16)
        f(uint16_t());
    else
        f(uint32_t());
}
/* The bits that are 0 where an element is: not the sign of a real number. */
ROTA_DEVICE uint32_t magnitude_bits(uint32_t dtype) {
    return dtype == DTYPE_F32                          ? 0x7FFFFFFFu
           : dtype == DTYPE_F16 || dtype == DTYPE_BF16 ? 0x7FFFu
                                                       : 0xFFFFFFFFu;
}

/* A block per chunk; a warp has TURNS times 32 neighbours at a time. */
constexpr uint32_t TURNS = 8, SPAN = ROTA_CUDA_THREADS * TURNS;

struct chunk_walk {
    uint32_t begin, end; /* of the chunk */
    ROTA_DEVICE chunk_walk(const rota_nonzero_params &p, uint32_t c) {
        begin = c * p.chunk;
        end = p.n - begin > p.chunk ? begin + p.chunk : p.n;
    }
    /* The element of a turn, SPAN of them from `from` on; a 64-bit number, since it may be past the last. */
    ROTA_DEVICE uint64_t element(uint32_t from, uint32_t turn) const {
        return static_cast<uint64_t>(begin) + from + threadIdx.x / 32 * 32 * TURNS + turn * 32 +
               threadIdx.x % 32;
    }
};

ROTA_KERNEL(nonzero_counts, 2, rota_nonzero_params, ROTA_CUDA_THREADS) {
    const rota_nonzero_params &p = args.params;
    const uint64_t c = rota_group_index();
    if (c > (p.n - 1) / p.chunk) return;
    const chunk_walk chunk(p, static_cast<uint32_t>(c));
    const uint32_t bits = magnitude_bits(p.dtype);
    uint32_t count = 0, total;
    by_bits(p.dtype, [&](auto type) {
        const auto *x = rota_operand<const decltype(type)>(args, 0);
        for (uint32_t from = 0; from < chunk.end - chunk.begin; from += SPAN)
#pragma unroll
            for (uint32_t turn = 0; turn < TURNS; turn++) {
                const uint64_t i = chunk.element(from, turn);
                count += i < chunk.end && (x[i] & bits) != 0;
            }
    });
    sum_before(count, total);
    if (threadIdx.x == 0) rota_operand<uint32_t>(args, 1)[c] = total;
}

ROTA_KERNEL(nonzero, 4, rota_nonzero_params, ROTA_CUDA_THREADS) {
    const rota_nonzero_params &p = args.params;
    const uint64_t c = rota_group_index();
    if (c > (p.n - 1) / p.chunk) return;
    const chunk_walk chunk(p, static_cast<uint32_t>(c));
    const uint32_t bits = magnitude_bits(p.dtype), all = *rota_operand<const uint32_t>(args, 2),
                   lower = (1u << threadIdx.x % 32) - 1u;
    int32_t *index = rota_operand<int32_t>(args, 3);
    uint32_t before = rota_operand<const uint32_t>(args, 1)[c];
    by_bits(p.dtype, [&](auto type) {
        const auto *x = rota_operand<const decltype(type)>(args, 0);
        for (uint32_t from = 0; from < chunk.end - chunk.begin; from += SPAN) {
            uint32_t found[TURNS], of_warp = 0, total;
#pragma unroll
            for (uint32_t turn = 0; turn < TURNS; turn++) {
                const uint64_t i = chunk.element(from, turn);
                found[turn] = __ballot_sync(0xFFFFFFFFu, i < chunk.end && (x[i] & bits) != 0);
                of_warp += __popc(found[turn]);
            }
            uint32_t rank = before + sum_before_warp(of_warp, total);
            before += total;
#pragma unroll
            for (uint32_t turn = 0; turn < TURNS; turn++) {
                const uint64_t i = chunk.element(from, turn);
                const uint32_t own = rank + __popc(found[turn] & lower);
                if (i < chunk.end)
                    index[found[turn] >> threadIdx.x % 32 & 1u ? own : all + (i - own)] =
                        static_cast<int32_t>(i);
                rank += __popc(found[turn]);
            }
        }
    });
}

/* A block per row. */
ROTA_KERNEL(exclusive_sum, 3, rota_exclusive_sum_params, ROTA_CUDA_THREADS) {
    const rota_exclusive_sum_params &p = args.params;
    const uint64_t row = rota_group_index();
    if (row >= p.rows) return;
    const uint32_t *x = rota_operand<const uint32_t>(args, 0) + row * p.n;
    uint32_t *y = rota_operand<uint32_t>(args, 1) + row * p.n, before = 0;
    for (uint64_t from = 0; from < p.n; from += SPAN) {
        const uint64_t first = from + threadIdx.x * TURNS;
        uint32_t values[TURNS], own = 0, total;
#pragma unroll
        for (uint32_t e = 0; e < TURNS; e++) {
            values[e] = first + e < p.n ? x[first + e] : 0;
            own += values[e];
        }
        uint32_t sum = before + sum_before(own, total);
        before += total;
#pragma unroll
        for (uint32_t e = 0; e < TURNS; e++) {
            if (first + e < p.n) y[first + e] = sum;
            sum += values[e];
        }
    }
    if (threadIdx.x == 0) rota_operand<uint32_t>(args, 2)[row] = before;
}

/* ---- compact ---- */

ROTA_KERNEL(select_rows, 4, rota_select_rows_params, ROTA_CUDA_THREADS) {
    const rota_select_rows_params &p = args.params;
    const uint64_t i = rota_index();
    if (i >= static_cast<uint64_t>(p.rows) * p.width) return;
    const uint64_t j = i / p.width;
    const uint32_t index =
        static_cast<uint32_t>(rota_operand<const int32_t>(args, 1)[j]); /* a negative one is far outside */
    const bool is_selected = j < *rota_operand<const uint32_t>(args, 2);
    const uint64_t other = static_cast<uint64_t>(index) * p.width + i % p.width;
    by_bits(p.dtype, [&](auto type) {
        using T = decltype(type);
        const T *x = rota_operand<const T>(args, 0);
        T *y = rota_operand<T>(args, 3);
        if (!p.put)
            y[i] = is_selected && index < p.rows ? x[other] : T(0);
        else if (index < p.rows)
            y[other] = is_selected ? x[i] : T(0);
    });
}
