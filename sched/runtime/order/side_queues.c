/* Sidings: logical queues of a device beyond those that plans know, for works that would hold up others on
 * their own. The sequencer's.
 *
 * The works of a queue go over in order, and its timeline passes one only when all before have ended. So
 *   - a work that is *late*, since it waits for something that its device can't wait for (a work of another
 *     device that has not passed, one of its own that is blocked itself, or, of copies under a memory limit,
 *     staging memory that others are to give back), or since it ends when something elsewhere does (host nodes that end
 *     later, such as collectives), goes to a side queue, with all works of
 *     its submission that are of the same queue. Works on plans' own queues are then never blocked for another
 *     device, and what follows them isn't either;
 *   - copies that come with no plan (host reads and writes, moves) go to one where their queue has works
 *     before them whose end depends on more than copies (*risky* ones, and copies *behind* such), and which
 *     they don't come after in any case;
 *   - works that wait on their device for another one (device_wait.c) stay, and so does what depends on them: they
 *     *cross*. What doesn't steps aside, where it is all of its submission and does not cross itself.
 *
 * What ends later is to what comes after it what is blocked is, though the executor has it: when it ends is nobody's on
 * this device to say, and what waits for it would hold up a plan's queue just so. It comes after whatever was on its
 * side queue before, so works that end later and do not come after one another share one only where all are taken. Then
 * those have an order that is none of their hazards: that of their submissions. So ranks, each with a runtime of its
 * own, that submit their collectives in one order never wait for each other in a circle, whatever is shared; ranks that
 * submit those of different communicators in different orders do not either while no more chains of them are under way
 * than five. A plan's works on a second queue of a device (its ends, on_device.h) have a side queue of their own where
 * enough others are idle; else they are with the plan's other works there, in order, which is right and slower. Inside
 * a plan memory edges and segments follow the record in any case.
 *
 * What is on a side queue is a work of a queue like any other to hazards, clocks and executors: an order that two
 * submissions have from a shared queue is a wait in settle, which the executor may find to hold already, and
 * the clocks are those of timelines, whichever they are. Among works that are late those for one timeline
 * share a side queue, in the order of its values, so that none is blocked for another one's sake, and so do works that
 * come after points of the application's, each set of which covers the one before; with all side queues taken, one that
 * has few works is shared. What comes after such points may never go over, so one queue is kept from that, and others
 * rather share one that has none of it. */
#include "base/atomic.h"
#include "sched/runtime/memory/ranges.h"
#include "sched/runtime/order/clocks.h"
#include "sched/runtime/order/linked.h"
#include "sched/runtime/order/order.h"
#include "sched/runtime/order/replay.h"
#include "sched/runtime/order/side_queues.h"
#include "sched/runtime/shared/external_timeline.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"

/* Idle side queues that the second queue of a submission's works on a device leaves to other submissions: with the one
 * that has it in any case and the one that is kept from what ends later, five rows of such submissions have one each
 * whatever the first of them take. */
enum { KEPT_FOR_OTHERS = 4 };

/* Whether the value may come only when something elsewhere ends. Of a queue with such works, what has not passed. */
static bool comes_later(const rota_timeline *timeline, uint64_t value) {
    if (timeline->order.later == 0) return false;
    const uint64_t completed = ra_load_relaxed(&timeline->completed);
    return timeline->order.later > completed && value > completed;
}

/* Whether the executor has the value, or gets it without anything being waited for, and ends it by itself. */
static bool is_at_hand(const rota_timeline *timeline, uint64_t value) {
    if (comes_later(timeline, value)) return false;
    uint64_t last = timeline->order.sidelined < value ? timeline->order.sidelined : value;
    return last == 0 || ra_load_acquire(&timeline->handed_over) >= last; /* with hand_over */
}

bool rota_side_queue_is_at_hand(rota_sequencer *sequencer, uint64_t point) {
    rota_runtime *runtime = sequencer->runtime;
    rota_assert_sequencer(sequencer);
    return point == ROTA_POINT_NONE ||
           is_at_hand(rota_runtime_timeline(runtime, point), rota_point_value(point));
}

/* Whether something there comes after points of the application's, itself or what it waits for. */
static bool has_held(const rota_timeline *timeline) {
    return timeline->order.held > ra_load_relaxed(&timeline->completed);
}

/* Whether something there ends when something elsewhere does, itself or what it waits for. */
static bool has_later(const rota_timeline *timeline) {
    return timeline->order.later > ra_load_relaxed(&timeline->completed);
}

static void late_for(rota_prospect *prospect, uint32_t index, uint64_t value) {
    if (prospect->waiting_for == 0) {
        prospect->waiting_for = 1;
        prospect->timeline = index;
        prospect->value = value;
    } else if (prospect->timeline != index) {
        prospect->waiting_for = 2;
    } else if (prospect->value < value) {
        prospect->value = value;
    }
}

void rota_prospect_add(rota_prospect *prospect, uint64_t point) {
    if (point == ROTA_POINT_NONE) return;
    const rota_device *device = prospect->device;
    rota_runtime *runtime = device->runtime;
    const uint32_t queue = rota_point_queue(point);
    const uint64_t value = rota_point_value(point);
    const rota_timeline *timeline = rota_runtime_timeline(runtime, point);
    if (rota_point_device(point) == device->index) {
        if (prospect->wanted[queue] < value) prospect->wanted[queue] = value;
        if (is_at_hand(timeline, value)) return;
    } else if (rota_point_passed(runtime, point)) {
        return;
    } else if (rota_linked_can_wait(device, prospect->queues, point) && is_at_hand(timeline, value)) {
        prospect->crosses = true;
        return;
    }
    if (has_held(timeline)) prospect->is_held = true;
    if (comes_later(timeline, value)) prospect->comes_later = true;
    late_for(prospect, rota_point_device(point) * runtime->queue_count + queue, value);
}

void rota_prospect_add_instance(rota_prospect *prospect, uint64_t point, bool is_made) {
    prospect->wants_instance = !is_made;
    if (point == ROTA_POINT_NONE || rota_point_passed(prospect->device->runtime, point)) return;
    prospect->wants_instance = true;
    const rota_timeline *timeline = rota_runtime_timeline(prospect->device->runtime, point);
    if ((has_held(timeline) || has_later(timeline)) && !is_at_hand(timeline, rota_point_value(point)))
        rota_prospect_add(prospect, point);
}

void rota_prospect_add_external(rota_prospect *prospect, const rota_external_wait *after) {
    prospect->is_held = true;
    if (!rota_external_wait_is_reached(after->words)) prospect->after = after;
}

void rota_prospect_access(rota_prospect *prospect, rota_residency *residency, uint64_t begin, uint64_t end,
                          bool writes) {
    if (residency->owner) rota_replay_disown(residency);
    for (const rota_range *range = rota_ranges_find(residency, begin); range && range->begin < end;
         range = range->next) {
        rota_prospect_add(prospect, range->writer);
        for (uint32_t r = 0; writes && r < range->reader_count; r++)
            rota_prospect_add(prospect, range->readers[r]);
    }
}

static uint64_t unfinished(const rota_timeline *timeline) {
    return ra_load_relaxed(&timeline->issued) - ra_load_relaxed(&timeline->completed);
}

static bool has_crossing(const rota_timeline *timeline) {
    return timeline->order.crosses > ra_load_relaxed(&timeline->completed);
}

/* Whether another one would rather be on this queue: none there is held for the application, or ends when something
 * elsewhere does, or waits on the device, or there are fewer. */
static bool is_better(const rota_timeline *timeline, const rota_timeline *other) {
    if (has_held(timeline) != has_held(other)) return has_held(other);
    if (has_later(timeline) != has_later(other)) return has_later(other);
    if (has_crossing(timeline) != has_crossing(other)) return has_crossing(other);
    return unfinished(timeline) < unfinished(other);
}

/* Whether they are late for works on the queue of that index at most. */
static bool is_late_there_only(const rota_prospect *prospect, uint32_t index) {
    return prospect->waiting_for == 0 || (prospect->waiting_for == 1 && prospect->timeline == index);
}

/* Whether the row of works there goes on with these: all that keeps what is there is over whenever their points are. */
static bool covers_row(const rota_prospect *prospect, const rota_timeline *timeline) {
    const rota_timeline_order *order = &timeline->order;
    /* A submission whose work is through may be forgotten; a forgotten one is covered by nothing. */
    return order->external && order->external_value > ra_load_relaxed(&timeline->completed) &&
           rota_external_wait_covers(prospect->after, order->external);
}

/* Whether what keeps the newest work there is over whenever what keeps these is. */
static bool is_alike(const rota_prospect *prospect, const rota_timeline *timeline, uint32_t index) {
    const rota_timeline_order *order = &timeline->order;
    if (is_at_hand(timeline, order->sidelined)) return false;
    if (prospect->after) return is_late_there_only(prospect, index) && covers_row(prospect, timeline);
    return prospect->waiting_for == 1 && order->waiting_for_plus_1 == prospect->timeline + 1 &&
           order->waiting_value <= prospect->value;
}

uint32_t rota_side_queue_choose(const rota_prospect *prospect, uint32_t own) {
    const rota_device *device = prospect->device;
    const rota_runtime *runtime = device->runtime;
    uint32_t idle = ROTA_NONE, idle_count = 0, alike = ROTA_NONE, least = runtime->plan_queue_count;
    const uint32_t end = runtime->queue_count - (prospect->is_held || prospect->comes_later ? 1 : 0);
    for (uint32_t q = runtime->plan_queue_count; q < end; q++) {
        const rota_timeline *timeline = &device->timelines[q];
        if (unfinished(timeline) == 0) {
            if (idle == ROTA_NONE) idle = q;
            idle_count++;
            continue;
        }
        /* It comes after all that is there in any case. */
        if (prospect->wanted[q] && prospect->wanted[q] == ra_load_relaxed(&timeline->issued)) return q;
        if (is_alike(prospect, timeline, device->index * runtime->queue_count + q)) alike = q;
        if (is_better(timeline, &device->timelines[least])) least = q;
    }
    if (own != ROTA_NONE) return idle_count > KEPT_FOR_OTHERS ? idle : own;
    /* What ends later would keep those that come after it there from ending when what they are late for has. */
    if (prospect->ends_later && idle != ROTA_NONE) return idle;
    return alike != ROTA_NONE ? alike : idle != ROTA_NONE ? idle : least;
}

/* Whether the work comes after that value of the queue, or it has passed. */
static bool is_covered(const rota_prospect *prospect, uint32_t queue, uint64_t value) {
    const rota_device *device = prospect->device;
    if (value <= ra_load_relaxed(&device->timelines[queue].completed) || value <= prospect->wanted[queue])
        return true;
    const uint32_t index = device->index * device->runtime->queue_count + queue;
    for (uint32_t q = 0; q < device->runtime->queue_count; q++) {
        if (!prospect->wanted[q]) continue;
        const uint64_t *clock = rota_hazard_clock(&device->timelines[q], prospect->wanted[q]);
        if (clock && clock[index] >= value) return true;
    }
    return false;
}

/* Whether nothing on the queue keeps a copy that does not wait for it, or for what it waits for, in any case.
 */
static bool is_clear(const rota_prospect *prospect, uint32_t queue) {
    const rota_timeline *timeline = &prospect->device->timelines[queue];
    return is_covered(prospect, queue, timeline->order.after_kernels) &&
           (is_covered(prospect, queue, timeline->order.after_those) ||
            is_covered(prospect, timeline->order.behind_queue, timeline->order.after_those_value));
}

bool rota_side_queue_is_crossed(const rota_prospect *prospect) {
    for (uint32_t q = 0; prospect->queues >> q; q++)
        if (prospect->queues >> q & 1u &&
            !is_covered(prospect, q, prospect->device->timelines[q].order.crosses))
            return true;
    return false;
}

uint32_t rota_side_queue_for_copies(const rota_prospect *prospect, bool *is_sidelined) {
    const rota_device *device = prospect->device;
    *is_sidelined = rota_prospect_is_late(prospect);
    if (*is_sidelined) return rota_side_queue_choose(prospect, ROTA_NONE);
    if (is_clear(prospect, device->io_queue)) return device->io_queue;
    for (uint32_t q = device->runtime->plan_queue_count; q < device->runtime->queue_count; q++)
        if (is_clear(prospect, q)) return q;
    return device->io_queue;
}

static bool crosses(const rota_work *work) {
    const rota_submission *submission = work->submission;
    for (uint32_t h = 0; h < work->foreign_wait_count; h++)
        if (submission->made.foreign_waits[work->first_foreign_wait + h] & ROTA_FOREIGN_WAIT_ON_DEVICE)
            return true;
    for (uint32_t w = 0; w < work->wait_count; w++)
        if (has_crossing(&work->device->timelines[submission->made.waits[work->first_wait + w].queue]))
            return true;
    return false;
}

/* What the newest work of the timeline of that index is late for. One that is late for an earlier one there is late for
 * what that is late for. */
static void note_late(rota_timeline *timeline, const rota_prospect *prospect, uint32_t index,
                      uint64_t value) {
    rota_timeline_order *order = &timeline->order;
    /* What ends later is late for itself, and so is like nothing else. */
    const bool is_own = prospect && prospect->ends_later;
    const bool for_one = prospect && !is_own && !prospect->after && prospect->waiting_for == 1;
    const bool is_here = for_one && prospect->timeline == index;
    const bool in_row =
        prospect && !is_own && !prospect->wants_instance && is_late_there_only(prospect, index);
    if (in_row && prospect->after) { /* a row begins where nothing is held, not behind others */
        const bool goes_on = is_at_hand(timeline, order->sidelined) || covers_row(prospect, timeline);
        order->external = goes_on ? prospect->after : NULL;
        order->external_value = value;
    } else if (!in_row || !is_here) {
        order->external = NULL;
    }
    if (is_here) return;
    order->waiting_for_plus_1 = for_one ? prospect->timeline + 1 : 0;
    order->waiting_value = for_one ? prospect->value : 0;
}

void rota_side_queue_note(rota_work *work, const rota_prospect *prospect) {
    const rota_device *device = work->device;
    rota_timeline *timeline = &device->timelines[work->queue];
    if (ra_load_relaxed(&device->others.linked) && crosses(work)) timeline->order.crosses = work->value;
    if (work->is_sidelined ||
        (work->foreign_wait_count != 0 && work->queue >= device->runtime->plan_queue_count)) {
        note_late(timeline, prospect, device->index * device->runtime->queue_count + work->queue,
                  work->value);
        timeline->order.sidelined = work->value;
        if (prospect && prospect->is_held) timeline->order.held = work->value;
        if (prospect && prospect->comes_later) timeline->order.later = work->value;
    }
    if (work->step != 0 || work->is_sidelined || work->foreign_wait_count != 0) {
        timeline->order.after_kernels = work->value;
        return;
    }
    const rota_exec_wait *waits = work->submission->made.waits + work->first_wait;
    for (uint32_t w = 0; w < work->wait_count; w++) {
        const rota_timeline *other = &device->timelines[waits[w].queue];
        const uint64_t completed = ra_load_relaxed(&other->completed);
        if (other->order.after_kernels <= completed && other->order.after_those <= completed) continue;
        const uint64_t before = timeline->order.after_those;
        if (before > ra_load_relaxed(&timeline->completed) &&
            timeline->order.behind_queue != waits[w].queue) {
            timeline->order.after_kernels = work->value;
            return;
        }
        if (timeline->order.behind_queue != waits[w].queue ||
            timeline->order.after_those_value < waits[w].value)
            timeline->order.after_those_value = waits[w].value;
        timeline->order.behind_queue = waits[w].queue;
        timeline->order.after_those = work->value;
    }
}

bool rota_side_queue_keeps(const rota_work *work) {
    const rota_timeline *timeline = &work->device->timelines[work->queue];
    const uint64_t completed = ra_load_relaxed(&timeline->completed);
    return timeline->order.after_kernels > completed || timeline->order.after_those > completed;
}
