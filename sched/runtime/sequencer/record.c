/* One record in order: number, hazards, instance, works. The sequencer's. */
#include <stdlib.h>
#include <string.h>

#include "sched/runtime/kinds/plan.h"
#include "sched/runtime/kinds/read.h"
#include "sched/runtime/kinds/works.h"
#include "sched/runtime/kinds/write.h"
#include "sched/runtime/sequencer/record.h"
#include "sched/runtime/sequencer/submission_pool.h"
#include "sched/runtime/shared/stats.h"
#include "sched/runtime/submitter/ring.h"
#include "sched/runtime/shared/failed_ranges.h"
#include "sched/runtime_internal.h"
#include "sched/submission.h"

/* ---- Failing before anything was handed over ---- */

/* No submission that has works and a lower number than this is unfinished; `number` where none is at all. */
static uint64_t oldest_unfinished(rota_runtime *runtime, uint64_t number) {
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++)
        for (uint32_t q = 0; q < runtime->devices[d]->queues_used; q++) {
            const rota_timeline *timeline = &runtime->devices[d]->timelines[q];
            /* Not recycled yet is not unfinished. */
            if (!timeline->oldest || rota_point_passed(runtime, timeline->newest->final_point)) continue;
            if (timeline->oldest->number < number) number = timeline->oldest->number;
        }
    return number;
}

/* What the submission should have written has failed. */
static void mark_unwritten(rota_runtime *runtime, rota_submission *submission, rota_reason reason) {
    const uint64_t oldest = oldest_unfinished(runtime, submission->number);
    if (submission->kind == ROTA_RECORD_PLAN) {
        const rota_plan *plan = submission->plan;
        for (uint32_t e = 0; e < plan->external_count; e++) {
            const rota_plan_external *external = &plan->externals[e];
            if (!(external->flags & ROTA_EXTERNAL_WRITE)) continue;
            uint64_t begin;
            rota_residency *residency = rota_submission_external(submission, external, &begin);
            rota_poison_mark(runtime, residency->buffer, begin, begin + external->size_bytes,
                             submission->number, reason, oldest);
        }
    } else if (submission->kind == ROTA_RECORD_WRITE) {
        const rota_host_write *write = &submission->write;
        rota_poison_mark(runtime, write->residency->buffer, write->offset, write->offset + write->size,
                         submission->number, reason, oldest);
        rota_host_write_drop(write);
    }
}

/* The ticket ends once all that came before is over: end_unordered. Its chunk counts it until then, whatever
 * becomes of its submission. */
static void end_later(rota_runtime *runtime, rota_cell *cell, rota_cell_chunk *chunk) {
    chunk->unfinished++;
    cell->later = NULL;
    if (runtime->unordered_last)
        runtime->unordered_last->later = cell;
    else
        runtime->unordered_first = cell;
    runtime->unordered_last = cell;
}

/* Returns whether the submission is over. It is not where what was submitted before is still to write OUTPUT
 * memory that it names, as who waits for its ticket may free that: then it has its turn among deliveries.
 * Without memory for that, or `has_record`, it is over, and its ticket ends later. */
static bool end_without_works(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                              bool has_record, rota_status status, rota_reason reason) {
    const bool is_behind = rota_deliver_is_behind(runtime, submission);
    const bool has_turn = is_behind && has_record && rota_deliver_nothing(runtime, wanted, submission);
    mark_unwritten(runtime, submission, reason);
    if (is_behind) (void)ra_fetch_or_acq_rel(&submission->cell->state, (uint32_t)ROTA_CELL_HOSTED);
    rota_ticket_set_failed(runtime, submission->cell, submission->ticket_id, status, reason);
    ra_store_release(&submission->cell->point, ROTA_POINT_PASSED);
    rota_sleeper_wake(&runtime->completer_sleeper); /* callbacks */
    if (is_behind && !has_turn) end_later(runtime, submission->cell, submission->chunk);
    return !has_turn;
}

static void add_undelivered(rota_runtime *runtime, rota_submission *submission) {
    submission->undelivered_before = runtime->undelivered_last;
    submission->undelivered_after = NULL;
    if (runtime->undelivered_last)
        runtime->undelivered_last->undelivered_after = submission;
    else
        runtime->undelivered_first = submission;
    runtime->undelivered_last = submission;
}

static void push_delivery(rota_runtime *runtime, rota_submission *submission) {
    submission->job_storage->kind = ROTA_JOB_OUTPUTS;
    submission->job_storage->u.submission = submission;
    rota_completer_push(runtime, submission->job_storage);
}

/* ---- A record ---- */

void rota_sequence_record(rota_runtime *runtime, rota_lane *lane, uint32_t lane_index,
                          const rota_record *record) {
    rota_wanted *wanted = &runtime->wanted;
    rota_cell_chunk *chunk = rota_lane_take(runtime, lane, record->sequence);
    rota_cell *cell = &chunk->cells[record->sequence % ROTA_CHUNK_CELLS];
    const uint64_t id = rota_ticket_id(record->sequence, lane_index);
    uint64_t number = ++runtime->next_number;
    ra_store_release(&cell->number, number);
    /* Without memory it fails below, as whatever else has no room for its works. */
    rota_submission *submission = rota_submission_take(runtime);
    const bool has_record = submission != NULL;
    if (!has_record) submission = &runtime->without_memory;
    rota_status status = ROTA_OUT_OF_MEMORY;
    rota_reason reason = {NULL, 0};
    submission->next = NULL;
    submission->kind = (uint8_t)record->kind;
    submission->plan = record->kind == ROTA_RECORD_PLAN ? record->object : NULL;
    submission->args = record->args;
    submission->number = number;
    submission->ticket_id = id;
    submission->cell = cell;
    submission->chunk = chunk;
    submission->work_count = submission->wait_count = submission->hold_count = submission->transfer_count = 0;
    submission->hosted = submission->parked = false;
    rota_deliver_begin(submission);
    submission->read = NULL;
    submission->instance = 0;
    submission->undone = submission->undone_to = 0;
    ra_store_relaxed(&submission->cause, NULL);
    ra_store_relaxed(&submission->hosted_done, ROTA_HOSTED_PENDING);
    submission->submitted_ns = record->submitted_ns;
    submission->sequenced_ns = record->submitted_ns ? rota_clock_ns() : 0;
    ra_store_relaxed(&submission->handed_over_ns, 0);

    uint64_t final = ROTA_POINT_NONE;
    bool ok;
    uint64_t *words = &lane->store->words[record->payload_begin % ROTA_LANE_WORDS], *payload = NULL;
    if (record->kind == ROTA_RECORD_PLAN) {
        rota_plan *plan = submission->plan;
        rota_plan_run *run = plan->run;
        uint32_t moves = 0;
        /* What it moves between devices is not known before its arguments are. */
        ok = has_record && rota_submission_reserve(runtime, submission, plan->segment_count,
                                                   plan->segment_count, 0, run->payload_words);
        if (ok && run->payload_words)
            memcpy(submission->payload, words, run->payload_words * sizeof *submission->payload);
        if (!ok) { /* without room for the arguments they are read where the caller left them */
            payload = submission->payload;
            submission->payload = words;
        }
        submission->hosted = run->has_staging && plan->transfer_count > plan->input_count;
        ok = ok && rota_kind_plan_check(runtime, submission, &moves, &reason, &status) &&
             (moves == 0 || rota_submission_reserve(runtime, submission, plan->segment_count + 2u * moves,
                                                    plan->segment_count, moves, run->payload_words)) &&
             rota_deliver_outputs(runtime, wanted, submission);
        ra_store_relaxed(&submission->inputs_left, run->stages_inputs ? plan->input_count : 0);
        if (ok) {
            uint32_t state =
                (submission->hosted ? ROTA_CELL_HOSTED : 0u) |
                (plan->part_count > 1 || rota_submission_comes_after_others(submission) ? ROTA_CELL_SPREAD
                                                                                        : 0u) |
                (plan->input_count ? 0u : ROTA_CELL_TAKEN);
            if (state) (void)ra_fetch_or_acq_rel(&cell->state, state);
            ra_store_release(&cell->submission, submission);
            rota_kind_plan_sequence(runtime, wanted, submission, &final);
        }
    } else if (record->kind == ROTA_RECORD_WRITE) {
        rota_host_write *request = record->object;
        submission->write = *request;
        submission->kept_in = NULL;
        free(request);
        rota_submission_note_name(submission, submission->write.residency->buffer->name);
        rota_device *device = submission->write.device;
        ok = has_record && rota_submission_reserve(runtime, submission, 1, 1, 0, 0);
        if (ok && rota_device_is_lost(device)) {
            status = ROTA_DEVICE_LOST;
            reason.cause = ra_load_acquire(&device->lost_cause);
            ok = false;
        }
        ra_store_release(&cell->submission, submission);
        if (ok) rota_kind_write_sequence(runtime, wanted, submission, &final);
    } else {
        submission->read = record->object;
        submission->kept_in = NULL;
        rota_submission_note_name(submission, submission->read->residency->buffer->name);
        ra_store_release(&cell->submission, submission);
        ok = has_record && rota_kind_read_sequence(runtime, wanted, submission, &final, &reason, &status);
    }
    rota_stat_count(&runtime->stat_submissions);
    if (!ok) {
        if (!reason.cause)
            reason = (rota_reason){rota_cause_new(runtime, status,
                                                  "plan '%s', submission " ROTA_CAUSE_NUMBER
                                                  ": no host memory to sequence it",
                                                  rota_submission_plan_name(submission)),
                                   number};
        submission->hosted = false;
        if (!has_record) {
            (void)end_without_works(runtime, wanted, submission, false, status, reason);
            submission->payload = payload;
            rota_chunk_ended(chunk);
            if (submission->args) rota_args_ended(submission->args);
            if (submission->read) rota_host_read_release(submission->read);
            return;
        }
        submission->final_point = ROTA_POINT_PASSED;
        if (submission->kind == ROTA_RECORD_PLAN) submission->plan->run->unreaped++;
        ra_store_release(&cell->submission, submission);
        rota_submission_publish(submission);
        bool is_over = end_without_works(runtime, wanted, submission, true, status, reason);
        if (submission->payload == words) submission->payload = payload;
        if (is_over) {
            rota_submission_let_go(runtime, submission);
        } else {
            add_undelivered(runtime, submission);
            push_delivery(runtime, submission);
        }
        return;
    }
    /* Before the point is published: what callers see of it is under way. */
    for (uint32_t i = 0; i < submission->work_count; i++)
        rota_handover_push(submission->works[i].device, &submission->works[i]);
    submission->final_point = final;
    rota_timeline *timeline = rota_runtime_timeline(runtime, final);
    if (timeline->newest)
        timeline->newest->next = submission;
    else
        timeline->oldest = submission;
    timeline->newest = submission;
    if (submission->hosted) push_delivery(runtime, submission);
    rota_submission_publish(submission);
    /* Release: who sees the point sees number and submission. */
    ra_store_release(&cell->point, final);
}
