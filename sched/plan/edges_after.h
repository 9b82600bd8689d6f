/* What rota_node_after was told. Internal to edges*.c. */
#ifndef ROTA_SCHED_PLAN_EDGES_AFTER_H
#define ROTA_SCHED_PLAN_EDGES_AFTER_H

#include "sched/plan/compiler.h"

/* compiler->afters: what rota_node_after was told, by later operation. */
rota_status rota_edges_gather_afters(rota_compiler *c);

#endif
