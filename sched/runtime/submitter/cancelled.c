/* What of a cancelled submission has not begun is left out (cancel.c says who asks, and when).
 *
 * Not what moves bytes between devices on its behalf, a work or a node: what of those it did not write is where it was
 * brought to for whoever comes later, and what it did not write takes its marks along. It does not wait for points of
 * the application's either, which are nothing to memory that only rota touches. But a work that moves what the
 * application may still have is left out like the rest where they are not reached: who needs the bytes there, and
 * comes after its end, has them moved anew (rota_copies_drop_failed).
 *
 * What reads what had failed before is left out for that, and its ticket says so, where all that it comes after is
 * decided (judge.h): not where a whole work is left out before its device would ask about its nodes, as what it reads
 * may be written over by then. Where that was a cancelled submission, and this one is cancelled too, its own ticket
 * says that. Either way marks that are older stay until it ends (rota_poison_work), and have what it leaves be for
 * their causes then (end_marks in reap.c), or are what the new ones are made by (rota_judge_must_skip). */
#include "sched/runtime/submitter/cancelled.h"

#include "base/atomic.h"
#include "sched/plan/compiled.h"
#include "sched/runtime/kinds/kinds.h"
#include "sched/runtime/shared/cancel.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/failures.h"
#include "sched/runtime/submitter/judge.h"

static rota_cancelled_by by_whom(const rota_work *work) {
    return rota_submission_cancelled_by(work->submission);
}

/* The sentences are few, as those of causes are kept for good: a deadline's length is not among what they say. */
static rota_reason reason_of(const rota_work *work, rota_cancelled_by by) {
    rota_runtime *runtime = work->device->runtime;
    const rota_submission *submission = work->submission;
    /* Most of what is left out comes after the first, whose cause is at hand. Acquires: with rota_submission_fail. */
    const rota_cause *cause = ra_load_acquire(&submission->shared.cause);
    if (cause && cause->status == ROTA_CANCELLED &&
        ra_load_acquire(&submission->cell->cause_number) == submission->number)
        return (rota_reason){cause, submission->number};
    const rota_kind *kind = &rota_kinds[submission->kind];
    cause = rota_cause_new(
        runtime, ROTA_CANCELLED, "%s '%s', submission " ROTA_CAUSE_NUMBER ", was cancelled%s", kind->noun,
        kind->name(submission),
        by == ROTA_CANCELLED_BY_DEADLINE ? ": it had not ended by its deadline" : " by a call");
    return (rota_reason){cause, submission->number};
}

/* A work without a row for single nodes moves. */
static bool moves(const rota_work *work) {
    return !rota_work_row_of(work)->touch_node;
}

bool rota_cancelled_leaves_out(const rota_work *work) {
    return by_whom(work) != ROTA_CANCELLED_BY_NOBODY && !moves(work);
}

bool rota_cancelled_goes_on(const rota_work *work) {
    return by_whom(work) != ROTA_CANCELLED_BY_NOBODY && moves(work) &&
           !work->submission->made.migrations[work->segment].is_lent;
}

bool rota_cancelled_lets_go(const rota_work *work) {
    return rota_cancelled_leaves_out(work) || rota_cancelled_goes_on(work);
}

bool rota_cancelled_move(const rota_work *work, rota_reason *out_reason) {
    const rota_cancelled_by by = by_whom(work);
    if (by == ROTA_CANCELLED_BY_NOBODY || !moves(work)) return false;
    *out_reason = reason_of(work, by);
    return true;
}

bool rota_cancelled_after(const rota_work *work, rota_reason *reason) {
    const rota_cancelled_by by = by_whom(work);
    if (by == ROTA_CANCELLED_BY_NOBODY || reason->cause->status != ROTA_CANCELLED) return false;
    *reason = reason_of(work, by);
    return true;
}

bool rota_cancelled_work(const rota_work *work, rota_reason *out_reason, bool *out_first) {
    if (!rota_cancelled_leaves_out(work)) return false;
    const bool is_decided = !work->gated && !work->device->asks_poison; /* as in enter, of others */
    *out_first =
        !is_decided || !rota_judge_reads_failed(work, out_reason) || rota_cancelled_after(work, out_reason);
    if (*out_first) *out_reason = reason_of(work, by_whom(work));
    return true;
}

bool rota_cancelled_node(rota_work *work, const void *owner, uint32_t node) {
    if (!rota_cancelled_leaves_out(work) || (owner && rota_plan_is_transfer(work->submission->plan, node)))
        return false;
    const rota_reason reason = reason_of(work, by_whom(work));
    if (work->gated || !work->device->asks_poison) { /* is judged as a whole */
        rota_poison_work(work, reason, true);
        return true;
    }
    rota_submission_fail(work->device->runtime, work->submission, reason, true);
    rota_judge_failed(work, owner, node, reason);
    return true;
}
