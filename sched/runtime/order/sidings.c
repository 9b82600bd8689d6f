/* Sidings: logical queues of a device beyond those that plans know, for works that would hold up others on
 * their own. The sequencer's.
 *
 * The works of a queue go over in order, and its timeline passes one only when all before have ended. So
 *   - a work that is *late*, since it waits for something that its device can't wait for (a work of another
 *     device that has not passed, one of its own that is held itself, or, of copies under a memory limit,
 *     staging memory that others are to give back), goes to a siding, with all works of
 *     its submission that are of the same queue. Works on plans' own queues are then never held for another
 *     device, and what follows them isn't either;
 *   - copies that come with no plan (host reads and writes, moves) go to one where their queue has works
 *     before them whose end depends on more than copies (*risky* ones, and copies *behind* such), and which
 *     they don't come after in any case;
 *   - works that wait on their device for another one (device_wait.c) stay, and so does what depends on them: they
 *     *cross*. What doesn't steps aside, where it is all of its submission and does not cross itself.
 *
 * What is on a siding is a work of a queue like any other to hazards, clocks and executors: an order that two
 * submissions have from a shared queue is a wait in settle, which the executor may find to hold already, and
 * the clocks are those of timelines, whichever they are. Among works that are late those for one timeline
 * share a siding, in the order of its values, so that none is held for another one's sake; with all sidings
 * taken, one that has few works is shared. */
#include "base/atomic.h"
#include "sched/runtime/memory/ranges.h"
#include "sched/runtime/order/clocks.h"
#include "sched/runtime/order/linked.h"
#include "sched/runtime/order/order.h"
#include "sched/runtime/order/replay.h"
#include "sched/runtime/order/sidings.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/shared/runtime.h"

/* Whether the executor has the value, or gets it without anything being waited for. */
static bool is_at_hand(const rota_timeline *timeline, uint64_t value) {
    uint64_t last = timeline->order.parked < value ? timeline->order.parked : value;
    return last == 0 || ra_load_acquire(&timeline->handed_over) >= last; /* with hand_over */
}

bool rota_siding_is_at_hand(rota_sequencer *sequencer, uint64_t point) {
    rota_runtime *runtime = sequencer->runtime;
    rota_assert_sequencer(sequencer);
    return point == ROTA_POINT_NONE ||
           is_at_hand(rota_runtime_timeline(runtime, point), rota_point_value(point));
}

void rota_ahead_add(rota_ahead *ahead, uint64_t point) {
    if (point == ROTA_POINT_NONE) return;
    const rota_device *device = ahead->device;
    rota_runtime *runtime = device->runtime;
    const uint32_t queue = rota_point_queue(point);
    const uint64_t value = rota_point_value(point);
    const rota_timeline *timeline = rota_runtime_timeline(runtime, point);
    if (rota_point_device(point) == device->index) {
        if (ahead->wanted[queue] < value) ahead->wanted[queue] = value;
        if (is_at_hand(timeline, value)) return;
    } else if (rota_point_passed(runtime, point)) {
        return;
    } else if (rota_across_can_wait(device, ahead->queues, point) && is_at_hand(timeline, value)) {
        ahead->crosses = true;
        return;
    }
    const uint32_t index = rota_point_device(point) * runtime->queue_count + queue;
    if (ahead->late == 0) {
        ahead->late = 1;
        ahead->timeline = index;
        ahead->value = value;
    } else if (ahead->timeline != index) {
        ahead->late = 2;
    } else if (ahead->value < value) {
        ahead->value = value;
    }
}

void rota_ahead_access(rota_ahead *ahead, rota_residency *residency, uint64_t begin, uint64_t end,
                       bool writes) {
    if (residency->owner) rota_replay_disown(residency);
    for (const rota_range *range = rota_ranges_find(residency, begin); range && range->begin < end;
         range = range->next) {
        rota_ahead_add(ahead, range->writer);
        for (uint32_t r = 0; writes && r < range->reader_count; r++) rota_ahead_add(ahead, range->readers[r]);
    }
}

static uint64_t unfinished(const rota_timeline *timeline) {
    return ra_load_relaxed(&timeline->issued) - ra_load_relaxed(&timeline->completed);
}

static bool has_crossing(const rota_timeline *timeline) {
    return timeline->order.crosses > ra_load_relaxed(&timeline->completed);
}

/* Whether another one would rather be on this queue: none there waits on the device, or there are fewer. */
static bool is_better(const rota_timeline *timeline, const rota_timeline *other) {
    if (has_crossing(timeline) != has_crossing(other)) return has_crossing(other);
    return unfinished(timeline) < unfinished(other);
}

uint32_t rota_siding_choose(const rota_ahead *ahead) {
    const rota_device *device = ahead->device;
    const rota_runtime *runtime = device->runtime;
    uint32_t idle = ROTA_NONE, alike = ROTA_NONE, least = runtime->plan_queue_count;
    for (uint32_t q = runtime->plan_queue_count; q < runtime->queue_count; q++) {
        const rota_timeline *timeline = &device->timelines[q];
        if (unfinished(timeline) == 0) {
            if (idle == ROTA_NONE) idle = q;
            continue;
        }
        /* It comes after all that is there in any case. */
        if (ahead->wanted[q] && ahead->wanted[q] == ra_load_relaxed(&timeline->issued)) return q;
        if (ahead->late == 1 && timeline->order.late_for_plus_1 == ahead->timeline + 1 &&
            timeline->order.late_value <= ahead->value && !is_at_hand(timeline, timeline->order.parked))
            alike = q;
        if (is_better(timeline, &device->timelines[least])) least = q;
    }
    return alike != ROTA_NONE ? alike : idle != ROTA_NONE ? idle : least;
}

/* Whether the work comes after that value of the queue, or it has passed. */
static bool is_covered(const rota_ahead *ahead, uint32_t queue, uint64_t value) {
    const rota_device *device = ahead->device;
    if (value <= ra_load_relaxed(&device->timelines[queue].completed) || value <= ahead->wanted[queue])
        return true;
    const uint32_t index = device->index * device->runtime->queue_count + queue;
    for (uint32_t q = 0; q < device->runtime->queue_count; q++) {
        if (!ahead->wanted[q]) continue;
        const uint64_t *clock = rota_hazard_clock(&device->timelines[q], ahead->wanted[q]);
        if (clock && clock[index] >= value) return true;
    }
    return false;
}

/* Whether nothing on the queue keeps a copy that does not wait for it, or for what it waits for, in any case.
 */
static bool is_clear(const rota_ahead *ahead, uint32_t queue) {
    const rota_timeline *timeline = &ahead->device->timelines[queue];
    return is_covered(ahead, queue, timeline->order.risky) &&
           (is_covered(ahead, queue, timeline->order.behind) ||
            is_covered(ahead, timeline->order.behind_queue, timeline->order.behind_value));
}

bool rota_siding_is_crossed(const rota_ahead *ahead) {
    for (uint32_t q = 0; ahead->queues >> q; q++)
        if (ahead->queues >> q & 1u && !is_covered(ahead, q, ahead->device->timelines[q].order.crosses))
            return true;
    return false;
}

uint32_t rota_siding_for_copies(const rota_ahead *ahead, bool *parks) {
    const rota_device *device = ahead->device;
    *parks = ahead->late != 0;
    if (*parks) return rota_siding_choose(ahead);
    if (is_clear(ahead, device->io_queue)) return device->io_queue;
    for (uint32_t q = device->runtime->plan_queue_count; q < device->runtime->queue_count; q++)
        if (is_clear(ahead, q)) return q;
    return device->io_queue;
}

static bool crosses(const rota_work *work) {
    const rota_submission *submission = work->submission;
    for (uint32_t h = 0; h < work->hold_count; h++)
        if (submission->made.holds[work->first_hold + h] & ROTA_HOLD_ON_DEVICE) return true;
    for (uint32_t w = 0; w < work->wait_count; w++)
        if (has_crossing(&work->device->timelines[submission->made.waits[work->first_wait + w].queue]))
            return true;
    return false;
}

void rota_siding_note(rota_work *work, const rota_ahead *ahead) {
    const rota_device *device = work->device;
    rota_timeline *timeline = &device->timelines[work->queue];
    if (ra_load_relaxed(&device->linked) && crosses(work)) timeline->order.crosses = work->value;
    if (work->parks || (work->hold_count != 0 && work->queue >= device->runtime->plan_queue_count)) {
        /* One that is late for an earlier one here is late for what that is late for. */
        if (!ahead || ahead->late != 1)
            timeline->order.late_for_plus_1 = 0;
        else if (ahead->timeline != device->index * device->runtime->queue_count + work->queue) {
            timeline->order.late_for_plus_1 = ahead->timeline + 1;
            timeline->order.late_value = ahead->value;
        }
        timeline->order.parked = work->value;
    }
    if (work->step != 0 || work->parks || work->hold_count != 0) {
        timeline->order.risky = work->value;
        return;
    }
    const rota_exec_wait *waits = work->submission->made.waits + work->first_wait;
    for (uint32_t w = 0; w < work->wait_count; w++) {
        const rota_timeline *other = &device->timelines[waits[w].queue];
        const uint64_t completed = ra_load_relaxed(&other->completed);
        if (other->order.risky <= completed && other->order.behind <= completed) continue;
        const uint64_t before = timeline->order.behind;
        if (before > ra_load_relaxed(&timeline->completed) &&
            timeline->order.behind_queue != waits[w].queue) {
            timeline->order.risky = work->value;
            return;
        }
        if (timeline->order.behind_queue != waits[w].queue || timeline->order.behind_value < waits[w].value)
            timeline->order.behind_value = waits[w].value;
        timeline->order.behind_queue = waits[w].queue;
        timeline->order.behind = work->value;
    }
}

bool rota_siding_keeps(const rota_work *work) {
    const rota_timeline *timeline = &work->device->timelines[work->queue];
    const uint64_t completed = ra_load_relaxed(&timeline->completed);
    return timeline->order.risky > completed || timeline->order.behind > completed;
}
