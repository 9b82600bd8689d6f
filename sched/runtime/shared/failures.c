/* Which tickets failed, and why.
 *
 * What is kept does not grow with the number of failures. A ticket's failure stands in its cell; for when
 * that has gone on to a later ticket, each lane keeps runs of tickets that failed one after the other with
 * the same cause, and of those that no longer find a place, from where to where they lie.
 *
 * Written under failed.mutex by rota's and executors' threads; read without a lock, as tickets are asked for
 * by calls that wait for nobody. */
#include "base/atomic.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/failures.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/runtime.h"

/* Tickets of the lane from `first` to `last` (sequences) are among those of which it is not known any more
 * which ones failed. */
static void forget(rota_lane *lane, uint64_t first, uint64_t last) {
    /* Releases: with the acquires in rota_failure_find. */
    uint64_t from = ra_load_relaxed(&lane->forgotten_first), to = ra_load_relaxed(&lane->forgotten_last);
    if (from == 0 || first < from) ra_store_release(&lane->forgotten_first, first);
    if (last > to) ra_store_release(&lane->forgotten_last, last);
}

/* With failed.mutex held. */
static void note(rota_lane *lane, uint64_t sequence, rota_status status, rota_reason reason) {
    rota_failure_span *run = &lane->store->failure_spans[lane->newest_span];
    if (ra_load_relaxed(&run->first) && ra_load_relaxed(&run->last) + 1 == sequence &&
        ra_load_relaxed(&run->cause) == reason.cause && ra_load_relaxed(&run->status) == (uint32_t)status) {
        ra_store_release(&run->last, sequence); /* with rota_failure_find */
        return;
    }
    if (ra_load_relaxed(&run->first)) lane->newest_span = (lane->newest_span + 1) % ROTA_FAILURE_SPANS;
    run = &lane->store->failure_spans[lane->newest_span];
    const uint64_t before = ra_load_relaxed(&run->first);
    if (before) {
        forget(lane, before, ra_load_relaxed(&run->last));
        ra_store_release(&run->first, 0); /* after `forget`: who misses the run finds what stands for it */
    }
    /* Releases: who reads one of these with acquire and then `first` sees that the run is another. */
    ra_store_release(&run->last, sequence);
    ra_store_release(&run->cause, reason.cause);
    ra_store_release(&run->number, reason.number);
    ra_store_release(&run->status, (uint32_t)status);
    ra_store_release(&run->first, sequence);
}

/* With failed.mutex held. */
static void set_failed(rota_runtime *runtime, rota_cell *cell, uint64_t ticket_id, rota_status status,
                       rota_reason reason) {
    note(rota_lane_at(&runtime->lanes, rota_ticket_lane(ticket_id)), rota_ticket_sequence(ticket_id), status,
         reason);
    (void)ra_fetch_add_relaxed(&runtime->stats.failed, 1);
    /* Releases: who reads one of these with acquire and then the cell's id sees whose they are. */
    ra_store_release(&cell->cause, reason.cause);
    ra_store_release(&cell->cause_number, reason.number);
    ra_store_release(&cell->failed_with, (uint32_t)status);
    /* Releases them to the load in rota_ticket_status. */
    (void)ra_fetch_or_acq_rel(&cell->state, (uint32_t)ROTA_CELL_FAILED);
}

void rota_ticket_set_failed(rota_runtime *runtime, rota_cell *cell, uint64_t ticket_id, rota_status status,
                            rota_reason reason) {
    (void)pthread_mutex_lock(&runtime->failed.mutex);
    set_failed(runtime, cell, ticket_id, status, reason);
    (void)pthread_mutex_unlock(&runtime->failed.mutex);
}

/* A run that is replaced meanwhile is told by its `first`, which no later run of the lane has. */
static bool is_in_run(const rota_failure_span *run, uint64_t sequence, rota_status *out_status,
                      rota_reason *out_reason) {
    const uint64_t first = ra_load_acquire(&run->first); /* each acquire: with `note` */
    if (first == 0 || sequence < first || sequence > ra_load_acquire(&run->last)) return false;
    out_reason->cause = ra_load_acquire(&run->cause);
    out_reason->number = ra_load_acquire(&run->number);
    *out_status = (rota_status)ra_load_acquire(&run->status);
    /* Acquire, too: who finds it replaced goes on to what `forget` stored before. */
    return ra_load_acquire(&run->first) == first;
}

rota_status rota_failure_find(const rota_runtime *runtime, uint64_t ticket_id) {
    const rota_lane *lane = rota_lane_at(&runtime->lanes, rota_ticket_lane(ticket_id));
    const uint64_t sequence = rota_ticket_sequence(ticket_id);
    rota_status status;
    rota_reason reason;
    for (uint32_t i = 0; i < ROTA_FAILURE_SPANS; i++)
        if (is_in_run(&lane->store->failure_spans[i], sequence, &status, &reason))
            return rota_reason_fail(status, reason);
    /* Acquires: with `forget`. The last first: it is there when the first is seen to be. */
    const uint64_t last = ra_load_acquire(&lane->forgotten_last);
    const uint64_t first = ra_load_acquire(&lane->forgotten_first);
    if (first == 0 || sequence < first || sequence > last) return ROTA_OK;
    return rota_fail(ROTA_NOT_FOUND,
                     "it is not known any more whether this submission failed: of a thread's failures beyond "
                     "its last %d submissions and last %d runs of failures only is known from where to where "
                     "they lie",
                     ROTA_TICKET_HISTORY, ROTA_FAILURE_SPANS);
}

bool rota_cell_failure(const rota_cell *cell, uint64_t ticket_id, rota_status *out_status,
                       rota_reason *out_reason) {
    /* Acquires: with the releases in rota_ticket_set_failed. */
    out_reason->cause = ra_load_acquire(&cell->cause);
    out_reason->number = ra_load_acquire(&cell->cause_number);
    *out_status = (rota_status)ra_load_acquire(&cell->failed_with);
    return ra_load_relaxed(&cell->id) == ticket_id;
}

/* Several threads may fail one submission: an executor's, the submit threads of its devices. Each lets its own value
 * be reached afterwards, so none returns before the ticket is marked, whoever marks it: `cause` is stored last. */
void rota_submission_fail(rota_runtime *runtime, rota_submission *submission, rota_reason reason,
                          bool first) {
    if (ra_load_acquire(&submission->shared.cause)) return; /* with the release below */
    (void)pthread_mutex_lock(&runtime->failed.mutex);
    if (!ra_load_relaxed(&submission->shared.cause)) {
        rota_status status = first && reason.cause->status != ROTA_UNDEFINED_DATA
                                 ? reason.cause->status
                                 : rota_cause_inherited(reason.cause);
        set_failed(runtime, submission->cell, ra_load_relaxed(&submission->cell->id), status, reason);
        ra_store_release(&submission->shared.cause, reason.cause); /* also with is_good in complete.c */
    }
    (void)pthread_mutex_unlock(&runtime->failed.mutex);
}

rota_status rota_submission_status(const rota_submission *submission) {
    return ra_load_acquire(&submission->shared.cause) /* with the release above */
               ? (rota_status)ra_load_acquire(&submission->cell->failed_with)
               : ROTA_OK;
}
