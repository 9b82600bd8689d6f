/* Devices of one GPU that wait for each other on the GPU: each logical queue of the two has a timeline that
 * both drivers know, which its own device signals and the other waits for. Which works need it is known when
 * they are sequenced (rota_across_hold); a work is handed over once what it waits for is in the other driver,
 * and what it has done is believed when the host has seen the other's end too (gate.c).
 *
 * Without it, or where a queue cannot, such waits are the submit thread's, as between any two devices. */
#include <stdlib.h>
#include <unistd.h>

#include "sched/runtime_internal.h"
#include "sched/testing.h"

/* ---- Linking ---- */

/* What a try with another device has left is used again: values only rise. */
static rota_status make_timeline(rota_device *maker, rota_device *other, rota_timeline *timeline) {
    const rota_exec_device_vtable *vtable = maker->exec->vtable;
    int fd = -1;
    if (!timeline->shared[maker->index])
        ROTA_TRY(vtable->timeline_create(maker->exec, -1, &timeline->shared[maker->index]));
    ROTA_TRY(vtable->timeline_export(maker->exec, timeline->shared[maker->index], &fd));
    rota_status status =
        other->exec->vtable->timeline_create(other->exec, fd, &timeline->shared[other->index]);
    (void)close(fd);
    return status;
}

static rota_status link_queues(rota_device *maker, rota_device *other) {
    rota_device *both[] = {maker, other};
    for (uint32_t d = 0; d < 2; d++) {
        if (!both[d]->gate.works) both[d]->gate.works = calloc(ROTA_GATE_WORKS, sizeof *both[d]->gate.works);
        if (!both[d]->gate.works) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory");
        for (uint32_t q = 0; q < maker->runtime->queue_count; q++)
            if (both[d]->exec->caps.timeline_queues >> q & 1u)
                ROTA_TRY(make_timeline(maker, other, &both[d]->timelines[q]));
    }
    return ROTA_OK;
}

static void set_linked(rota_device *a, rota_device *b, bool linked) {
    /* Release: with the timelines' loads of who finds them linked. */
    ra_store_release(&a->linked, linked ? (uint64_t)1 << b->index : 0);
    ra_store_release(&b->linked, linked ? (uint64_t)1 << a->index : 0);
}

rota_status rota_runtime_set_host_ordered(rota_runtime *runtime, bool host_ordered) {
    ROTA_TRY(rota_runtime_check(runtime));
    runtime->host_ordered = host_ordered;
    return ROTA_OK;
}

bool rota_across_may_link(const rota_device *a, const rota_device *b) {
    const rota_exec_caps *can_a = &a->exec->caps, *can_b = &b->exec->caps;
    return !a->runtime->host_ordered && can_a->timeline_queues && can_b->timeline_queues && !a->linked &&
           !b->linked && (can_a->makes_timelines || can_b->makes_timelines);
}

rota_status rota_across_link(rota_device *a, rota_device *b) {
    ROTA_TRY(a->exec->caps.makes_timelines ? link_queues(a, b) : link_queues(b, a));
    set_linked(a, b, true);
    return ROTA_OK;
}

void rota_across_unlink(rota_device *a, rota_device *b) {
    set_linked(a, b, false);
}

/* ---- Waits ---- */

bool rota_across_is_ready(rota_runtime *runtime, uint64_t hold) {
    uint64_t point = rota_hold_point(hold);
    if (rota_point_passed(runtime, point)) return true;
    /* Where something has failed the work is to be judged before its device has it. */
    if (!(hold & ROTA_HOLD_ON_DEVICE) || ra_load_acquire(&runtime->poison_active) != 0) return false;
    /* seq_cst: with rota_across_signalled, around the sleep of who waits. */
    return ra_load_seq_cst(&rota_runtime_timeline(runtime, point)->signalled) >= rota_point_value(point) &&
           !rota_device_is_lost(runtime->devices[rota_point_device(point)]);
}

uint32_t rota_across_waits(rota_work *work, rota_exec_timeline_wait *out_waits) {
    rota_runtime *runtime = work->device->runtime;
    uint32_t count = 0;
    for (uint32_t h = 0; h < work->hold_count; h++) {
        uint64_t hold = work->submission->holds[work->first_hold + h], point = rota_hold_point(hold);
        if (!(hold & ROTA_HOLD_ON_DEVICE) || rota_point_passed(runtime, point)) continue;
        const rota_timeline *timeline = rota_runtime_timeline(runtime, point);
        /* Of a device that is lost: what nobody signals is not waited for. */
        if (ra_load_acquire(&timeline->signalled) < rota_point_value(point)) continue;
        out_waits[count++] =
            (rota_exec_timeline_wait){timeline->shared[work->device->index], rota_point_value(point)};
    }
    if (count) (void)ra_fetch_add_relaxed(&runtime->stat_device_waits, count);
    return count;
}

rota_exec_timeline *rota_across_signal(const rota_work *work) {
    const rota_timeline *timeline = &work->device->timelines[work->queue];
    return ra_load_relaxed(&timeline->awaited) ? timeline->shared[work->device->index] : NULL;
}

void rota_across_signalled(rota_device *device, uint32_t queue, uint64_t value) {
    rota_timeline *timeline = &device->timelines[queue];
    ra_store_seq_cst(&timeline->signalled, value);
    rota_device_wake_holders(device->runtime, timeline, value);
}
