/* Timelines: a value is published, and whoever sleeps for it woken. */
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/end_times.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"

/* Deadlines that a tick of the kernel is a small part of. */
#define MANY_TICKS_NS (100u * (uint64_t)ROTA_CLOCK_TICK_NS)

void rota_device_wake_holders(rota_runtime *runtime, rota_timeline *timeline, uint64_t value) {
    /* seq_cst, as the loads below: with watch_for in blocked.c. */
    for (uint64_t holders = ra_load_seq_cst(&timeline->holders); holders; holders &= holders - 1) {
        uint32_t d = (uint32_t)__builtin_ctzll(holders);
        if (ra_load_seq_cst(&timeline->blocked_for[d]) <= value)
            rota_sleeper_wake(runtime->devices[d]->handover.sleeper);
    }
}

void rota_device_publish(rota_device *device, uint32_t queue, uint64_t value) {
    rota_runtime *runtime = device->runtime;
    rota_timeline *timeline = &device->timelines[queue];
    rota_assert(value >= ra_load_relaxed(&timeline->completed));
    if (timeline->end_times)
        rota_end_times_add(timeline->end_times, value); /* first: who sees the value finds it */
    /* Each load below pairs with a store of somebody about to sleep; see base/sleep.h. Releases the works'
     * results. */
    const bool is_about = runtime->options.timeout_ns >= MANY_TICKS_NS;
    ra_store_relaxed(&timeline->progress_ns,
                     is_about ? rota_clock_by_ns() : rota_clock_ns()); /* with rota_progress_look */
    ra_store_seq_cst(&timeline->completed, value);
    rota_wait_table_wake(&timeline->waiters, value);
    rota_device_wake_holders(runtime, timeline, value);
    if (ra_load_seq_cst(&runtime->sequencing.interest)) rota_sleeper_wake(&runtime->sequencing.sleeper);
    if (ra_load_seq_cst(&runtime->completing.interest)) rota_sleeper_wake(&runtime->completing.sleeper);
}

void rota_device_wake_waiters(rota_device *device) {
    for (uint32_t q = 0; q < device->runtime->queue_count; q++)
        rota_wait_table_wake(&device->timelines[q].waiters, UINT64_MAX);
    uint32_t devices = ra_load_acquire(&device->runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) rota_sleeper_wake(device->runtime->devices[d]->handover.sleeper);
    rota_wait_table_wake(&device->runtime->completing.delivery_waiters, UINT64_MAX);
}

bool rota_point_passed(rota_runtime *runtime, uint64_t point) {
    if (point == ROTA_POINT_NONE || point == ROTA_POINT_PASSED) return true;
    /* With advanced, as acquire for the results and as seq_cst for sleepers. */
    return ra_load_seq_cst(&rota_runtime_timeline(runtime, point)->completed) >= rota_point_value(point);
}
