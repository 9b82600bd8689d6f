/* References to a plan, and whether it can be used. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_PLANS_HANDLE_H
#define ROTA_SCHED_RUNTIME_PLANS_HANDLE_H

#include "sched/plan.h"

/* Frees the plan's host memory and drops its buffers, its graph and the plan whose memory it uses. */
void rota_plan_free(rota_plan *plan);
/* Called when the last reference to a plan goes: hands everything to the reclaimer, which frees the plan with
 * rota_plan_free once what is in flight has passed. */
void rota_executable_release(rota_plan *plan);
/* ROTA_OK, or WRONG_STATE: the plan is only analysed, or its runtime was closed (whose struct may serve
 * another by now). Wait-free. */
rota_status rota_plan_check(const rota_plan *plan);

#endif
