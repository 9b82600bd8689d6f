/* What of a cancelled submission has not begun is left out (cancel.c says who asks, and when).
 *
 * Not what moves bytes between devices on its behalf, a work or a node: what of those it did not write is where it was
 * brought to for whoever comes later, and what it did not write takes its marks along.
 *
 * Who is asked about a work or node of a submission asks this first, then for failed ranges: what this one leaves out
 * others of the same submission may read, and they are cancelled too, and not failed for that. */
#include "sched/runtime/submitter/cancelled.h"

#include "base/atomic.h"
#include "sched/plan/compiled.h"
#include "sched/runtime/kinds/kinds.h"
#include "sched/runtime/shared/cancel.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/failures.h"
#include "sched/runtime/submitter/judge.h"

static rota_reason reason_of(rota_runtime *runtime, const rota_submission *submission, rota_cancelled_by by) {
    /* Most of what is left out comes after the first, whose cause is at hand. Acquires: with rota_submission_fail. */
    const rota_cause *cause = ra_load_acquire(&submission->shared.cause);
    if (cause && cause->status == ROTA_CANCELLED &&
        ra_load_acquire(&submission->cell->cause_number) == submission->number)
        return (rota_reason){cause, submission->number};
    const rota_kind *kind = &rota_kinds[submission->kind];
    if (by == ROTA_CANCELLED_BY_DEADLINE)
        cause = rota_cause_new(runtime, ROTA_CANCELLED,
                               "%s '%s', submission " ROTA_CAUSE_NUMBER
                               ", was cancelled: it had not ended by its deadline, %.3f s "
                               "after it was submitted",
                               kind->noun, kind->name(submission),
                               (double)submission->seldom.deadline.after_ns * 1e-9);
    else
        cause = rota_cause_new(runtime, ROTA_CANCELLED,
                               "%s '%s', submission " ROTA_CAUSE_NUMBER ", was cancelled by a call",
                               kind->noun, kind->name(submission));
    return (rota_reason){cause, submission->number};
}

bool rota_cancelled_work(const rota_work *work, rota_reason *out_reason) {
    if (!rota_work_row_of(work)->touch_node) return false; /* it moves */
    const rota_cancelled_by by = rota_submission_cancelled_by(work->submission);
    if (by == ROTA_CANCELLED_BY_NOBODY) return false;
    *out_reason = reason_of(work->device->runtime, work->submission, by);
    return true;
}

bool rota_cancelled_node(rota_work *work, const void *owner, uint32_t node) {
    rota_reason reason;
    if (owner && rota_plan_is_transfer(work->submission->plan, node)) return false;
    if (!rota_cancelled_work(work, &reason)) return false;
    if (work->gated) { /* is judged as a whole */
        rota_poison_work(work, reason, true);
        return true;
    }
    rota_submission_fail(work->device->runtime, work->submission, reason, true);
    rota_judge_failed(work, owner, node, reason);
    return true;
}
