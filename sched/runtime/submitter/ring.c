/* The sequencer's side of a hand-over: works go into the ring of the device's submit thread, or the direct
 * way to executors whose submit never blocks.
 *
 * The ring (base/ring_spsc.h) has one producer, the sequencer, and one consumer at a time: the submit thread, or who
 * looks through what a lost device's thread holds. `hands_over` gives the one's place to the other, by a release and an
 * acquire (blocked.c). A work is put there whole and is the consumer's from then on. What finds no room waits in the
 * outbox and goes before all that comes later, so that the order is that of the pushes.
 *
 * No wake is lost: the sequencer puts works there, announces them and then loads the thread's flag; the thread stores
 * its flag and then asks whether the ring is empty (thread.c). A flush that finds the ring empty has nobody to wake:
 * all that was put there has been taken. */
#include "base/atomic.h"
#include "sched/runtime/submitter/batch_memory.h"
#include "sched/runtime/submitter/handover.h"
#include "sched/runtime/submitter/ring.h"
#include "sched/runtime/submitter/submitter.h" /* IWYU pragma: keep */

static bool thread_is_idle(rota_device *device) {
    /* Acquire: with the thread's release after its last submit call returned. */
    return !device->outbox->overflow_first &&
           ra_load_acquire(&device->handover.consumed) == ra_load_relaxed(&device->handover.published);
}

/* Whether there was anything. */
static bool flush_direct(rota_device *device) {
    if (device->outbox->direct_count == 0) return false;
    uint32_t count = device->outbox->direct_count;
    device->outbox->direct_count = 0;
    /* The thread's, which has nothing now and looks again when it does. */
    for (uint32_t i = 0; i < count; i++)
        device->submitter->given[device->outbox->direct[i]->queue] = device->outbox->direct[i]->value;
    rota_hand_over(device, device->outbox->direct, count, NULL);
    return true;
}

static bool push_ring(rota_device *device, rota_work *work) {
    const uint64_t published = ra_load_relaxed(&device->handover.published);
    work->ordinal = published;
    if (!rota_ring_put_spsc(&device->handover.ring, work)) return false;
    ra_store_relaxed(&device->handover.published, published + 1); /* the sequencer's */
    return true;
}

bool rota_handover_push(rota_device *device, rota_work *work) {
    /* Lent out (the benchmarks' baseline): the caller is in the driver itself, with its lock held. */
    bool direct = device->exec->caps.submit_never_blocks || rota_hooks_lent(&device->runtime->hooks);
    /* What comes to be in the gate is the thread's, which may have to hold it for room there. */
    if (ra_load_acquire(&device->gate.is_open)) direct = false; /* with rota_device_open_gate */
    /* Memory that is still to be made is the thread's as well: a driver may keep who asks for it. */
    if (direct && work->foreign_wait_count == 0 && !work->is_sidelined && thread_is_idle(device) &&
        rota_work_take_memory(work)) {
        device->outbox->direct[device->outbox->direct_count++] = work;
        return device->outbox->direct_count == ROTA_HANDOVER_BATCH && flush_direct(device);
    }
    const bool any = flush_direct(device); /* what came before goes over before */
    if (!device->outbox->overflow_first && push_ring(device, work)) return true;
    work->next = NULL;
    if (device->outbox->overflow_last)
        device->outbox->overflow_last->next = work;
    else
        device->outbox->overflow_first = work;
    device->outbox->overflow_last = work;
    return any;
}

void rota_handover_flush(rota_device *device) {
    (void)flush_direct(device);
    while (device->outbox->overflow_first) {
        rota_work *work = device->outbox->overflow_first;
        rota_work *next = work->next; /* the work may be gone once it is pushed */
        if (!push_ring(device, work)) break;
        device->outbox->overflow_first = next;
        if (!next) device->outbox->overflow_last = NULL;
    }
    /* What the thread holds is not brought on by this. */
    if (rota_ring_seems_empty_spsc(&device->handover.ring)) return;
    rota_ring_announce_spsc(&device->handover.ring);
    rota_sleeper_wake(device->handover.sleeper);
}
