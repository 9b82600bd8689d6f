/* Handing works over to a device: the submit thread, which is the only one in the driver's submit path, and
 * the direct way for executors whose submit never blocks. Works that piled up go over in one call.
 *
 * A work that waits for something that its device can't wait for is held, and with it what comes later on its
 * logical queue; works of other queues pass it. A work goes over once
 *   - what it waits for on other devices has passed there, or its own device can wait for it; where the other
 * is lost it won't run, and stays until what the lost work was to come after is over;
 *   - its instance is made;
 *   - all that it waits for on its own device has gone over before: the executor hears of no value later than
 *     of a wait for it;
 *   - the gate takes it (gate.c): what that needs is with devices already;
 *   - under a memory limit, its staging memory is there, or won't be: what is waited for there comes from the
 *     reclaimer, in a bounded time.
 * All of that comes earlier in the one order of submissions, so the earliest work that is held anywhere waits
 * for no other: there is no circle. Which queue a work is on, and so what it can hold up, is the sequencer's
 * business (sidings.c). */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sched/runtime_internal.h"
#include "sched/submission.h"

#define HOLD_SLICE_NS 50000000u
#define STARVED_SLICE_NS 200000u
#define ACROSS_SPIN_NS 30000u

/* ---- One work ---- */

static void skip_work(rota_work *work, rota_reason reason, bool first) {
    work->skipped = true;
    rota_poison_work(work, reason, first);
}

/* Whether what a move brings has left the device that had it: its first half, which is the work before it and
 * has ended, did not fail; or the host sees it where it is. That there is memory for it says nothing. */
static bool has_left(const rota_work *move_in) {
    const rota_transfer *transfer = &move_in->submission->transfers[move_in->segment];
    if (move_in->device->runtime->devices[transfer->from]->exec->caps.unified_host) return true;
    return !ra_load_acquire(&move_in[-1].failed); /* with rota_poison_work, before its end was published */
}

/* Why the submission failed, with what the first of its works to fail said; seen with has_left. */
static rota_reason first_reason(const rota_submission *submission) {
    return (rota_reason){ra_load_acquire(&submission->cause),
                         ra_load_acquire(&submission->cell->cause_number)};
}

/* Puts the work behind the gate where the device is linked, and looks whether it may run at all. */
static void enter(rota_work *work, rota_exec_work *out, rota_exec_timeline_wait *waits) {
    rota_device *device = work->device;
    bool linked = ra_load_acquire(&device->linked) != 0; /* with rota_across_open */
    rota_reason reason = {NULL, 0};
    if (linked) {
        out->timeline_wait_count = rota_across_waits(work, waits);
        out->timeline_waits = waits;
        out->timeline = rota_across_signal(work);
        rota_gate_lock(device);
        reason.cause = rota_gate_push(work, out->timeline_wait_count != 0);
    }
    if (!work->skipped && work->kind == ROTA_WORK_MIGRATE_IN && !has_left(work))
        skip_work(work, first_reason(work->submission), false);
    /* Works before it in the gate are not decided, and so is not what it will read: it is judged there. */
    if (!work->skipped &&
        (reason.cause || (!work->gated && !device->asks_poison && rota_poison_of_work(work, &reason))))
        skip_work(work, reason, false);
    /* All that it was held for is over: what of that was not written is known. */
    if (work->skipped) rota_poison_undone(work);
    if (linked) rota_gate_unlock(device);
}

static void inputs_taken(rota_runtime *runtime, rota_submission *submission, uint32_t count) {
    if (count == 0 || ra_fetch_sub_acq_rel(&submission->inputs_left, count) != count) return;
    (void)ra_fetch_or_seq_cst(&submission->cell->state,
                              (uint32_t)ROTA_CELL_TAKEN); /* seq_cst: as base/sleep.h argues */
    rota_wait_table_wake(&runtime->hosted_waiters, 1);
}

static bool outputs_are_copied(void *user) {
    const rota_submission *submission = user;
    const rota_plan_run *run = submission->plan->run;
    return ra_load_seq_cst(
               &run->instances[submission->instance].outputs_copied) >= /* with give_staging_back */
           submission->outputs_before;
}

/* An instance's staging memory is written again only when the completer has taken the outputs out of it (P1).
 */
static rota_status wait_for_outputs(rota_runtime *runtime, rota_submission *submission) {
    uint64_t deadline = rota_deadline_after(runtime->options.timeout_ns);
    while (!outputs_are_copied(submission)) {
        uint64_t now = rota_clock_ns();
        if (now >= deadline || ra_load_acquire(&runtime->stop))
            return rota_fail(ROTA_TIMEOUT, "plan '%s': the outputs of an earlier replay were not taken",
                             submission->plan->name);
        rota_wait_table_sleep(&runtime->hosted_waiters, 1, outputs_are_copied, submission,
                              now + HOLD_SLICE_NS);
    }
    return ROTA_OK;
}

static rota_status prepare_segment(rota_work *work, rota_exec_work *out) {
    rota_submission *submission = work->submission;
    rota_plan *plan = submission->plan;
    rota_plan_run *run = plan->run;
    const rota_plan_segment *segment = &plan->segments[work->segment];
    const rota_run_instance *instance = &run->instances[submission->instance];
    if (!ra_load_acquire(&instance->created)) { /* with rota_run_instance_make */
        /* Acquire: with answer, of this failure or of one after it. */
        const rota_cause *failure = ra_load_acquire(&instance->failure);
        return rota_fail(failure->status, "%s", failure->message);
    }
    if (run->has_staging) {
        ROTA_TRY(wait_for_outputs(work->device->runtime, submission));
        if (!rota_device_begin_filling(work->device, submission->number)) return ROTA_OK;
        uint32_t taken = 0;
        for (uint32_t t = 0; t < plan->input_count; t++) {
            const rota_plan_transfer *transfer = &plan->transfers[t];
            if (transfer->segment != work->segment) continue;
            taken++;
            if (transfer->memory == ROTA_NONE) continue;
            uint8_t *host = instance->memories[transfer->part][transfer->memory]->host;
            memcpy(host + transfer->offset_bytes,
                   (const void *)(uintptr_t)submission->payload[plan->word_count + t],
                   plan->buffers[transfer->buffer].buffer->size_bytes);
        }
        if (run->stages_inputs) inputs_taken(work->device->runtime, submission, taken);
        rota_device_end_filling(work->device);
    }
    out->instance = instance->parts[segment->part];
    out->segment = segment->index;
    out->block = plan->word_count ? submission->payload : NULL;
    return ROTA_OK;
}

/* What a work needs of its device's staging memory: where it is noted, NULL: nothing. */
typedef struct need {
    rota_staging **span;
    uint64_t size;
    uint32_t flags;
} need;

static need need_of(const rota_work *work) {
    const rota_submission *submission = work->submission;
    if (work->kind == ROTA_WORK_READ) {
        rota_read_part *part = &submission->read->parts[work->segment];
        return (need){&part->down, part->size, ROTA_EXEC_MEMORY_HOST_READ};
    }
    if (work->kind != ROTA_WORK_MIGRATE_OUT && work->kind != ROTA_WORK_MIGRATE_IN) return (need){NULL, 0, 0};
    rota_transfer *transfer = &submission->transfers[work->segment];
    if (work->kind == ROTA_WORK_MIGRATE_OUT)
        return (need){&transfer->down, transfer->size, ROTA_EXEC_MEMORY_HOST_READ};
    if (work->device->exec->caps.unified_host || !has_left(work)) return (need){NULL, 0, 0};
    return (need){&transfer->up, transfer->size, ROTA_EXEC_MEMORY_HOST_WRITE};
}

/* It may have it from when it was sequenced, or held. */
static rota_status take_staging(const rota_work *work) {
    const need needed = need_of(work);
    bool is_limited;
    if (!needed.span || *needed.span) return ROTA_OK;
    return rota_staging_try(work->device, needed.size, needed.flags, &is_limited, needed.span);
}

static rota_status prepare_read(rota_work *work, rota_exec_work *out) {
    const rota_host_read *read = work->submission->read;
    const rota_read_part *part = &read->parts[work->segment];
    uint32_t count;
    const rota_extent *extents = rota_host_read_extents(work, &count);
    rota_status status = take_staging(work);
    if (status == ROTA_OK)
        status = rota_staging_copies_in(
            part->down, ra_load_acquire(&read->residency->memory[work->device->index]), extents, count, out);
    return status == ROTA_OK
               ? status
               : rota_fail_context(status, "read of buffer '%s': ", read->residency->buffer->name);
}

static rota_status one_copy(rota_work *work, rota_exec_copy copy, rota_exec_work *out) {
    work->copy = copy;
    out->copies = &work->copy;
    out->copy_count = 1;
    return ROTA_OK;
}

static rota_status prepare_write(rota_work *work, rota_exec_work *out) {
    const rota_host_write *write = &work->submission->write;
    rota_exec_memory *destination = ra_load_acquire(&write->residency->memory[work->device->index]);
    if (write->staging) return rota_staging_copies_out(write->staging, destination, write->offset, out);
    uint64_t begin = write->slot * work->device->runtime->options.staging_slot_bytes;
    rota_exec_copy copy = {destination, work->device->upload_memory, write->offset, begin, write->size};
    return one_copy(work, copy, out);
}

static rota_status prepare_move_out(rota_work *work, rota_exec_work *out) {
    rota_transfer *transfer = &work->submission->transfers[work->segment];
    rota_extent extent = {transfer->offset, transfer->size, transfer->from};
    ROTA_TRY(take_staging(work));
    return rota_staging_copies_in(
        transfer->down, ra_load_acquire(&transfer->residency->memory[work->device->index]), &extent, 1, out);
}

static void fill(const rota_staging *to, const uint8_t *from) {
    for (; to; to = to->more) {
        memcpy(to->memory->host, from, to->used);
        from += to->used;
    }
}

/* Out of the other device's staging memory, or, where the host sees it, its memory itself: at once where this
 * device can, else by way of its own staging memory. */
static rota_status prepare_move_in(rota_work *work, rota_exec_work *out) {
    rota_transfer *transfer = &work->submission->transfers[work->segment];
    rota_device *device = work->device;
    rota_exec_memory *destination = ra_load_acquire(&transfer->residency->memory[device->index]);
    rota_exec_memory *source = ra_load_acquire(&transfer->residency->memory[transfer->from]);
    if (!device->exec->caps.unified_host) {
        ROTA_TRY(take_staging(work));
        rota_staging *up = transfer->up;
        if (!transfer->down) fill(up, (const uint8_t *)source->host + transfer->offset);
        for (const rota_staging *down = transfer->down; down; down = down->more, up = up->more)
            memcpy(up->memory->host, down->memory->host, down->used); /* both are cut alike */
        return rota_staging_copies_out(transfer->up, destination, transfer->offset, out);
    }
    if (transfer->down) return rota_staging_copies_out(transfer->down, destination, transfer->offset, out);
    rota_exec_copy copy = {destination, source, transfer->offset, transfer->offset, transfer->size};
    return one_copy(work, copy, out);
}

static rota_status prepare_copy(rota_work *work, rota_exec_work *out) {
    switch ((rota_work_kind)work->kind) {
    case ROTA_WORK_READ:
        return prepare_read(work, out);
    case ROTA_WORK_WRITE:
        return prepare_write(work, out);
    case ROTA_WORK_MIGRATE_OUT:
        return prepare_move_out(work, out);
    case ROTA_WORK_MIGRATE_IN:
        return prepare_move_in(work, out);
    case ROTA_WORK_SEGMENT:
        break;
    }
    return ROTA_OK;
}

/* A work that waits for another device, on the GPU or in vain, comes after all that was handed over to its
 * own before: what the other device's work came after was left out of its waits, and if that device is lost,
 * the wait ends without any of it having been kept. */
static uint32_t wait_for_all(const rota_device *device, rota_work *const *works, uint32_t before,
                             rota_exec_wait *out_waits) {
    uint32_t count = 0;
    for (uint32_t q = 0; q < device->runtime->queue_count; q++) {
        uint64_t last = ra_load_relaxed(&device->timelines[q].handed_over); /* stored in hand_over */
        for (uint32_t i = 0; i < before; i++)
            if (works[i]->queue == q) last = works[i]->value;
        if (last) out_waits[count++] = (rota_exec_wait){q, last};
    }
    return count;
}

/* Before the works are seen as handed over, or as held no longer: who waits for one must not find it with its
 * device and the time when something else was given to that, long ago. */
static void note_hand_over(rota_device *device) {
    if (ra_load_relaxed(&device->runtime->device_count) > 1) /* others may wait for it */
        ra_store_relaxed(&device->handed_ns, rota_clock_ns());
}

static void release_span(rota_staging **span) {
    rota_staging_release(*span);
    *span = NULL;
}

static bool has_passed(const rota_work *work) {
    return rota_point_passed(work->device->runtime, rota_work_point(work));
}

/* A lost device is not given the works, whose submissions are kept until close (keep in sequence.c): what
 * moves have of staging memory is not. Nobody else looks at it: the second half of a move whose first half
 * never ends is skipped, and `keep` leaves alone what was for a work that has not ended. */
static void give_moves_back(rota_work *const *works, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const rota_work *work = works[i];
        if (work->kind != ROTA_WORK_MIGRATE_OUT && work->kind != ROTA_WORK_MIGRATE_IN) continue;
        rota_transfer *transfer = &work->submission->transfers[work->segment];
        const bool is_second = work->kind == ROTA_WORK_MIGRATE_IN;
        if (is_second) release_span(&transfer->up);
        /* A second half has a first where the device that is moved from is not unified. */
        const rota_device *from = work->device->runtime->devices[transfer->from];
        if (!is_second || (!from->exec->caps.unified_host && has_passed(work - 1)))
            release_span(&transfer->down);
    }
}

/* The device is lost, and what the works were to come after on other devices is over, or the gate's business:
 * so it is for who comes after them (hold_is_over). Another thread may be at later ones: the newest value
 * counts. */
static void drop(rota_device *device, rota_work *const *works, uint32_t count) {
    give_moves_back(works, count);
    for (uint32_t i = 0; i < count; i++) {
        rota_poison_undone(works[i]); /* first: who comes after it looks at marks */
        const uint64_t value = works[i]->value;
        rota_timeline *timeline = &device->timelines[works[i]->queue];
        uint64_t dropped = ra_load_relaxed(&timeline->dropped);
        /* Releases, to hold_is_over, that those are over; and seq_cst with watch_for, as what is published.
         */
        while (dropped < value && !ra_cas_seq_cst(&timeline->dropped, &dropped, value)) {
        }
        rota_device_wake_holders(device->runtime, timeline, value);
    }
}

static void hand_over(rota_device *device, rota_work **works, uint32_t count) {
    rota_exec_wait all[ROTA_HANDOVER_BATCH * ROTA_EXEC_QUEUES_MAX];
    rota_exec_work lowered[ROTA_HANDOVER_BATCH];
    rota_exec_timeline_wait timeline_waits[ROTA_HANDOVER_BATCH * ROTA_EXEC_TIMELINE_WAITS_MAX];
    rota_runtime *runtime = device->runtime;
    for (uint32_t i = 0; i < count; i++) {
        rota_work *work = works[i];
        rota_submission *submission = work->submission;
        rota_exec_work *out = &lowered[i];
        *out = (rota_exec_work){.queue = work->queue,
                                .signal_value = work->value,
                                .waits = submission->waits + work->first_wait,
                                .wait_count = work->wait_count,
                                .acquires = work->acquires,
                                .cookie = work};
        if (work->dropped) continue;
        enter(work, out, &timeline_waits[i * ROTA_EXEC_TIMELINE_WAITS_MAX]);
        if (work->comes_last || out->timeline_wait_count) {
            out->waits = &all[i * ROTA_EXEC_QUEUES_MAX];
            out->wait_count = wait_for_all(device, works, i, &all[i * ROTA_EXEC_QUEUES_MAX]);
        }
        if (rota_device_is_lost(device)) continue; /* not handed over below */
        rota_status status = work->skipped                     ? ROTA_OK
                             : work->kind == ROTA_WORK_SEGMENT ? prepare_segment(work, out)
                                                               : prepare_copy(work, out);
        if (status != ROTA_OK)
            skip_work(work,
                      (rota_reason){rota_cause_new(runtime, status, "submission " ROTA_CAUSE_NUMBER ": %s",
                                                   rota_last_error()),
                                    submission->number},
                      true);
        if (submission->submitted_ns) ra_store_relaxed(&submission->handed_over_ns, rota_clock_ns());
    }
    if (rota_device_is_lost(device)) {
        drop(device, works, count);
        return;
    }
    note_hand_over(device);
    for (uint32_t i = 0; i < count; i++)
        ra_store_release(&device->timelines[works[i]->queue].handed_over, works[i]->value);
    uint32_t most = runtime->options.merge_max ? runtime->options.merge_max : count;
    for (uint32_t first = 0; first < count; first += most) {
        uint32_t here = count - first < most ? count - first : most;
        (void)ra_fetch_add_relaxed(&runtime->stat_driver_submits, 1);
        if (device->exec->vtable->submit(device->exec, lowered + first, here) != ROTA_OK) {
            rota_device_set_lost(device, rota_last_error());
            return;
        }
        for (uint32_t i = first; i < first + here; i++)
            if (lowered[i].timeline) /* the work itself may be gone */
                rota_across_signalled(device, lowered[i].queue, lowered[i].signal_value);
    }
}

/* ---- The sequencer's side ---- */

static bool thread_is_idle(rota_device *device) {
    /* Acquire: with the thread's release after its last submit call returned. */
    return !device->overflow_first &&
           ra_load_acquire(&device->ring_consumed) == ra_load_relaxed(&device->ring_published);
}

static void flush_direct(rota_device *device) {
    if (device->direct_count == 0) return;
    uint32_t count = device->direct_count;
    device->direct_count = 0;
    /* The thread's, which has nothing now and looks again when it does. */
    for (uint32_t i = 0; i < count; i++) device->given[device->direct[i]->queue] = device->direct[i]->value;
    hand_over(device, device->direct, count);
}

static bool push_ring(rota_device *device, rota_work *work) {
    uint64_t published = ra_load_relaxed(&device->ring_published);
    /* Acquire: with the thread's release, after which it does not look there. */
    if (published - ra_load_acquire(&device->ring_taken) >= ROTA_HANDOVER_RING) return false;
    work->ordinal = published;
    device->ring[published % ROTA_HANDOVER_RING] = work;
    ra_store_seq_cst(&device->ring_published, published + 1); /* seq_cst: with the thread's sleep flag */
    return true;
}

void rota_handover_push(rota_device *device, rota_work *work) {
    /* Lent out (the benchmarks' baseline): the caller is in the driver itself, with its lock held. */
    bool direct = device->exec->caps.submit_never_blocks || ra_load_relaxed(&device->runtime->lent);
    /* What waits on the device for another one is the thread's, which may have to hold it for room in the
     * gate. */
    if (ra_load_acquire(&device->linked)) direct = false; /* with rota_across_open */
    /* Under a memory limit it may have to be held until another device's staging memory is freed. */
    if (device->runtime->is_limited && work->kind != ROTA_WORK_SEGMENT && work->kind != ROTA_WORK_WRITE)
        direct = false;
    if (direct && work->hold_count == 0 && !work->parks && thread_is_idle(device)) {
        device->direct[device->direct_count++] = work;
        if (device->direct_count == ROTA_HANDOVER_BATCH) flush_direct(device);
        return;
    }
    flush_direct(device); /* what came before goes over before */
    if (!device->overflow_first && push_ring(device, work)) return;
    work->next = NULL;
    if (device->overflow_last)
        device->overflow_last->next = work;
    else
        device->overflow_first = work;
    device->overflow_last = work;
}

void rota_handover_flush(rota_device *device) {
    flush_direct(device);
    while (device->overflow_first) {
        rota_work *work = device->overflow_first;
        rota_work *next = work->next; /* the work may be gone once it is pushed */
        if (!push_ring(device, work)) break;
        device->overflow_first = next;
        if (!next) device->overflow_last = NULL;
    }
    /* What it holds is not brought on by this. */
    if (ra_load_acquire(&device->ring_taken) != ra_load_relaxed(&device->ring_published))
        rota_sleeper_wake(&device->sleeper);
}

/* ---- The submit thread ---- */

static uint32_t take(rota_device *device, rota_work **works);
static void give_up_on_first(rota_device *device);

static bool has_left_thread(const rota_device *lost, uint32_t queue, uint64_t value) {
    const rota_timeline *timeline = &lost->timelines[queue];
    return ra_load_acquire(&timeline->handed_over) >= value || /* with hand_over */
           ra_load_seq_cst(&timeline->dropped) >= value;       /* with drop */
}

/* A lost device's thread, that would look through what it holds, may not come back from the driver: then this
 * one does, and gives up on who keeps it. */
static void look_for_thread(rota_device *lost) {
    uint32_t expected = ROTA_HANDS_OVER;
    if (!ra_cas_acq_rel(&lost->hands_over, &expected, ROTA_HANDS_LOOKED)) return; /* with serve */
    rota_work *works[ROTA_HANDOVER_BATCH];
    for (uint32_t count = 1; count != 0;) {
        count = take(lost, works);
        drop(lost, works, count);
        lost->looked_at += count;
    }
    give_up_on_first(lost);
    ra_store_release(&lost->hands_over, ROTA_HANDS_OVER); /* with serve, and the next one here */
}

/* Whether all that the work of this point on a lost device was to come after on other devices is over: it was
 * given to its device, or would be. Who comes after the work comes after that, though the work itself won't
 * do anything: what is older may read what is to be written, or the marks of it. */
static bool is_through_before(rota_device *lost, uint64_t point) {
    const uint32_t queue = rota_point_queue(point);
    const uint64_t value = rota_point_value(point);
    if (!has_left_thread(lost, queue, value)) {
        look_for_thread(lost);
        if (!has_left_thread(lost, queue, value)) return false;
    }
    return rota_gate_is_through(lost, queue, value);
}

/* Whether what a work of the device is held for has come about; `*lost`: it will not, since the other device
 * is lost. Then it is over when what was to come before is. A lost device waits for nothing itself. */
static bool hold_is_over(const rota_device *device, uint64_t hold, rota_device **lost) {
    rota_runtime *runtime = device->runtime;
    const uint64_t point = rota_hold_point(hold);
    rota_device *other = runtime->devices[rota_point_device(point)];
    bool is_lost = rota_device_is_lost(other); /* first: then what was reached before is seen */
    if (rota_across_is_ready(runtime, rota_device_is_lost(device) ? point : hold)) return true;
    if (is_lost) *lost = other;
    return is_lost && is_through_before(other, point);
}

/* Calls fn for each point of another device that keeps the work; of those it waits for because one is lost,
 * the works of its submission before it. One that waits for a lost device is kept until it is seen to
 * (look_for_loss), however late the loss is seen. Stops at false. */
typedef bool (*keeper_fn)(rota_device *device, rota_work *work, uint64_t hold);
static bool for_keepers(rota_device *device, rota_work *work, keeper_fn fn) {
    rota_device *lost = NULL;
    for (uint32_t h = 0; h < work->hold_count; h++) {
        uint64_t hold = work->submission->holds[work->first_hold + h];
        lost = NULL;
        if (hold_is_over(device, hold, &lost) && (!lost || work->skipped)) continue;
        if (!fn(device, work, hold)) return false;
    }
    for (const rota_work *before = work; work->comes_last && before-- != work->submission->works;) {
        uint64_t point = rota_work_point(before);
        if (before->device != device && !hold_is_over(device, point, &lost) && !fn(device, work, point))
            return false;
    }
    return true;
}

/* One that is not kept, since the other device is lost, leaves the rest to be waited for, and what the lost
 * one's works came after: the work won't run, but the end of its submission may not come before theirs. */
static void look_for_loss(rota_work *work) {
    for (uint32_t h = 0; h < work->hold_count; h++) {
        rota_device *lost = NULL;
        (void)hold_is_over(work->device, work->submission->holds[work->first_hold + h], &lost);
        if (!lost) continue;
        if (!work->skipped) skip_work(work, (rota_reason){ra_load_acquire(&lost->lost_cause), 0}, false);
        work->comes_last = true;
        ra_store_release(&work->in_vain, 1); /* with is_at_work in sequence.c */
    }
}

static bool keeps(rota_device *device, rota_work *work, uint64_t hold) {
    (void)device, (void)work, (void)hold;
    return false;
}

/* Whether all that its device got before it in the order of submissions has gone over. */
static bool is_oldest(const rota_device *device, const rota_work *work) {
    for (uint32_t q = 0; q < device->runtime->queue_count; q++)
        if (device->held_first[q] && device->held_first[q]->ordinal < work->ordinal) return false;
    return true;
}

/* What the work waits for on its own device. While nothing is held all that came before has gone over. */
static bool is_next(const rota_device *device, const rota_work *work) {
    if (ra_load_relaxed(&device->held_count) == 0) return true;
    if (work->comes_last && !is_oldest(device, work)) return false;
    const rota_exec_wait *waits = work->submission->waits + work->first_wait;
    for (uint32_t w = 0; w < work->wait_count; w++)
        if (device->given[waits[w].queue] < waits[w].value) return false;
    return true;
}

/* Under a memory limit: whether the work has its staging memory, or is to fail since that will not come.
 * Meanwhile it is held as rota_staging_trim waits: while the reclaimer gets on with what was given back. */
static bool has_staging(rota_device *device, const rota_work *work) {
    rota_runtime *runtime = device->runtime;
    if (!runtime->is_limited || work->skipped || rota_device_is_lost(device)) return true;
    const need needed = need_of(work);
    if (!needed.span || *needed.span) return true;
    rota_starving *starving = &device->starving[work->queue];
    bool is_limited;
    while (rota_staging_try(device, needed.size, needed.flags, &is_limited, needed.span) != ROTA_OK) {
        if (!is_limited) return true; /* tried once more when it is prepared, which says why */
        rota_trim_state state = ROTA_TRIM_ROOM;
        if (starving->value == work->value)
            state = rota_trim_look(runtime, &starving->trim);
        else
            *starving = (rota_starving){.value = work->value};
        if (state == ROTA_TRIM_WAIT) device->starves = true;
        if (state != ROTA_TRIM_ROOM) return state == ROTA_TRIM_NONE;
        if (starving->rounds++ == ROTA_TRIMS_MAX) return true;
        rota_trim_begin_for_span(runtime, needed.size, &starving->trim);
    }
    return true;
}

/* The work is the next of its queue. Where its device is lost it is not handed over, and needs only what it
 * comes after. */
static bool is_ready(rota_device *device, rota_work *work) {
    const rota_submission *submission = work->submission;
    const bool is_lost = rota_device_is_lost(device);
    if (!is_lost && work->parks && work->kind == ROTA_WORK_SEGMENT &&
        !rota_run_instance_is_decided(&submission->plan->run->instances[submission->instance]))
        return false;
    if (work->hold_count) {
        look_for_loss(work);
        if (!for_keepers(device, work, keeps)) return false;
    }
    if (!is_next(device, work)) return false;
    work->dropped = is_lost;
    return is_lost || (rota_gate_takes(work) && has_staging(device, work));
}

/* What is held and waits for a lost device fails at once, wherever it stands: nobody waits for its end
 * (is_at_work in sequence.c) who needs but that. Once for each loss. */
static void see_losses(rota_device *device) {
    rota_runtime *runtime = device->runtime;
    const uint32_t devices = ra_load_acquire(&runtime->device_count);
    uint64_t lost = 0;
    for (uint32_t d = 0; d < devices; d++)
        if (rota_device_is_lost(runtime->devices[d])) lost |= (uint64_t)1 << d;
    if (lost == device->losses_seen) return;
    device->losses_seen = lost;
    for (uint32_t q = 0; q < runtime->queue_count; q++)
        for (rota_work *work = device->held_first[q]; work; work = work->next) look_for_loss(work);
}

static void hold_back(rota_device *device, rota_work *work) {
    look_for_loss(work); /* the losses that were seen before it came here */
    work->next = NULL;
    if (device->held_last[work->queue]) {
        device->held_last[work->queue]->next = work;
    } else {
        work->since_ns = rota_clock_ns();
        device->held_first[work->queue] = work;
    }
    device->held_last[work->queue] = work;
    (void)ra_fetch_add_relaxed(&device->held_count, 1); /* others ask what a device waits for: give_up_on */
}

/* Takes works that were held and may go; one may let another one go. */
static uint32_t take_held(rota_device *device, rota_work **works) {
    uint32_t count = 0;
    bool any = ra_load_relaxed(&device->held_count) != 0;
    if (any) see_losses(device);
    while (any) {
        any = false;
        for (uint32_t q = 0; q < device->runtime->queue_count; q++)
            while (count < ROTA_HANDOVER_BATCH && device->held_first[q] &&
                   is_ready(device, device->held_first[q])) {
                rota_work *work = device->held_first[q];
                device->held_first[q] = work->next;
                if (work->next)
                    work->next->since_ns = rota_clock_ns();
                else
                    device->held_last[q] = NULL;
                note_hand_over(device); /* first: released by the next, to give_up_on */
                (void)ra_fetch_sub_release(&device->held_count, 1);
                device->given[q] = work->value;
                works[count++] = work;
                any = true;
            }
    }
    return count;
}

/* Takes what is to go over next; what must wait is held. */
static uint32_t take(rota_device *device, rota_work **works) {
    uint64_t taken = ra_load_relaxed(&device->ring_taken);
    const uint64_t published = ra_load_seq_cst(&device->ring_published); /* with push_ring */
    uint32_t count = take_held(device, works);
    while (count < ROTA_HANDOVER_BATCH && taken < published) {
        rota_work *work = device->ring[taken++ % ROTA_HANDOVER_RING];
        if (device->held_first[work->queue] || !is_ready(device, work)) {
            hold_back(device, work);
        } else {
            device->given[work->queue] = work->value;
            works[count++] = work;
        }
    }
    ra_store_release(&device->ring_taken, taken); /* with push_ring */
    return count;
}

/* ---- While works are held ---- */

/* A device that gets nowhere for the default deadline with what it was given is taken for lost: nobody knows
 * then what it still touches, so going on without it would be going on over its memory. One that was not
 * given it waits itself, and who keeps it is that one's business. */
static bool give_up_on(rota_device *device, rota_work *work, uint64_t hold) {
    rota_runtime *runtime = device->runtime;
    const uint64_t point = rota_hold_point(hold);
    rota_device *other = runtime->devices[rota_point_device(point)];
    if (ra_load_acquire(&rota_runtime_timeline(runtime, point)->handed_over) < rota_point_value(point) &&
        ra_load_acquire(&other->held_count) != 0)
        return true;
    uint64_t from = ra_load_relaxed(&other->handed_ns), now = rota_clock_ns();
    for (uint32_t q = 0; q < runtime->queue_count; q++) {
        uint64_t moved_ns = ra_load_relaxed(&other->timelines[q].progress_ns);
        if (from < moved_ns) from = moved_ns;
    }
    if (from < work->since_ns) from = work->since_ns;
    if (now > from && now - from > runtime->options.timeout_ns)
        rota_device_set_lost(other, "no progress within the deadline while other devices waited for it");
    return true;
}

/* Has the submit thread woken when the point is reached (rota_device_wake_holders). */
static void watch_for(rota_device *device, uint64_t point) {
    const uint64_t value = rota_point_value(point);
    rota_timeline *timeline = rota_runtime_timeline(device->runtime, point);
    const uint64_t mine = (uint64_t)1 << device->index;
    if (rota_point_passed(device->runtime, point)) return;
    bool watched = ra_load_relaxed(&timeline->holders) & mine;
    if (!watched || value < ra_load_relaxed(&timeline->held_for[device->index]))
        ra_store_seq_cst(&timeline->held_for[device->index], value);
    /* Both before the last look at the timeline; who moves it does so first. */
    if (!watched) (void)ra_fetch_or_seq_cst(&timeline->holders, mine);
}

/* All that may keep the work at the last look, not what keeps it now: what is with the other driver keeps it
 * once something has failed, which wakes nobody; so does, once a device is lost, what for_keepers says, and
 * who was told of that before may find it only then. */
static void watch(rota_device *device, const rota_work *work) {
    bool comes_last = work->comes_last;
    for (uint32_t h = 0; h < work->hold_count; h++) {
        const uint64_t point = rota_hold_point(work->submission->holds[work->first_hold + h]);
        comes_last = comes_last || rota_device_is_lost(device->runtime->devices[rota_point_device(point)]);
        watch_for(device, point);
    }
    for (const rota_work *before = work; comes_last && before-- != work->submission->works;)
        if (before->device != device) watch_for(device, rota_work_point(before));
}

static void watch_nothing(rota_device *device) {
    rota_runtime *runtime = device->runtime;
    const uint64_t mine = (uint64_t)1 << device->index;
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++)
        for (uint32_t q = 0; q < runtime->queue_count; q++) {
            rota_timeline *timeline = &runtime->devices[d]->timelines[q];
            if (ra_load_relaxed(&timeline->holders) & mine)
                (void)ra_fetch_and_seq_cst(&timeline->holders, ~mine);
        }
}

static void for_first(rota_device *device, keeper_fn fn) {
    for (uint32_t q = 0; q < device->runtime->queue_count; q++)
        if (device->held_first[q]) (void)for_keepers(device, device->held_first[q], fn);
}

static void give_up_on_first(rota_device *device) {
    for_first(device, give_up_on);
}

static bool any_ready(rota_device *device) {
    for (uint32_t q = 0; q < device->runtime->queue_count; q++)
        if (device->held_first[q] && is_ready(device, device->held_first[q])) return true;
    return false;
}

static bool awaits_hand_over(rota_device *device, rota_work *work, uint64_t hold) {
    (void)device, (void)work;
    return !(hold & ROTA_HOLD_ON_DEVICE);
}

/* Where a work is only to be handed over on the other side, that takes a driver's call, less than going to
 * sleep. */
static bool look_for_signal(rota_device *device) {
    bool worth = false, over = false;
    for (uint32_t q = 0; q < device->runtime->queue_count; q++)
        if (device->held_first[q])
            worth = worth || !for_keepers(device, device->held_first[q], awaits_hand_over);
    const uint64_t begin = rota_clock_ns();
    uint64_t now = begin;
    while (worth && !over && now - begin < ACROSS_SPIN_NS) {
        (void)sched_yield(); /* whoever hands it over may need this core */
        over = any_ready(device) || ra_load_acquire(&device->runtime->stop) ||
               ra_load_acquire(&device->ring_published) != ra_load_relaxed(&device->ring_taken);
        now = rota_clock_ns();
    }
    (void)ra_fetch_add_relaxed(&device->runtime->spin_ns, now - begin);
    return over;
}

/* Looks for work as long as the options say; false: there is none. */
static bool look_for_work(rota_device *device) {
    rota_runtime *runtime = device->runtime;
    if (runtime->options.spin_ns == 0) return false;
    const uint64_t begin = rota_clock_ns(), taken = ra_load_relaxed(&device->ring_taken);
    uint64_t now = begin;
    bool found = false;
    while (!found && now - begin < runtime->options.spin_ns) {
        (void)sched_yield(); /* whoever brings the work may need this core */
        found = ra_load_acquire(&device->ring_published) != taken || /* pairs with push_ring */
                ra_load_acquire(&runtime->stop) || any_ready(device);
        now = rota_clock_ns();
    }
    (void)ra_fetch_add_relaxed(&runtime->spin_ns, now - begin);
    return found;
}

/* Nothing may go over: sleeps until that changes. */
static void rest(rota_device *device) {
    rota_runtime *runtime = device->runtime;
    const bool holds = ra_load_relaxed(&device->held_count) != 0;
    if ((holds && look_for_signal(device)) || look_for_work(device)) return;
    rota_sleeper_prepare(&device->sleeper);
    for (uint32_t q = 0; holds && q < runtime->queue_count; q++)
        if (device->held_first[q]) watch(device, device->held_first[q]);
    device->starves = false;
    if (ra_load_seq_cst(&device->ring_published) == ra_load_relaxed(&device->ring_taken) &&
        !ra_load_seq_cst(&runtime->stop) && !any_ready(device))
        rota_sleeper_wait(&device->sleeper, rota_deadline_after(device->starves ? STARVED_SLICE_NS
                                                                : holds         ? HOLD_SLICE_NS
                                                                                : 1000000000u));
    else
        rota_sleeper_cancel(&device->sleeper);
    if (!holds) return;
    watch_nothing(device);
    give_up_on_first(device);
}

static void serve(rota_device *device) {
    rota_runtime *runtime = device->runtime;
    rota_work *works[ROTA_HANDOVER_BATCH];
    while (!ra_load_acquire(&runtime->stop)) {
        uint32_t count = take(device, works);
        if (count == 0) {
            rest(device);
            continue;
        }
        ra_store_release(&device->hands_over, ROTA_HANDS_OVER); /* with is_through_before */
        hand_over(device, works, count);
        /* Acquires what another one took meanwhile, which does not take long. */
        for (uint32_t expected = ROTA_HANDS_OVER;
             !ra_cas_acq_rel(&device->hands_over, &expected, ROTA_HANDS_NOTHING); expected = ROTA_HANDS_OVER)
            (void)sched_yield();
        /* Release: with thread_is_idle, after which the sequencer may be in submit. */
        ra_store_release(&device->ring_consumed,
                         ra_load_relaxed(&device->ring_consumed) + count + device->looked_at);
        device->looked_at = 0;
    }
}

static void *submit_thread(void *user) {
    rota_device *device = user;
    rota_thread_cpus_begin(&device->thread_cpus);
    serve(device);
    rota_thread_cpus_end(&device->thread_cpus);
    rota_runtime_thread_ends(device->runtime);
    ra_store_release(&device->thread_ended, 1); /* with rota_runtime_close */
    return NULL;
}

rota_status rota_handover_start(rota_device *device) {
    device->ring = calloc(ROTA_HANDOVER_RING, sizeof(rota_work *));
    if (!device->ring) return rota_fail(ROTA_OUT_OF_MEMORY, "device '%s': no host memory", device->id);
    int error = pthread_create(&device->thread, NULL, submit_thread, device);
    if (error != 0)
        return rota_fail(ROTA_SYSTEM, "device '%s': no submit thread: %s", device->id, strerror(error));
    device->thread_started = true;
    return ROTA_OK;
}
