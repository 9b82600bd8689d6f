/* Devices that wait for a lost one without the host: what is in vain fails, and the host signals in its place. */
#include "base/atomic.h"
#include "sched/runtime/completer/completer.h"
#include "sched/runtime/completer/rescue.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/submitter/gate.h"

static bool is_through(rota_device *device) {
    for (uint32_t q = 0; q < device->runtime->queue_count; q++)
        if (ra_load_acquire(&device->timelines[q].completed) <
            ra_load_acquire(&device->timelines[q].handed_over))
            return false;
    return true;
}

/* By whoever of the two can: the host's hand on the side that made the timeline is better, since on the other
 * the signal may have to queue behind what waits for it. Again each time: the lost device may still be at
 * work, and its own late signals lower the value. */
static void signal_all(rota_device *lost, rota_device *other) {
    for (uint32_t q = 0; q < lost->runtime->queue_count; q++) {
        rota_timeline *timeline = &lost->timelines[q];
        uint64_t value = ra_load_acquire(&timeline->issued);
        if (!ra_load_relaxed(&timeline->awaited)) continue;
        rota_device *first = lost->exec->caps.makes_timelines ? lost : other;
        rota_device *second = first == lost ? other : lost;
        if (first->exec->vtable->timeline_signal(first->exec, timeline->shared[first->index], value) !=
            ROTA_OK)
            (void)second->exec->vtable->timeline_signal(second->exec, timeline->shared[second->index], value);
    }
}

void rota_linked_rescue(rota_completer *completer) {
    rota_runtime *runtime = completer->runtime;
    rota_assert_completer(completer);
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) {
        rota_device *lost = runtime->devices[d];
        uint64_t linked = ra_load_acquire(&lost->others.linked);
        if (!rota_device_is_lost(lost)) continue;
        rota_gate_drain(lost);
        if (!linked) continue;
        /* First what was in vain fails, then what runs on goes on. */
        rota_gate_spread(lost);
        for (; linked; linked &= linked - 1) {
            rota_device *other = runtime->devices[__builtin_ctzll(linked)];
            if (!rota_device_is_lost(other) && !is_through(other)) signal_all(lost, other);
        }
    }
}
