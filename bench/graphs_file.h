/* A benchmark's graph as a file (file/graph_file.h). */
#ifndef ROTA_BENCH_GRAPHS_FILE_H
#define ROTA_BENCH_GRAPHS_FILE_H

#include "bench/graphs.h"
#include "rota.h"

/* All kernels of benchmarks, for rota_graph_load_options.kernels. */
#define BENCH_KERNEL_COUNT (4u * BENCH_OPERANDS_MAX)
void bench_graph_kernels(const rota_kernel *out_kernels[BENCH_KERNEL_COUNT]);

/* Writes a recorded graph. With a runtime, whose buffers hold their first contents (bench_graph_reset), also those,
 * the arguments of bench_graph_bind, set 0, and what one replay leaves, computed apart from rota. */
rota_status bench_graph_save(const bench_graph *graph, const char *path);

#endif
