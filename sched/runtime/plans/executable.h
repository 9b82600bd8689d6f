/* What a plan needs to run. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_PLANS_EXECUTABLE_H
#define ROTA_SCHED_RUNTIME_PLANS_EXECUTABLE_H

#include "sched/plan.h"

typedef struct rota_plan_run rota_plan_run;

/* Compile's last step: checks the memory limit, gives persistent buffers their memory, creates programs and
 * the first instance. On failure the plan is as before. */
rota_status rota_plan_run_create(rota_plan *plan);
/* All but the struct; the sequencer has let go of it before (rota_replay_release). */
void rota_run_destroy(rota_plan_run *run);

#endif
