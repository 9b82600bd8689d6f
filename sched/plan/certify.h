/* The certificate of a plan: what compiling promised, looked at again from the outside. Internal. */
#ifndef ROTA_SCHED_PLAN_CERTIFY_H
#define ROTA_SCHED_PLAN_CERTIFY_H

#include "sched/plan/compiled.h"

/* Recomputes from the graph's records and the lowered plan (commands, batches, edges, segments, waits,
 * memory) that a replay runs as if in record order, by batches and by edges. INTERNAL with a sentence that
 * names the two operations that are not ordered, or what else is wrong; OUT_OF_MEMORY. Near linear in nodes,
 * accesses and edges where the order of two operations is an edge, a batch, a wait, or a short way over
 * these. Any thread. */
rota_status rota_plan_certify(const rota_plan *plan);

#endif
