/* Submissions that are cancelled, as far as that is the sequencer's: those that were asked for before their records
 * were taken, those whose deadlines pass, and when executors need not ask any more. */
#include "sched/runtime/sequencer/cancels.h"

#include "base/assert.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/cancel.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/timeline.h"

/* ---- Cancelled ---- */

void rota_sequencer_cancel(rota_sequencer *sequencer, rota_submission *submission, rota_cancelled_by by) {
    rota_assert_sequencer(sequencer);
    rota_submission_cancel(sequencer->runtime, submission, by);
}

/* A caller notes the ticket, counts itself (seq_cst), loads `head` (seq_cst) and then looks for the submission, which
 * it tells. This thread publishes the submission, stores `head` (seq_cst) and then loads that count. Either it sees the
 * caller's, and with it the note; or the caller's load of `head` comes after the store, and it sees the submission. As
 * nothing was counted since before the first of the records was taken, all notes of that time were seen there. */
void rota_cancels_find(rota_sequencer *sequencer, const rota_lane *lane, uint64_t first, uint64_t seen) {
    rota_runtime *runtime = sequencer->runtime;
    if (ra_load_seq_cst(&runtime->lanes.cancels_asked) == seen) return;
    for (uint64_t sequence = first; sequence <= lane->taken; sequence++) {
        const rota_cell_chunk *chunk = rota_lane_cells(lane, sequence);
        if (!chunk || !rota_cell_is_to_cancel(chunk, sequence)) continue;
        const rota_cell *cell = &chunk->cells[sequence % ROTA_CHUNK_CELLS];
        rota_submission *submission = ra_load_relaxed(&cell->submission); /* this thread's store */
        /* It may have failed, and be over: then its struct is another one's, or nobody's. */
        if (submission && submission->number == ra_load_relaxed(&cell->number))
            rota_sequencer_cancel(sequencer, submission, ROTA_CANCELLED_BY_CALL);
    }
}

static bool have_ended(const rota_sequencer *sequencer, uint64_t up_to) {
    rota_runtime *runtime = sequencer->runtime;
    const uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++)
        for (uint32_t q = 0; q < ra_load_relaxed(&runtime->devices[d]->queues_used); q++) {
            const rota_submission *oldest = runtime->devices[d]->timelines[q].order.oldest;
            if (oldest && oldest->number <= up_to) return false;
        }
    return true;
}

/* Whom a caller cancels was published by then, and has a number no higher than the last; it says afterwards that there
 * is a new one. Once all up to the number at which that was seen last have ended, executors need not ask: where another
 * one is cancelled meanwhile the word has changed, and the exchange fails, so that they are never without the bit. */
static void look_at_cancels(rota_sequencer *sequencer) {
    _Atomic uint32_t *active = &sequencer->runtime->failed.active;
    rota_cancels *cancels = &sequencer->cancels;
    if (ra_load_relaxed(active) & ROTA_FAILED_CANCELS_NEW) {
        (void)ra_fetch_and_seq_cst(active, ~ROTA_FAILED_CANCELS_NEW); /* acquires what they say */
        cancels->up_to = sequencer->next_number;
    }
    if (cancels->up_to == 0 || !have_ended(sequencer, cancels->up_to)) return;
    uint32_t word = ra_load_acquire(active);
    while (!(word & ROTA_FAILED_CANCELS_NEW)) /* a failure, for a mark that came or went, loads anew */
        if (ra_cas_seq_cst(active, &word, word & ~ROTA_FAILED_CANCELS)) {
            cancels->up_to = 0;
            return;
        }
}

/* ---- Deadlines: a pairing heap through the submissions, so that one more needs no memory ---- */

static rota_submission *meld(rota_submission *a, rota_submission *b) {
    if (!a) return b;
    if (!b) return a;
    if (b->seldom.deadline.at_ns < a->seldom.deadline.at_ns) {
        rota_submission *later = a;
        a = b;
        b = later;
    }
    b->seldom.deadline.next = a->seldom.deadline.child;
    if (b->seldom.deadline.next) b->seldom.deadline.next->seldom.deadline.before = b;
    b->seldom.deadline.before = a;
    a->seldom.deadline.child = b;
    return a;
}

static rota_submission *take_off(rota_submission **list) {
    rota_submission *first = *list;
    if (!first) return NULL;
    *list = first->seldom.deadline.next;
    first->seldom.deadline.next = first->seldom.deadline.before = NULL;
    return first;
}

/* Siblings two by two, then all of those, so that removals take O(log n), amortized. */
static rota_submission *meld_all(rota_submission *list) {
    rota_submission *pairs = NULL, *heap = NULL;
    while (list) {
        rota_submission *first = take_off(&list);
        rota_submission *pair = meld(first, take_off(&list));
        pair->seldom.deadline.next = pairs;
        pairs = pair;
    }
    while (pairs) {
        rota_submission *pair = take_off(&pairs);
        heap = meld(heap, pair);
    }
    return heap;
}

void rota_deadline_end(rota_sequencer *sequencer, rota_submission *submission) {
    rota_submission_deadline *deadline = &submission->seldom.deadline;
    rota_assert(submission->has_deadline);
    submission->has_deadline = false;
    rota_submission *before = deadline->before, *below = meld_all(deadline->child);
    if (!before) {
        rota_assert(sequencer->cancels.deadlines == submission);
        sequencer->cancels.deadlines = below;
        return;
    }
    if (before->seldom.deadline.child == submission)
        before->seldom.deadline.child = deadline->next;
    else
        before->seldom.deadline.next = deadline->next;
    if (deadline->next) deadline->next->seldom.deadline.before = before;
    sequencer->cancels.deadlines = meld(sequencer->cancels.deadlines, below);
}

void rota_deadline_begin(rota_sequencer *sequencer, rota_submission *submission) {
    rota_submission_deadline *deadline = &submission->seldom.deadline;
    deadline->child = deadline->next = deadline->before = NULL;
    sequencer->cancels.deadlines = meld(sequencer->cancels.deadlines, submission);
    if (deadline->at_ns > rota_clock_ns()) return;
    rota_deadline_end(sequencer, submission);
    rota_sequencer_cancel(sequencer, submission, ROTA_CANCELLED_BY_DEADLINE);
}

uint64_t rota_deadlines_first_ns(const rota_sequencer *sequencer) {
    const rota_submission *first = sequencer->cancels.deadlines;
    return first ? first->seldom.deadline.at_ns : UINT64_MAX;
}

void rota_cancels_look(rota_sequencer *sequencer) {
    const uint64_t now = sequencer->cancels.deadlines ? rota_clock_ns() : 0;
    while (sequencer->cancels.deadlines && rota_deadlines_first_ns(sequencer) <= now) {
        rota_submission *late = sequencer->cancels.deadlines;
        rota_deadline_end(sequencer, late);
        /* It may have ended just now, and not have been seen to: then nothing of it is left out. */
        rota_sequencer_cancel(sequencer, late, ROTA_CANCELLED_BY_DEADLINE);
    }
    look_at_cancels(sequencer);
}
