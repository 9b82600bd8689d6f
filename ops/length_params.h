/* Kernels whose results have a length that the contents decide: operands, parameters, and what each computes.
 * C and CUDA C++; see kernel_params.h.
 *
 * Each takes an axis in chunks: one kernel counts in each of them, exclusive_sum says where those of a chunk begin
 * among all, and a last one writes. Results are whole numbers in an order of their own, so they are the same on every
 * device. */
#ifndef ROTA_OPS_LENGTH_PARAMS_H
#define ROTA_OPS_LENGTH_PARAMS_H

#include <stdint.h>

/* ---- nonzero_counts: x:READ [n] of any dtype, counts:WRITE u32 [ceil(n / chunk)]: how many of a chunk's elements are
 * not zero (-0 is, NaN is not)
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

/* ---- select_rows: x:READ [rows, width] of any dtype, index:READ i32 [rows], a permutation, count:READ u32 [1],
 * y:WRITE [rows, width]. y[j] = x[index[j]] for j < count, else 0; put: y[index[j]] = x[j] for j < count, else 0. An
 * index outside fails the node on the CPU; on a GPU it gives, or gets, nothing ---- */

typedef struct rota_select_rows_params {
    uint32_t rows, width;
    uint32_t put;
    uint32_t dtype;
} rota_select_rows_params;

#endif
