/* Kernels whose results have a length that the contents decide: operands, parameters, and what each computes.
 * C and CUDA C++; see kernel_params.h.
 *
 * Each takes an axis in chunks: one kernel counts in each of them, exclusive_sum says where those of a chunk begin
 * among all, and a last one writes. Results are whole numbers in an order of their own, so they are the same on every
 * device. */
#ifndef ROTA_OPS_LENGTH_PARAMS_H
#define ROTA_OPS_LENGTH_PARAMS_H

#include <stdint.h>

/* ---- nonzero_counts: x:READ [n] of any dtype but 8-bit floats, counts:WRITE u32 [ceil(n / chunk)]: how many of
 * a chunk's elements are not zero (-0 is, NaN is not)
 * ---- nonzero: x:READ [n], offsets:READ u32 [ceil(n / chunk)], total:READ u32 [1], as exclusive_sum makes them of the
 * counts; index:WRITE i32 [n]: those of the elements that are not zero, ascending, and behind them those of the others,
 * likewise. At most 2^31 - 1 elements ---- */

typedef struct rota_nonzero_params {
    uint32_t n, chunk;
    uint32_t dtype;
} rota_nonzero_params;

/* ---- exclusive_sum: x:READ u32 [rows, n], y:WRITE u32 [rows, n], total:WRITE u32 [rows]. y[r, k] = the sum of x[r, 0]
 * to x[r, k - 1]; total[r] = that of all of x[r] ---- */

typedef struct rota_exclusive_sum_params {
    uint32_t rows, n;
} rota_exclusive_sum_params;

/* ---- select_rows: x:READ [rows, width] of any dtype but 8-bit floats, index:READ i32 [rows], a permutation,
 * count:READ u32 [1], y:WRITE [rows, width]. y[j] = x[index[j]] for j < count, else 0; put: y[index[j]] = x[j] for
 * j < count, else 0. An index outside fails the node on the CPU; on a GPU it gives, or gets, nothing ---- */

typedef struct rota_select_rows_params {
    uint32_t rows, width;
    uint32_t put;
    uint32_t dtype;
} rota_select_rows_params;

/* ---- sort_keys: x:READ [n], keys:WRITE u32 [n], ascending as what is sorted. RISING, x f32, i32 or u32: as the
 * numbers rise, -0 and 0 alike, and NaN, all alike, above all. PROBABLE, x f32, f16 or bf16: as the numbers fall, those
 * that are not above 0, and NaN, alike and last ---- */

typedef enum rota_sort_order { ROTA_SORT_RISING, ROTA_SORT_PROBABLE, ROTA_SORT_ORDER_COUNT } rota_sort_order;

typedef struct rota_sort_keys_params {
    uint32_t n;
    uint32_t order; /* rota_sort_order */
    uint32_t dtype;
} rota_sort_keys_params;

/* ---- sort_counts: keys:READ u32 [rows, n], counts:WRITE u32 [rows, 16, ceil(n / chunk)]: how many keys of a chunk
 * have each digit, the bits from `shift` to shift + 3
 * ---- sort: keys:READ u32 [rows, n], index:READ i32 [rows, n], offsets:READ u32 [rows, 16, ceil(n / chunk)], as
 * exclusive_sum makes them of each row's counts; keys:WRITE, index:WRITE likewise: those of each row in ascending order
 * of the digit, and else as they were. is_first: `index` is not read, each is where its key is. All of a sort: for
 * shift 0, 4 to 28 ---- */

#define ROTA_SORT_DIGITS 16u
#define ROTA_SORT_BITS 4u

typedef struct rota_sort_params {
    uint32_t rows, n, chunk;
    uint32_t shift;
    uint32_t is_first;
} rota_sort_params;

/* ---- unique_counts: keys:READ u32 [n], ascending, counts:WRITE u32 [ceil(n / chunk)]: how many of a chunk's keys are
 * unlike the one before
 * ---- unique: keys:READ u32 [n], index:READ i32 [n], as sort makes them of RISING, offsets:READ, total:READ u32 [1],
 * as exclusive_sum makes them of the counts; y:WRITE [n]: the numbers that keys are of, each once, then 0;
 * inverse:WRITE i32 [n]: where in y what was at an index is ---- */

typedef struct rota_unique_params {
    uint32_t n, chunk;
    uint32_t dtype;
} rota_unique_params;

/* ---- top_p_sums: keys:READ u32 [rows, n], ascending, of PROBABLE, sums:WRITE u64 [rows, ceil(n / chunk)] at a
 * multiple of 4: the weights of a chunk's keys, each its number in 2^-32ths, rounded down, at most 2^32 - 1
 * ---- top_p: keys:READ u32 [rows, n], sums:READ, count:WRITE i32 [rows]: how many of a row, 1 or more, have weights
 * whose sum is ceil(p * that of all), of p in 2^-31ths, rounded down ---- */

typedef struct rota_top_p_params {
    uint32_t rows, n, chunk;
    float p; /* bindable 0 */
} rota_top_p_params;

#endif
