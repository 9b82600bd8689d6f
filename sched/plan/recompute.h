/* Under a memory limit: nodes that run again. Internal. */
#ifndef ROTA_SCHED_PLAN_RECOMPUTE_H
#define ROTA_SCHED_PLAN_RECOMPUTE_H

#include "sched/plan/compiler.h"

/* Makes the largest sum of the transients' live bytes in record order at most memory.target, if it can, by
 * running pure nodes again: fills in compiler->recomputed, and changes records[] of the nodes that read what
 * was computed again. OUT_OF_MEMORY: host memory only. O((nodes + accesses) log nodes). */
rota_status rota_compile_recompute(rota_compiler *compiler, const rota_node_record **records);

#endif
