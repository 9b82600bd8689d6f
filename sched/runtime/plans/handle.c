/* References to a plan, and whether it can be used. */
#include <stdlib.h>

#include "base/atomic.h"
#include "sched/plan/compile.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/plans/handle.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/runtime.h"

void rota_plan_retain(rota_plan *plan) {
    if (plan) (void)ra_fetch_add_relaxed(&plan->references, 1);
}

void rota_plan_release(rota_plan *plan) {
    /* acq_rel: publishes this thread's use; the last one sees all others'. */
    if (!plan || ra_fetch_sub_acq_rel(&plan->references, 1) != 1) return;
    if (plan->executable)
        rota_executable_release(plan);
    else
        rota_plan_free(plan);
}

void rota_plan_free(rota_plan *plan) {
    rota_plan *lender = plan->options.arena_of;
    rota_plan_destroy(plan);
    rota_plan_release(lender);
}

void rota_executable_release(rota_plan *plan) {
    /* After close only the plan's own memory is left. */
    if (plan->executable && plan->executable->abandoned) return;
    if (!plan->executable || plan->executable->closed) {
        free(plan->executable);
        plan->executable = NULL;
        rota_plan_free(plan);
        return;
    }
    rota_reclaim_push(plan->runtime, &plan->executable->released);
}

rota_status rota_plan_check(const rota_plan *plan) {
    if (!plan->executable) return rota_fail(ROTA_WRONG_STATE, "plan '%s': " ROTA_PLAN_ANALYSED, plan->name);
    ROTA_TRY(rota_runtime_check(plan->runtime));
    if (plan->executable->closed)
        return rota_fail(ROTA_WRONG_STATE, "plan '%s': its runtime was closed", plan->name);
    return ROTA_OK;
}
