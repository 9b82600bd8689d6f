/* A submission is cancelled: one byte of it says so, which is looked at wherever something of it would begin.
 *
 *   caller: rota_ticket_cancel         sequencer: cancels.c, and what was asked before it took the record
 *       pins the submission                 |
 *            \------------ cancelled = by ---/
 *                          failed.active |= CANCELS      executors ask before each node
 *                          wakes submit threads          those that hold works of it let them go
 *            /-------------------+--------------------\
 *   submit thread: enter     executor: must_skip    blocked.c: after_is_over
 *   (a whole work is left    (a node is left out,   (it waits for no point of
 *   out, its ranges marked)  its ranges marked)     the application's any more; nor,
 *                                                   is_ready, for an instance or memory)
 *
 * What moves bytes on its behalf is left out by the last of these alone (cancelled.c).
 *
 * What is left out fails the submission and marks what it was to write, both as for a failure (judge.c); its works go
 * through their queues without commands, so that its end comes after what it came after, and all who come after it
 * find what they count on. Of one of which all has begun nothing is left out: it ends as it would have.
 *
 * Whoever cancels does all of these steps, also who finds that another one was first: that one may be stopped between
 * two of them, and would hold up what this one was told. None of them waits, allocates or takes a lock. */
#include "sched/runtime/shared/cancel.h"

#include "base/atomic.h"
#include "base/sleep.h"
#include "sched/runtime/shared/runtime.h"

rota_cancelled_by rota_submission_cancelled_by(const rota_submission *submission) {
    /* seq_cst: with the wakes below, around the sleep of who holds its works. */
    return (rota_cancelled_by)ra_load_seq_cst(&submission->cancelled);
}

void rota_submission_cancel(rota_runtime *runtime, rota_submission *submission, rota_cancelled_by by) {
    uint8_t nobody = ROTA_CANCELLED_BY_NOBODY;
    (void)ra_cas_seq_cst(&submission->cancelled, &nobody, (uint8_t)by);
    /* After that: who is made to ask sees it. Taken back by the sequencer (cancels.c) when whatever may have been
     * cancelled has ended. */
    (void)ra_fetch_or_seq_cst(&runtime->failed.active, ROTA_FAILED_CANCELS | ROTA_FAILED_CANCELS_NEW);
    const uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++)
        rota_sleeper_wake(&runtime->handle.submitters[d]); /* with rest in thread.c */
}
