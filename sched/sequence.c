/* One record in order: number, hazards, instance, works; and recycling of what has completed. The
 * sequencer's. */
#include <stdlib.h>
#include <string.h>

#include "sched/runtime_internal.h"
#include "sched/submission.h"

/* ---- Submissions ---- */

/* What lies where many others have been used since comes from memory: early enough if it is asked for while
 * those before it are worked on. */
static void fetch(const rota_submission *submission) {
    const unsigned char *bytes = (const unsigned char *)submission;
    for (size_t at = 0; at < offsetof(rota_submission, bounce_bytes); at += 64) ra_prefetch(bytes + at);
}

static rota_submission *new_submission(rota_runtime *runtime) {
    rota_submission *submission = runtime->free_submissions;
    if (submission) {
        const rota_submission *next = runtime->free_submissions = submission->next;
        if (--runtime->free_count < runtime->free_fewest) runtime->free_fewest = runtime->free_count;
        if (next && next->works) { /* one that failed before may have none */
            ra_prefetch(next->works);
            ra_prefetch((const unsigned char *)next->works + 64);
        }
        if (next && next->next) fetch(next->next);
        return submission;
    }
    submission = runtime->bare_submissions;
    if (submission) {
        runtime->bare_submissions = submission->next;
        return submission;
    }
    submission = calloc(1, sizeof *submission);
    if (!submission) return NULL;
    submission->job_storage = calloc(1, sizeof *submission->job_storage);
    if (!submission->job_storage) {
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
    drop(&submission->works, &submission->work_capacity);
    drop(&submission->waits, &submission->wait_capacity);
    drop(&submission->holds, &submission->hold_capacity);
    drop(&submission->payload, &submission->payload_capacity);
    drop(&submission->segment_points, &submission->segment_capacity);
    drop(&submission->transfers, &submission->transfer_capacity);
    drop(&submission->unwritten, &submission->unwritten_capacity);
    drop(&submission->delivery.waits, &submission->delivery.wait_capacity);
    drop(&submission->delivery.points, &submission->delivery.point_capacity);
    drop(&submission->delivery.after, &submission->delivery.after_capacity);
    drop(&submission->bounces, &submission->bounce_capacity);
}

void rota_submission_free(rota_submission *submission) {
    strip(submission);
    free(submission->job_storage);
    free(submission->bounce);
    free(submission->aside);
    free(submission);
}

static void recycle(rota_runtime *runtime, rota_submission *submission) {
    submission->next = runtime->free_submissions;
    runtime->free_submissions = submission;
    runtime->free_count++;
}

/* Half at a time, so that a burst that comes now and then finds most of it, and so many at the most, since
 * submissions wait for the sequencer. The structs stay: threads that are late look at their pins (pins.c). */
#define TRIM_MOST 1024u
void rota_submissions_trim(rota_runtime *runtime) {
    uint32_t idle = (runtime->free_fewest + 1) / 2;
    for (uint32_t left = idle < TRIM_MOST ? idle : TRIM_MOST; left > 0; left--) {
        rota_submission *submission = runtime->free_submissions;
        runtime->free_submissions = submission->next;
        runtime->free_count--;
        strip(submission);
        submission->next = runtime->bare_submissions;
        runtime->bare_submissions = submission;
    }
    runtime->free_fewest = runtime->free_count;
}

/* Of a count that only the sequencer writes. */
static void count_one(_Atomic uint64_t *count) {
    ra_store_relaxed(count, ra_load_relaxed(count) + 1);
}

static void end_parking(rota_runtime *runtime, rota_submission *submission) {
    _Atomic uint32_t *parked = &submission->plan->run->parked;
    ra_store_relaxed(parked, ra_load_relaxed(parked) - 1);
    runtime->parked--;
    submission->parked = false;
}

/* The host's access to the buffer waits for more than copies: it is counted there until it is over. */
static void begin_keeping(rota_submission *submission, rota_residency *residency, uint64_t bytes) {
    submission->kept_in = residency;
    submission->kept_bytes = bytes;
    ra_store_relaxed(&residency->kept_bytes, ra_load_relaxed(&residency->kept_bytes) + bytes);
    ra_store_relaxed(&residency->kept, ra_load_relaxed(&residency->kept) + 1);
}

static void end_keeping(rota_submission *submission) {
    rota_residency *residency = submission->kept_in;
    if (!residency) return;
    ra_store_relaxed(&residency->kept_bytes,
                     ra_load_relaxed(&residency->kept_bytes) - submission->kept_bytes);
    ra_store_relaxed(&residency->kept, ra_load_relaxed(&residency->kept) - 1);
    submission->kept_in = NULL;
}

/* Nothing reads the submission any more, nor its plan on its behalf. */
static void forget(rota_runtime *runtime, rota_submission *submission) {
    if (submission->kind == ROTA_RECORD_PLAN) submission->plan->run->unreaped--;
    recycle(runtime, submission);
}

/* No device and no completer has the submission any more. */
static void let_go(rota_runtime *runtime, rota_submission *submission) {
    if (submission->parked) end_parking(runtime, submission);
    if (submission->kind != ROTA_RECORD_PLAN) end_keeping(submission);
    if (submission->delivery.ranges) rota_deliver_end(runtime, submission);
    if (submission->bounce) free(submission->bounce);
    submission->bounce = NULL;
    if (submission->args) rota_args_ended(submission->args);
    if (submission->kind == ROTA_RECORD_PLAN && ra_load_relaxed(&runtime->poison_active))
        rota_poison_drop(runtime, submission);
    if (submission->read) rota_host_read_release(submission->read);
    submission->read = NULL; /* once, though the submission may be kept */
    /* Its ticket has ended, and nobody marks the cell any more. Before the pins: a thread that reads the
     * submission does not look at its cell, and if it is stopped the lane needs the chunk. */
    rota_chunk_ended(submission->chunk);
    if (rota_submission_unpublish(submission)) {
        forget(runtime, submission);
        return;
    }
    submission->next = runtime->pinned;
    runtime->pinned = submission;
}

/* Makes *array hold at least `count` elements; contents are not kept. */
static bool room(void *array, uint32_t *capacity, uint64_t count, size_t element) {
    void **pointer = array;
    if (count <= *capacity) return true;
    uint64_t wanted = *capacity * 2u > count ? *capacity * 2u : count;
    if (wanted > UINT32_MAX) return false;
    void *memory = malloc(wanted * element);
    if (!memory) return false;
    free(*pointer);
    *pointer = memory;
    *capacity = (uint32_t)wanted;
    return true;
}

static bool reserve(rota_runtime *runtime, rota_submission *submission, uint64_t works, uint64_t segments,
                    uint64_t transfers, uint64_t payload) {
    uint64_t timelines = (uint64_t)ra_load_acquire(&runtime->device_count) * runtime->queue_count;
    return room(&submission->works, &submission->work_capacity, works, sizeof *submission->works) &&
           room(&submission->waits, &submission->wait_capacity, works * timelines,
                sizeof *submission->waits) &&
           room(&submission->holds, &submission->hold_capacity, works * (timelines + 1),
                sizeof *submission->holds) &&
           room(&submission->segment_points, &submission->segment_capacity, segments,
                sizeof *submission->segment_points) &&
           room(&submission->transfers, &submission->transfer_capacity, transfers,
                sizeof *submission->transfers) &&
           room(&submission->unwritten, &submission->unwritten_capacity, transfers,
                sizeof *submission->unwritten) &&
           room(&submission->payload, &submission->payload_capacity, payload, sizeof *submission->payload);
}

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

static void remove_undelivered(rota_runtime *runtime, const rota_submission *submission) {
    rota_submission *before = submission->undelivered_before, *after = submission->undelivered_after;
    if (before)
        before->undelivered_after = after;
    else
        runtime->undelivered_first = after;
    if (after)
        after->undelivered_before = before;
    else
        runtime->undelivered_last = before;
}

static void push_delivery(rota_runtime *runtime, rota_submission *submission) {
    submission->job_storage->kind = ROTA_JOB_OUTPUTS;
    submission->job_storage->u.submission = submission;
    rota_completer_push(runtime, submission->job_storage);
}

static void note_name(rota_submission *submission, const char *name) {
    size_t length = strlen(name);
    if (length >= sizeof submission->name) length = sizeof submission->name - 1;
    memcpy(submission->name, name, length);
    submission->name[length] = 0;
}

static const char *submission_plan_name(const rota_submission *submission) {
    return submission->kind == ROTA_RECORD_PLAN ? submission->plan->name : "host access";
}

/* Whether the device has memory of the residency with what `valid` says. */
static bool holds(const rota_residency *residency, rota_device *device, rota_places valid) {
    /* Acquire: with the release in rota_residency_prepare. */
    return ra_load_acquire(&residency->memory[device->index]) &&
           valid & rota_residency_bit(residency, device);
}

/* A device that has the bytes: best one whose memory the host sees. One that is lost only where there is no
 * other: what is handed to it fails with its cause. */
static rota_device *holder_of(rota_runtime *runtime, const rota_residency *residency, rota_places valid) {
    rota_device *holder = NULL, *lost = NULL;
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) {
        rota_device *device = runtime->devices[d];
        if (!holds(residency, device, valid)) continue;
        if (rota_device_is_lost(device))
            lost = lost ? lost : device;
        else if (!holder || device->exec->caps.unified_host)
            holder = device;
    }
    return holder ? holder : lost;
}

/* Where one copy of some bytes is good and another is not, only the copying failed: that one counts as not
 * there, and is made again if it is needed. Not before who wrote or moved the bytes last is through. */
static void drop_failed_copies(rota_runtime *runtime, rota_residency *residency, uint64_t begin,
                               uint64_t end) {
    if (ra_load_acquire(&runtime->poison_active) == 0 ||
        rota_poison_copies(runtime, residency->buffer, begin, end, ROTA_COPIES_ALL) == 0)
        return;
    if (residency->owner) rota_replay_disown(residency);
    for (uint64_t at = begin; at < end;) {
        const rota_range *range = rota_ranges_find(residency, at);
        const uint64_t to = range->end < end ? range->end : end;
        const rota_places valid = range->valid;
        if (valid & (valid - 1) &&
            (range->writer == ROTA_POINT_NONE || rota_point_passed(runtime, range->writer))) {
            const rota_places good = valid & ~rota_poison_copies(runtime, residency->buffer, at, to, valid);
            if (good && good != valid) rota_ranges_place(residency, at, to, good);
        }
        at = to;
    }
}

/* Whether bytes [begin, end) can be had where `there` says (as rota_range.valid; 0: by the host); counts the
 * moves that takes. On failure the cause and status of the ticket. */
static bool check_incoming(rota_runtime *runtime, rota_submission *submission, rota_residency *residency,
                           uint64_t begin, uint64_t end, rota_places there, const char *node, uint32_t *moves,
                           rota_reason *out_reason, rota_status *out_status) {
    for (const rota_range *range = rota_ranges_find(residency, begin); range && range->begin < end;
         range = range->next) {
        if (range->valid & there) continue;
        uint64_t from = range->begin > begin ? range->begin : begin, to = range->end < end ? range->end : end;
        if (range->valid == 0) {
            if (rota_poison_find(runtime, residency->buffer, from, to, submission->number, out_reason)) {
                *out_status = rota_cause_inherited(out_reason->cause);
                return false;
            }
            *out_status = ROTA_UNDEFINED_DATA;
            out_reason->number = submission->number;
            out_reason->cause = rota_cause_new(
                runtime, ROTA_UNDEFINED_DATA,
                "plan '%s', submission " ROTA_CAUSE_NUMBER ", node '%s' reads bytes [%llu, %llu) of buffer "
                "'%s', which nothing wrote",
                submission_plan_name(submission), node, (unsigned long long)from, (unsigned long long)to,
                residency->buffer->name);
            return false;
        }
        rota_device *lost = holder_of(runtime, residency, range->valid);
        if (rota_device_is_lost(lost)) {
            const rota_cause *cause = ra_load_acquire(&lost->lost_cause);
            *out_status = ROTA_DEVICE_LOST;
            out_reason->number = submission->number;
            out_reason->cause = rota_cause_new(
                runtime, ROTA_DEVICE_LOST,
                "plan '%s', submission " ROTA_CAUSE_NUMBER
                ": bytes [%llu, %llu) of buffer '%s' were only on device '%s': %s",
                submission_plan_name(submission), (unsigned long long)from, (unsigned long long)to,
                residency->buffer->name, lost->id, cause ? cause->message : "device lost");
            return false;
        }
        (*moves)++;
    }
    return true;
}

/* ---- Works ---- */

static rota_work *add_work(rota_submission *submission, rota_device *device, uint32_t queue,
                           rota_work_kind kind, uint32_t index) {
    rota_timeline *timeline = &device->timelines[queue];
    rota_work *work = &submission->works[submission->work_count++];
    memset(work, 0, sizeof *work);
    work->submission = submission;
    work->device = device;
    work->kind = (uint8_t)kind;
    work->segment = index;
    work->queue = queue;
    work->value = ra_load_relaxed(&timeline->issued) + 1;
    ra_store_release(&timeline->issued, work->value);
    if (ra_load_relaxed(&device->queues_used) <= queue) ra_store_relaxed(&device->queues_used, queue + 1);
    return work;
}

/* The works of a submission that come with no plan, and those that move bytes for one. */
static rota_work *add_copy(rota_submission *submission, const rota_ahead *ahead, rota_work_kind kind,
                           uint32_t index) {
    bool parks;
    uint32_t queue = rota_siding_for_copies(ahead, &parks);
    rota_work *work = add_work(submission, ahead->device, queue, kind, index);
    work->parks = parks;
    return work;
}

/* Under a memory limit a copy whose staging memory does not lie idle may have to be held until there is some:
 * it is late. What goes over soon has its own from here on. */
static void provide(rota_runtime *runtime, rota_ahead *ahead, uint64_t size, uint32_t flags,
                    rota_staging **out_span) {
    if (!runtime->is_limited || ahead->late) return;
    *out_span = rota_staging_take(ahead->device, size, flags);
    if (!*out_span) ahead->late = 2;
}

static void send(rota_runtime *runtime, rota_wanted *wanted, rota_work *work, const rota_ahead *ahead) {
    rota_hazard_settle(runtime, wanted, work);
    rota_chain_note(runtime, wanted, work);
    rota_siding_note(work, ahead);
    rota_handover_push(work->device, work);
}

/* Up to where, at most `end`, bytes from `at` on are on the same devices. */
static uint64_t end_of_same(rota_residency *residency, uint64_t at, uint64_t end, rota_places *out_valid) {
    const rota_range *range = rota_ranges_find(residency, at);
    rota_places valid = *out_valid = range->valid;
    while (range->end < end && range->next->valid == valid) range = range->next;
    return range->end < end ? range->end : end;
}

/* Moves bytes [begin, end), which one device has, to the device: out of the memory of one that has them, and
 * in. */
static void move_range(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                       rota_residency *residency, uint64_t begin, uint64_t end, rota_places valid,
                       rota_device *to) {
    rota_device *from = holder_of(runtime, residency, valid);
    uint32_t index = submission->transfer_count++;
    rota_transfer *transfer = &submission->transfers[index];
    const uint32_t first = index ? transfer[-1].first_unwritten + transfer[-1].unwritten_count : 0;
    *transfer = (rota_transfer){.residency = residency,
                                .offset = begin,
                                .size = end - begin,
                                .from = from->index,
                                .to = to->index,
                                .first_unwritten = first};
    uint64_t out_point = ROTA_POINT_NONE;
    if (!from->exec->caps.unified_host) {
        rota_ahead ahead = {.device = from, .queues = 1u << from->io_queue};
        rota_ahead_access(&ahead, residency, begin, end, false);
        provide(runtime, &ahead, end - begin, ROTA_EXEC_MEMORY_HOST_READ, &transfer->down);
        rota_work *out = add_copy(submission, &ahead, ROTA_WORK_MIGRATE_OUT, index);
        out_point = rota_work_point(out);
        rota_hazard_read(runtime, wanted, residency, begin, end, out_point);
        send(runtime, wanted, out, &ahead);
    }
    rota_ahead ahead = {.device = to}; /* such a work never waits for another device on its own */
    rota_ahead_add(&ahead, out_point);
    rota_ahead_access(&ahead, residency, begin, end, true);
    if (!to->exec->caps.unified_host)
        provide(runtime, &ahead, end - begin, ROTA_EXEC_MEMORY_HOST_WRITE, &transfer->up);
    rota_work *in = add_copy(submission, &ahead, ROTA_WORK_MIGRATE_IN, index);
    rota_wanted_add(wanted, runtime->queue_count, out_point);
    transfer->unwritten_count = rota_hazard_move(runtime, wanted, residency, begin, end, rota_work_point(in),
                                                 to, submission->unwritten + first);
    send(runtime, wanted, in, &ahead);
    (void)ra_fetch_add_relaxed(&runtime->stat_migrations, 1);
    (void)ra_fetch_add_relaxed(&runtime->stat_migrated_bytes, end - begin);
}

static void bring(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                  rota_residency *residency, uint64_t begin, uint64_t end, rota_device *device) {
    for (uint64_t at = begin; at < end;) {
        rota_places valid;
        uint64_t to = end_of_same(residency, at, end, &valid);
        if (!(valid & rota_residency_bit(residency, device)))
            move_range(runtime, wanted, submission, residency, at, to, valid, device);
        at = to;
    }
}

/* The replay's instance, and what it must wait for on the host first (a hold), if anything: an earlier replay
 * of the same plan. */
static uint64_t choose_instance(rota_runtime *runtime, rota_submission *submission) {
    rota_plan_run *run = submission->plan->run;
    /* The first is always there. */
    if (!run->rotates) {
        do submission->instance = run->next_instance++ % run->arena_count;
        while (!rota_run_instance_is_near(run, submission->instance));
        return ROTA_POINT_NONE;
    }
    for (uint32_t i = 0; i < run->instance_count; i++) {
        uint32_t candidate = (run->next_instance + i) % run->instance_count;
        const rota_run_instance *instance = &run->instances[candidate];
        /* Acquire: with the completer's release, after which it reads the staging memory no more. */
        if (!rota_point_passed(runtime, instance->last_point) ||
            ra_load_acquire(&instance->outputs_copied) != instance->outputs_issued ||
            !rota_run_instance_is_near(run, candidate))
            continue;
        submission->instance = candidate;
        run->next_instance = candidate + 1;
        return ROTA_POINT_NONE;
    }
    if (run->instance_count < run->instance_capacity && rota_run_instance_is_near(run, run->instance_count)) {
        submission->instance = run->instance_count++;
        run->next_instance = 0; /* next time the oldest is looked at first */
        return ROTA_POINT_NONE;
    }
    do submission->instance = run->next_instance++ % run->instance_count;
    while (!ra_load_acquire(&run->instances[submission->instance].created)); /* with rota_run_instance_make */
    return run->instances[submission->instance].last_point;
}

static void add_hold(rota_submission *submission, rota_work *work, uint64_t point) {
    submission->holds[submission->hold_count++] = point;
    work->hold_count++;
}

/* How often the plan's own accesses to a buffer may cut [begin, end), each piece of which then moves by
 * itself. */
static uint32_t inner_boundaries(const rota_submission *submission, const rota_residency *residency,
                                 uint64_t begin, uint64_t end) {
    const rota_plan *plan = submission->plan;
    uint32_t count = 1;
    for (uint32_t e = 0; e < plan->external_count; e++) {
        uint64_t low;
        if (rota_submission_external(submission, &plan->externals[e], &low) != residency) continue;
        uint64_t high = low + plan->externals[e].size_bytes;
        count += (uint32_t)(low > begin && low < end) + (uint32_t)(high > begin && high < end);
    }
    return count;
}

static bool check_plan(rota_runtime *runtime, rota_submission *submission, uint32_t *moves,
                       rota_reason *out_reason, rota_status *out_status) {
    const rota_plan *plan = submission->plan;
    for (uint32_t p = 0; p < plan->part_count; p++) {
        rota_device *device = plan->parts[p].device;
        if (!rota_device_is_lost(device)) continue;
        *out_reason = (rota_reason){ra_load_acquire(&device->lost_cause), 0};
        *out_status = ROTA_DEVICE_LOST;
        return false;
    }
    for (uint32_t e = 0; ra_load_acquire(&runtime->poison_active) != 0 && e < plan->external_count; e++) {
        if (!(plan->externals[e].flags & ROTA_EXTERNAL_INCOMING)) continue;
        uint64_t begin;
        rota_residency *residency = rota_submission_external(submission, &plan->externals[e], &begin);
        drop_failed_copies(runtime, residency, begin, begin + plan->externals[e].size_bytes);
    }
    /* Owned residencies are as this plan's last replay left them: what could be had then can be had now. */
    if (rota_replay_is_known(plan->run)) return true;
    for (uint32_t s = 0; s < plan->segment_count; s++) {
        const rota_plan_segment *segment = &plan->segments[s];
        const rota_plan_part *part = &plan->parts[segment->part];
        const rota_exec_segment *commands = &part->desc.segments[segment->index];
        for (uint32_t e = 0; e < segment->external_count; e++) {
            const rota_plan_external *external = &plan->externals[segment->first_external + e];
            if (!(external->flags & ROTA_EXTERNAL_INCOMING)) continue;
            uint64_t begin;
            rota_residency *residency = rota_submission_external(submission, external, &begin);
            const char *node =
                commands->command_count
                    ? rota_plan_node_name(part, part->desc.commands[commands->first_command].node)
                    : "";
            uint32_t before = *moves;
            if (!check_incoming(runtime, submission, residency, begin, begin + external->size_bytes,
                                rota_residency_bit(residency, part->device), node, moves, out_reason,
                                out_status))
                return false;
            if (*moves != before || plan->part_count > 1)
                *moves += inner_boundaries(submission, residency, begin, begin + external->size_bytes);
        }
    }
    return true;
}

static void access_external(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                            const rota_plan_external *external, rota_device *device, uint64_t point) {
    uint64_t begin;
    rota_residency *residency = rota_submission_external(submission, external, &begin);
    uint64_t end = begin + external->size_bytes;
    if (external->flags & ROTA_EXTERNAL_WRITE) {
        rota_hazard_write(runtime, wanted, residency, begin, end, point,
                          rota_residency_bit(residency, device));
        if (ra_load_relaxed(&residency->home_plus_1) != device->index + 1)
            ra_store_relaxed(&residency->home_plus_1, device->index + 1);
    } else {
        rota_hazard_read(runtime, wanted, residency, begin, end, point);
    }
}

/* What a segment comes after because of what it touches outside the plan. */
static void want_external(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                          uint32_t index, rota_device *device, uint64_t point, const uint64_t *base,
                          bool *notes) {
    const rota_plan *plan = submission->plan;
    const rota_plan_segment *segment = &plan->segments[index];
    for (uint32_t e = 0; e < segment->external_count; e++)
        access_external(runtime, wanted, submission, &plan->externals[segment->first_external + e], device,
                        point);
    if (*notes) rota_replay_note(runtime, wanted, plan->run, base, index, notes);
}

static void bring_incoming(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                           const rota_plan_segment *segment, rota_device *device) {
    for (uint32_t e = 0; e < segment->external_count; e++) {
        const rota_plan_external *external = &submission->plan->externals[segment->first_external + e];
        if (!(external->flags & ROTA_EXTERNAL_INCOMING)) continue;
        uint64_t begin;
        rota_residency *residency = rota_submission_external(submission, external, &begin);
        bring(runtime, wanted, submission, residency, begin, begin + external->size_bytes, device);
    }
}

/* Segments of different devices were taken in any order: who holds what they wrote is a matter of record
 * order. */
static void place_written(const rota_submission *submission) {
    const rota_plan *plan = submission->plan;
    for (uint32_t p = 0; p < plan->placed_count; p++) {
        const rota_plan_placed *placed = &plan->placed[p];
        const rota_plan_external external = {.buffer = placed->buffer, .offset_bytes = placed->offset_bytes};
        uint64_t begin;
        rota_residency *residency = rota_submission_external(submission, &external, &begin);
        rota_places valid = 0;
        for (uint32_t part = 0; part < plan->part_count; part++)
            if (placed->parts >> part & 1u) valid |= rota_residency_bit(residency, plan->parts[part].device);
        rota_ranges_place(residency, begin, begin + placed->size_bytes, valid);
    }
}

/* What the plan's segments on a device come after. Of a replay that is known that is there already, since
 * it is the replay before. */
static void look_ahead(const rota_submission *submission, bool known, uint32_t arena, rota_ahead *ahead) {
    const rota_plan *plan = submission->plan;
    const rota_plan_run *run = plan->run;
    for (uint32_t s = 0; s < plan->segment_count; s++)
        if (plan->parts[plan->segments[s].part].device == ahead->device)
            ahead->queues |= 1u << plan->segments[s].queue;
    if (run->has_arena) rota_ahead_add(ahead, run->arena_points[arena]);
    for (uint32_t s = 0; s < plan->segment_count && !known; s++) {
        const rota_plan_segment *segment = &plan->segments[s];
        if (plan->parts[segment->part].device != ahead->device) continue;
        for (uint32_t e = 0; e < segment->external_count; e++) {
            const rota_plan_external *external = &plan->externals[segment->first_external + e];
            uint64_t begin;
            rota_residency *residency = rota_submission_external(submission, external, &begin);
            rota_ahead_access(ahead, residency, begin, begin + external->size_bytes,
                              external->flags & ROTA_EXTERNAL_WRITE);
        }
    }
}

/* Whether segments on the part's device wait for others of the plan that it can't wait for itself. */
static bool waits_for_other_parts(const rota_plan *plan, const rota_device *device) {
    /* While something has failed none can: rota_across_is_ready. */
    const uint64_t linked =
        ra_load_acquire(&device->runtime->poison_active) == 0 ? ra_load_acquire(&device->linked) : 0;
    for (uint32_t p = 0; p < plan->part_count; p++)
        if (plan->parts[p].device != device && !(linked >> plan->parts[p].device->index & 1u)) return true;
    return false;
}

/* Whether the plan is to leave its queues to works that wait on the device for another one. A replay that is
 * known comes after the one before, and after nothing else that is not through. */
static bool steps_aside(const rota_plan *plan, bool known, rota_ahead *ahead) {
    const uint64_t last = plan->run->last_point;
    if (plan->part_count > 1 || ahead->crosses || !ra_load_relaxed(&ahead->device->linked)) return false;
    if (known && ahead->wanted[rota_point_queue(last)] < rota_point_value(last))
        ahead->wanted[rota_point_queue(last)] = rota_point_value(last);
    return rota_siding_is_crossed(ahead);
}

/* The devices, as bits, whose works of this submission go to sidings; and what they are late for. `is_late`:
 * for the instance. */
static uint64_t choose_parking(rota_runtime *runtime, const rota_submission *submission, bool is_late,
                               bool known, uint32_t arena, rota_ahead *aheads) {
    const rota_plan *plan = submission->plan;
    uint64_t parking = 0;
    if (!is_late && runtime->parked == 0 && ra_load_relaxed(&runtime->device_count) == 1) return 0;
    for (uint32_t p = 0; p < plan->part_count; p++) {
        rota_ahead *ahead = &aheads[p];
        *ahead = (rota_ahead){.device = plan->parts[p].device};
        look_ahead(submission, known, arena, ahead);
        if (waits_for_other_parts(plan, ahead->device)) ahead->late = 2;
        if (ahead->late || is_late || steps_aside(plan, known, ahead))
            parking |= (uint64_t)1 << ahead->device->index;
    }
    return parking;
}

static void sequence_plan(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                          uint64_t *out_final) {
    rota_plan *plan = submission->plan;
    rota_plan_run *run = plan->run;
    uint64_t base[ROTA_DEVICES_MAX * ROTA_EXEC_QUEUES_MAX];
    uint64_t instance_hold = choose_instance(runtime, submission);
    /* One that is in use by a replay that is not held itself has its works held on their own queues: where
     * those of that replay are, behind which nothing would end any sooner. */
    const bool is_made = rota_run_instance_ask(run, submission->instance);
    const bool is_late = !is_made || !rota_siding_is_at_hand(runtime, instance_hold);
    submission->outputs_before = run->instances[submission->instance].outputs_issued;
    if (submission->hosted) run->instances[submission->instance].outputs_issued++;
    uint32_t arena = submission->instance % run->arena_count;
    uint64_t started[ROTA_DEVICES_MAX]; /* queues that have a work of this replay already */
    for (uint32_t p = 0; p < plan->part_count; p++) started[plan->parts[p].device->index] = 0;
    uint32_t direct = 0;
    bool known = rota_replay_is_known(run);
    rota_ahead aheads[ROTA_DEVICES_MAX];                   /* by part */
    uint8_t lanes[ROTA_DEVICES_MAX][ROTA_PLAN_QUEUES_MAX]; /* by part and queue, of those that are parked */
    uint64_t parking = known ? choose_parking(runtime, submission, is_late, true, arena, aheads) : 0;
    if (parking) rota_replay_forget(run);
    known = known && !parking;
    bool notes = !known && rota_replay_notes(run);
    uint32_t timelines = rota_replay_begin(runtime, run, base);
    /* What a segment needs from before this replay moves first of all: an earlier segment on another device
     * may overwrite it there, and nothing in the plan orders the two. */
    for (uint32_t s = 0; s < plan->segment_count && !known; s++)
        bring_incoming(runtime, wanted, submission, &plan->segments[s],
                       plan->parts[plan->segments[s].part].device);
    if (!known) parking = choose_parking(runtime, submission, is_late, false, arena, aheads);
    notes = notes && !parking; /* whose waits are for queues of its own */
    for (uint32_t s = 0; s < plan->segment_count; s++) {
        const rota_plan_segment *segment = &plan->segments[s];
        rota_device *device = plan->parts[segment->part].device;
        const bool parks = parking >> device->index & 1u;
        const bool is_first = !(started[device->index] >> segment->queue & 1u);
        uint32_t queue = segment->queue;
        if (parks) {
            uint8_t *lane = &lanes[segment->part][segment->queue];
            if (is_first) *lane = (uint8_t)rota_siding_choose(&aheads[segment->part]);
            queue = *lane;
        }
        rota_work *work = add_work(submission, device, queue, ROTA_WORK_SEGMENT, s);
        work->parks = parks;
        uint64_t point = rota_work_point(work);
        submission->segment_points[s] = point;
        if (known)
            rota_replay_want(runtime, wanted, run, base, s);
        else
            want_external(runtime, wanted, submission, s, device, point, base, &notes);
        for (uint32_t w = 0; w < segment->wait_count; w++)
            rota_wanted_add(wanted, runtime->queue_count,
                            submission->segment_points[plan->segment_waits[segment->first_wait + w]]);
        if (run->direct_count) rota_deliver_segment(runtime, wanted, submission, s, point, &direct);
        if (run->has_arena && is_first)
            rota_wanted_add(wanted, runtime->queue_count, run->arena_points[arena]);
        rota_hazard_settle(runtime, wanted, work);
        rota_siding_note(work, parks ? &aheads[segment->part] : NULL);
        if (!is_made) rota_chain_note_making(work, run->parts[0].device);
        if (instance_hold != ROTA_POINT_NONE && is_first) add_hold(submission, work, instance_hold);
        if (work->wait_count | work->hold_count) rota_chain_note(runtime, wanted, work);
        started[device->index] |= (uint64_t)1 << segment->queue;
        rota_handover_push(device, work);
    }
    if (!known) place_written(submission);
    rota_replay_end(runtime, run, base, timelines, known, notes, submission->transfer_count != 0 || parking);
    submission->parked = parking != 0;
    if (parking) {
        ra_store_relaxed(&run->parked, ra_load_relaxed(&run->parked) + 1);
        runtime->parked++;
    }
    *out_final = submission->segment_points[plan->final_segment];
    if (run->has_arena) run->arena_points[arena] = *out_final;
    run->instances[submission->instance].last_point = *out_final;
    run->last_point = *out_final;
    run->unreaped++;
}

static void sequence_write(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                           uint64_t *out_final) {
    rota_host_write *write = &submission->write;
    rota_device *device = write->device;
    rota_hazard_fold(write->residency, write->offset, write->offset + write->size);
    rota_ahead ahead = {.device = device, .queues = 1u << device->io_queue};
    rota_ahead_access(&ahead, write->residency, write->offset, write->offset + write->size, true);
    rota_work *work = add_copy(submission, &ahead, ROTA_WORK_WRITE, 0);
    *out_final = rota_work_point(work);
    rota_hazard_write(runtime, wanted, write->residency, write->offset, write->offset + write->size,
                      *out_final, rota_residency_bit(write->residency, device));
    ra_store_relaxed(&write->residency->home_plus_1, device->index + 1);
    send(runtime, wanted, work, &ahead);
    const bool is_kept = rota_siding_keeps(work);
    uint64_t charge = write->staging ? rota_staging_charge(runtime, write->size) : 0;
    if (is_kept) {
        begin_keeping(submission, write->residency, charge);
        /* Release: with fits in hostio.c, which finds it counted there if no longer here. */
        if (charge) (void)ra_fetch_sub_release(&device->staging.uploading, (int64_t)charge);
        charge = 0;
    }
    /* Free once the copy has passed (P1). Release: with the claim. */
    if (write->staging)
        rota_staging_retire(write->staging, write->size, charge, *out_final);
    else
        ra_store_release(&device->upload_slots[write->slot].state,
                         is_kept ? *out_final | ROTA_SLOT_KEPT : *out_final);
}

/* Cuts what is read into extents, those of one device together; false without memory. */
static bool make_parts(rota_runtime *runtime, rota_host_read *read) {
    rota_residency *residency = read->residency;
    uint64_t end = read->offset + read->size;
    uint32_t count = 0, devices = ra_load_acquire(&runtime->device_count);
    rota_places valid;
    for (uint64_t at = read->offset; at < end; at = end_of_same(residency, at, end, &valid)) count++;
    rota_extent *found = &read->one_extent;
    read->extents = &read->one_extent;
    read->parts = &read->one_part;
    if (count > 1) {
        read->extents = malloc(2 * (size_t)count * sizeof *read->extents);
        read->parts = calloc(devices, sizeof *read->parts);
        if (!read->extents || !read->parts) return false;
        found = read->extents + count;
    }
    /* Who has them is asked once: a device may be lost meanwhile. */
    uint32_t of_device[ROTA_DEVICES_MAX] = {0};
    uint64_t at = read->offset;
    for (uint32_t e = 0; e < count; e++) {
        uint64_t to = end_of_same(residency, at, end, &valid);
        found[e] = (rota_extent){at, to - at, holder_of(runtime, residency, valid)->index};
        of_device[found[e].device]++;
        at = to;
    }
    uint32_t first = 0;
    for (uint32_t d = 0; d < devices; d++) {
        if (of_device[d] == 0) continue;
        rota_read_part *part = &read->parts[read->part_count];
        *part = (rota_read_part){.device = runtime->devices[d], .first_extent = first};
        read->part_count++;
        for (uint32_t e = 0; e < count; e++) {
            if (found[e].device != d) continue;
            read->extents[first++] = found[e];
            part->extent_count++;
            part->size += found[e].size;
        }
    }
    return true;
}

/* Whether the completer is to deliver others' bytes to the same memory first. */
static bool comes_after_others(const rota_submission *submission) {
    return submission->hosted && (submission->delivery.wait_count || submission->delivery.point_count);
}

/* Where nobody waits in the call, the completer brings the bytes, when it is their turn. */
static bool deliver_read(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission) {
    const rota_host_read *read = submission->read;
    submission->hosted = read->data != NULL;
    if (!submission->hosted) return true;
    if (!rota_deliver_to(runtime, wanted, submission, read->data, read->size)) return false;
    uint32_t state = ROTA_CELL_HOSTED | (comes_after_others(submission) ? ROTA_CELL_SPREAD : 0u);
    (void)ra_fetch_or_acq_rel(&submission->cell->state, state);
    return true;
}

/* A work for each device that some of the bytes come from. */
static bool sequence_read(rota_runtime *runtime, rota_wanted *wanted, rota_submission *submission,
                          uint64_t *out_final, rota_reason *out_reason, rota_status *out_status) {
    rota_host_read *read = submission->read;
    rota_residency *residency = read->residency;
    uint32_t unused = 0;
    drop_failed_copies(runtime, residency, read->offset, read->offset + read->size);
    rota_hazard_fold(residency, read->offset, read->offset + read->size);
    if (!check_incoming(runtime, submission, residency, read->offset, read->offset + read->size, 0, "read",
                        &unused, out_reason, out_status))
        return false;
    if (!make_parts(runtime, read) || !reserve(runtime, submission, read->part_count, 1, 1, 1) ||
        !deliver_read(runtime, wanted, submission)) {
        *out_status = ROTA_OUT_OF_MEMORY;
        out_reason->cause =
            rota_cause_new(runtime, ROTA_OUT_OF_MEMORY, "read of buffer '%s': no host memory for it",
                           residency->buffer->name);
        return false;
    }
    for (uint32_t p = 0; p < read->part_count; p++) {
        rota_read_part *part = &read->parts[p];
        rota_ahead ahead = {.device = part->device, .queues = 1u << part->device->io_queue};
        if (p > 0) rota_ahead_add(&ahead, *out_final);
        for (uint32_t e = part->first_extent; e < part->first_extent + part->extent_count; e++)
            rota_ahead_access(&ahead, residency, read->extents[e].offset,
                              read->extents[e].offset + read->extents[e].size, false);
        provide(runtime, &ahead, part->size, ROTA_EXEC_MEMORY_HOST_READ, &part->down);
        rota_work *work = add_copy(submission, &ahead, ROTA_WORK_READ, p);
        /* The last one stands for all. */
        if (p > 0) rota_wanted_add(wanted, runtime->queue_count, *out_final);
        *out_final = rota_work_point(work);
        for (uint32_t e = part->first_extent; e < part->first_extent + part->extent_count; e++)
            rota_hazard_read(runtime, wanted, residency, read->extents[e].offset,
                             read->extents[e].offset + read->extents[e].size, *out_final);
        send(runtime, wanted, work, &ahead);
        if (!submission->kept_in && rota_siding_keeps(work)) begin_keeping(submission, residency, 0);
    }
    return true;
}

void rota_sequence_record(rota_runtime *runtime, rota_lane *lane, uint32_t lane_index,
                          const rota_record *record) {
    rota_wanted *wanted = &runtime->wanted;
    rota_cell_chunk *chunk = rota_lane_take(runtime, lane, record->sequence);
    rota_cell *cell = &chunk->cells[record->sequence % ROTA_CHUNK_CELLS];
    const uint64_t id = rota_ticket_id(record->sequence, lane_index);
    uint64_t number = ++runtime->next_number;
    ra_store_release(&cell->number, number);
    /* Without memory it fails below, as whatever else has no room for its works. */
    rota_submission *submission = new_submission(runtime);
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
        ok = has_record &&
             reserve(runtime, submission, plan->segment_count, plan->segment_count, 0, run->payload_words);
        if (ok && run->payload_words)
            memcpy(submission->payload, words, run->payload_words * sizeof *submission->payload);
        if (!ok) { /* without room for the arguments they are read where the caller left them */
            payload = submission->payload;
            submission->payload = words;
        }
        submission->hosted = run->has_staging && plan->transfer_count > plan->input_count;
        ok = ok && check_plan(runtime, submission, &moves, &reason, &status) &&
             (moves == 0 || reserve(runtime, submission, plan->segment_count + 2u * moves,
                                    plan->segment_count, moves, run->payload_words)) &&
             rota_deliver_outputs(runtime, wanted, submission);
        ra_store_relaxed(&submission->inputs_left, run->stages_inputs ? plan->input_count : 0);
        if (ok) {
            uint32_t state =
                (submission->hosted ? ROTA_CELL_HOSTED : 0u) |
                (plan->part_count > 1 || comes_after_others(submission) ? ROTA_CELL_SPREAD : 0u) |
                (plan->input_count ? 0u : ROTA_CELL_TAKEN);
            if (state) (void)ra_fetch_or_acq_rel(&cell->state, state);
            ra_store_release(&cell->submission, submission);
            sequence_plan(runtime, wanted, submission, &final);
        }
    } else if (record->kind == ROTA_RECORD_WRITE) {
        rota_host_write *request = record->object;
        submission->write = *request;
        submission->kept_in = NULL;
        free(request);
        note_name(submission, submission->write.residency->buffer->name);
        rota_device *device = submission->write.device;
        ok = has_record && reserve(runtime, submission, 1, 1, 0, 0);
        if (ok && rota_device_is_lost(device)) {
            status = ROTA_DEVICE_LOST;
            reason.cause = ra_load_acquire(&device->lost_cause);
            ok = false;
        }
        ra_store_release(&cell->submission, submission);
        if (ok) sequence_write(runtime, wanted, submission, &final);
    } else {
        submission->read = record->object;
        submission->kept_in = NULL;
        note_name(submission, submission->read->residency->buffer->name);
        ra_store_release(&cell->submission, submission);
        ok = has_record && sequence_read(runtime, wanted, submission, &final, &reason, &status);
    }
    count_one(&runtime->stat_submissions);
    if (!ok) {
        if (!reason.cause)
            reason = (rota_reason){rota_cause_new(runtime, status,
                                                  "plan '%s', submission " ROTA_CAUSE_NUMBER
                                                  ": no host memory to sequence it",
                                                  submission_plan_name(submission)),
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
            let_go(runtime, submission);
        } else {
            add_undelivered(runtime, submission);
            push_delivery(runtime, submission);
        }
        return;
    }
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

/* ---- Recycling ---- */

/* A replay's end is that of its last segment, which comes after all others and by which its ticket ends: what
 * is published afterwards of other queues is no part of what who waits for the ticket waits for. */
static void note_times(rota_runtime *runtime, rota_submission *submission) {
    if (submission->submitted_ns == 0 || submission->kind != ROTA_RECORD_PLAN) return;
    rota_plan_run *run = submission->plan->run;
    uint64_t final = submission->final_point;
    uint64_t completed_ns =
        rota_stamps_take(rota_runtime_timeline(runtime, final)->stamps, rota_point_value(final));
    (void)pthread_mutex_lock(&runtime->times_mutex);
    run->times = (rota_plan_replay_times){submission->submitted_ns, submission->sequenced_ns,
                                          ra_load_relaxed(&submission->handed_over_ns), completed_ns,
                                          submission->number};
    run->times_instance = submission->instance;
    (void)pthread_mutex_unlock(&runtime->times_mutex);
}

static void release_transfers(rota_submission *submission) {
    for (uint32_t i = 0; i < submission->transfer_count; i++) {
        if (submission->transfers[i].down) rota_staging_release(submission->transfers[i].down);
        if (submission->transfers[i].up) rota_staging_release(submission->transfers[i].up);
    }
}

/* Tickets were ended here: what waits for that has no other way to know. */
static void tell_completer(rota_runtime *runtime) {
    (void)ra_fetch_add_seq_cst(&runtime->ended_apart, 1); /* with look_at_apart in complete.c */
    rota_sleeper_wake(&runtime->completer_sleeper);
}

static void fail_for_loss(rota_runtime *runtime, rota_submission *submission, const rota_device *device) {
    rota_submission_fail(runtime, submission, (rota_reason){ra_load_acquire(&device->lost_cause), 0}, false);
    if (!submission->hosted) return;
    (void)ra_fetch_or_seq_cst(&submission->cell->state, (uint32_t)ROTA_CELL_DONE); /* as in complete.c */
    rota_wait_table_wake(&runtime->hosted_waiters, 1);
    tell_completer(runtime);
}

/* Of moves that have ended; of those that a lost device did not get its thread gives it back (handover.c). */
static void release_ended_transfers(rota_runtime *runtime, rota_submission *submission) {
    for (uint32_t i = 0; i < submission->work_count; i++) {
        const rota_work *work = &submission->works[i];
        if (work->kind != ROTA_WORK_MIGRATE_IN || !rota_point_passed(runtime, rota_work_point(work)))
            continue;
        rota_transfer *transfer = &submission->transfers[work->segment];
        rota_staging_release(transfer->up);
        transfer->up = NULL;
        /* The first half, where there is one; until it has passed its device's thread may look at `down`. */
        if (runtime->devices[transfer->from]->exec->caps.unified_host ||
            !rota_point_passed(runtime, rota_work_point(work - 1)))
            continue;
        rota_staging_release(transfer->down);
        transfer->down = NULL;
    }
}

/* A lost device, or the thread that hands works to it, may still touch the submission: it is kept until
 * close, and with it its plan. */
static void keep(rota_runtime *runtime, rota_submission *submission) {
    rota_chunk_ended(submission->chunk); /* it has failed, which is done once */
    rota_deliver_end(runtime, submission);
    if (submission->parked) end_parking(runtime, submission);
    if (submission->kind != ROTA_RECORD_PLAN) end_keeping(submission);
    release_ended_transfers(runtime, submission);
    submission->next = runtime->stranded;
    runtime->stranded = submission;
}

/* Whether a device that is well, or one that takes inputs for it, is at work for a submission: its caller's
 * memory is in use. */
static bool is_at_work(rota_runtime *runtime, const rota_submission *submission) {
    for (uint32_t i = 0; i < submission->work_count; i++) {
        const rota_work *work = &submission->works[i];
        /* Acquire: with look_for_loss. What moves have of staging memory is given back at their end. */
        if (work->kind == ROTA_WORK_SEGMENT && ra_load_acquire(&work->in_vain)) continue;
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
static void strand(rota_runtime *runtime, rota_device *device, rota_timeline *timeline, bool all) {
    rota_submission *before = all ? NULL : timeline->strand_after;
    bool any = false;
    for (uint32_t looks = 0; all || looks < STRANDED_LOOKED_AT; looks++) {
        rota_submission *submission = before ? before->next : timeline->oldest;
        if (!submission || rota_point_passed(runtime, submission->final_point)) {
            before = NULL; /* from the beginning, next time */
            break;
        }
        if (is_at_work(runtime, submission) ||
            (comes_after_others(submission) &&
             ra_load_acquire(&submission->hosted_done) == ROTA_HOSTED_PENDING)) { /* with complete.c */
            before = submission;
            continue;
        }
        if (before)
            before->next = submission->next;
        else
            timeline->oldest = submission->next;
        if (timeline->newest == submission) timeline->newest = before;
        fail_for_loss(runtime, submission, device);
        ra_store_release(&submission->cell->point, ROTA_POINT_PASSED);
        keep(runtime, submission);
        any = true;
    }
    timeline->strand_after = before;
    if (timeline->oldest && !rota_point_passed(runtime, timeline->oldest->final_point))
        runtime->stranding = true;
    if (!any) return;
    rota_device_wake_waiters(device);
    tell_completer(runtime);
}

/* The lost device that may still have a work of a submission whose last work has passed, or NULL. That one
 * was on another device and no longer waited for what was lost: whoever let it pass saw the loss before, and
 * so it is seen here. */
static const rota_device *left_behind(rota_runtime *runtime, const rota_submission *submission) {
    for (uint32_t i = 0; submission->hold_count && i < submission->work_count; i++) {
        const rota_work *work = &submission->works[i];
        if (rota_device_is_lost(work->device) && !rota_point_passed(runtime, rota_work_point(work)))
            return work->device;
    }
    return NULL;
}

/* The submission has ended; `lost` was left behind, or NULL. */
static void put_away(rota_runtime *runtime, rota_submission *submission, const rota_device *lost) {
    count_one(&runtime->stat_completed);
    if (lost) {
        rota_submission_fail(runtime, submission, (rota_reason){ra_load_acquire(&lost->lost_cause), 0},
                             false);
        keep(runtime, submission);
        return;
    }
    note_times(runtime, submission); /* of all its parts */
    release_transfers(submission);
    if (ra_load_relaxed(&runtime->poison_active)) rota_poison_end(runtime, submission);
    let_go(runtime, submission);
}

/* Those that no thread reads any more. */
static void forget_unpinned(rota_runtime *runtime) {
    for (rota_submission **link = &runtime->pinned; *link;) {
        rota_submission *submission = *link;
        if (!rota_submission_unpublish(submission)) {
            link = &submission->next;
            continue;
        }
        *link = submission->next;
        forget(runtime, submission);
    }
}

/* Failed tickets that wait for all that came before: what is left of that is on a timeline, or undelivered,
 * each in its order. */
static void end_unordered(rota_runtime *runtime) {
    uint64_t oldest = runtime->undelivered_first ? runtime->undelivered_first->number : UINT64_MAX;
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++)
        for (uint32_t q = 0; q < runtime->devices[d]->queues_used; q++) {
            const rota_submission *first = runtime->devices[d]->timelines[q].oldest;
            if (first && first->number < oldest) oldest = first->number;
        }
    bool any = false;
    while (runtime->unordered_first && ra_load_relaxed(&runtime->unordered_first->number) < oldest) {
        rota_cell *cell = runtime->unordered_first;
        const uint64_t place = rota_ticket_sequence(ra_load_relaxed(&cell->id)) % ROTA_CHUNK_CELLS;
        rota_cell_chunk *chunk =
            (rota_cell_chunk *)((uintptr_t)(cell - place) - offsetof(rota_cell_chunk, cells));
        runtime->unordered_first = cell->later;
        if (!cell->later) runtime->unordered_last = NULL;
        (void)ra_fetch_or_seq_cst(&cell->state, (uint32_t)ROTA_CELL_DONE); /* as in complete.c */
        rota_chunk_ended(chunk);
        any = true;
    }
    if (!any) return;
    rota_wait_table_wake(&runtime->hosted_waiters, 1);
    tell_completer(runtime);
}

void rota_sequence_reap(rota_runtime *runtime, bool all) {
    runtime->stranding = false;
    if (runtime->pinned) forget_unpinned(runtime);
    if (ra_load_relaxed(&runtime->ended)) {
        rota_submission *ended = ra_exchange_acq_rel(&runtime->ended, NULL); /* with finish_delivery */
        while (ended) {
            rota_submission *submission = ended;
            ended = submission->next;
            remove_undelivered(runtime, submission);
            let_go(runtime, submission);
        }
    }
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) {
        rota_device *device = runtime->devices[d];
        bool lost = rota_device_is_lost(device);
        for (uint32_t q = 0; q < device->queues_used; q++) {
            rota_timeline *timeline = &device->timelines[q];
            if (!timeline->oldest) continue;
            uint64_t completed = ra_load_acquire(&timeline->completed); /* with advanced */
            while (timeline->oldest && rota_point_value(timeline->oldest->final_point) <= completed) {
                rota_submission *submission = timeline->oldest;
                /* With finish_delivery; seq_cst, with this thread's interest before it sleeps. */
                uint32_t hosted = submission->hosted ? ra_load_seq_cst(&submission->hosted_done)
                                                     : (uint32_t)ROTA_HOSTED_COPIED;
                if (hosted == ROTA_HOSTED_PENDING) break;
                const rota_device *behind = left_behind(runtime, submission);
                /* Its ticket has not ended, and its cell is marked when it has: rota_device_end_filling. */
                if (behind && rota_device_fills(runtime, submission->number)) {
                    runtime->stranding = true;
                    break;
                }
                if (hosted == ROTA_HOSTED_LOST) {
                    fail_for_loss(runtime, submission, device);
                    ra_store_relaxed(&submission->hosted_done, ROTA_HOSTED_COPIED); /* once */
                }
                timeline->oldest = submission->next;
                if (submission->next) fetch(submission->next);
                if (lost) timeline->strand_after = NULL;
                put_away(runtime, submission, behind);
            }
            if (!timeline->oldest) timeline->newest = NULL;
            if (lost && timeline->oldest) strand(runtime, device, timeline, all);
        }
    }
    if (runtime->unordered_first) end_unordered(runtime);
}
