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

/* Whether what the timeline's works wrote, or came after, may lie in memory that this device has too, or reads. Its own
 * points aside, any may stand for those of such a device: a move's stands for the writer's. */
static bool brings_shared(const rota_runtime *runtime, const rota_device *device, uint32_t timeline) {
    return (ra_load_relaxed(&device->is_shared) || ra_load_relaxed(&device->others.peers)) &&
           timeline / runtime->queue_count != device->index;
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

/* ---- What waits on the device for a peer ----
 *
 * Where peers wait for each other without the host it is kept of each work what it comes after, on all devices, if
 * nothing is lost: more than a clock has, which must hold though devices are. */

static void note_clock(rota_timeline *timeline, uint64_t from_value, uint32_t timelines, bool keeps) {
    rota_timeline_order *order = &timeline->order;
    rota_clock_entry *entry = &order->history[order->history_next];
    order->history_next = (order->history_next + 1) % ROTA_CLOCK_HISTORY;
    entry->from_value = from_value;
    memcpy(entry->clock, order->clock, timelines * sizeof *entry->clock);
    if (keeps) memcpy(entry->past, order->past, timelines * sizeof *entry->past);
}

/* Nothing was kept before: what comes is after all that there was, and of that itself it is not known. */
static void begin_past(rota_sequencer *sequencer, uint32_t timelines) {
    rota_runtime *runtime = sequencer->runtime;
    for (uint32_t t = 0; t < timelines; t++) {
        rota_timeline *timeline = timeline_at(runtime, t);
        const uint64_t issued = ra_load_relaxed(&timeline->issued);
        for (uint32_t other = 0; other < timelines; other++)
            timeline->order.past[other] = ra_load_relaxed(&timeline_at(runtime, other)->issued);
        if (issued == 0) continue;
        timeline->order.unknown = issued;
        note_clock(timeline, issued + 1, timelines, true);
    }
    sequencer->knows_past = true;
}

const uint64_t *rota_hazard_past(const rota_timeline *timeline, uint64_t value, bool *out_is_known) {
    const rota_timeline_order *order = &timeline->order;
    *out_is_known = value > order->unknown;
    for (uint32_t back = 1; *out_is_known && back <= ROTA_CLOCK_HISTORY; back++) {
        const rota_clock_entry *entry =
            &order->history[(order->history_next + ROTA_CLOCK_HISTORY - back) % ROTA_CLOCK_HISTORY];
        if (entry->from_value == 0) return NULL;
        if (entry->from_value <= value) return entry->past;
    }
    *out_is_known = false; /* too long ago */
    return NULL;
}

static void note_past(rota_timeline *own, const rota_timeline *other, uint32_t t, uint64_t value,
                      uint32_t timelines) {
    bool is_known;
    uint64_t *past = own->order.past;
    const uint64_t *theirs = rota_hazard_past(other, value, &is_known);
    if (!is_known) theirs = other->order.past; /* the newest is after more */
    if (past[t] < value) past[t] = value;
    for (uint32_t k = 0; theirs && k < timelines; k++)
        if (past[k] < theirs[k]) past[k] = theirs[k];
}

/* Of what the point of a peer comes after what can touch the device's memory: its own works, and copies of other peers'
 * that read it. */
static void want_past_of(rota_runtime *runtime, rota_wanted *wanted, const rota_device *device,
                         uint64_t point) {
    const uint32_t queues = runtime->queue_count;
    const uint64_t others =
        ra_load_acquire(&device->others.peers) & ~((uint64_t)1 << rota_point_device(point));
    bool is_known; /* it is, or it could not wait so */
    const uint64_t *past =
        rota_hazard_past(rota_runtime_timeline(runtime, point), rota_point_value(point), &is_known);
    for (uint64_t left = past ? others | (uint64_t)1 << device->index : 0; left; left &= left - 1) {
        const uint32_t d = (uint32_t)__builtin_ctzll(left);
        for (uint32_t q = 0; q < queues; q++) {
            const uint64_t value = past[d * queues + q];
            if (value && (d == device->index || !rota_point_passed(runtime, rota_point(d, q, value))))
                rota_wanted_add(wanted, queues, rota_point(d, q, value));
        }
    }
}

/* A work that waits so comes after that: if the other device is lost the wait ends early, and what the work then does
 * in vain must not come between what others, which are well, were to do before. Not after all that its device was
 * given, as with devices of one GPU (wait_for_all in handover.c): bytes are to be on their way while kernels run. */
static void want_past(rota_runtime *runtime, rota_wanted *wanted, const rota_work *work) {
    const rota_device *device = work->device;
    const uint64_t peers = ra_load_acquire(&device->others.peers);
    const uint32_t queues = runtime->queue_count, count = wanted->count;
    for (uint32_t i = 0; peers && i < count; i++) {
        const uint32_t t = wanted->touched[i];
        const uint64_t point = rota_point(t / queues, t % queues, wanted->value[t]);
        if (wanted->value[t] && (peers >> t / queues & 1u) &&
            rota_linked_can_wait(device, 1u << work->queue, point))
            want_past_of(runtime, wanted, device, point);
    }
}

/* What is left becomes waits and holds, and the clock learns of it; whether of more than its own queue. */
static bool write_out(rota_runtime *runtime, rota_wanted *wanted, rota_work *work, uint32_t timelines,
                      bool keeps) {
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
        if (keeps) note_past(own, timeline_at(runtime, t), t, value, timelines);
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
    const uint32_t timelines = ra_load_acquire(&runtime->device_count) * runtime->queue_count;
    const bool keeps = ra_load_acquire(&runtime->opening.has_peers); /* with rota_devices_meet */
    if (keeps && !sequencer->knows_past) begin_past(sequencer, timelines);
    if (keeps) want_past(runtime, wanted, work);
    uint32_t dropped = drop_proved(runtime, wanted, work);
    dropped += drop_implied(runtime, wanted, work->device->index);
    if (write_out(runtime, wanted, work, timelines, keeps))
        note_clock(&work->device->timelines[work->queue], work->value, timelines, keeps);
    work->wait_count = (uint16_t)(submission->made.wait_count - work->first_wait);
    work->foreign_wait_count = (uint16_t)(submission->made.foreign_wait_count - work->first_foreign_wait);
    if (dropped) rota_stat_add(&runtime->stats.waits_dropped, dropped);
}
