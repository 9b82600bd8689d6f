/* Works that wait for what their device cannot wait for: the submit thread's.
 *
 * A work that waits for something that its device can't wait for is blocked, and with it what comes later on its
 * logical queue; works of other queues pass it. A work goes over once
 *   - what it waits for on other devices has passed there, or its own device can wait for it; where the other
 *     is lost it won't run, and stays until what the lost work was to come after is over;
 *   - its instance is made;
 *   - points of the application's that its submission comes after are reached, or promised to its device, which waits
 *     for them then; or a deadline has passed: then it won't run;
 *   - all that it waits for on its own device has gone over before: the executor hears of no value later than
 *     of a wait for it;
 *   - the gate takes it (gate.c): what that needs is with devices already;
 *   - what of that has iterations has ended, where the device tells of a failure only then: what reads what a failed
 *     node was to write must not run on it;
 *   - it was not found to lack staging memory under a memory limit (batch_memory.c), or that is back, or won't be: what
 *     is waited for there comes from the reclaimer, in a bounded time.
 * All of that comes earlier in the one order of submissions, so the earliest work that is blocked anywhere waits
 * for no other: there is no circle. Which queue a work is on, and so what it can hold up, is the sequencer's
 * business (side_queues.c). */
#include <stdio.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/spin.h"
#include "sched/runtime/kinds/kinds.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/external_timeline.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/submitter/batch_memory.h"
#include "sched/runtime/submitter/blocked.h"
#include "sched/runtime/submitter/cancelled.h"
#include "sched/runtime/submitter/device_wait.h"
#include "sched/runtime/submitter/gate.h"
#include "sched/runtime/submitter/handover.h"
#include "sched/runtime/submitter/submitter.h"

#define ACROSS_SPIN_NS 30000u

/* Whether the work of this value, and so all before it on its queue, is with the device or was dropped: no thread
 * prepares it, reads what it moves or marks what it leaves any more. Who dropped it found the one before it left
 * (has_left_before), so that what is acquired here is what was done for all of them. */
static bool has_left_thread(const rota_device *lost, uint32_t queue, uint64_t value) {
    const rota_timeline *timeline = &lost->timelines[queue];
    return ra_load_acquire(&timeline->handed_over) >= value || /* with hand_over */
           ra_load_seq_cst(&timeline->dropped) >= value;       /* with drop */
}

/* Whether what the work of a lost device comes after there has left the thread that took it, which may be
 * preparing it still while another one looks through what is behind: to be taken is not enough. Who waits for
 * the work waits for no more than that. */
static bool has_left_before(const rota_device *lost, const rota_work *work) {
    if (!has_left_thread(lost, work->queue, work->value - 1)) return false;
    const rota_exec_wait *waits = work->submission->made.waits + work->first_wait;
    for (uint32_t w = 0; w < work->wait_count; w++)
        if (!has_left_thread(lost, waits[w].queue, waits[w].value)) return false;
    for (uint32_t q = 0; work->comes_last && q < lost->runtime->queue_count; q++)
        if (!has_left_thread(lost, q, lost->submitter->given[q])) return false;
    return true;
}

/* A lost device's thread, that would look through what it holds, may not come back from the driver: then this
 * one does, and gives up on who keeps it. What that thread has taken stays its own, but for what it only makes memory
 * for: that goes back to what is blocked, and is looked at like all of that. */
static void look_for_thread(rota_device *lost) {
    uint32_t state = ra_load_relaxed(&lost->handover.hands_over);
    if (state == ROTA_HANDS_NOTHING || state == ROTA_HANDS_LOOKED) return;
    /* Acquires what the thread took and holds, or the one that looked before; with begin_to_hand_over and serve. */
    if (!ra_cas_acq_rel(&lost->handover.hands_over, &state, ROTA_HANDS_LOOKED)) return;
    if (state == ROTA_HANDS_MEMORY) {
        rota_blocked_put_back(lost->submitter, 0);
        state = ROTA_HANDS_AWAY;
    }
    rota_work *works[ROTA_HANDOVER_BATCH];
    for (uint32_t count = 1; count != 0;) {
        count = rota_blocked_take(lost->submitter, works);
        rota_handover_drop(lost, works, count);
        lost->submitter->looked_at += count;
    }
    rota_blocked_give_up(lost->submitter);
    ra_store_release(&lost->handover.hands_over, state); /* with serve, and the next one here */
}

/* Whether all that the work of this point on a lost device was to come after on other devices is over: it was
 * given to its device, or would be. Who comes after the work comes after that, though the work itself won't
 * do anything: what is older may read what is to be written, or the marks of it. */
static bool is_through_before(rota_device *lost, uint64_t point) {
    const uint32_t queue = rota_point_queue(point);
    const uint64_t value = rota_point_value(point);
    if (!has_left_thread(lost, queue, value)) {
        look_for_thread(lost);
        if (!has_left_thread(lost, queue, value)) return false;
    }
    return rota_gate_is_through(lost, queue, value);
}

/* Whether what a work of the device is blocked for has come about; `*lost`: it will not, since the other device
 * is lost. Then it is over when what was to come before is. A lost device waits for nothing itself. */
static bool foreign_wait_is_over(const rota_device *device, uint64_t foreign, rota_device **lost) {
    rota_runtime *runtime = device->runtime;
    const uint64_t point = rota_foreign_wait_point(foreign);
    rota_device *other = runtime->devices[rota_point_device(point)];
    bool is_lost = rota_device_is_lost(other); /* first: then what was reached before is seen */
    if (rota_linked_is_ready(runtime, rota_device_is_lost(device) ? point : foreign)) return true;
    if (is_lost) *lost = other;
    return is_lost && is_through_before(other, point);
}

/* Calls fn for each point of another device that keeps the work; of those it waits for because one is lost,
 * the works of its submission before it. One that waits for a lost device is kept until it is seen to
 * (look_for_loss), however late the loss is seen. Stops at false. */
typedef bool (*keeper_fn)(rota_device *device, rota_work *work, uint64_t foreign);
static bool for_keepers(rota_device *device, rota_work *work, keeper_fn fn) {
    rota_device *lost = NULL;
    for (uint32_t h = 0; h < work->foreign_wait_count; h++) {
        uint64_t foreign = work->submission->made.foreign_waits[work->first_foreign_wait + h];
        lost = NULL;
        if (foreign_wait_is_over(device, foreign, &lost) && (!lost || work->skipped)) continue;
        if (!fn(device, work, foreign)) return false;
    }
    for (const rota_work *before = work; work->comes_last && before-- != work->submission->made.works;) {
        uint64_t point = rota_work_point(before);
        if (before->device != device && !foreign_wait_is_over(device, point, &lost) &&
            !fn(device, work, point))
            return false;
    }
    return true;
}

/* One that is not kept, since the other device is lost, leaves the rest to be waited for, and what the lost
 * one's works came after: the work won't run, but the end of its submission may not come before theirs. */
static void look_for_loss(rota_work *work) {
    for (uint32_t h = 0; h < work->foreign_wait_count; h++) {
        rota_device *lost = NULL;
        (void)foreign_wait_is_over(work->device,
                                   work->submission->made.foreign_waits[work->first_foreign_wait + h], &lost);
        if (!lost) continue;
        if (!work->skipped) rota_work_skip(work, (rota_reason){ra_load_acquire(&lost->lost_cause), 0}, false);
        work->comes_last = true;
        ra_store_release(&work->in_vain, 1); /* with is_at_work in reap.c */
    }
}

/* Whether what the work's submission comes after outside is over, and so is told of; where a deadline passed first, or
 * the runtime closes, the work fails, and goes over when all else that it waits for is. One of a cancelled submission
 * waits for that no more: it is left out, or moves bytes that are nobody else's; where the application may have them
 * still, it fails likewise. Also of a lost device: who comes after the work comes
 * after that. */
static bool after_is_over(rota_work *work) {
    rota_runtime *runtime = work->device->runtime;
    rota_external_wait *after = &work->submission->seldom.after;
    /* seq_cst: with the store in end_external_waits, whose thread then looks whether this one sleeps. */
    const bool closes = ra_load_seq_cst(&runtime->external.is_over);
    rota_reason reason = {NULL, work->submission->number};
    if (rota_cancelled_lets_go(work)) return true; /* nor does its device wait */
    const rota_external_outcome outcome = rota_external_wait_look(after, closes);
    if (outcome == ROTA_EXTERNAL_WAIT_REACHED || work->skipped) return true;
    if (rota_cancelled_move(work, &reason)) {
        rota_work_skip(work, reason, true);
        return true;
    }
    if (outcome == ROTA_EXTERNAL_WAIT_PENDING) return false;
    char clause[256], until[64] = "when its runtime was closed";
    rota_external_wait_describe(after, clause, sizeof clause);
    if (outcome == ROTA_EXTERNAL_WAIT_EXPIRED)
        (void)snprintf(until, sizeof until, "within %.3f s", (double)after->timeout_ns * 1e-9);
    reason.cause = rota_cause_new(runtime, ROTA_TIMEOUT,
                                  "plan '%s', submission " ROTA_CAUSE_NUMBER ", was held for %s, %s",
                                  work->submission->plan->name, clause, until);
    rota_work_skip(work, reason, true);
    return true;
}

static bool keeps(rota_device *device, rota_work *work, uint64_t foreign) {
    (void)device, (void)work, (void)foreign;
    return false;
}

/* Whether all that its device got before it in the order of submissions has gone over. */
static bool is_oldest(const rota_submitter *submitter, const rota_work *work) {
    const rota_device *device = submitter->device;
    for (uint32_t q = 0; q < device->runtime->queue_count; q++)
        if (submitter->blocked_first[q] && submitter->blocked_first[q]->ordinal < work->ordinal) return false;
    return true;
}

/* What the work waits for on its own device. While nothing is blocked all that came before has gone over. */
static bool is_next(const rota_submitter *submitter, const rota_work *work) {
    const rota_device *device = submitter->device;
    if (ra_load_relaxed(&device->handover.blocked_count) == 0) return true;
    if (work->comes_last && !is_oldest(submitter, work)) return false;
    const rota_exec_wait *waits = work->submission->made.waits + work->first_wait;
    for (uint32_t w = 0; w < work->wait_count; w++)
        if (submitter->given[waits[w].queue] < waits[w].value) return false;
    return true;
}

/* Its device has the work from now on, or will. */
static void give(rota_submitter *submitter, const rota_work *work) {
    submitter->given[work->queue] = work->value;
    if (work->kind != ROTA_WORK_LOOPS || submitter->device->asks_poison) return;
    submitter->late[work->queue] = work->value;
    submitter->late_queues |= 1u << work->queue;
}

/* Whether its device will wait for another one, or for points that were promised, on the GPU. */
static bool will_wait_on_device(const rota_work *work) {
    rota_exec_timeline_wait waits[ROTA_EXEC_SEMAPHORE_WAITS_MAX];
    for (uint32_t h = 0; h < work->foreign_wait_count; h++) {
        const uint64_t foreign = work->submission->made.foreign_waits[work->first_foreign_wait + h];
        if (foreign & ROTA_FOREIGN_WAIT_ON_DEVICE &&
            !rota_point_passed(work->device->runtime, rota_foreign_wait_point(foreign)))
            return true;
    }
    return work->has_after && rota_external_wait_semaphores(&work->submission->seldom.after, waits) != 0;
}

/* Whether the work is to stay behind all that the device goes on with. What it waits for on the GPU may come after
 * that, by the application's promise, and would keep the rest of it from its queue; and it comes after all that was
 * handed over (wait_for_all in handover.c). What is gone on with came before and waits for nothing of it. */
static bool comes_after_all(const rota_submitter *submitter, const rota_work *work) {
    return work->comes_last || (submitter->device->exec->go_on && will_wait_on_device(work));
}

/* Up to which value of the queue, of its own device, the work comes after what is there. */
static uint64_t comes_after(const rota_submitter *submitter, const rota_work *work, uint32_t queue,
                            bool all) {
    uint64_t value = queue == work->queue ? work->value - 1 : 0;
    if (all && submitter->given[queue] > value) value = submitter->given[queue];
    const rota_exec_wait *waits = work->submission->made.waits + work->first_wait;
    for (uint32_t w = 0; w < work->wait_count; w++)
        if (waits[w].queue == queue && waits[w].value > value) value = waits[w].value;
    return value;
}

/* Whether the work comes after one of its own device that may still fail; calls fn, if any, for the point until which
 * it may, of each queue. What was left out of its waits comes before the same works, which waited themselves. */
static bool for_undecided(rota_submitter *submitter, const rota_work *work,
                          void (*fn)(rota_device *, uint64_t)) {
    rota_device *device = submitter->device;
    const bool all = submitter->late_queues && comes_after_all(submitter, work);
    bool any = false;
    for (uint32_t left = submitter->late_queues; left; left &= left - 1) {
        const uint32_t q = (uint32_t)__builtin_ctz(left);
        const uint64_t late = submitter->late[q];
        if (rota_point_passed(device->runtime, rota_point(device->index, q, late))) {
            submitter->late_queues &= ~(1u << q);
            continue;
        }
        const uint64_t before = comes_after(submitter, work, q, all);
        const uint64_t point = rota_point(device->index, q, late < before ? late : before);
        if (before == 0 || rota_point_passed(device->runtime, point)) continue;
        any = true;
        if (fn) fn(device, point);
    }
    return any;
}

/* The work is the next of its queue. Only asks: no driver keeps the thread here, where nobody can look through what it
 * is taking. Where its device is lost it is not handed over, and needs only what it
 * comes after. */
static bool is_ready(rota_submitter *submitter, rota_work *work) {
    rota_device *device = submitter->device;
    const rota_work_row *row = rota_work_row_of(work);
    const bool is_lost = rota_device_is_lost(device);
    /* What is left out needs no instance. */
    if (!is_lost && row->is_decided && !row->is_decided(work) && !rota_cancelled_leaves_out(work))
        return false;
    if (work->foreign_wait_count) {
        look_for_loss(work);
        if (!for_keepers(device, work, keeps)) return false;
    }
    if (work->has_after && !after_is_over(work)) return false;
    if (!is_next(submitter, work) || (is_lost && !has_left_before(device, work))) return false;
    if (!is_lost && for_undecided(submitter, work, NULL)) return false;
    work->dropped = is_lost;
    return is_lost || (rota_gate_takes(work) && !rota_work_starves(submitter, work));
}

/* Calls fn for each point that may keep the work, whether it does now or not: what is with the other driver keeps it
 * once something has failed, and once a device is lost so does what for_keepers says. */
static void for_points(rota_device *device, const rota_work *work, void (*fn)(rota_device *, uint64_t)) {
    bool comes_last = work->comes_last;
    for (uint32_t h = 0; h < work->foreign_wait_count; h++) {
        const uint64_t point =
            rota_foreign_wait_point(work->submission->made.foreign_waits[work->first_foreign_wait + h]);
        comes_last = comes_last || rota_device_is_lost(device->runtime->devices[rota_point_device(point)]);
        fn(device, point);
    }
    for (const rota_work *before = work; comes_last && before-- != work->submission->made.works;)
        if (before->device != device) fn(device, rota_work_point(before));
}

/* Relaxed: who looks at it (is_awaited) reads nothing else by it, and looks again. It is not lowered: a value that has
 * passed keeps nobody. */
static void note_point(rota_device *device, uint64_t point) {
    _Atomic uint64_t *kept_for = &rota_runtime_timeline(device->runtime, point)->kept_for[device->index];
    if (rota_point_value(point) > ra_load_relaxed(kept_for))
        ra_store_relaxed(kept_for, rota_point_value(point));
}

/* The work is the first of its queue to wait. */
static void begin_to_wait(rota_submitter *submitter, rota_work *work) {
    work->since_ns = rota_clock_ns();
    submitter->blocked_first[work->queue] = work;
    for_points(submitter->device, work, note_point);
}

/* What is blocked and waits for a lost device fails at once, wherever it stands: nobody waits for its end
 * (is_at_work in reap.c) who needs but that. Once for each loss. */
static void see_losses(rota_submitter *submitter) {
    rota_device *device = submitter->device;
    rota_runtime *runtime = device->runtime;
    const uint32_t devices = ra_load_acquire(&runtime->device_count);
    uint64_t lost = 0;
    for (uint32_t d = 0; d < devices; d++)
        if (rota_device_is_lost(runtime->devices[d])) lost |= (uint64_t)1 << d;
    if (lost == submitter->losses_seen) return;
    submitter->losses_seen = lost;
    for (uint32_t q = 0; q < runtime->queue_count; q++)
        for (rota_work *work = submitter->blocked_first[q]; work; work = work->next) look_for_loss(work);
    for (uint32_t q = 0; q < runtime->queue_count; q++) /* now for works of their submissions as well */
        if (submitter->blocked_first[q]) for_points(device, submitter->blocked_first[q], note_point);
}

static void hold_back(rota_submitter *submitter, rota_work *work) {
    rota_device *device = submitter->device;
    look_for_loss(work); /* the losses that were seen before it came here */
    work->next = NULL;
    if (submitter->blocked_last[work->queue])
        submitter->blocked_last[work->queue]->next = work;
    else
        begin_to_wait(submitter, work);
    submitter->blocked_last[work->queue] = work;
    (void)ra_fetch_add_relaxed(&device->handover.blocked_count,
                               1); /* others ask what a device waits for: give_up_on */
}

void rota_blocked_put_back(rota_submitter *submitter, uint32_t first) {
    rota_assert_submitter(submitter);
    for (uint32_t i = submitter->batch_count; i-- > first;) {
        rota_work *work = submitter->batch[i];
        look_for_loss(work);
        work->next = submitter->blocked_first[work->queue];
        if (!work->next) submitter->blocked_last[work->queue] = work;
        begin_to_wait(submitter, work);
        submitter->given[work->queue] = work->value - 1;
        (void)ra_fetch_add_relaxed(&submitter->device->handover.blocked_count, 1); /* as in hold_back */
    }
    submitter->batch_count = first;
}

/* Takes works that were blocked and may go; one may let another one go. */
static uint32_t take_blocked(rota_submitter *submitter, rota_work **works) {
    rota_device *device = submitter->device;
    uint32_t count = 0;
    bool any = ra_load_relaxed(&device->handover.blocked_count) != 0;
    if (any) see_losses(submitter);
    while (any) {
        any = false;
        for (uint32_t q = 0; q < device->runtime->queue_count; q++)
            while (count < ROTA_HANDOVER_BATCH && submitter->blocked_first[q] &&
                   is_ready(submitter, submitter->blocked_first[q])) {
                rota_work *work = submitter->blocked_first[q];
                submitter->blocked_first[q] = work->next;
                if (work->next)
                    begin_to_wait(submitter, work->next);
                else
                    submitter->blocked_last[q] = NULL;
                rota_handover_note(device); /* first: released by the next, to give_up_on */
                (void)ra_fetch_sub_release(&device->handover.blocked_count, 1);
                give(submitter, work);
                works[count++] = work;
                any = true;
            }
    }
    return count;
}

/* Takes what is to go over next; what must wait is blocked. */
uint32_t rota_blocked_take(rota_submitter *submitter, rota_work **works) {
    rota_device *device = submitter->device;
    rota_assert_submitter(submitter);
    rota_ring_spsc *ring = &device->handover.ring;
    uint32_t left = rota_ring_count_spsc(ring); /* no more: what comes meanwhile keeps nobody here */
    uint32_t count = take_blocked(submitter, works);
    for (; count < ROTA_HANDOVER_BATCH && left != 0; left--) {
        rota_work *work = rota_ring_take_spsc(ring);
        if (submitter->blocked_first[work->queue] || !is_ready(submitter, work)) {
            hold_back(submitter, work);
        } else {
            give(submitter, work);
            works[count++] = work;
        }
    }
    return count;
}

/* ---- While works are blocked ---- */

/* Whether a work of the other device is kept by a value of this one. By what that one's thread noted, not by whether it
 * sleeps: one that looks for work, or has some all the time, is kept no less. A lost device's values come no more:
 * what it was not given keeps others until it is dropped, and then its gate does. */
static bool is_awaited_by(const rota_device *device, uint32_t other) {
    const bool is_lost = rota_device_is_lost(device);
    for (uint32_t q = 0; q < device->runtime->queue_count; q++) {
        const rota_timeline *timeline = &device->timelines[q];
        const uint64_t value = ra_load_relaxed(&timeline->kept_for[other]);
        if (value > ra_load_relaxed(&timeline->completed) && !(is_lost && has_left_thread(device, q, value)))
            return true;
    }
    return false;
}

/* The devices whose waits count, as bits: those that are well; and of those that are lost, whose works are in vain but
 * keep what comes after them in its order, the ones that such a device waits for. */
static uint64_t devices_that_count(rota_runtime *runtime) {
    const uint32_t devices = ra_load_acquire(&runtime->device_count);
    uint64_t count = 0, before;
    for (uint32_t d = 0; d < devices; d++)
        if (!rota_device_is_lost(runtime->devices[d])) count |= (uint64_t)1 << d;
    do {
        before = count;
        for (uint32_t d = 0; d < devices; d++)
            for (uint64_t left = before; left && !(count >> d & 1u); left &= left - 1)
                if (is_awaited_by(runtime->devices[d], (uint32_t)__builtin_ctzll(left)))
                    count |= (uint64_t)1 << d;
    } while (count != before);
    return count;
}

/* Whether a device whose waits count is kept by a value of this one. */
static bool is_awaited(const rota_device *device, uint64_t devices) {
    for (devices &= ~((uint64_t)1 << device->index); devices; devices &= devices - 1)
        if (is_awaited_by(device, (uint32_t)__builtin_ctzll(devices))) return true;
    return false;
}

/* A device that gets nowhere for the default deadline with what it was given is taken for lost: nobody knows
 * then what it still touches, so going on without it would be going on over its memory. One that was not
 * given it waits itself, and who keeps it is that one's business, unless its thread stays in the driver, where it
 * looks at nothing. That may be the device itself, at an earlier replay of the work's plan: nobody else is kept then
 * but where another device waits for it, and who waits for a ticket has a deadline of his own. One that waits on the
 * GPU is its gate's business. Nor does a lost device, whose works are in vain, give up another one for itself. */
static bool give_up_on(rota_device *device, rota_work *work, uint64_t foreign) {
    rota_runtime *runtime = device->runtime;
    const uint64_t point = rota_foreign_wait_point(foreign);
    rota_device *other = runtime->devices[rota_point_device(point)];
    const uint64_t counting = devices_that_count(runtime);
    if (!(counting >> device->index & 1u)) return true;
    if (other == device && !is_awaited(device, counting)) return true;
    const bool is_given =
        ra_load_acquire(&rota_runtime_timeline(runtime, point)->handed_over) >= rota_point_value(point);
    const uint32_t hands = ra_load_acquire(&other->handover.hands_over); /* with begin_to_hand_over, go_on */
    if (!is_given && ra_load_acquire(&other->handover.blocked_count) != 0 && hands == ROTA_HANDS_NOTHING)
        return true;
    if (rota_gate_keeps(other, point)) return true;
    uint64_t from = ra_load_relaxed(&other->handover.handed_ns);
    const uint64_t now = rota_clock_ns();
    for (uint32_t q = 0; q < runtime->queue_count; q++) {
        uint64_t moved_ns = ra_load_relaxed(&other->timelines[q].progress_ns);
        if (from < moved_ns) from = moved_ns;
    }
    if (from < work->since_ns) from = work->since_ns;
    /* A thread that went on while it held the work may have had nothing to hand over for long. */
    const uint64_t went_on_ns = ra_load_relaxed(&other->handover.went_on_ns);
    if (!is_given && hands == ROTA_HANDS_OVER && from < went_on_ns) from = went_on_ns;
    /* Anew at a loss, which lets go what waited for that one: rota_gate_keeps saw it. */
    const uint64_t lost_ns = ra_load_relaxed(&runtime->lost_ns);
    if (from < lost_ns) from = lost_ns;
    if (now > from && now - from > runtime->options.timeout_ns)
        rota_device_set_lost(other, "no progress within the deadline while other devices waited for it");
    return true;
}

/* Has the submit thread woken when the point is reached (rota_device_wake_holders). */
static void watch_for(rota_device *device, uint64_t point) {
    const uint64_t value = rota_point_value(point);
    rota_timeline *timeline = rota_runtime_timeline(device->runtime, point);
    const uint64_t mine = (uint64_t)1 << device->index;
    if (rota_point_passed(device->runtime, point)) return;
    bool watched = ra_load_relaxed(&timeline->holders) & mine;
    if (!watched || value < ra_load_relaxed(&timeline->blocked_for[device->index]))
        ra_store_seq_cst(&timeline->blocked_for[device->index], value);
    /* Both before the last look at the timeline; who moves it does so first. */
    if (!watched) (void)ra_fetch_or_seq_cst(&timeline->holders, mine);
}

/* Not what keeps it now: nobody is woken when something fails, and who was told of a loss before may find what it
 * brings only then. */
void rota_blocked_watch(rota_submitter *submitter, const rota_work *work) {
    rota_device *device = submitter->device;
    rota_assert_submitter(submitter);
    for_points(device, work, watch_for);
    (void)for_undecided(submitter, work, watch_for);
    if (work->has_after) rota_external_wait_watch(&work->submission->seldom.after, device->index);
}

void rota_blocked_watch_nothing(rota_submitter *submitter) {
    rota_device *device = submitter->device;
    rota_assert_submitter(submitter);
    rota_runtime *runtime = device->runtime;
    const uint64_t mine = (uint64_t)1 << device->index;
    for (uint32_t q = 0; q < runtime->queue_count; q++) {
        const rota_work *first = submitter->blocked_first[q];
        if (first && first->has_after)
            rota_external_wait_watch_nothing(&first->submission->seldom.after, device->index);
    }
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++)
        for (uint32_t q = 0; q < runtime->queue_count; q++) {
            rota_timeline *timeline = &runtime->devices[d]->timelines[q];
            if (ra_load_relaxed(&timeline->holders) & mine)
                (void)ra_fetch_and_seq_cst(&timeline->holders, ~mine);
        }
}

static void for_first(rota_submitter *submitter, keeper_fn fn) {
    rota_device *device = submitter->device;
    for (uint32_t q = 0; q < device->runtime->queue_count; q++)
        if (submitter->blocked_first[q]) (void)for_keepers(device, submitter->blocked_first[q], fn);
}

void rota_blocked_give_up(rota_submitter *submitter) {
    rota_assert_submitter(submitter);
    see_losses(submitter); /* of a thread that looks for work for long, and so takes none */
    for_first(submitter, give_up_on);
}

bool rota_blocked_any_ready(rota_submitter *submitter) {
    rota_device *device = submitter->device;
    rota_assert_submitter(submitter);
    for (uint32_t q = 0; q < device->runtime->queue_count; q++)
        if (submitter->blocked_first[q] && is_ready(submitter, submitter->blocked_first[q])) return true;
    return false;
}

static bool awaits_hand_over(rota_device *device, rota_work *work, uint64_t foreign) {
    (void)device, (void)work;
    return !(foreign & ROTA_FOREIGN_WAIT_ON_DEVICE);
}

/* Where a work is only to be handed over on the other side, that takes a driver's call, less than going to
 * sleep. */
bool rota_blocked_look_for_signal(rota_submitter *submitter) {
    rota_device *device = submitter->device;
    rota_assert_submitter(submitter);
    bool worth = false, over = false;
    for (uint32_t q = 0; q < device->runtime->queue_count; q++)
        if (submitter->blocked_first[q])
            worth = worth || !for_keepers(device, submitter->blocked_first[q], awaits_hand_over);
    rota_spin spin = rota_spin_begin(ACROSS_SPIN_NS);
    while (worth && !over && rota_spin_yields(&spin)) /* whoever hands it over may need this core */
        over = rota_blocked_any_ready(submitter) || ra_load_acquire(&device->runtime->stop) ||
               !rota_ring_seems_empty_spsc(&device->handover.ring);
    (void)ra_fetch_add_relaxed(&device->runtime->stats.spin_ns, rota_spin_ns(&spin));
    return over;
}
