/* PyTorch in a child process, to be timed in the same run: the same products on the same operands, in the
 * same rotation. */
#ifndef ROTA_BENCH_TORCH_H
#define ROTA_BENCH_TORCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include "bench/matmul_shapes.h"
#include "ops/tensor.h"

typedef struct torch_child {
    pid_t process;
    FILE *to, *from;
    bool gpu;
} torch_child;

/* Starts python3. False with a note on stderr where it has no torch for this device, or fails. */
bool torch_start(torch_child *child, bool gpu, rota_dtype dtype);
/* Gives it the operands of `sets` products, in the place of those before: from the file at `path`, which has no blanks
 * (all of a set's a, then its b, set after set, as they lie in memory). False: it does not answer. */
bool torch_set(torch_child *child, const matmul_shape *shape, uint64_t sets, const char *path);
/* Runs `iters` products, called one by one or (GPUs only) replayed as a CUDA graph; milliseconds each. */
bool torch_run(torch_child *child, bool graph, uint64_t iters, double *out_ms);
void torch_stop(torch_child *child);

#endif
