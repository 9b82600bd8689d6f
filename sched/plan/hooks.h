/* The rewrite hooks of a graph, run. Internal. */
#ifndef ROTA_SCHED_PLAN_HOOKS_H
#define ROTA_SCHED_PLAN_HOOKS_H

#include "sched/plan/compiler.h"
#include "sched/rewrite.h"

/* Runs the graph's rewrite hooks over the node records (NULL: removed). */
rota_status rota_compile_rewrite(rota_compiler *compiler, const rota_node_record **records);

#endif
