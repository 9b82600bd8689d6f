/* A segment that is left out as a whole: its host nodes that end later may have to tell others. */
#include "sched/plan/compiled.h"
#include "sched/runtime/kinds/plan.h"
#include "sched/runtime/shared/submission.h"
#include "sched/runtime/shared/work.h"

void rota_segment_leave_out(const rota_work *work, rota_exec_work *out) {
    const rota_plan *plan = work->submission->plan;
    const rota_plan_segment *segment = &plan->segments[work->segment];
    const rota_partition *part = &plan->partitions[segment->part];
    if (!part->ends_later) return;
    out->left_out = &part->desc;
    out->segment = segment->index;
}
