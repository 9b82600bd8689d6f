/* Trivial kernels with 1 to 4 operands, whose result depends on the order in which they run. */
#ifndef ROTA_BENCH_KERNELS_H
#define ROTA_BENCH_KERNELS_H

#include "graph/kernel.h"

#define BENCH_OPERANDS_MAX 4

/* value = seed, then value = 1664525 value + first word for each operand read, in order; the value goes to
 * the first `words` words of each operand written. */
typedef struct bench_params {
    uint32_t seed;
    uint32_t modes; /* bit i: operand i is read; bit 8 + i: written */
    uint32_t words;
} bench_params;

/* Indexed by operand count - 1. In bench_kernels_inplace the last operand may be the memory of any before it.
 */
extern const rota_kernel bench_kernels[BENCH_OPERANDS_MAX];
extern const rota_kernel bench_kernels_inplace[BENCH_OPERANDS_MAX];
/* Those of bench_kernels with a bindable seed. */
extern const rota_kernel bench_kernels_seeded[BENCH_OPERANDS_MAX];
/* Those of bench_kernels that CUDA does not launch early (exec/cuda/rota_kernel_early.cuh). */
extern const rota_kernel bench_kernels_plain[BENCH_OPERANDS_MAX];

/* What the kernels compute, on word pointers. */
void bench_kernel_apply(const bench_params *params, uint32_t operand_count, uint32_t *const *operands);

#endif
