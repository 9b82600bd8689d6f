/* Released objects until their last use has passed: pushed by whoever drops the last reference (lock-free),
 * held by the sequencer, and then the reclaimer's (reclaimer.c). */
#include "sched/runtime/sequencer/last_use.h"

#include "base/atomic.h"
#include "sched/runtime/kinds/released.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/released.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/submitter/ring.h" /* IWYU pragma: keep */

/* Whether all has passed that other devices had when these were seen to be lost. A submission of several
 * devices is looked at for what the lost ones left of it (rota_poison_undone) until then, though later ones
 * may have ended. */
static bool others_are_past(rota_sequencer *sequencer, uint64_t lost) {
    rota_runtime *runtime = sequencer->runtime;
    const bool is_new = lost != sequencer->last_uses->losses_noted;
    if (!is_new && sequencer->last_uses->losses_past) return true;
    sequencer->last_uses->losses_noted = lost;
    sequencer->last_uses->losses_past = true;
    const uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++)
        for (uint32_t q = 0; q < runtime->queue_count; q++) {
            rota_timeline *timeline = &runtime->devices[d]->timelines[q];
            if (is_new) timeline->order.issued_at_loss = ra_load_relaxed(&timeline->issued);
            if (!(lost >> d & 1u) && ra_load_acquire(&timeline->completed) < timeline->order.issued_at_loss)
                sequencer->last_uses->losses_past = false;
        }
    return sequencer->last_uses->losses_past;
}

/* Works that are to be handed over: in the ring, or with the thread that empties it, whose last store is seen with
 * handover.consumed, and what it handed over with it. */
static bool has_before(const rota_device *device) {
    return device->outbox->overflow_first || device->outbox->direct_count ||
           ra_load_acquire(&device->handover.consumed) != ra_load_relaxed(&device->handover.published);
}

/* The rest after has_before: what that saw the thread hand over. */
static bool has_after(const rota_device *device) {
    return ra_load_acquire(&device->gate.pending) || !rota_device_is_finished(device);
}

bool rota_device_is_quiet(const rota_device *device) {
    rota_assert_owner(&device->runtime->sequencing.owner);
    return rota_device_is_lost(device) && !has_before(device) && !has_after(device);
}

/* Lost devices that may still have works: before or behind the gate, or with their executors. No point tells when
 * those have passed: what came after them on other devices has ended without them. And all that are lost, while
 * there may be works that look at what any of them left. */
static uint64_t undrained_devices(rota_sequencer *sequencer) {
    rota_runtime *runtime = sequencer->runtime;
    uint64_t mask = 0, lost = 0;
    bool any_has = false;
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) {
        const rota_device *device = runtime->devices[d];
        if (!rota_device_is_lost(device)) continue;
        const bool has = has_before(device);
        lost |= (uint64_t)1 << d;
        any_has = any_has || has;
        if (has || has_after(device)) mask |= (uint64_t)1 << d;
    }
    return lost && (any_has || !others_are_past(sequencer, lost)) ? lost : mask;
}

/* Asked of what is unused: a loss that let its last use pass is seen here. */
static bool is_retained(rota_sequencer *sequencer, const rota_released_row *row,
                        const rota_released *released) {
    return row->is_touched_by && row->is_touched_by(released, undrained_devices(sequencer));
}

void rota_reclaim_sweep(rota_sequencer *sequencer, rota_released *fresh) {
    rota_runtime *runtime = sequencer->runtime;
    rota_assert_sequencer(sequencer);
    const uint64_t undrained = undrained_devices(sequencer);
    if (sequencer->last_uses->retained && undrained != sequencer->last_uses->retained_by) {
        rota_released_prepend(&sequencer->last_uses->released, sequencer->last_uses->retained);
        sequencer->last_uses->retained = NULL;
    }
    sequencer->last_uses->retained_by = undrained;
    rota_released_prepend(&sequencer->last_uses->released, fresh);
    for (rota_released **link = &sequencer->last_uses->released; *link;) {
        rota_released *released = *link;
        const rota_released_row *row = rota_released_row_of(released);
        if (!row->is_unused(runtime, released)) {
            link = &released->next;
            continue;
        }
        *link = released->next;
        if (is_retained(sequencer, row, released)) {
            released->next = sequencer->last_uses->retained;
            sequencer->last_uses->retained = released;
            continue;
        }
        if (row->leave) row->leave(released);
        rota_reclaim_push_unused(runtime, released);
    }
}
