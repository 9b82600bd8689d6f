/* One record in order: number, hazards, instance, works. The sequencer's. */
#include "base/assert.h"
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/kinds/kinds.h"
#include "sched/runtime/kinds/sequencing.h"
#include "sched/runtime/order/deliver.h"
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/plans/args.h"
#include "sched/runtime/sequencer/cancels.h"
#include "sched/runtime/sequencer/record.h"
#include "sched/runtime/sequencer/submission_pool.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/failed_ranges.h"
#include "sched/runtime/shared/failures.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/pins.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/stats.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/submitter/ring.h"

/* ---- Failing before anything was handed over ---- */

/* No submission that has works and a lower number than this is unfinished; `number` where none is at all. */
static uint64_t oldest_unfinished(rota_runtime *runtime, uint64_t number) {
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++)
        for (uint32_t q = 0; q < runtime->devices[d]->queues_used; q++) {
            const rota_timeline *timeline = &runtime->devices[d]->timelines[q];
            /* Not recycled yet is not unfinished. */
            if (!timeline->order.oldest || rota_point_passed(runtime, timeline->order.newest->final_point))
                continue;
            if (timeline->order.oldest->number < number) number = timeline->order.oldest->number;
        }
    return number;
}

typedef struct unwritten {
    rota_reason reason;
    uint64_t oldest; /* no unfinished submission is older */
} unwritten;

static void mark_range(rota_runtime *runtime, const rota_submission *submission, const rota_buffer *root,
                       uint64_t begin, uint64_t end, void *user) {
    const unwritten *failed = user;
    rota_poison_mark(runtime, root, begin, end, submission->number, failed->reason, failed->oldest);
}

/* What the submission should have written has failed. */
static void mark_unwritten(rota_runtime *runtime, const rota_submission *submission, rota_reason reason) {
    const rota_kind *kind = &rota_kinds[submission->kind];
    unwritten failed = {reason, oldest_unfinished(runtime, submission->number)};
    if (kind->for_written) kind->for_written(runtime, submission, mark_range, &failed);
    if (kind->give_back) kind->give_back(submission);
}

/* The ticket ends once all that came before is over: end_unordered. Its chunk counts it until then, whatever
 * becomes of its submission. */
static void end_later(rota_sequencer *sequencer, rota_cell *cell, rota_cell_chunk *chunk) {
    chunk->unfinished++;
    cell->later = NULL;
    if (sequencer->unordered_last)
        sequencer->unordered_last->later = cell;
    else
        sequencer->unordered_first = cell;
    sequencer->unordered_last = cell;
}

/* Returns whether the submission is over. It is not where what was submitted before is still to write OUTPUT
 * memory that it names, as who waits for its ticket may free that: then it has its turn among deliveries.
 * Without memory for that, or `has_record`, it is over, and its ticket ends later. */
static bool end_without_works(rota_sequencer *sequencer, rota_wanted *wanted, rota_submission *submission,
                              bool has_record, rota_status status, rota_reason reason) {
    rota_runtime *runtime = sequencer->runtime;
    const bool is_behind =
        rota_kinds[submission->kind].writes_host && rota_deliver_is_behind(sequencer, submission);
    const bool has_turn = is_behind && has_record && rota_deliver_nothing(sequencer, wanted, submission);
    mark_unwritten(runtime, submission, reason);
    if (is_behind) (void)ra_fetch_or_acq_rel(&submission->cell->state, (uint32_t)ROTA_CELL_BY_DELIVERY);
    rota_ticket_set_failed(runtime, submission->cell, ra_load_relaxed(&submission->cell->id), status, reason);
    ra_store_release(&submission->cell->point, ROTA_POINT_PASSED);
    rota_sleeper_wake(&runtime->completing.sleeper); /* callbacks */
    if (is_behind && !has_turn) end_later(sequencer, submission->cell, submission->chunk);
    return !has_turn;
}

static void add_undelivered(rota_sequencer *sequencer, rota_submission *submission) {
    submission->seldom.undelivered.before = sequencer->undelivered_last;
    submission->seldom.undelivered.after = NULL;
    if (sequencer->undelivered_last)
        sequencer->undelivered_last->seldom.undelivered.after = submission;
    else
        sequencer->undelivered_first = submission;
    sequencer->undelivered_last = submission;
}

static void push_delivery(rota_runtime *runtime, rota_submission *submission) {
    submission->output.completion->kind = ROTA_COMPLETION_DELIVERY;
    submission->output.completion->u.submission = submission;
    rota_completer_push(runtime, submission->output.completion);
}

/* ---- A record ---- */

/* As it is before its kind looks at the record. */
static void begin(rota_submission *submission, const rota_record *record, rota_cell_chunk *chunk,
                  uint64_t number) {
    submission->next = NULL;
    submission->kind = (uint8_t)record->kind;
    submission->plan = NULL;
    submission->number = number;
    submission->cell = &chunk->cells[record->sequence % ROTA_CHUNK_CELLS];
    submission->chunk = chunk;
    submission->made.work_count = submission->made.wait_count = submission->made.foreign_wait_count =
        submission->made.migration_count = 0;
    submission->by_delivery = submission->sidelined = submission->delivers = submission->has_deadline = false;
    submission->instance = 0;
    ra_store_relaxed(&submission->shared.cause, NULL);
    ra_store_relaxed(&submission->cancelled,
                     (uint8_t)ROTA_CANCELLED_BY_NOBODY); /* published with its works */
    submission->has_args = record->args;
    if (record->args) submission->seldom.args = record->args;
    if (!record->submitted_ns) return;
    submission->told.submitted_ns = record->submitted_ns;
    submission->told.sequenced_ns = rota_clock_ns();
    ra_store_relaxed(&submission->told.handed_over_ns, 0);
}

/* The submission has its works: they go to their devices, and its ticket is one that can be waited for. */
static rota_sequenced start(rota_sequencing *s) {
    rota_runtime *runtime = s->runtime;
    rota_submission *submission = s->submission;
    rota_sequenced sequenced = {submission->made.work_count, submission->made.work_count == 0};
    ra_store_release(&submission->cell->submission, submission);
    if (submission->has_deadline) rota_deadline_begin(s->sequencer, submission); /* before any work goes */
    for (uint32_t i = 0; i < sequenced.work_count; i++)
        if (rota_handover_push(submission->made.works[i].device, &submission->made.works[i]))
            sequenced.may_be_over = true;
    submission->final_point = s->final;
    rota_timeline *timeline = rota_runtime_timeline(runtime, s->final);
    if (timeline->order.newest)
        timeline->order.newest->next = submission;
    else
        timeline->order.oldest = submission;
    timeline->order.newest = submission;
    rota_submission_put_on(&timeline->order.trail, submission, true);
    if (submission->by_delivery) push_delivery(runtime, submission);
    rota_submission_publish(submission);
    /* Release: who sees the point sees number and submission. */
    ra_store_release(&submission->cell->point, s->final);
    return sequenced;
}

/* There was no memory for a submission: its ticket fails, and nothing is kept. */
static void fail_without_record(rota_sequencing *s) {
    rota_submission *submission = s->submission;
    (void)end_without_works(s->sequencer, s->wanted, submission, false, s->status, s->reason);
    if (submission->made.payload == s->words) submission->made.payload = s->own_payload;
    rota_chunk_ended(submission->chunk);
    if (submission->has_args) rota_args_ended(submission->seldom.args);
    const rota_kind *kind = &rota_kinds[submission->kind];
    if (kind->end) kind->end(s->sequencer, submission);
}

/* It has no works. */
static void fail(rota_sequencing *s) {
    rota_runtime *runtime = s->runtime;
    rota_submission *submission = s->submission;
    if (!s->reason.cause) {
        const rota_kind *kind = &rota_kinds[submission->kind];
        s->reason = (rota_reason){rota_cause_new(runtime, s->status,
                                                 "%s '%s', submission " ROTA_CAUSE_NUMBER
                                                 ": no host memory to sequence it",
                                                 kind->noun, kind->name(submission)),
                                  submission->number};
    }
    submission->by_delivery = false;
    if (!s->has_record) {
        fail_without_record(s);
        return;
    }
    submission->final_point = ROTA_POINT_PASSED;
    ra_store_release(&submission->cell->submission, submission);
    rota_submission_publish(submission);
    const bool is_over = end_without_works(s->sequencer, s->wanted, submission, true, s->status, s->reason);
    if (submission->made.payload == s->words) submission->made.payload = s->own_payload;
    if (is_over) {
        rota_submission_let_go(s->sequencer, submission);
    } else {
        add_undelivered(s->sequencer, submission);
        push_delivery(runtime, submission);
    }
}

rota_sequenced rota_sequence_record(rota_sequencer *sequencer, rota_lane *lane, uint32_t lane_index,
                                    const rota_record *record) {
    rota_runtime *runtime = sequencer->runtime;
    rota_cell_chunk *chunk = rota_lane_take(runtime, lane, record->sequence);
    (void)lane_index; /* where nothing is asserted */
    rota_assert(ra_load_relaxed(&chunk->cells[record->sequence % ROTA_CHUNK_CELLS].id) ==
                rota_ticket_id(record->sequence, lane_index));
    const uint64_t number = ++sequencer->next_number;
    ra_store_release(&chunk->cells[record->sequence % ROTA_CHUNK_CELLS].number, number);
    /* Without memory it fails below, as whatever else has no room for its works. */
    rota_submission *submission = rota_submission_take(sequencer);
    rota_sequencing sequencing = {.runtime = runtime,
                                  .sequencer = sequencer,
                                  .wanted = &sequencer->wanted,
                                  .submission = submission ? submission : &sequencer->pool->without_memory,
                                  .object = record->object,
                                  .words = &lane->store->words[record->payload_begin % ROTA_LANE_WORDS],
                                  .has_record = submission != NULL,
                                  .final = ROTA_POINT_NONE,
                                  .status = ROTA_OUT_OF_MEMORY};
    begin(sequencing.submission, record, chunk, number);
    if (ra_load_relaxed(&runtime->lanes.cancels_asked) && rota_cell_is_to_cancel(chunk, record->sequence))
        rota_sequencer_cancel(sequencer, sequencing.submission, ROTA_CANCELLED_BY_CALL);
    const bool ok = rota_kinds[record->kind].sequence(&sequencing);
    rota_stat_count(&runtime->stats.submissions);
    if (ok) return start(&sequencing);
    fail(&sequencing);
    return (rota_sequenced){.may_be_over = true};
}
