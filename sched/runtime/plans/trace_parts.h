/* A replay's trace while it is written: what trace.c, and what it has the flows and the memory written by, know of it.
 * Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_PLANS_TRACE_PARTS_H
#define ROTA_SCHED_RUNTIME_PLANS_TRACE_PARTS_H

#include <stdio.h>
#include "base/arena.h"
#include "exec/exec.h"
#include "sched/plan/operations.h"

typedef struct rota_trace {
    FILE *file;
    const rota_plan *plan;
    rota_exec_time **times; /* by partition and command */
    uint32_t *track;        /* of an operation, in its partition's process */
    uint64_t origin_ns;
    rota_arena arena;
} rota_trace;

/* Its partition's process. 0 is the submission. */
static inline uint32_t rota_trace_process(uint32_t partition) {
    return partition + 1;
}

/* When an operation ran; end_ns 0: it did not. */
static inline const rota_exec_time *rota_trace_time(const rota_trace *trace, uint32_t operation) {
    const rota_operation *it = &rota_plan_info(trace->plan)->operations[operation];
    return &trace->times[it->part][it->command];
}

static inline double rota_trace_us(const rota_trace *trace, uint64_t ns) {
    return ((double)ns - (double)trace->origin_ns) / 1000.0;
}

#endif
