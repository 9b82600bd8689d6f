/* rota_compile_options.check_kernels: what a kernel node becomes. Internal.
 *
 * Each operand gets two shadows, with bands of a pattern on both sides, which differs between the two. What
 * the kernel may read is copied into both; what it declares as WRITE keeps the pattern. The kernel runs once
 * on each, a host node compares them, and only what it finds right is copied out to where the node writes.
 * All of that are records like those of a lane, so it runs on every executor, and later steps know nothing of
 * it. */
#ifndef ROTA_SCHED_PLAN_CHECK_H
#define ROTA_SCHED_PLAN_CHECK_H

#include "sched/plan/compiler.h"

/* The records that take a kernel node's place, in order, in the plan's memory. */
typedef struct rota_check_records {
    const rota_node_record **list;
    uint32_t count;
} rota_check_records;

/* Whether a kernel node can be watched: not where what it writes lies interleaved, each operand between another's
 * bytes, of which a shadow of its own would lack what the others write. */
bool rota_compile_can_check(const rota_node_record *record);
/* For a node on `part`. O(accesses). */
rota_status rota_compile_check(rota_compiler *compiler, uint32_t part, const rota_node_record *record,
                               rota_check_records *out_records);

#endif
