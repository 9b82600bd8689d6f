/* Lowering of nodes that decide: see lower_bodies.c. */
#ifndef ROTA_SCHED_PLAN_LOWER_BODIES_H
#define ROTA_SCHED_PLAN_LOWER_BODIES_H

#include "sched/plan/lower_parts.h"

/* Gives their bodies to the commands of nodes that decide, once the parts are written. */
rota_status rota_lower_bodies(lowering *lowering);

#endif
