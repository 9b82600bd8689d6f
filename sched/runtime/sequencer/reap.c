/* What has ended is recycled, and what a lost device left fails. The sequencer's. */
#include "base/atomic.h"
#include "sched/runtime/kinds/kinds.h"
#include "sched/runtime/kinds/works.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/order/deliver.h"
#include "sched/runtime/sequencer/cancels.h"
#include "sched/runtime/sequencer/last_use.h"
#include "sched/runtime/sequencer/reap.h"
#include "sched/runtime/sequencer/submission_pool.h"
#include "sched/runtime/shared/cancel.h"
#include "sched/runtime/shared/failed_ranges.h"
#include "sched/runtime/shared/failures.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/stats.h"
#include "sched/runtime/shared/timeline.h"

static void remove_undelivered(rota_sequencer *sequencer, const rota_submission *submission) {
    rota_submission *before = submission->seldom.undelivered.before,
                    *after = submission->seldom.undelivered.after;
    if (before)
        before->seldom.undelivered.after = after;
    else
        sequencer->undelivered_first = after;
    if (after)
        after->seldom.undelivered.before = before;
    else
        sequencer->undelivered_last = before;
}

static void release_transfers(rota_submission *submission) {
    for (uint32_t i = 0; i < submission->made.migration_count; i++) {
        if (submission->made.migrations[i].down) rota_staging_release(submission->made.migrations[i].down);
        if (submission->made.migrations[i].up) rota_staging_release(submission->made.migrations[i].up);
    }
}

/* Tickets were ended here: what waits for that has no other way to know. */
static void tell_completer(rota_runtime *runtime) {
    (void)ra_fetch_add_seq_cst(&runtime->completing.ended_directly,
                               1); /* with look_at_ended_directly in complete.c */
    rota_sleeper_wake(&runtime->completing.sleeper);
}

static void fail_for_loss(rota_runtime *runtime, rota_submission *submission, const rota_device *device) {
    rota_submission_fail(runtime, submission, (rota_reason){ra_load_acquire(&device->lost_cause), 0}, false);
    if (!submission->by_delivery) return;
    (void)ra_fetch_or_seq_cst(&submission->cell->state, (uint32_t)ROTA_CELL_DONE); /* as in complete.c */
    rota_wait_table_wake(&runtime->completing.delivery_waiters, 1);
    tell_completer(runtime);
}

/* A lost device, or the thread that hands works to it, may still touch the submission: it is kept until
 * close, and with it its plan; what it has of staging memory until the device is quiet. */
static void keep(rota_sequencer *sequencer, rota_submission *submission) {
    rota_chunk_ended(submission->chunk); /* it has failed, which is done once */
    rota_deliver_end(sequencer, submission);
    rota_kinds[submission->kind].uncount(sequencer, submission);
    if (submission->has_deadline) rota_deadline_end(sequencer, submission);
    for (uint32_t i = 0; i < submission->made.work_count; i++) {
        const rota_work_row *row = rota_work_row_of(&submission->made.works[i]);
        if (row->release) row->release(sequencer, &submission->made.works[i]);
    }
    rota_submission **list = submission->read ? &sequencer->orphaned_new : &sequencer->orphaned;
    submission->next = *list;
    *list = submission;
}

/* Whether nothing writes what the submission reads any more. */
static bool is_quiet(const rota_sequencer *sequencer, const rota_submission *submission) {
    for (uint32_t i = 0; i < submission->made.work_count; i++) {
        const rota_work *work = &submission->made.works[i];
        if (!(sequencer->quiet >> work->device->index & 1u) &&
            !rota_point_passed(sequencer->runtime, rota_work_point(work)))
            return false;
    }
    return true;
}

/* Of orphaned reads, those that are over let go of what they read into. The completer has nothing to deliver of
 * them: each had failed before it came here. */
static void let_go_of(rota_sequencer *sequencer, rota_submission *submission) {
    while (submission) {
        rota_submission *next = submission->next;
        const bool is_over = is_quiet(sequencer, submission);
        if (is_over) rota_kinds[submission->kind].end(sequencer, submission);
        rota_submission **list = is_over ? &sequencer->orphaned : &sequencer->orphaned_reads;
        submission->next = *list;
        *list = submission;
        submission = next;
    }
}

/* What was written to a quiet device rota_staging_sweep gives back. Who waits for that looks at all again only when
 * another device has become quiet. */
static void look_at_lost(rota_sequencer *sequencer, uint64_t lost) {
    uint64_t quiet = 0;
    for (uint64_t left = lost; left; left &= left - 1) {
        const uint32_t d = (uint32_t)__builtin_ctzll(left);
        if (rota_device_is_quiet(sequencer->runtime->devices[d])) quiet |= (uint64_t)1 << d;
    }
    rota_submission *fresh = sequencer->orphaned_new, *waiting = NULL;
    if (quiet != sequencer->quiet) {
        waiting = sequencer->orphaned_reads;
        sequencer->orphaned_reads = NULL;
    }
    sequencer->quiet = quiet;
    sequencer->is_unquiet = quiet != lost;
    sequencer->orphaned_new = NULL;
    let_go_of(sequencer, waiting);
    let_go_of(sequencer, fresh);
}

/* Whether a device that is well, or one that takes inputs for it, is at work for a submission: its caller's
 * memory is in use. */
static bool is_at_work(rota_runtime *runtime, const rota_submission *submission) {
    for (uint32_t i = 0; i < submission->made.work_count; i++) {
        const rota_work *work = &submission->made.works[i];
        /* Acquire: with look_for_loss. What moves have of staging memory is given back at their end. */
        if (work->step != 0 && ra_load_acquire(&work->in_vain)) continue;
        if (!rota_device_is_lost(work->device) && !rota_point_passed(runtime, rota_work_point(work)))
            return true;
    }
    return rota_device_fills(runtime, submission->number);
}

/* How many a round looks at of what a lost device left: not all of it, again and again, while others are at
 * work. Before a sleep all are. */
#define STRANDED_LOOKED_AT 64u

/* What a lost device left unfinished fails, each as soon as no other device is at work for it, nor for what
 * is to be delivered to the same memory before. Nothing is added to a lost device's lists, but what was under
 * way when it was lost. */
static void orphan(rota_sequencer *sequencer, rota_device *device, rota_timeline *timeline, bool all) {
    rota_runtime *runtime = sequencer->runtime;
    rota_submission *before = all ? NULL : timeline->order.orphan_after;
    bool any = false;
    for (uint32_t looks = 0; all || looks < STRANDED_LOOKED_AT; looks++) {
        rota_submission *submission = before ? before->next : timeline->order.oldest;
        if (!submission || rota_point_passed(runtime, submission->final_point)) {
            before = NULL; /* from the beginning, next time */
            break;
        }
        if (is_at_work(runtime, submission) || (rota_submission_comes_after_others(submission) &&
                                                ra_load_acquire(&submission->told.delivery_done) ==
                                                    ROTA_DELIVERY_PENDING)) { /* with complete.c */
            before = submission;
            continue;
        }
        if (before)
            before->next = submission->next;
        else
            timeline->order.oldest = submission->next;
        if (timeline->order.newest == submission) timeline->order.newest = before;
        fail_for_loss(runtime, submission, device);
        ra_store_release(&submission->cell->point, ROTA_POINT_PASSED);
        keep(sequencer, submission);
        any = true;
    }
    timeline->order.orphan_after = before;
    if (timeline->order.oldest && !rota_point_passed(runtime, timeline->order.oldest->final_point))
        sequencer->orphaning = true;
    if (!any) return;
    rota_device_wake_waiters(device);
    tell_completer(runtime);
}

/* The lost device that may still have a work of a submission whose last work has passed, or NULL. That one
 * was on another device and no longer waited for what was lost: whoever let it pass saw the loss before, and
 * so it is seen here. */
static const rota_device *left_behind(rota_runtime *runtime, const rota_submission *submission) {
    for (uint32_t i = 0; submission->made.foreign_wait_count && i < submission->made.work_count; i++) {
        const rota_work *work = &submission->made.works[i];
        if (rota_device_is_lost(work->device) && !rota_point_passed(runtime, rota_work_point(work)))
            return work->device;
    }
    return NULL;
}

/* In copies that the submission did not write these bytes are none that anybody could still read. Unlike a
 * plan's own buffers, what was bound to its slots, or was written by the host, may be gone: its last use has
 * passed. It is but compared with what marks name, and those of another buffer in its place are of later
 * submissions. */
static void heal_older(rota_runtime *runtime, const rota_submission *submission, const rota_buffer *root,
                       uint64_t begin, uint64_t end, void *user) {
    (void)user;
    const rota_memory_range where = rota_memory_range_of_buffer(root, begin, end);
    /* What is cancelled may have been left out before it was known what had failed of that. */
    if (rota_submission_status(submission) == ROTA_CANCELLED)
        rota_failed_ranges_heal_with_causes(runtime, &where, submission->number);
    else
        rota_failed_ranges_heal(runtime, &where, (rota_moment){submission->number - 1, UINT32_MAX});
}

/* The submission has ended: its marks of memory that it had for itself go, and older ones that it wrote over.
 */
static void end_marks(rota_runtime *runtime, const rota_submission *submission) {
    const rota_kind *kind = &rota_kinds[submission->kind];
    (void)pthread_mutex_lock(&runtime->failed.mutex);
    rota_failed_ranges_remove(runtime, rota_marks_take_of(&runtime->failed.marks, submission));
    if (kind->for_written) kind->for_written(runtime, submission, heal_older, NULL);
    (void)pthread_mutex_unlock(&runtime->failed.mutex);
}

/* The submission has ended; `lost` was left behind, or NULL. */
static void put_away(rota_sequencer *sequencer, rota_submission *submission, const rota_device *lost) {
    rota_runtime *runtime = sequencer->runtime;
    rota_stat_count(&runtime->stats.completed);
    if (lost) {
        rota_submission_fail(runtime, submission, (rota_reason){ra_load_acquire(&lost->lost_cause), 0},
                             false);
        keep(sequencer, submission);
        return;
    }
    const rota_kind *kind = &rota_kinds[submission->kind];
    if (kind->note_end) kind->note_end(sequencer, submission); /* of all its parts */
    release_transfers(submission);
    if (rota_failed_is_any(ra_load_relaxed(&runtime->failed.active))) end_marks(runtime, submission);
    rota_submission_let_go(sequencer, submission);
}

/* Failed tickets that wait for all that came before: what is left of that is on a timeline, or undelivered,
 * each in its order. */
static void end_unordered(rota_sequencer *sequencer) {
    rota_runtime *runtime = sequencer->runtime;
    uint64_t oldest = sequencer->undelivered_first ? sequencer->undelivered_first->number : UINT64_MAX;
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++)
        for (uint32_t q = 0; q < runtime->devices[d]->queues_used; q++) {
            const rota_submission *first = runtime->devices[d]->timelines[q].order.oldest;
            if (first && first->number < oldest) oldest = first->number;
        }
    bool any = false;
    while (sequencer->unordered_first && ra_load_relaxed(&sequencer->unordered_first->number) < oldest) {
        rota_cell *cell = sequencer->unordered_first;
        const uint64_t index = rota_ticket_sequence(ra_load_relaxed(&cell->id)) % ROTA_CHUNK_CELLS;
        rota_cell_chunk *chunk =
            (rota_cell_chunk *)((uintptr_t)(cell - index) - offsetof(rota_cell_chunk, cells));
        sequencer->unordered_first = cell->later;
        if (!cell->later) sequencer->unordered_last = NULL;
        (void)ra_fetch_or_seq_cst(&cell->state, (uint32_t)ROTA_CELL_DONE); /* as in complete.c */
        rota_chunk_ended(chunk);
        any = true;
    }
    if (!any) return;
    rota_wait_table_wake(&runtime->completing.delivery_waiters, 1);
    tell_completer(runtime);
}

void rota_sequence_reap(rota_sequencer *sequencer, bool all) {
    rota_runtime *runtime = sequencer->runtime;
    sequencer->orphaning = false;
    if (sequencer->pool->pinned) rota_submissions_forget_unpinned(sequencer);
    /* With finish_delivery. */
    rota_stack_entry *ended = rota_stack_seems_empty_upmc(&runtime->sequencing.ended)
                                  ? NULL
                                  : rota_stack_take_upmc(&runtime->sequencing.ended);
    while (ended) {
        rota_submission *submission = ROTA_STACK_OBJECT(ended, rota_submission, seldom.ended);
        ended = ended->next;
        remove_undelivered(sequencer, submission);
        rota_submission_let_go(sequencer, submission);
    }
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    uint64_t all_lost = 0;
    for (uint32_t d = 0; d < devices; d++) {
        rota_device *device = runtime->devices[d];
        bool lost = rota_device_is_lost(device);
        if (lost) all_lost |= (uint64_t)1 << d;
        for (uint32_t q = 0; q < device->queues_used; q++) {
            rota_timeline *timeline = &device->timelines[q];
            if (!timeline->order.oldest) continue;
            const uint64_t completed = timeline->order.seen =
                ra_load_acquire(&timeline->completed); /* with advanced */
            while (timeline->order.oldest &&
                   rota_point_value(timeline->order.oldest->final_point) <= completed) {
                rota_submission *submission = timeline->order.oldest;
                /* With finish_delivery; seq_cst, with this thread's interest before it sleeps. */
                uint32_t by_delivery = submission->by_delivery
                                           ? ra_load_seq_cst(&submission->told.delivery_done)
                                           : (uint32_t)ROTA_DELIVERY_COPIED;
                if (by_delivery == ROTA_DELIVERY_PENDING) break;
                const rota_device *behind = left_behind(runtime, submission);
                /* Its ticket has not ended, and its cell is marked when it has: rota_device_end_filling. */
                if (behind && rota_device_fills(runtime, submission->number)) {
                    sequencer->orphaning = true;
                    break;
                }
                if (by_delivery == ROTA_DELIVERY_LOST) {
                    fail_for_loss(runtime, submission, device);
                    ra_store_relaxed(&submission->told.delivery_done, ROTA_DELIVERY_COPIED); /* once */
                }
                timeline->order.oldest = submission->next;
                rota_submission_fetch(submission->upcoming);
                if (lost) timeline->order.orphan_after = NULL;
                put_away(sequencer, submission, behind);
            }
            if (!timeline->order.oldest) timeline->order.newest = NULL;
            if (lost && timeline->order.oldest) orphan(sequencer, device, timeline, all);
        }
    }
    if (sequencer->unordered_first) end_unordered(sequencer);
    if (all_lost) look_at_lost(sequencer, all_lost);
}
