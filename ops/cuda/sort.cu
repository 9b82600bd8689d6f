/* CUDA kernels of sorting by whole numbers: sort_keys, sort_counts, sort, unique_counts, unique, top_p_sums, top_p. */
#include "ops/cuda/sums.cuh"
#include "ops/cuda/typed.cuh"
#include "ops/sort_keys.h"

constexpr uint32_t EACH = 8, SPAN = ROTA_CUDA_THREADS * EACH, DIGITS = ROTA_SORT_DIGITS;

/* The chunk of a block, by one of a row of n; `row` is past the last where the block is. */
struct row_chunk {
    uint64_t row;
    uint32_t number, of, begin, end;
    ROTA_DEVICE row_chunk(uint32_t n, uint32_t chunk) {
        of = (n - 1) / chunk + 1;
        row = rota_group_index() / of;
        number = static_cast<uint32_t>(rota_group_index() % of);
        begin = number * chunk;
        end = n - begin > chunk ? begin + chunk : n;
    }
};

/* ---- Sorting ---- */

ROTA_KERNEL(sort_keys, 2, rota_sort_keys_params, ROTA_CUDA_THREADS) {
    const rota_sort_keys_params &p = args.params;
    const uint64_t i = rota_index();
    if (i >= p.n) return;
    uint32_t *keys = rota_operand<uint32_t>(args, 1);
    if (p.order == ROTA_SORT_RISING) {
        keys[i] = rota_key_rising(p.dtype, rota_operand<const uint32_t>(args, 0)[i]);
        return;
    }
    by_dtype(p.dtype, [&](auto type) {
        keys[i] = rota_key_probable(__float_as_uint(widen(rota_operand<const decltype(type)>(args, 0)[i])));
    });
}

ROTA_KERNEL(sort_counts, 2, rota_sort_params, ROTA_CUDA_THREADS) {
    __shared__ uint32_t counts[DIGITS];
    const rota_sort_params &p = args.params;
    const row_chunk c(p.n, p.chunk);
    if (c.row >= p.rows) return;
    const uint32_t *keys = rota_operand<const uint32_t>(args, 0) + c.row * p.n, t = threadIdx.x;
    uint32_t own[DIGITS] = {};
    for (uint32_t i = c.begin + t; i < c.end; i += ROTA_CUDA_THREADS) {
        const uint32_t found = keys[i] >> p.shift & (DIGITS - 1);
#pragma unroll
        for (uint32_t digit = 0; digit < DIGITS; digit++) own[digit] += found == digit;
    }
    if (t < DIGITS) counts[t] = 0;
    __syncthreads();
#pragma unroll
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        uint32_t sum = own[digit];
#pragma unroll
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
        if (t % 32 == 0) atomicAdd(&counts[digit], sum);
    }
    __syncthreads();
    if (t < DIGITS) rota_operand<uint32_t>(args, 1)[(c.row * DIGITS + t) * c.of + c.number] = counts[t];
}

/* Counts of two digits, d and d + 8, are the halves of a word: a turn has SPAN keys, 2048. */
constexpr uint32_t PAIRS = DIGITS / 2;
static_assert(SPAN < 65536, "the counts of a turn fit 16 bits");
ROTA_DEVICE uint32_t half_of(uint32_t digit) {
    return digit / PAIRS * 16;
}

ROTA_KERNEL(sort, 5, rota_sort_params, ROTA_CUDA_THREADS) {
    __shared__ uint32_t counts[PAIRS][ROTA_CUDA_THREADS],
        next[DIGITS]; /* where the next key of a digit goes */
    const rota_sort_params &p = args.params;
    const row_chunk c(p.n, p.chunk);
    if (c.row >= p.rows) return;
    const uint64_t base = c.row * p.n;
    const uint32_t *keys = rota_operand<const uint32_t>(args, 0) + base, t = threadIdx.x;
    const int32_t *index = rota_operand<const int32_t>(args, 1) + base;
    uint32_t *to_keys = rota_operand<uint32_t>(args, 3) + base;
    int32_t *to_index = rota_operand<int32_t>(args, 4) + base;
    if (t < DIGITS) next[t] = rota_operand<const uint32_t>(args, 2)[(c.row * DIGITS + t) * c.of + c.number];
    for (uint32_t from = c.begin; from < c.end; from += SPAN) {
        const uint32_t first = from + t * EACH;
        uint32_t own[EACH];
#pragma unroll
        for (uint32_t w = 0; w < PAIRS; w++) counts[w][t] = 0;
#pragma unroll
        for (uint32_t e = 0; e < EACH; e++) {
            if (first + e >= c.end) break;
            own[e] = keys[first + e];
            const uint32_t digit = own[e] >> p.shift & (DIGITS - 1);
            counts[digit % PAIRS][t] += 1u << half_of(digit);
        }
        /* In the place of the thread's counts those of all before it. */
#pragma unroll
        for (uint32_t w = 0; w < PAIRS; w++) {
            uint32_t total;
            counts[w][t] = sum_before<uint32_t>(counts[w][t], total);
        }
#pragma unroll
        for (uint32_t e = 0; e < EACH; e++) {
            if (first + e >= c.end) break;
            const uint32_t digit = own[e] >> p.shift & (DIGITS - 1);
            const uint32_t to = next[digit] + (counts[digit % PAIRS][t] >> half_of(digit) & 0xFFFFu);
            counts[digit % PAIRS][t] += 1u << half_of(digit);
            to_keys[to] = own[e];
            to_index[to] = p.is_first ? static_cast<int32_t>(first + e) : index[first + e];
        }
        __syncthreads();
        /* The last one's are now those of all. */
        if (t < DIGITS) next[t] += counts[t % PAIRS][ROTA_CUDA_THREADS - 1] >> half_of(t) & 0xFFFFu;
        __syncthreads();
    }
}

/* ---- unique ---- */

/* Bit e: whether key first + e, which is before `end`, is the first of its kind. */
ROTA_DEVICE uint32_t starts_of(const uint32_t *keys, uint32_t first, uint32_t end) {
    uint32_t found = 0;
#pragma unroll
    for (uint32_t e = 0; e < EACH; e++)
        if (first + e < end && (first + e == 0 || keys[first + e] != keys[first + e - 1])) found |= 1u << e;
    return found;
}

ROTA_KERNEL(unique_counts, 2, rota_unique_params, ROTA_CUDA_THREADS) {
    const rota_unique_params &p = args.params;
    const row_chunk c(p.n, p.chunk);
    if (c.row > 0) return;
    const uint32_t *keys = rota_operand<const uint32_t>(args, 0);
    uint32_t count = 0, total;
    for (uint32_t from = c.begin; from < c.end; from += SPAN)
        count += __popc(starts_of(keys, from + threadIdx.x * EACH, c.end));
    sum_before<uint32_t>(count, total);
    if (threadIdx.x == 0) rota_operand<uint32_t>(args, 1)[c.number] = total;
}

ROTA_KERNEL(unique, 6, rota_unique_params, ROTA_CUDA_THREADS) {
    const rota_unique_params &p = args.params;
    const row_chunk c(p.n, p.chunk);
    if (c.row > 0) return;
    const uint32_t *keys = rota_operand<const uint32_t>(args, 0);
    const int32_t *index = rota_operand<const int32_t>(args, 1);
    const uint32_t all = *rota_operand<const uint32_t>(args, 3);
    uint32_t *y = rota_operand<uint32_t>(args, 4);
    int32_t *inverse = rota_operand<int32_t>(args, 5);
    uint32_t before = rota_operand<const uint32_t>(args, 2)[c.number];
    for (uint32_t from = c.begin; from < c.end; from += SPAN) {
        const uint32_t first = from + threadIdx.x * EACH, found = starts_of(keys, first, c.end);
        uint32_t total;
        uint32_t rank = before + sum_before<uint32_t>(__popc(found), total); /* of kinds that began before */
        before += total;
        for (uint32_t e = 0; e < EACH && first + e < c.end; e++) {
            const uint32_t i = first + e;
            const bool is_start = found >> e & 1u;
            y[is_start ? rank : all + (i - rank)] = is_start ? rota_key_number(p.dtype, keys[i]) : 0;
            if (is_start) rank++;
            if (static_cast<uint32_t>(index[i]) < p.n) inverse[index[i]] = static_cast<int32_t>(rank - 1);
        }
    }
}

/* ---- top_p ---- */

/* What lies in two words, at a multiple of 4. */
ROTA_DEVICE uint64_t load_wide(const uint32_t *words, uint64_t i) {
    return words[2 * i] | static_cast<uint64_t>(words[2 * i + 1]) << 32;
}

ROTA_KERNEL(top_p_sums, 2, rota_top_p_params, ROTA_CUDA_THREADS) {
    const rota_top_p_params &p = args.params;
    const row_chunk c(p.n, p.chunk);
    if (c.row >= p.rows) return;
    const uint32_t *keys = rota_operand<const uint32_t>(args, 0) + c.row * p.n;
    uint64_t sum = 0, total;
    for (uint32_t i = c.begin + threadIdx.x; i < c.end; i += ROTA_CUDA_THREADS)
        sum += rota_key_weight(keys[i]);
    sum_before<uint64_t>(sum, total);
    if (threadIdx.x > 0) return;
    uint32_t *to = rota_operand<uint32_t>(args, 1) + 2 * rota_group_index();
    to[0] = static_cast<uint32_t>(total);
    to[1] = static_cast<uint32_t>(total >> 32);
}

/* The first of `count` weights with which the sum, from `before` on, reaches `wanted`; then `before` is that without
 * it. The last where none does. */
template <typename F>
ROTA_DEVICE uint32_t reaching(uint32_t count, uint64_t wanted, uint64_t &before, F weight_at) {
    __shared__ uint32_t found;
    __shared__ uint64_t carried;
    __syncthreads(); /* those of the walk before are read */
    if (threadIdx.x == 0) found = 0xFFFFFFFFu;
    for (uint32_t from = 0; from < count; from += ROTA_CUDA_THREADS) {
        const uint32_t i = from + threadIdx.x;
        const uint64_t weight = i < count ? weight_at(i) : 0;
        uint64_t total;
        const uint64_t sum = before + sum_before<uint64_t>(weight, total);
        if (i < count && (sum + weight >= wanted || i == count - 1)) atomicMin(&found, i);
        __syncthreads();
        if (found == i) carried = sum;
        __syncthreads();
        if (found != 0xFFFFFFFFu) {
            before = carried;
            return found;
        }
        before += total;
    }
    return 0; /* of none */
}

ROTA_KERNEL(top_p, 3, rota_top_p_params, ROTA_CUDA_THREADS) {
    const rota_top_p_params &p = args.params;
    const uint64_t row = rota_group_index();
    if (row >= p.rows) return;
    const uint32_t chunks = (p.n - 1) / p.chunk + 1;
    const uint32_t *keys = rota_operand<const uint32_t>(args, 0) + row * p.n,
                   *sums = rota_operand<const uint32_t>(args, 1) + row * chunks * 2;
    uint64_t sum = 0, total, before = 0;
    for (uint32_t c = threadIdx.x; c < chunks; c += ROTA_CUDA_THREADS) sum += load_wide(sums, c);
    sum_before<uint64_t>(sum, total);
    const uint64_t wanted = rota_key_share(rota_param_f32(args, 0, p.p), total);
    const uint32_t begin =
        reaching(chunks, wanted, before, [&](uint32_t c) { return load_wide(sums, c); }) * p.chunk;
    const uint32_t i = reaching(min(p.chunk, p.n - begin), wanted, before,
                                [&](uint32_t k) { return rota_key_weight(keys[begin + k]); });
    if (threadIdx.x == 0) rota_operand<int32_t>(args, 2)[row] = static_cast<int32_t>(begin + i + 1);
}
