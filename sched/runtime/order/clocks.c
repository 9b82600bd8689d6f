/* What a work waits for of all that it is to come after. The sequencer's alone, so nothing here is shared.
 *
 * Waits are cumulative along a queue, and a value reached on one queue proves what its works waited for: a
 * clock per queue keeps, for every timeline, the value that all later works of the queue are known to come
 * after. A wait that the clock proves is dropped. */
#include <string.h>

#include "base/atomic.h"
#include "sched/runtime/order/clocks.h"
#include "sched/runtime/order/linked.h"
#include "sched/runtime/order/order.h"
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/stats.h"

const uint64_t *rota_hazard_clock(const rota_timeline *timeline, uint64_t value) {
    for (uint32_t back = 1; back <= ROTA_CLOCK_HISTORY; back++) {
        const rota_clock_entry *entry =
            &timeline->order
                 .history[(timeline->order.history_next + ROTA_CLOCK_HISTORY - back) % ROTA_CLOCK_HISTORY];
        if (entry->from_value == 0) return NULL;
        if (entry->from_value <= value) return entry->clock;
    }
    return NULL;
}

static rota_timeline *timeline_at(rota_runtime *runtime, uint32_t index) {
    return &runtime->devices[index / runtime->queue_count]->timelines[index % runtime->queue_count];
}

/* Whether waiting for another of the wanted values proves this one. Only values of the work's own device do,
 * and only of values of its own: a wait for another device ends without having been kept when that one is
 * lost, and then nothing that it had waited for is known. */
static bool implied_by_other(rota_runtime *runtime, rota_wanted *wanted, uint32_t which, uint32_t device) {
    uint32_t t = wanted->touched[which];
    if (t / runtime->queue_count != device) return false;
    for (uint32_t i = 0; i < wanted->count; i++) {
        uint32_t other = wanted->touched[i];
        if (i == which || wanted->value[other] == 0 || other / runtime->queue_count != device) continue;
        const uint64_t *clock = rota_hazard_clock(timeline_at(runtime, other), wanted->value[other]);
        if (clock && clock[t] >= wanted->value[t]) return true;
    }
    return false;
}

/* Whether what the timeline's works wrote, or came after, may lie in memory that this device has too. Its own
 * points aside, any may stand for those of the device that it shares memory with: a move's stands for the
 * writer's. */
static bool brings_shared(const rota_runtime *runtime, const rota_device *device, uint32_t timeline) {
    return ra_load_relaxed(&device->is_shared) && timeline / runtime->queue_count != device->index;
}

/* What the work need not wait for, as its queue's clock or the host says; returns how many. */
static uint32_t drop_proved(rota_runtime *runtime, rota_wanted *wanted, rota_work *work) {
    const rota_device *device = work->device;
    rota_timeline *own = &device->timelines[work->queue];
    const uint32_t queues = runtime->queue_count, first = device->index * queues; /* the device's timelines */
    const uint32_t own_index = first + work->queue;
    uint32_t dropped = 0;
    for (uint32_t i = 0; i < wanted->count; i++) {
        uint32_t t = wanted->touched[i];
        uint64_t value = wanted->value[t];
        if (t == own_index && value >= work->value) {
            wanted->value[t] = 0; /* the work's own accesses */
        } else if (t - first < queues && own->order.clock[t] >= value) {
            wanted->value[t] = 0;
            dropped++;
        } else if (t - first >= queues || device->exec->caps.unified_host) {
            /* Seen complete by the host: on host memory, and for holds, that is all there is to wait for. A
             * GPU's queues need the wait all the same: it makes the writes visible. */
            if (ra_load_acquire(&timeline_at(runtime, t)->completed) >= value) { /* with advanced */
                wanted->value[t] = 0;
                dropped++;
                if (own->order.clock[t] >= value) continue; /* acquired by a work before */
                own->order.clock[t] = value;
                if (brings_shared(runtime, device, t)) work->acquires = true;
            }
        }
    }
    return dropped;
}

/* What another of the wanted values proves; returns how many. */
static uint32_t drop_implied(rota_runtime *runtime, rota_wanted *wanted, uint32_t device) {
    uint32_t dropped = 0;
    for (uint32_t i = 0; wanted->count > 1 && i < wanted->count; i++)
        if (wanted->value[wanted->touched[i]] != 0 && implied_by_other(runtime, wanted, i, device)) {
            wanted->value[wanted->touched[i]] = 0;
            dropped++;
        }
    return dropped;
}

/* What is left becomes waits and holds, and the clock learns of it; whether of more than its own queue. */
static bool write_out(rota_runtime *runtime, rota_wanted *wanted, rota_work *work, uint32_t timelines) {
    rota_submission *submission = work->submission;
    const rota_device *device = work->device;
    rota_timeline *own = &device->timelines[work->queue];
    const uint32_t queues = runtime->queue_count, first = device->index * queues;
    const uint32_t own_index = first + work->queue;
    uint32_t on_device = 0;
    bool learned = false;
    for (uint32_t i = 0; i < wanted->count; i++) {
        uint32_t t = wanted->touched[i];
        uint64_t value = wanted->value[t];
        wanted->value[t] = 0;
        if (value == 0) continue;
        if (t - first < queues) {
            submission->made.waits[submission->made.wait_count++] = (rota_exec_wait){t - first, value};
        } else {
            uint64_t point = rota_point(t / queues, t % queues, value);
            submission->made.foreign_waits[submission->made.foreign_wait_count++] =
                rota_linked_foreign_wait(work, point, &on_device);
            if (brings_shared(runtime, device, t)) work->acquires = true;
        }
        if (own->order.clock[t] < value) own->order.clock[t] = value;
        if (t == own_index) continue;
        learned = true;
        if (t - first >= queues) continue; /* as in implied_by_other */
        const uint64_t *clock = rota_hazard_clock(timeline_at(runtime, t), value);
        for (uint32_t k = 0; clock && k < timelines; k++)
            if (own->order.clock[k] < clock[k]) own->order.clock[k] = clock[k];
    }
    wanted->count = 0;
    return learned;
}

/* Whether the value was reached is the executor's to find out, which looks again: `completed` is in use by other
 * cores. */
void rota_hazard_settle_own(rota_sequencer *sequencer, rota_work *work, uint64_t value) {
    rota_runtime *runtime = sequencer->runtime;
    rota_assert_sequencer(sequencer);
    const rota_device *device = work->device;
    rota_timeline *own = &device->timelines[work->queue];
    uint64_t *known = &own->order.clock[device->index * runtime->queue_count + work->queue];
    rota_assert(work == work->submission->made.works);
    work->first_wait = work->first_foreign_wait = 0;
    work->wait_count = work->foreign_wait_count = 0;
    if (value == 0) return;
    const bool is_known = *known >= value;
    if (!is_known) *known = value;
    if (is_known || (device->exec->caps.unified_host && own->order.seen >= value)) {
        rota_stat_count(&runtime->stats.waits_dropped);
        return;
    }
    work->submission->made.waits[0] = (rota_exec_wait){work->queue, value};
    work->submission->made.wait_count = 1;
    work->wait_count = 1;
}

void rota_hazard_settle(rota_sequencer *sequencer, rota_wanted *wanted, rota_work *work) {
    rota_runtime *runtime = sequencer->runtime;
    rota_assert_sequencer(sequencer);
    rota_submission *submission = work->submission;
    work->first_wait = submission->made.wait_count;
    work->first_foreign_wait = submission->made.foreign_wait_count;
    uint32_t dropped = drop_proved(runtime, wanted, work);
    dropped += drop_implied(runtime, wanted, work->device->index);
    const uint32_t timelines = ra_load_acquire(&runtime->device_count) * runtime->queue_count;
    if (write_out(runtime, wanted, work, timelines)) {
        rota_timeline *own = &work->device->timelines[work->queue];
        rota_clock_entry *entry = &own->order.history[own->order.history_next];
        own->order.history_next = (own->order.history_next + 1) % ROTA_CLOCK_HISTORY;
        entry->from_value = work->value;
        memcpy(entry->clock, own->order.clock, timelines * sizeof *entry->clock);
    }
    work->wait_count = (uint16_t)(submission->made.wait_count - work->first_wait);
    work->foreign_wait_count = (uint16_t)(submission->made.foreign_wait_count - work->first_foreign_wait);
    if (dropped) rota_stat_add(&runtime->stats.waits_dropped, dropped);
}
