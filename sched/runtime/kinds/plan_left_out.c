/* A segment that is left out as a whole: its host nodes that end later may have to tell others. */
#include "base/atomic.h"
#include "sched/runtime/kinds/plan.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/plans/instances.h"
#include "sched/runtime/shared/submission.h"
#include "sched/runtime/shared/work.h"

/* Without an instance nobody can. */
void rota_segment_leave_out(const rota_work *work, rota_exec_work *out) {
    const rota_submission *submission = work->submission;
    const rota_plan *plan = submission->plan;
    const rota_plan_segment *segment = &plan->segments[work->segment];
    const rota_instance *instance = &plan->executable->instances[submission->instance];
    if (!plan->partitions[segment->part].ends_later) return;
    if (!ra_load_acquire(&instance->created)) return; /* with rota_instance_make */
    out->left_out = instance->parts[segment->part];
    out->segment = segment->index;
}
