/* Devices are linked: each logical queue of the two gets a timeline that both know, which its own device signals and
 * the other waits for (device_wait.c). Devices of one GPU by a semaphore that both drivers have; peers, of different
 * GPUs under one executor, by what that has for it. A device is linked in one of the two ways: to one of its GPU, or to
 * any number of peers. */
#include <unistd.h>

#include "base/atomic.h"
#include "sched/runtime/life/link.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h" /* IWYU pragma: keep */

/* ---- Of one GPU ---- */

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
    const uint64_t a_bit = (uint64_t)1 << a->index, b_bit = (uint64_t)1 << b->index;
    const uint64_t of_a = ra_load_relaxed(&a->others.linked), of_b = ra_load_relaxed(&b->others.linked);
    /* Release: with the timelines' loads of who finds them linked. One thread at a time opens devices. */
    ra_store_release(&a->others.linked, linked ? of_a | b_bit : of_a & ~b_bit);
    ra_store_release(&b->others.linked, linked ? of_b | a_bit : of_b & ~a_bit);
}

bool rota_devices_may_link(const rota_device *a, const rota_device *b) {
    const rota_exec_caps *can_a = &a->exec->caps, *can_b = &b->exec->caps;
    return !rota_hooks_host_ordered(&a->runtime->hooks) && can_a->timeline_queues && can_b->timeline_queues &&
           !a->others.linked && !b->others.linked && (can_a->makes_timelines || can_b->makes_timelines);
}

rota_status rota_devices_link(rota_device *a, rota_device *b) {
    ROTA_TRY(a->exec->caps.makes_timelines ? link_queues(a, b) : link_queues(b, a));
    set_linked(a, b, true);
    return ROTA_OK;
}

void rota_devices_unlink(rota_device *a, rota_device *b) {
    set_linked(a, b, false);
}

/* ---- Peers ---- */

bool rota_devices_may_meet(const rota_device *a, const rota_device *b) {
    const rota_exec_peers *peers = b->exec->vtable->peers;
    return !rota_hooks_unshared(&a->runtime->hooks) && !rota_hooks_touch(&a->runtime->hooks) && peers &&
           a->exec->vtable->peers == peers && a->domain != b->domain && ra_load_acquire(&a->is_seen) &&
           !rota_device_is_lost(a);
}

static void set_peers(rota_device *a, rota_device *b, bool are) {
    const uint64_t a_bit = (uint64_t)1 << a->index, b_bit = (uint64_t)1 << b->index;
    const uint64_t of_a = ra_load_relaxed(&a->others.peers), of_b = ra_load_relaxed(&b->others.peers);
    /* Release: with who reads it, so that what the two were asked for has been done. */
    ra_store_release(&a->others.peers, are ? of_a | b_bit : of_a & ~b_bit);
    ra_store_release(&b->others.peers, are ? of_b | a_bit : of_b & ~a_bit);
}

rota_status rota_devices_meet(rota_device *a, rota_device *b) {
    const rota_exec_peers *peers = a->exec->vtable->peers;
    ROTA_TRY(peers->meet(a->exec, b->exec));
    ROTA_TRY(peers->meet(b->exec, a->exec));
    ra_store_release(&a->runtime->opening.has_peers, 1); /* before any work can wait so */
    set_peers(a, b, true);
    return ROTA_OK;
}

void rota_devices_part(rota_device *a, rota_device *b) {
    set_peers(a, b, false);
}

/* Linked to none but peers. */
static bool may_link(const rota_device *device) {
    return device->exec->caps.timeline_queues &&
           !(ra_load_relaxed(&device->others.linked) & ~ra_load_relaxed(&device->others.peers));
}

bool rota_peers_may_link(const rota_device *a, const rota_device *b) {
    return !rota_hooks_host_ordered(&a->runtime->hooks) && may_link(a) && may_link(b);
}

/* Each has one timeline a queue for all its peers. */
rota_status rota_peers_link(rota_device *a, rota_device *b) {
    const rota_exec_peers *peers = a->exec->vtable->peers;
    rota_device *both[] = {a, b};
    for (uint32_t d = 0; d < 2; d++) {
        rota_device *own = both[d], *other = both[!d];
        ROTA_TRY(rota_device_open_gate(own));
        for (uint32_t q = 0; q < own->runtime->queue_count; q++) {
            rota_exec_timeline **shared = own->timelines[q].shared;
            if (!(own->exec->caps.timeline_queues >> q & 1u)) continue;
            if (!shared[own->index]) ROTA_TRY(peers->timeline_open(own->exec, &shared[own->index]));
            if (!shared[other->index])
                ROTA_TRY(peers->timeline_meet(other->exec, shared[own->index], &shared[other->index]));
        }
    }
    set_linked(a, b, true);
    return ROTA_OK;
}
