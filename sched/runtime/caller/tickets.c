/* Tickets: asked for, waited for and watched. */
#include <stdlib.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/given.h"
#include "base/patience.h"
#include "base/spin.h"
#include "sched/runtime/kinds/kinds.h"
#include "sched/runtime/shared/cancel.h"
#include "sched/runtime/shared/external_timeline.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/pins.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/progress.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/text.h"
#include "sched/runtime/shared/ticket_state.h"
#include "sched/runtime/shared/timeline.h"

#define WAIT_SPIN_NS 10000u

static rota_status check_ticket(rota_ticket ticket) {
    if (!ticket.runtime || !ticket.id)
        return rota_fail(ROTA_INVALID_ARGUMENT, "the ticket names no submission");
    if (!rota_runtime_is_known(ticket.runtime)) return rota_not_a_ticket();
    return rota_runtime_check(ticket.runtime);
}

rota_status rota_poll(rota_ticket ticket) {
    ROTA_TRY(check_ticket(ticket));
    rota_status status = rota_ticket_status(ticket);
    if (status == ROTA_BUSY) (void)rota_fail(ROTA_BUSY, "the submission is not complete yet");
    return status;
}

rota_status rota_ticket_number(rota_ticket ticket, uint64_t *out_number) {
    ROTA_GIVEN(out_number);
    *out_number = 0;
    ROTA_TRY(check_ticket(ticket));
    rota_cell_view view;
    ROTA_TRY(rota_ticket_view(ticket, &view, NULL));
    /* Of some that are older the number may be left: which ones, nobody could say. */
    const rota_lane *lane = rota_lane_at(&ticket.runtime->lanes, rota_ticket_lane(ticket.id));
    if (view.old || ra_load_relaxed(&lane->sequence) - rota_ticket_sequence(ticket.id) >= ROTA_TICKET_HISTORY)
        return rota_fail(ROTA_NOT_FOUND, "the numbers of a thread's last %d submissions are kept",
                         ROTA_TICKET_HISTORY);
    if (view.number == 0) return rota_fail(ROTA_BUSY, "the submission has no number yet");
    *out_number = view.number;
    return ROTA_OK;
}

/* ---- Deadlines ---- */

static uint32_t devices_of(rota_runtime *runtime) {
    return ra_load_acquire(&runtime->device_count);
}

/* The ticket's submission, pinned, where it is sequenced and has not been recycled; else NULL. */
static rota_submission *pin_viewed(const rota_cell_view *view, rota_cell *cell) {
    if (view->old || view->point == ROTA_POINT_NONE) return NULL;
    return rota_submission_pin(ra_load_acquire(&cell->submission), view->number);
}

/* The sentence of P2, of the submission where it can be pinned (pins.c) as long as that takes. */
static rota_status timed_out(rota_ticket ticket, uint64_t timeout_ns, const char *what) {
    rota_runtime *runtime = ticket.runtime;
    char text[ROTA_ERROR_MESSAGE_MAX];
    size_t length = 0;
    rota_append(text, sizeof text, &length, "%s after %.3f s without %s: ", "deadline passed",
                (double)timeout_ns * 1e-9, what);
    rota_cell_view view;
    rota_cell *cell;
    const bool known = rota_ticket_view(ticket, &view, &cell) == ROTA_OK;
    rota_submission *submission = known ? pin_viewed(&view, cell) : NULL;
    if (submission) {
        const rota_kind *kind = &rota_kinds[submission->kind];
        const bool is_cancelled = rota_submission_cancelled_by(submission) != ROTA_CANCELLED_BY_NOBODY;
        rota_append(text, sizeof text, &length, "%s '%s', submission %llu%s", kind->noun,
                    kind->name(submission), (unsigned long long)submission->number,
                    is_cancelled ? ", which is cancelled and ends after what comes before it" : "");
        if (kind->describe) kind->describe(runtime, submission, text, sizeof text, &length);
        rota_submission_unpin(runtime, submission);
    } else {
        rota_append(text, sizeof text, &length, "a submission that %s",
                    known && !view.old && view.point == ROTA_POINT_NONE ? "was not sequenced yet"
                                                                        : "has ended meanwhile");
    }
    const uint32_t devices = devices_of(runtime);
    for (uint32_t d = 0; d < devices; d++)
        for (uint32_t q = 0; q < runtime->queue_count; q++) {
            rota_timeline *timeline = &runtime->devices[d]->timelines[q];
            if (q >= runtime->plan_queue_count && !ra_load_relaxed(&timeline->issued)) continue;
            rota_append(text, sizeof text, &length, "%s'%s' queue %u at %llu of %llu",
                        d + q ? ", " : "; timelines: ", runtime->devices[d]->id, q,
                        (unsigned long long)ra_load_acquire(&timeline->completed),
                        (unsigned long long)ra_load_acquire(&timeline->issued));
        }
    return rota_fail(ROTA_TIMEOUT, "%s", text);
}

typedef struct waiting {
    rota_ticket ticket;
    bool (*done)(rota_ticket ticket);
    rota_lane *lane;
    rota_progress progress;
    uint64_t point;      /* that it sleeps for */
    bool is_sequenced;   /* and its chain watched */
    bool is_by_delivery; /* it ends when the completer has delivered it */
    uint64_t sequenced;  /* until then: how many submissions were */
    uint64_t delivered;  /* how many deliveries were over */
} waiting;

static bool ended(rota_ticket ticket) {
    return rota_ticket_status(ticket) != ROTA_BUSY;
}
static bool wait_is_over(void *user) {
    const waiting *wait = user;
    return wait->done(wait->ticket);
}
/* Nobody wakes the timeline's sleepers for what is left of a ticket after that, as is a delivery. */
static bool point_is_over(void *user) {
    const waiting *wait = user;
    return rota_point_passed(wait->ticket.runtime, wait->point) || wait_is_over(user);
}

/* Sleeps on whatever the ticket waits for next: being sequenced, its timeline, or the completer. */
static void sleep_once(waiting *wait, uint64_t deadline_ns) {
    rota_runtime *runtime = wait->ticket.runtime;
    rota_cell_view view;
    if (rota_ticket_view(wait->ticket, &view, NULL) != ROTA_OK || view.old) return;
    if (view.point == ROTA_POINT_NONE) {
        rota_lane *lane = wait->lane;
        uint32_t word = ra_load_seq_cst(&lane->taken_word);
        /* With the sequencer, which stores a ticket's point, then `head` (seq_cst), and then looks for
         * sleepers: it sees this one, or this load sees its head and with it the point. */
        (void)ra_fetch_add_seq_cst(&lane->sleepers, 1);
        (void)ra_load_seq_cst(&lane->head);
        if (rota_ticket_view(wait->ticket, &view, NULL) == ROTA_OK && !view.old &&
            view.point == ROTA_POINT_NONE)
            (void)rota_futex_wait(&lane->taken_word, word, deadline_ns);
        (void)ra_fetch_add_seq_cst(&lane->sleepers, (uint32_t)-1);
        return;
    }
    bool passed = rota_point_passed(runtime, view.point);
    wait->point = view.point;
    if (!passed &&
        (wait->done == ended || runtime->devices[rota_point_device(view.point)]->exec->caps.unified_host))
        rota_wait_table_sleep(&rota_runtime_timeline(runtime, view.point)->waiters,
                              rota_point_value(view.point), point_is_over, wait, deadline_ns);
    else
        rota_wait_table_sleep(&runtime->completing.delivery_waiters, 1, wait_is_over, wait, deadline_ns);
}

/* What a delivery comes after, beside its own works. */
static void watch_delivery(waiting *wait, const rota_cell_view *view, rota_cell *cell) {
    wait->is_by_delivery = true;
    rota_submission *submission = pin_viewed(view, cell);
    if (!submission) { /* it is over; or failed, and there was no memory for its place: all came before */
        const uint32_t devices = devices_of(wait->ticket.runtime);
        for (uint32_t d = 0; d < devices; d++)
            rota_progress_watch_device(&wait->progress, wait->ticket.runtime->devices[d]);
        return;
    }
    rota_progress_watch_points(&wait->progress, submission->delivery.after, submission->delivery.after_count);
    rota_submission_unpin(wait->ticket.runtime, submission);
}

/* When what the ticket waits for last got on: until it is sequenced that is the sequencer, which has a finite
 * number of submissions to take before it; then its chain, with what its delivery comes after; and when all
 * of that has passed the completer, which then has a finite number of deliveries to make before it. */
static uint64_t last_progress(waiting *wait) {
    rota_runtime *runtime = wait->ticket.runtime;
    if (!wait->is_sequenced) {
        rota_cell_view view;
        rota_cell *cell;
        const uint64_t sequenced = ra_load_relaxed(&runtime->stats.submissions);
        if (sequenced != wait->sequenced) wait->progress.since_ns = rota_clock_ns();
        wait->sequenced = sequenced;
        if (rota_ticket_view(wait->ticket, &view, &cell) == ROTA_OK && !view.old &&
            view.point != ROTA_POINT_NONE) {
            wait->is_sequenced = true;
            rota_progress_watch_chain(&wait->progress, view.point);
            if (view.state & ROTA_CELL_BY_DELIVERY && wait->done == ended) watch_delivery(wait, &view, cell);
        }
    }
    (void)rota_progress_look(&wait->progress);
    const uint64_t delivered = ra_load_relaxed(&runtime->completing.delivered);
    if (wait->is_by_delivery && wait->progress.count == 0 && delivered != wait->delivered)
        wait->progress.since_ns = rota_clock_ns();
    wait->delivered = delivered;
    return wait->progress.since_ns;
}

/* The calling thread's, with all of its waits. */
static _Thread_local rota_patience waits;

/* Before it sleeps: whether the wait is over. */
static bool look_for_end(rota_ticket ticket, bool (*done)(rota_ticket), uint64_t timeout_ns) {
    const uint64_t asked_ns = ticket.runtime->options.spin_ns;
    const uint64_t spin_ns = rota_patience_ns(&waits, asked_ns > WAIT_SPIN_NS ? asked_ns : WAIT_SPIN_NS);
    rota_spin looking = rota_patience_spin(&waits, spin_ns < timeout_ns ? spin_ns : timeout_ns, asked_ns);
    bool is_over = false;
    while (!is_over &&
           rota_spin_yields(&looking)) /* rota's threads may need this core to bring the end about */
        is_over = done(ticket);
    rota_patience_note(&waits, &looking);
    if (is_over) rota_patience_learn(&waits, rota_spin_ns(&looking));
    return is_over;
}

static rota_status wait_until(rota_ticket ticket, bool (*done)(rota_ticket), uint64_t timeout_ns,
                              const char *what) {
    rota_runtime *runtime = ticket.runtime;
    if (done(ticket)) return ROTA_OK;
    uint64_t start = rota_clock_ns();
    bool from_progress = timeout_ns == 0;
    if (from_progress) timeout_ns = runtime->options.timeout_ns;
    waiting wait; /* its list of what is watched begins empty */
    wait.ticket = ticket;
    wait.done = done;
    wait.lane = rota_lane_at(&runtime->lanes, rota_ticket_lane(ticket.id));
    wait.is_sequenced = wait.is_by_delivery = false;
    if (look_for_end(ticket, done, timeout_ns)) return ROTA_OK;
    rota_progress_begin(&wait.progress, runtime);
    wait.progress.since_ns = start;
    wait.sequenced = ra_load_relaxed(&runtime->stats.submissions);
    wait.delivered = ra_load_relaxed(&runtime->completing.delivered);
    for (;;) {
        uint64_t from = from_progress ? last_progress(&wait) : start;
        uint64_t deadline = timeout_ns > UINT64_MAX - from ? UINT64_MAX : from + timeout_ns;
        uint64_t now = rota_clock_ns();
        if (now >= deadline) {
            rota_patience_learn(&waits, UINT64_MAX); /* it did not come soon, however short the timeout is */
            return timed_out(ticket, timeout_ns, what);
        }
        /* Inputs are taken by a submit thread that tells the completer's waiters; a slice bounds a missed
         * one. */
        uint64_t slice = now + 100000000u;
        sleep_once(&wait, deadline < slice ? deadline : slice);
        if (done(ticket)) {
            rota_patience_learn(&waits, rota_clock_ns() - start);
            return ROTA_OK;
        }
        rota_status checked = rota_runtime_check(runtime);
        if (checked != ROTA_OK) return checked;
    }
}

rota_status rota_wait(rota_ticket ticket, uint64_t timeout_ns) {
    ROTA_TRY(check_ticket(ticket));
    for (;;) {
        ROTA_TRY(wait_until(ticket, ended, timeout_ns, "completion"));
        rota_status status = rota_ticket_status(ticket);
        if (status != ROTA_BUSY) return status; /* of a lost device that went on after all */
    }
}

rota_status rota_wait_inputs_taken(rota_ticket ticket, uint64_t timeout_ns) {
    rota_cell_view view;
    ROTA_TRY(check_ticket(ticket));
    ROTA_TRY(rota_ticket_view(ticket, &view, NULL));
    return wait_until(ticket, rota_ticket_taken, timeout_ns, "the inputs being taken");
}

/* ---- Cancelled ---- */

/* Before the record is taken the sequencer has to find what was asked; afterwards this thread tells the submission,
 * which it keeps for that (pins.c). Of one that is being taken meanwhile one of the two sees the other: tell_lanes in
 * sequencer.c. */
rota_status rota_ticket_cancel(rota_ticket ticket) {
    ROTA_TRY(check_ticket(ticket));
    rota_runtime *runtime = ticket.runtime;
    rota_cell_view view;
    rota_cell *cell;
    ROTA_TRY(rota_ticket_view(ticket, &view, &cell));
    rota_lane *lane = rota_lane_at(&runtime->lanes, rota_ticket_lane(ticket.id));
    if (view.old || !rota_lane_ask_cancel(runtime, lane, ticket.id)) return ROTA_OK; /* it has ended */
    ROTA_TRY(rota_ticket_view(ticket, &view, &cell));
    rota_submission *submission = pin_viewed(&view, cell);
    if (!submission) return ROTA_OK;
    /* Else it has ended by now: nothing of it can begin, and nobody is to ask. */
    if (!rota_point_passed(runtime, view.point))
        rota_submission_cancel(runtime, submission, ROTA_CANCELLED_BY_CALL);
    rota_submission_unpin(runtime, submission); /* also has the sequencer look at cancels_asked */
    return ROTA_OK;
}

/* ---- Callbacks ---- */

static rota_status watch(rota_ticket ticket, rota_ticket_fn fn, void *user, int eventfd) {
    rota_completion *completion = calloc(1, sizeof *completion);
    if (!completion) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory to watch a ticket");
    completion->kind = fn ? ROTA_COMPLETION_CALLBACK : ROTA_COMPLETION_EVENTFD;
    completion->u.watch.ticket = ticket;
    completion->u.watch.fn = fn;
    completion->u.watch.user = user;
    completion->u.watch.eventfd = eventfd;
    rota_completer_push(ticket.runtime, completion);
    return ROTA_OK;
}

rota_status rota_ticket_on_complete(rota_ticket ticket, rota_ticket_fn fn, void *user) {
    ROTA_TRY(check_ticket(ticket));
    if (!fn) return rota_fail(ROTA_INVALID_ARGUMENT, "the callback is NULL");
    rota_status status = rota_ticket_status(ticket);
    if (status == ROTA_BUSY) return watch(ticket, fn, user, -1);
    if (status == ROTA_INVALID_ARGUMENT || status == ROTA_WRONG_STATE) return status;
    fn(user, status, status == ROTA_OK ? "" : rota_last_error());
    return ROTA_OK;
}

rota_status rota_ticket_eventfd(rota_ticket ticket, int eventfd) {
    ROTA_TRY(check_ticket(ticket));
    if (eventfd < 0) return rota_fail(ROTA_INVALID_ARGUMENT, "eventfd %d is not a file descriptor", eventfd);
    rota_status status = rota_ticket_status(ticket);
    if (status == ROTA_INVALID_ARGUMENT || status == ROTA_WRONG_STATE) return status;
    return watch(ticket, NULL, NULL, eventfd);
}

rota_status rota_ticket_export(rota_ticket ticket, rota_external_timeline *timeline, uint64_t value) {
    ROTA_GIVEN(timeline);
    ROTA_TRY(check_ticket(ticket));
    if (timeline->opened.runtime != ticket.runtime)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "external timeline '%s' is of another runtime than the ticket", timeline->name);
    ROTA_TRY(rota_opened_check(timeline->opened));
    const rota_status status = rota_ticket_status(ticket);
    if (status == ROTA_INVALID_ARGUMENT || status == ROTA_WRONG_STATE) return status;
    rota_completion *completion = calloc(1, sizeof *completion);
    if (!completion) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory to watch a ticket");
    completion->kind = ROTA_COMPLETION_EXTERNAL;
    completion->u.watch.ticket = ticket;
    completion->u.watch.external = (rota_external_point){timeline, value};
    rota_external_timeline_retain(timeline);
    rota_completer_push(ticket.runtime, completion);
    return ROTA_OK;
}
