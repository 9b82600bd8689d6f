/* rota-bench loops' while through the CUDA driver alone: one graph, by hand, whose conditional node runs the same two
 * kernels and a third one that sets its handle. */
#ifndef ROTA_BENCH_RAW_CUDA_LOOP_H
#define ROTA_BENCH_RAW_CUDA_LOOP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct raw_cuda_loop raw_cuda_loop;

/* On device `index` (the number in "cuda:N"). On failure, or in a build without CUDA's headers, prints one sentence and
 * returns NULL. */
raw_cuda_loop *raw_cuda_loop_create(uint32_t index);
void raw_cuda_loop_destroy(raw_cuda_loop *raw);
/* How many steps of the first kernel take so long; at least 1. 0, with a sentence: it can't be said. */
uint32_t raw_cuda_loop_steps(raw_cuda_loop *raw, double us);
/* Builds the graph. False with a sentence, as of the next. */
bool raw_cuda_loop_build(raw_cuda_loop *raw, uint32_t steps);
/* Runs it so often, from this x on; what that is then, and from launch to end, microseconds. */
bool raw_cuda_loop_run(raw_cuda_loop *raw, uint32_t iterations, uint32_t *x, double *out_us);

#endif
