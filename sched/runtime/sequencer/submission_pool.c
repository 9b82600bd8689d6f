/* Submissions: their structs, used again, and what each owns, given back when nothing has it any more. The
 * sequencer's. */
#include <stdlib.h>
#include <string.h>

#include "sched/runtime/kinds/kinds.h"
#include "sched/runtime/order/deliver.h"
#include "sched/runtime/plans/args.h"
#include "sched/runtime/sequencer/cancels.h"
#include "sched/runtime/sequencer/submission_pool.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/pins.h"
#include "sched/runtime/shared/runtime.h"

rota_submission *rota_submission_take(rota_sequencer *sequencer) {
    rota_submission *submission = sequencer->pool->unused;
    if (submission) {
        const rota_submission *next = sequencer->pool->unused = submission->next;
        if (--sequencer->pool->unused_count < sequencer->pool->unused_fewest)
            sequencer->pool->unused_fewest = sequencer->pool->unused_count;
        if (next && next->made.works) { /* one that failed before may have none */
            ra_prefetch(next->made.works);
            ra_prefetch(next->made.waits);
        }
        rota_submission_fetch(submission->upcoming);
        return submission;
    }
    submission = sequencer->pool->bare;
    if (submission) {
        sequencer->pool->bare = submission->next;
        return submission;
    }
    const size_t bytes = (sizeof *submission + 63) / 64 * 64;
    submission = aligned_alloc(64, bytes);
    if (!submission) return NULL;
    memset(submission, 0, bytes);
    submission->output.completion = calloc(1, sizeof *submission->output.completion);
    if (!submission->output.completion) {
        free(submission);
        return NULL;
    }
    return submission;
}

static void drop(void *array, uint32_t *capacity) {
    void **pointer = array;
    free(*pointer);
    *pointer = NULL;
    *capacity = 0;
}

/* What the next use would free to make room for more of it. */
static void strip(rota_submission *submission) {
    submission->made.room = (rota_submission_room){0, 0, 0};
    drop(&submission->made.works, &submission->made.work_capacity);
    drop(&submission->made.waits, &submission->made.wait_capacity);
    drop(&submission->made.foreign_waits, &submission->made.foreign_wait_capacity);
    drop(&submission->made.payload, &submission->made.payload_capacity);
    drop(&submission->made.segment_points, &submission->made.segment_capacity);
    drop(&submission->made.migrations, &submission->made.migration_capacity);
    drop(&submission->made.unwritten, &submission->made.unwritten_capacity);
    drop(&submission->delivery.waits, &submission->delivery.wait_capacity);
    drop(&submission->delivery.points, &submission->delivery.point_capacity);
    drop(&submission->delivery.after, &submission->delivery.after_capacity);
    drop(&submission->output.bounces, &submission->output.bounce_capacity);
}

void rota_submission_free(rota_submission *submission) {
    strip(submission);
    free(submission->output.completion);
    free(submission->output.bounce);
    free(submission->output.turn.aside);
    free(submission);
}

static void recycle(rota_sequencer *sequencer, rota_submission *submission) {
    submission->next = sequencer->pool->unused;
    sequencer->pool->unused = submission;
    sequencer->pool->unused_count++;
    rota_submission_put_on(&sequencer->pool->trail, submission, false);
}

/* Half at a time, so that a burst that comes now and then finds most of it, and so many at the most, since
 * submissions wait for the sequencer. The structs stay: threads that are late look at their pins (pins.c). */
#define TRIM_MOST 1024u
void rota_submissions_trim(rota_sequencer *sequencer) {
    uint32_t idle = (sequencer->pool->unused_fewest + 1) / 2;
    for (uint32_t left = idle < TRIM_MOST ? idle : TRIM_MOST; left > 0; left--) {
        rota_submission *submission = sequencer->pool->unused;
        sequencer->pool->unused = submission->next;
        sequencer->pool->unused_count--;
        strip(submission);
        submission->next = sequencer->pool->bare;
        sequencer->pool->bare = submission;
    }
    sequencer->pool->unused_fewest = sequencer->pool->unused_count;
}

/* Nothing reads the submission any more, nor its plan on its behalf. */
static void forget(rota_sequencer *sequencer, rota_submission *submission) {
    const rota_kind *kind = &rota_kinds[submission->kind];
    if (kind->forget) kind->forget(submission);
    recycle(sequencer, submission);
}

/* No device and no completer has the submission any more. */
void rota_submission_let_go(rota_sequencer *sequencer, rota_submission *submission) {
    const rota_kind *kind = &rota_kinds[submission->kind];
    kind->uncount(sequencer, submission);
    if (submission->has_deadline) rota_deadline_end(sequencer, submission);
    if (submission->delivers) {
        rota_deliver_end(sequencer, submission);
        free(submission->output.bounce);
        submission->output.bounce = NULL;
    }
    if (submission->has_args) rota_args_ended(submission->seldom.args);
    if (kind->end) kind->end(sequencer, submission);
    /* Its ticket has ended, and nobody marks the cell any more. Before the pins: a thread that reads the
     * submission does not look at its cell, and if it is stopped the lane needs the chunk. */
    rota_chunk_ended(submission->chunk);
    if (rota_submission_unpublish(submission)) {
        forget(sequencer, submission);
        return;
    }
    submission->next = sequencer->pool->pinned;
    sequencer->pool->pinned = submission;
}

/* Those that no thread reads any more. */
void rota_submissions_forget_unpinned(rota_sequencer *sequencer) {
    for (rota_submission **link = &sequencer->pool->pinned; *link;) {
        rota_submission *submission = *link;
        if (!rota_submission_unpublish(submission)) {
            link = &submission->next;
            continue;
        }
        *link = submission->next;
        forget(sequencer, submission);
    }
}
