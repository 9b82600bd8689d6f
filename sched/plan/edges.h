/* Edges between operations: hazards by range, shared memory, rota_node_after. Internal. */
#ifndef ROTA_SCHED_PLAN_EDGES_H
#define ROTA_SCHED_PLAN_EDGES_H

#include "sched/plan/compiler.h"

/* O((operations + accesses) log ranges), whatever the graph. */
rota_status rota_compile_edges(rota_compiler *compiler);
/* Bytes that two accesses have in common, and the hazard between them (earlier's mode, later's mode);
 * ROTA_EDGE_KIND_COUNT: none. */
rota_edge_kind rota_hazard_between(rota_access_mode earlier, rota_access_mode later);

#endif
