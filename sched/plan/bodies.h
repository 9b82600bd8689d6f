/* Bodies of nodes that decide: see bodies.c. */
#ifndef ROTA_SCHED_PLAN_BODIES_H
#define ROTA_SCHED_PLAN_BODIES_H

#include "sched/plan/compiler.h"

/* Refuses a node that decides, or is counted, where its device runs none. */
rota_status rota_compile_can_run(const rota_compiler *compiler, const rota_node_record *record,
                                 rota_node node, uint32_t part);
/* Compiles the node's bodies for its part; the operation that comes next is the node's. *out_bytes: memory for what is
 * theirs, its last operand; 0: none. */
rota_status rota_compile_bodies(rota_compiler *compiler, const rota_node_record *record, uint32_t part,
                                uint64_t *out_bytes);
void rota_plan_free_bodies(const rota_plan *plan);

#endif
