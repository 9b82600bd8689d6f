/* Devices of one GPU that wait for each other on the GPU: each logical queue of the two has a timeline that
 * both drivers know, which its own device signals and the other waits for. Which works need it is known when
 * they are sequenced (rota_linked_foreign_wait); a work is handed over once what it waits for is in the other driver,
 * and what it has done is believed when the host has seen the other's end too (gate.c).
 *
 * Without it, or where a queue cannot, such waits are the submit thread's, as between any two devices. */
#include "base/atomic.h"
#include "sched/runtime/shared/cancel.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/submitter/device_wait.h"

bool rota_linked_is_ready(rota_runtime *runtime, uint64_t foreign) {
    uint64_t point = rota_foreign_wait_point(foreign);
    if (rota_point_passed(runtime, point)) return true;
    /* Where something has failed the work is to be judged before its device has it. */
    if (!(foreign & ROTA_FOREIGN_WAIT_ON_DEVICE) ||
        rota_failed_is_any(ra_load_acquire(&runtime->failed.active)))
        return false;
    /* seq_cst: with rota_linked_signalled, around the sleep of who waits. */
    return ra_load_seq_cst(&rota_runtime_timeline(runtime, point)->signalled) >= rota_point_value(point) &&
           !rota_device_is_lost(runtime->devices[rota_point_device(point)]);
}

uint32_t rota_linked_waits(rota_work *work, rota_exec_timeline_wait *out_waits) {
    rota_runtime *runtime = work->device->runtime;
    uint32_t count = 0;
    for (uint32_t h = 0; h < work->foreign_wait_count; h++) {
        uint64_t foreign = work->submission->made.foreign_waits[work->first_foreign_wait + h],
                 point = rota_foreign_wait_point(foreign);
        if (!(foreign & ROTA_FOREIGN_WAIT_ON_DEVICE) || rota_point_passed(runtime, point)) continue;
        const rota_timeline *timeline = rota_runtime_timeline(runtime, point);
        /* Of a device that is lost: what nobody signals is not waited for. */
        if (ra_load_acquire(&timeline->signalled) < rota_point_value(point)) continue;
        out_waits[count++] = (rota_exec_timeline_wait){.timeline = timeline->shared[work->device->index],
                                                       .value = rota_point_value(point)};
    }
    if (count) (void)ra_fetch_add_relaxed(&runtime->stats.device_waits, count);
    return count;
}

rota_exec_timeline *rota_linked_signal(const rota_work *work) {
    const rota_timeline *timeline = &work->device->timelines[work->queue];
    return ra_load_relaxed(&timeline->awaited) ? timeline->shared[work->device->index] : NULL;
}

void rota_linked_signalled(rota_device *device, uint32_t queue, uint64_t value) {
    rota_timeline *timeline = &device->timelines[queue];
    ra_store_seq_cst(&timeline->signalled, value);
    rota_device_wake_holders(device->runtime, timeline, value);
}
