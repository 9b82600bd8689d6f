/* What a plan may take within the runtime's memory limit. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_PLANS_LIMIT_H
#define ROTA_SCHED_RUNTIME_PLANS_LIMIT_H

#include <stdint.h>
#include "sched/plan.h"

/* Limits for the transients of a plan that had no room, from the better to the last that makes sense; 0: none. */
typedef struct rota_plan_limits {
    /* Leaves what transfers are staged in, of all arenas that the plan may have. */
    uint64_t with_spare;
    uint64_t all; /* one arena takes all that is free, or that it shares with another plan */
} rota_plan_limits;

/* By what is free of the runtime's limit now. `plan` was compiled, and making its first instance failed: what that has
 * beside transients tells how much is left for them. None where the runtime has no limit, where the options forbid one
 * (UINT64_MAX), or where the transients are not what is too much. Callers; linear in the plan's memories. */
rota_plan_limits rota_plan_limits_of(const rota_plan *plan);

#endif
