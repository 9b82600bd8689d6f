/* The same nodes as plain function calls in record order, on one thread: what the CPU executor is measured
 * against. */
#ifndef ROTA_BENCH_RAW_CPU_H
#define ROTA_BENCH_RAW_CPU_H

#include "bench/graphs.h"

typedef struct raw_cpu raw_cpu;

/* NULL when out of memory. */
raw_cpu *raw_cpu_create(const bench_graph *graph);
void raw_cpu_destroy(raw_cpu *raw);
/* All nodes once. */
void raw_cpu_run(raw_cpu *raw);
/* Compares memory with what the runs so far give. */
bool raw_cpu_check(const raw_cpu *raw, const bench_graph *graph);

#endif
