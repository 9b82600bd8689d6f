/* The same kernels through the CUDA driver alone: what rota's replays are measured against. One CUDA graph,
 * made node by node with the pointers as kernel parameters and an edge only where a node touches what an
 * earlier one wrote or, to write it, read; launched on a stream of its own. */
#ifndef ROTA_BENCH_RAW_CUDA_H
#define ROTA_BENCH_RAW_CUDA_H

#include "bench/graphs.h"

typedef struct raw_cuda raw_cuda;

/* Opens device `index` (the number in "cuda:N"), builds the graph and instantiates it. On failure, or in a
 * build without CUDA's headers, prints one sentence and returns NULL. */
raw_cuda *raw_cuda_create(const bench_graph *graph, uint32_t index);
void raw_cuda_destroy(raw_cuda *raw);

/* Launches the graph once. False with a sentence. */
bool raw_cuda_submit(raw_cuda *raw);
/* Waits for all launched so far. */
bool raw_cuda_wait(raw_cuda *raw);
/* Launched so far. */
uint64_t raw_cuda_submitted(const raw_cuda *raw);
uint64_t raw_cuda_edges(const raw_cuda *raw);
/* What instantiating the graph took, nanoseconds. */
double raw_cuda_build_ns(const raw_cuda *raw);
/* Compares memory with what `replays` runs give. */
bool raw_cuda_check(raw_cuda *raw, const bench_graph *graph, uint64_t replays);

#endif
