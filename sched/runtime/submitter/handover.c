/* Works are handed over to a device's driver, those that piled up in one call: by its submit thread, or by
 * the sequencer while that has nothing. */
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/kinds/kinds.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/external_timeline.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/submitter/batch_memory.h"
#include "sched/runtime/submitter/cancelled.h"
#include "sched/runtime/submitter/device_wait.h"
#include "sched/runtime/submitter/gate.h"
#include "sched/runtime/submitter/handover.h"
#include "sched/runtime/submitter/judge.h"

void rota_work_skip(rota_work *work, rota_reason reason, bool first) {
    work->skipped = true;
    rota_poison_work(work, reason, first);
}

/* Why the submission failed, with what the first of its works to fail said; seen with has_source. */
static rota_reason first_reason(const rota_submission *submission) {
    return (rota_reason){ra_load_acquire(&submission->shared.cause),
                         ra_load_acquire(&submission->cell->cause_number)};
}

/* Puts the work behind the gate where the device has one, and looks whether it may run at all. */
static void enter(rota_work *work, rota_exec_work *out, rota_exec_timeline_wait *waits) {
    rota_device *device = work->device;
    const bool linked = ra_load_acquire(&device->others.linked) != 0,     /* with rota_linked_open */
        has_gate = linked || ra_load_acquire(&device->gate.is_open) != 0; /* with rota_device_open_gate */
    const rota_work_row *row = rota_work_row_of(work);
    rota_reason reason = {NULL, 0};
    bool is_decided = true; /* what it comes after */
    if (linked) {
        out->timeline_wait_count = rota_linked_waits(work, waits);
        out->timeline_waits = waits;
        /* What is gone on with gets a signal from nobody yet: others wait for its end by the host. */
        if (work->kind != ROTA_WORK_LOOPS || !device->exec->go_on) out->timeline = rota_linked_signal(work);
    }
    if (has_gate) {
        rota_gate_lock(device);
        reason.cause = rota_gate_push(work, out->timeline_wait_count != 0, &is_decided);
    }
    bool is_first = false;
    /* The byte itself, for each work: most are of submissions that nobody cancels. */
    if (ra_load_seq_cst(&work->submission->cancelled) && !work->skipped && !reason.cause)
        (void)rota_cancelled_work(work, &reason, &is_first);
    if (!work->skipped && row->has_source && !row->has_source(work))
        rota_work_skip(work, first_reason(work->submission), false);
    /* Works before it in the gate are not decided, and so is not what it will read: it is judged there. */
    if (!work->skipped &&
        (reason.cause || (is_decided && !device->asks_poison && rota_poison_of_work(work, &reason))))
        rota_work_skip(work, reason, is_first);
    /* All that it was blocked for is over: what of that was not written is known. */
    if (work->skipped) rota_poison_undone(work);
    if (has_gate) rota_gate_unlock(device);
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

/* A device that is linked to peers is linked to nothing else (link.c); what the work is to come after was found out
 * when it was sequenced (want_past in clocks.c). */
static bool waits_for_peers(const rota_device *device) {
    return ra_load_acquire(&device->others.peers) & ra_load_acquire(&device->others.linked);
}

/* What the work comes after outside was promised: its device waits for that itself, after what it waits for on other
 * devices. One that won't run does not. */
static void wait_for_semaphores(const rota_work *work, rota_exec_work *out, rota_exec_timeline_wait *waits) {
    /* A move may have gone on without the points, and nobody promised the value. A segment was let through by them, or
     * is skipped: it waits, also where it is cancelled just now. */
    if (work->skipped || rota_cancelled_goes_on(work)) return;
    out->timeline_wait_count +=
        rota_external_wait_semaphores(&work->submission->seldom.after, waits + out->timeline_wait_count);
    out->timeline_waits = waits;
}

/* Before the works are seen as handed over, or as blocked no longer, or the thread on its way to the driver: who waits
 * for one must not find it with its device and the time when something else was given to that, long ago. */
void rota_handover_note(rota_device *device) {
    if (ra_load_relaxed(&device->runtime->device_count) > 1) /* others may wait for it */
        ra_store_relaxed(&device->handover.handed_ns, rota_clock_ns());
}

/* The device is lost, and what the works were to come after on other devices is over, or the gate's business:
 * so it is for who comes after them (foreign_wait_is_over). Another thread comes to later ones of a queue only when it
 * has seen these dropped (has_left_before), so there is one that stores at a time. */
void rota_handover_drop(rota_device *device, rota_work *const *works, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const rota_work_row *row = rota_work_row_of(works[i]);
        if (row->give_back) row->give_back(works[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        rota_poison_undone(works[i]); /* first: who comes after it looks at marks */
        const uint64_t value = works[i]->value;
        rota_timeline *timeline = &device->timelines[works[i]->queue];
        /* Releases, to has_left_thread, that those are over; and seq_cst with watch_for, as what is published. */
        ra_store_seq_cst(&timeline->dropped, value);
        rota_device_wake_holders(device->runtime, timeline, value);
    }
}

/* `no_memory`: why it has not what it needs, or NULL. */
static void prepare(rota_work *work, const rota_cause *no_memory, rota_exec_work *out) {
    rota_submission *submission = work->submission;
    rota_reason reason = {no_memory, submission->number};
    if (!reason.cause) {
        const rota_status status = rota_work_row_of(work)->prepare(work, out);
        if (status == ROTA_OK) return;
        reason.cause = rota_cause_new(work->device->runtime, status, "submission " ROTA_CAUSE_NUMBER ": %s",
                                      rota_last_error());
    }
    rota_work_skip(work, reason, true);
}

static void leave_out(const rota_work *work, rota_exec_work *out) {
    const rota_work_row *row = rota_work_row_of(work);
    if (row->leave_out) row->leave_out(work, out);
}

void rota_hand_over(rota_device *device, rota_work **works, uint32_t count, const rota_batch_memory *memory) {
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
                                .waits = submission->made.waits + work->first_wait,
                                .wait_count = work->wait_count,
                                .acquires = work->acquires,
                                .cookie = work};
        if (work->dropped) continue;
        enter(work, out, &timeline_waits[(size_t)i * ROTA_EXEC_TIMELINE_WAITS_MAX]);
        if (work->comes_last || (out->timeline_wait_count && !waits_for_peers(device))) {
            out->waits = &all[(size_t)i * ROTA_EXEC_QUEUES_MAX];
            out->wait_count = wait_for_all(device, works, i, &all[(size_t)i * ROTA_EXEC_QUEUES_MAX]);
        }
        if (work->has_after)
            wait_for_semaphores(work, out, &timeline_waits[(size_t)i * ROTA_EXEC_TIMELINE_WAITS_MAX]);
        if (rota_device_is_lost(device)) continue; /* not handed over below */
        if (!work->skipped) prepare(work, memory ? memory->causes[i] : NULL, out);
        if (work->skipped) leave_out(work, out);
        if (runtime->options.diagnostics) ra_store_relaxed(&submission->told.handed_over_ns, rota_clock_ns());
    }
    if (rota_device_is_lost(device)) {
        rota_handover_drop(device, works, count);
        return;
    }
    rota_handover_note(device);
    for (uint32_t i = 0; i < count; i++)
        ra_store_release(&device->timelines[works[i]->queue].handed_over, works[i]->value);
    uint32_t most = runtime->options.merge_max ? runtime->options.merge_max : count;
    for (uint32_t first = 0; first < count; first += most) {
        uint32_t here = count - first < most ? count - first : most;
        (void)ra_fetch_add_relaxed(&runtime->stats.driver_submits, 1);
        if (device->exec->vtable->submit(device->exec, lowered + first, here) != ROTA_OK) {
            rota_device_set_lost(device, rota_last_error());
            return;
        }
        for (uint32_t i = first; i < first + here; i++)
            if (lowered[i].timeline) /* the work itself may be gone */
                rota_linked_signalled(device, lowered[i].queue, lowered[i].signal_value);
    }
}
