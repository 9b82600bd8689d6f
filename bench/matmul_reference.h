/* Operands of products, and their reference in f64: for rota-bench matmul. */
#ifndef ROTA_BENCH_MATMUL_REFERENCE_H
#define ROTA_BENCH_MATMUL_REFERENCE_H

#include "bench/matmul_shapes.h"
#include "ops/tensor.h"

/* x <- 1664525 x + 1013904223 mod 2^32; the value is 2 x / 2^32 - 1, rounded to the dtype. */
void matmul_fill(void *data, rota_dtype dtype, uint64_t count, uint32_t seed);

/* Seeds of set s: the check's for set 0, others after them. */
uint32_t matmul_seed_a(uint64_t set);
uint32_t matmul_seed_b(uint64_t set);

/* Row `row` of a batch's product, of->n sums, in f64, of the rounded operands. */
void matmul_reference_row(const matmul_shape *of, rota_dtype dtype, const void *a, const void *b,
                          uint64_t batch, uint64_t row, double *sums);

#endif
