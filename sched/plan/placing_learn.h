/* From when commands ran to the history of their devices. Internal; not installed. */
#ifndef ROTA_SCHED_PLAN_PLACING_LEARN_H
#define ROTA_SCHED_PLAN_PLACING_LEARN_H

#include "sched/plan/compiled.h"
#include "sched/plan/placing_history.h"

/* What names the times of the graph's replays on one device. Linear in nodes. */
uint64_t rota_placing_graph_key(const rota_plan *plan);

/* Adds a replay's times, of all commands in record order, to the histories of the plan's parts. OUT_OF_MEMORY. Linear
 * in nodes and commands. */
rota_status rota_placing_learn(const rota_plan *plan, const rota_plan_time *times,
                               rota_history *const *by_part);

#endif
