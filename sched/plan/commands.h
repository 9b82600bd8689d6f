/* A plan's commands as data. Internal; not installed. */
#ifndef ROTA_SCHED_PLAN_COMMANDS_H
#define ROTA_SCHED_PLAN_COMMANDS_H

#include "sched/plan/compiled.h"

/* OUT_OF_RANGE, with both numbers: the plan has more commands than that. */
rota_status rota_plan_check_capacity(const rota_plan *plan, uint64_t capacity);

#endif
