/* rota_submit: what a caller does. Lock-free; nothing here allocates or enters a driver. */
#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/sized_copy.h"
#include "sched/runtime/plans/args.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/plans/handle.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/progress.h"
#include "sched/runtime/shared/runtime.h"

/* Whether the device has so much unfinished that more would only pile up. What waits on side queues keeps its own
 * plan from more, and no other. */
static bool has_backlog(const rota_device *device) {
    uint32_t queues = ra_load_relaxed(&device->queues_used);
    if (queues > device->runtime->plan_queue_count) queues = device->runtime->plan_queue_count;
    for (uint32_t q = 0; q < queues; q++) {
        const rota_timeline *timeline = &device->timelines[q];
        uint64_t issued = ra_load_relaxed(&timeline->issued),
                 completed = ra_load_relaxed(&timeline->completed);
        if (issued > completed && issued - completed > ROTA_DEVICE_BACKLOG && !rota_device_is_lost(device))
            return true;
    }
    return false;
}

static rota_status check(const rota_plan *plan) {
    if (!plan || !plan->runtime || !plan->executable)
        return rota_fail(ROTA_INVALID_ARGUMENT, "plan '%s' can't be submitted: " ROTA_PLAN_ANALYSED,
                         plan ? plan->name : "(NULL)");
    return rota_plan_check(plan);
}

/* To the devices that let it in. */
static rota_status publish(rota_plan *plan, rota_args *args, rota_ticket *out_ticket) {
    if (ra_load_relaxed(&plan->executable->sidelined) >= ROTA_SIDELINED_MAX)
        return rota_fail(ROTA_BUSY, "plan '%s': %d of its submissions wait for other devices, at most %d may",
                         plan->name, ROTA_SIDELINED_MAX, ROTA_SIDELINED_MAX);
    const uint64_t *payload;
    ROTA_TRY(rota_args_payload(plan, args, &payload));
    rota_ticket ticket;
    ROTA_TRY(rota_lane_publish(plan->runtime, ROTA_RECORD_PLAN, plan,
                               args && rota_args_copies(args) ? args : NULL, payload,
                               plan->executable->arguments.payload_words, &ticket));
    if (args) rota_args_submitted(args, ticket);
    if (out_ticket) *out_ticket = ticket;
    return ROTA_OK;
}

rota_status rota_submit(rota_plan *plan, rota_args *args, rota_ticket *out_ticket) {
    if (out_ticket) *out_ticket = (rota_ticket){NULL, 0};
    ROTA_TRY(check(plan));
    for (uint32_t p = 0; p < plan->partition_count; p++) {
        rota_device *device = plan->partitions[p].device;
        if (has_backlog(device))
            return rota_fail(ROTA_BUSY, "plan '%s': its device has more than %d works unfinished", plan->name,
                             ROTA_DEVICE_BACKLOG);
        if (!rota_turns_are_none(&device->turns) && !rota_turns_lapse(&device->turns, rota_clock_ns()))
            return rota_fail(ROTA_BUSY, "plan '%s': other calls wait for room on device '%s'", plan->name,
                             device->id);
    }
    return publish(plan, args, out_ticket);
}

/* ---- Waiting for room ---- */

typedef struct waiter {
    rota_plan *plan;
    bool from_progress;
    uint64_t start_ns, timeout_ns, pause_ns;
    rota_progress progress;
    uint64_t seen;     /* of what else counts as progress: see nap */
    rota_turns *turns; /* where it is its turn, or NULL */
    uint64_t number;
} waiter;

/* Room comes as the plan's devices get on with what they have. */
static void watch_devices(waiter *w) {
    rota_progress_begin(&w->progress, w->plan->runtime);
    for (uint32_t p = 0; p < w->plan->partition_count; p++)
        rota_progress_watch_device(&w->progress, w->plan->partitions[p].device);
}

/* One sleep, on a number's turn or for a short while; TIMEOUT, with what keeps the call, at the deadline.
 * Each change of `seen` is progress, of which there is a finite number: turns before the call's own that
 * led to a submission (one that was given up, or lapsed, did not), or records of its thread that were not
 * taken. */
static rota_status nap(waiter *w, uint64_t seen, bool is_later) {
    if (w->seen != seen && w->from_progress) watch_devices(w);
    w->seen = seen;
    const uint64_t from = w->from_progress ? rota_progress_look(&w->progress) : w->start_ns;
    const uint64_t now = rota_clock_ns();
    if (now > from && now - from > w->timeout_ns)
        return rota_fail_context(ROTA_TIMEOUT, "no room within %.3f s: ", (double)w->timeout_ns * 1e-9);
    if (is_later) {
        rota_turns_sleep(w->turns, w->number, now + ROTA_TURN_LAPSE_NS / 2);
    } else {
        rota_nap_until(now + w->pause_ns);
        if (w->pause_ns < 200000) w->pause_ns *= 2;
    }
    return rota_runtime_check(w->plan->runtime);
}

static void leave_turn(waiter *w) {
    if (w->turns) rota_turns_leave(w->turns, w->number);
    w->turns = NULL;
}

/* Once it has been a call's turn on a device it goes on, though room there be taken while it waits for
 * another one's: a device may so be given one work more than its backlog for each thread. The last turn is
 * kept until the submission is published, so that those are in order, too. */
static rota_status wait_for_turn(waiter *w, rota_device *device) {
    rota_turns *turns = &device->turns;
    if (!has_backlog(device) && rota_turns_are_none(turns)) return ROTA_OK;
    leave_turn(w);
    w->turns = turns;
    w->number = rota_turns_take(turns);
    w->pause_ns = 20000;
    for (;;) {
        const bool has_room = !has_backlog(device);
        const rota_turn turn = rota_turns_look(turns, w->number, has_room, rota_clock_ns());
        if (turn == ROTA_TURN_NOW && has_room) return ROTA_OK;
        if (turn == ROTA_TURN_LAPSED) {
            w->number = rota_turns_take(turns);
            continue;
        }
        (void)rota_fail(ROTA_BUSY,
                        "plan '%s': device '%s' has more than %d works unfinished, or other calls "
                        "wait for room there",
                        w->plan->name, device->id, ROTA_DEVICE_BACKLOG);
        ROTA_TRY(nap(w, rota_turns_counted(turns), turn == ROTA_TURN_LATER));
    }
}

/* Room that only this thread takes: in its lane, or its arguments' copies. */
static rota_status wait_for_lane(waiter *w, rota_args *args, rota_ticket *out_ticket) {
    uint32_t index;
    w->pause_ns = 20000;
    for (;;) {
        rota_status status = publish(w->plan, args, out_ticket);
        if (w->turns && status == ROTA_OK) rota_turns_count(w->turns);
        leave_turn(w);
        if (status != ROTA_BUSY) return status;
        rota_lane *lane = rota_lane_of_thread(w->plan->runtime, &index);
        ROTA_TRY(nap(w, lane ? ra_load_relaxed(&lane->head) : 0, false));
    }
}

rota_status rota_submit_wait(rota_plan *plan, rota_args *args, uint64_t timeout_ns, rota_ticket *out_ticket) {
    rota_status status = rota_submit(plan, args, out_ticket);
    if (status != ROTA_BUSY) return status;
    waiter w; /* its list of what is watched begins empty */
    w.plan = plan;
    w.from_progress = timeout_ns == 0;
    w.timeout_ns = w.from_progress ? plan->runtime->options.timeout_ns : timeout_ns;
    w.seen = 0;
    w.turns = NULL;
    watch_devices(&w);
    w.start_ns = w.progress.since_ns;
    status = ROTA_OK;
    for (uint32_t p = 0; p < plan->partition_count && status == ROTA_OK; p++)
        status = wait_for_turn(&w, plan->partitions[p].device);
    if (status == ROTA_OK) status = wait_for_lane(&w, args, out_ticket);
    leave_turn(&w);
    return status;
}

rota_status rota_submit_with(rota_plan *plan, const rota_submit_options *options, rota_ticket *out_ticket) {
    rota_submit_options room = ROTA_SUBMIT_OPTIONS();
    if (out_ticket) *out_ticket = (rota_ticket){NULL, 0};
    options = options ? ROTA_SIZED_IN(rota_submit_options, options, &room) : &room;
    if (!options) return ROTA_INVALID_ARGUMENT;
    if (!options->no_wait) return rota_submit_wait(plan, options->args, options->timeout_ns, out_ticket);
    if (options->timeout_ns)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "rota_submit_options has no_wait, and a timeout_ns of %llu; expected one of them",
                         (unsigned long long)options->timeout_ns);
    return rota_submit(plan, options->args, out_ticket);
}
