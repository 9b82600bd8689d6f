/* rota_submit: what a caller does. Lock-free; nothing here allocates or enters a driver. */
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/sized_copy.h"
#include "sched/runtime/plans/args.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/plans/handle.h"
#include "sched/runtime/shared/external_timeline.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/progress.h"
#include "sched/runtime/shared/runtime.h"

_Static_assert(ROTA_PAYLOAD_WORDS_MAX + ROTA_AFTER_WORDS <= ROTA_LANE_WORDS / 2, "an empty lane has room");

/* Of a plan without an argument set: words of slots that no node uses. */
#define WORDS_WITHOUT_ARGS 64

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

/* The points stand behind the plan's own words: in the arguments' memory, which has room for them, or, of a plan
 * without arguments, which has hardly any, here. */
static rota_status publish_after(rota_plan *plan, rota_args *args, const uint64_t *payload,
                                 const uint64_t *after, rota_ticket *out_ticket) {
    uint64_t words[WORDS_WITHOUT_ARGS + ROTA_AFTER_WORDS];
    const uint32_t own = plan->executable->arguments.payload_words, more = rota_after_words(after);
    if (!args && own > WORDS_WITHOUT_ARGS)
        return rota_fail(
            ROTA_INVALID_ARGUMENT,
            "plan '%s' has %u words of arguments, though no node takes one, and comes after points or has a "
            "deadline: it needs an argument set (rota_args_create)",
            plan->name, own);
    uint64_t *all = args ? args->payload : words;
    if (!args) memcpy(words, payload, own * sizeof *words);
    memcpy(all + own, after, more * sizeof *all);
    rota_external_wait_retain(after); /* first: the sequencer's from then on */
    rota_ticket ticket;
    const rota_status status =
        rota_lane_publish(plan->runtime, ROTA_RECORD_PLAN_AFTER, plan,
                          args && rota_args_copies(args) ? args : NULL, all, own + more, &ticket);
    if (status != ROTA_OK) {
        rota_external_wait_release(after);
        return status;
    }
    if (args) rota_args_submitted(args, ticket);
    if (out_ticket) *out_ticket = ticket;
    return ROTA_OK;
}

/* To the devices that let it in. */
static rota_status publish(rota_plan *plan, rota_args *args, const uint64_t *after, rota_ticket *out_ticket) {
    if (ra_load_relaxed(&plan->executable->sidelined) >= ROTA_SIDELINED_MAX)
        return rota_fail(ROTA_BUSY, "plan '%s': %d of its submissions wait for other devices, at most %d may",
                         plan->name, ROTA_SIDELINED_MAX, ROTA_SIDELINED_MAX);
    const uint64_t *payload;
    ROTA_TRY(rota_args_payload(plan, args, &payload));
    if (after) return publish_after(plan, args, payload, after, out_ticket);
    rota_ticket ticket;
    ROTA_TRY(rota_lane_publish(plan->runtime, ROTA_RECORD_PLAN, plan,
                               args && rota_args_copies(args) ? args : NULL, payload,
                               plan->executable->arguments.payload_words, &ticket));
    if (args) rota_args_submitted(args, ticket);
    if (out_ticket) *out_ticket = ticket;
    return ROTA_OK;
}

static rota_status submit_now(rota_plan *plan, rota_args *args, const uint64_t *after,
                              rota_ticket *out_ticket) {
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
    return publish(plan, args, after, out_ticket);
}

rota_status rota_submit(rota_plan *plan, rota_args *args, rota_ticket *out_ticket) {
    return submit_now(plan, args, NULL, out_ticket);
}

/* ---- Waiting for room ---- */

typedef struct waiter {
    rota_plan *plan;
    const uint64_t *after; /* what it comes after outside, as a record has it; NULL: nothing */
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
        rota_status status = publish(w->plan, args, w->after, out_ticket);
        if (w->turns && status == ROTA_OK) rota_turns_count(w->turns);
        leave_turn(w);
        if (status != ROTA_BUSY) return status;
        rota_lane *lane = rota_lane_of_thread(w->plan->runtime, &index);
        ROTA_TRY(nap(w, lane ? ra_load_relaxed(&lane->head) : 0, false));
    }
}

static rota_status submit_waiting(rota_plan *plan, rota_args *args, const uint64_t *after,
                                  uint64_t timeout_ns, rota_ticket *out_ticket) {
    rota_status status = submit_now(plan, args, after, out_ticket);
    if (status != ROTA_BUSY) return status;
    waiter w; /* its list of what is watched begins empty */
    w.plan = plan;
    w.after = after;
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

rota_status rota_submit_wait(rota_plan *plan, rota_args *args, uint64_t timeout_ns, rota_ticket *out_ticket) {
    return submit_waiting(plan, args, NULL, timeout_ns, out_ticket);
}

/* The points and the deadline as a record has them. */
static rota_status take_points(const rota_plan *plan, const rota_submit_options *options,
                               uint64_t *out_words) {
    const uint64_t now = options->deadline_ns ? rota_clock_ns() : 0; /* of the call */
    if (options->after_count > ROTA_AFTER_MAX || (options->after_count && !options->after))
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "rota_submit_options has %u points at %p, expected at most %d", options->after_count,
                         (const void *)options->after, ROTA_AFTER_MAX);
    out_words[0] = options->after_count;
    out_words[1] = options->after_timeout_ns;
    for (uint32_t i = 0; i < options->after_count; i++) {
        rota_external_timeline *timeline = options->after[i].timeline;
        if (!timeline)
            return rota_fail(ROTA_INVALID_ARGUMENT, "rota_submit_options.after[%u].timeline is NULL", i);
        if (plan && plan->runtime && timeline->opened.runtime != plan->runtime)
            return rota_fail(ROTA_INVALID_ARGUMENT,
                             "external timeline '%s' is of another runtime than plan '%s'", timeline->name,
                             plan->name);
        ROTA_TRY(rota_opened_check(timeline->opened)); /* a later runtime may have the handle */
        out_words[2 + 2 * i] = (uint64_t)(uintptr_t)timeline;
        out_words[3 + 2 * i] = options->after[i].value;
    }
    const uint64_t late = options->deadline_ns > UINT64_MAX - now ? UINT64_MAX : now + options->deadline_ns;
    out_words[2 + 2 * options->after_count] = options->deadline_ns ? late : 0;
    return ROTA_OK;
}

rota_status rota_submit_with(rota_plan *plan, const rota_submit_options *options, rota_ticket *out_ticket) {
    rota_submit_options room = ROTA_SUBMIT_OPTIONS();
    if (out_ticket) *out_ticket = (rota_ticket){NULL, 0};
    options = options ? ROTA_SIZED_IN(rota_submit_options, options, &room) : &room;
    if (!options) return ROTA_INVALID_ARGUMENT;
    uint64_t words[ROTA_AFTER_WORDS];
    const uint64_t *after = options->after_count || options->deadline_ns ? words : NULL;
    if (after) ROTA_TRY(take_points(plan, options, words));
    if (!options->no_wait) return submit_waiting(plan, options->args, after, options->timeout_ns, out_ticket);
    if (options->timeout_ns)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "rota_submit_options has no_wait, and a timeout_ns of %llu; expected one of them",
                         (unsigned long long)options->timeout_ns);
    return submit_now(plan, options->args, after, out_ticket);
}
