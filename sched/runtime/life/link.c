/* Devices of one GPU are linked: each logical queue of the two gets a timeline that both drivers know, which
 * its own device signals and the other waits for (device_wait.c). */
#include <unistd.h>

#include "base/atomic.h"
#include "sched/runtime/life/link.h"
#include "sched/runtime/shared/runtime.h" /* IWYU pragma: keep */

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
        ROTA_TRY(rota_device_open_gate(both[d]));
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

bool rota_devices_may_link(const rota_device *a, const rota_device *b) {
    const rota_exec_caps *can_a = &a->exec->caps, *can_b = &b->exec->caps;
    return !rota_hooks_host_ordered(&a->runtime->hooks) && can_a->timeline_queues && can_b->timeline_queues &&
           !a->linked && !b->linked && (can_a->makes_timelines || can_b->makes_timelines);
}

rota_status rota_devices_link(rota_device *a, rota_device *b) {
    ROTA_TRY(a->exec->caps.makes_timelines ? link_queues(a, b) : link_queues(b, a));
    set_linked(a, b, true);
    return ROTA_OK;
}

void rota_devices_unlink(rota_device *a, rota_device *b) {
    set_linked(a, b, false);
}
