/* What tickets.c explores: a runtime of one device and one lane, whose tickets end as they are told to; what is called
 * beside it, in short; and what each of the threads does. Included once. */
#ifndef ROTA_TESTS_EXPLORE_TICKETS_WORLD_H
#define ROTA_TESTS_EXPLORE_TICKETS_WORLD_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "explore.h"
#include "sched/runtime/kinds/kinds.h"
#include "sched/runtime/sequencer/cancels.h"
#include "sched/runtime/sequencer/reap.h"
#include "sched/runtime/sequencer/record.h"
#include "sched/runtime/sequencer/sequencer.h"
#include "sched/runtime/shared/cancel.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/chain_entries.h"
#include "sched/runtime/shared/end_times.h"
#include "sched/runtime/shared/failures.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/pins.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/progress.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/submitter/ring.h"

enum { TICKETS = 6, QUEUES = 2 };
#define FIRST ((uint64_t)ROTA_CHUNK_CELLS) /* the first ticket's sequence */
#define LONG (UINT64_MAX / 4)
#define TIMEOUT_NS 150000000u
#define SLICE_NS 100000000u /* of wait_until: it looks again that often */

void *rota_sequencer_main(void *user);
rota_status rota_sequencer_create(rota_runtime *runtime);
extern void lanes_forget_threads(void);

static rota_runtime runtime;
static rota_device device;
static rota_outbox outbox;
static rota_timeline timelines[QUEUES];
static rota_lane lane;
static rota_lane_store store;
static rota_submission submissions[TICKETS];
static const rota_cause causes[TICKETS] = {
    {NULL, ROTA_NODE_FAILED, 11, "submission " ROTA_CAUSE_NUMBER},
    {NULL, ROTA_UNDEFINED_DATA, 11, "submission " ROTA_CAUSE_NUMBER},
    {NULL, ROTA_OUT_OF_MEMORY, 11, "submission " ROTA_CAUSE_NUMBER},
    {NULL, ROTA_SYSTEM, 11, "submission " ROTA_CAUSE_NUMBER},
    {NULL, ROTA_DEVICE_LOST, 11, "submission " ROTA_CAUSE_NUMBER},
    {NULL, ROTA_INTERNAL, 11, "submission " ROTA_CAUSE_NUMBER},
};
/* What becomes of each ticket. */
static struct {
    bool fails, early; /* early: when it is sequenced */
    bool by_delivery;
} fates[TICKETS];
static unsigned preparing; /* whose calls those of `begin` are */
static bool may_stop;
static _Atomic uint32_t given; /* values of queue 0 that the device has works for */
static _Atomic uint32_t never;
static _Atomic uint32_t noted;    /* a bit per ticket that was cancelled, when the call had returned */
static uint64_t results[TICKETS]; /* plain: there for whoever is told that the ticket is OK */
static rota_submission *by_value[TICKETS + 1];
static unsigned made, recycled; /* the sequencer's, plain */
static bool has_stopped;
static char messages[EXPLORE_THREADS + 1][ROTA_ERROR_MESSAGE_MAX];

/* ---- In place of what is called ---- */

#include "sequencer_rest.h"

/* A thread that says why its wait timed out reads its submission. */
void tickets_pinned(void) {
    if (!may_stop) return;
    has_stopped = true;
    explore_may_stop();
    has_stopped = false;
}

/* A thread that cancels: the first one may stop for ever here. */
void tickets_cancels(void) {
    if (may_stop && explore_self() == 0) explore_may_stop();
}

rota_status rota_fail(rota_status status, const char *format, ...) {
    if (status == ROTA_BUSY) return status;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(messages[lanes_self()], sizeof messages[0], format, arguments);
    va_end(arguments);
    return status;
}

void rota_end_times_add(rota_end_times *end_times, uint64_t value) {
    (void)end_times, (void)value;
}
static const char *name_of(const rota_submission *submission) {
    return submission->access.name;
}
const rota_kind rota_kinds[] = {[ROTA_RECORD_READ] = {.noun = "read of buffer", .name = name_of}};
bool rota_runtime_is_known(const rota_runtime *of) {
    return of == &runtime;
}
rota_status rota_runtime_check(const rota_runtime *of) {
    (void)of;
    return ROTA_OK;
}

/* ---- The sequencer's ---- */

static void forget(rota_submission *submission) {
    rota_chunk_ended(submission->chunk);
    submission->number = 0;
    submission->cell = NULL;
    submission->access.name[0] = 0;
    recycled++;
}

static void let_go(rota_submission *submission) {
    if (rota_submission_unpublish(submission)) {
        forget(submission);
        return;
    }
    submission->next = runtime.sequencer->pool->pinned;
    runtime.sequencer->pool->pinned = submission;
}

void rota_sequence_reap(rota_sequencer *of, bool all) {
    (void)all;
    for (rota_submission **link = &of->pool->pinned; *link;) {
        rota_submission *submission = *link;
        if (rota_submission_unpublish(submission)) {
            *link = submission->next;
            forget(submission);
        } else {
            link = &submission->next;
        }
    }
    rota_timeline *timeline = &timelines[0];
    while (timeline->order.oldest && rota_point_passed(of->runtime, timeline->order.oldest->final_point)) {
        rota_submission *submission = timeline->order.oldest;
        if (submission->by_delivery &&
            ra_load_acquire(&submission->told.delivery_done) == ROTA_DELIVERY_PENDING)
            return;
        timeline->order.oldest = submission->next;
        if (!timeline->order.oldest) timeline->order.newest = NULL;
        let_go(submission);
    }
}

static rota_reason reason_of(unsigned i, uint64_t number) {
    return (rota_reason){&causes[i], number};
}

/* As record.c has it. */
rota_sequenced rota_sequence_record(rota_sequencer *of, rota_lane *from, uint32_t index,
                                    const rota_record *record) {
    rota_cell_chunk *chunk = rota_lane_take(of->runtime, from, record->sequence);
    rota_cell *cell = &chunk->cells[record->sequence % ROTA_CHUNK_CELLS];
    const unsigned i = (unsigned)(record->sequence - FIRST);
    rota_submission *submission = &submissions[i];
    const uint64_t number = ++of->next_number;
    const bool was_noted = ra_load_acquire(&noted) >> i & 1u;
    made++;
    ra_store_release(&cell->number, number);
    submission->next = NULL;
    submission->kind = ROTA_RECORD_READ;
    submission->number = number;
    submission->cell = cell;
    submission->chunk = chunk;
    submission->by_delivery = fates[i].by_delivery;
    ra_store_relaxed(&submission->cancelled, (uint8_t)ROTA_CANCELLED_BY_NOBODY);
    if (ra_load_relaxed(&of->runtime->lanes.cancels_asked) && rota_cell_is_to_cancel(chunk, record->sequence))
        rota_sequencer_cancel(of, submission, ROTA_CANCELLED_BY_CALL);
    explore_check(!was_noted || rota_submission_cancelled_by(submission) == ROTA_CANCELLED_BY_CALL,
                  "ticket %u had been cancelled before its record was taken, and begins", i);
    submission->access.name[0] = (char)('a' + i);
    submission->access.name[1] = 0;
    ra_store_relaxed(&submission->told.delivery_done, ROTA_DELIVERY_PENDING);
    (void)ra_fetch_or_acq_rel(
        &cell->state, (uint32_t)(ROTA_CELL_TAKEN | (fates[i].by_delivery ? ROTA_CELL_BY_DELIVERY : 0)));
    ra_store_release(&cell->submission, submission);
    if (fates[i].early) {
        submission->final_point = ROTA_POINT_PASSED;
        rota_submission_publish(submission);
        rota_ticket_set_failed(of->runtime, cell, ra_load_relaxed(&submission->cell->id), causes[i].status,
                               reason_of(i, number));
        ra_store_release(&cell->point, ROTA_POINT_PASSED);
        let_go(submission);
        return (rota_sequenced){.may_be_over = true};
    }
    const uint64_t value = ra_load_relaxed(&timelines[0].issued) + 1;
    ra_store_relaxed(&timelines[0].issued, value);
    ra_store_relaxed(&timelines[0].handed_over, value);
    submission->final_point = rota_point(0, 0, value);
    by_value[value] = submission;
    if (timelines[0].order.newest)
        timelines[0].order.newest->next = submission;
    else
        timelines[0].order.oldest = submission;
    timelines[0].order.newest = submission;
    rota_submission_publish(submission);
    ra_store_release(&cell->point, submission->final_point);
    ra_store_release(&given, (uint32_t)value); /* as handover.c to the device */
    rota_futex_wake(&given, INT32_MAX);
    return (rota_sequenced){1, true};
}

static void sequence(void) {
    (void)rota_sequencer_main(&runtime);
}

/* ---- Who ends tickets ---- */

static void end_value(uint64_t value) {
    rota_submission *submission = by_value[value];
    const unsigned i = (unsigned)(submission - submissions);
    if (fates[i].fails) /* as judge.c */
        rota_ticket_set_failed(&runtime, submission->cell, ra_load_relaxed(&submission->cell->id),
                               causes[i].status, reason_of(i, submission->number));
    else if (!fates[i].by_delivery)
        results[i] = i + 1;
    rota_device_publish(&device, 0, value);
}

static void wait_until_given(uint32_t value) {
    for (uint32_t seen; (seen = ra_load_acquire(&given)) < value;)
        (void)rota_futex_wait(&given, seen, UINT64_MAX);
}

static void end_one(void) {
    wait_until_given(1);
    end_value(1);
}
static void end_two(void) {
    end_one();
    wait_until_given(2);
    end_value(2);
}

/* The completer's, for the one ticket: as rota_completer_main and finish_delivery. */
static void deliver_first(void) {
    wait_until_given(1);
    rota_submission *submission = by_value[1];
    while (ra_load_seq_cst(&timelines[0].completed) < 1) {
        rota_sleeper_prepare(&runtime.completing.sleeper);
        ra_store_seq_cst(&runtime.completing.interest, 1);
        if (ra_load_seq_cst(&timelines[0].completed) < 1)
            rota_sleeper_wait(&runtime.completing.sleeper, UINT64_MAX);
        else
            rota_sleeper_cancel(&runtime.completing.sleeper);
        ra_store_relaxed(&runtime.completing.interest, 0);
    }
    if (!fates[0].fails) results[0] = 1;
    (void)ra_fetch_or_seq_cst(&submission->cell->state, (uint32_t)ROTA_CELL_DONE);
    ra_store_seq_cst(&submission->told.delivery_done, ROTA_DELIVERY_COPIED);
    if (ra_load_seq_cst(&runtime.sequencing.interest)) rota_sleeper_wake(&runtime.sequencing.sleeper);
    rota_wait_table_wake(&runtime.completing.delivery_waiters, 1);
}

/* ---- Who submits ---- */

static rota_ticket ticket_of(unsigned i) {
    return (rota_ticket){&runtime, rota_ticket_id(FIRST + i, 0)};
}

static rota_status publish(void) {
    rota_ticket ticket;
    return rota_lane_publish(&runtime, ROTA_RECORD_READ, NULL, NULL, NULL, 0, &ticket);
}

/* So many more, or fewer where there is no chunk yet. */
static void submit_more(unsigned count) {
    while (count > 0) {
        if (publish() == ROTA_OK) {
            count--;
            continue;
        }
        if (ra_load_relaxed(&lane.tail) - lane.head_seen < ROTA_LANE_RECORDS) return;
        const uint32_t word = ra_load_seq_cst(&lane.taken_word);
        (void)ra_fetch_add_seq_cst(&lane.sleepers, 1);
        if (ra_load_relaxed(&lane.tail) - ra_load_seq_cst(&lane.head) >= ROTA_LANE_RECORDS)
            (void)rota_futex_wait(&lane.taken_word, word, UINT64_MAX);
        (void)ra_fetch_add_seq_cst(&lane.sleepers, (uint32_t)-1);
    }
}

static void submit_two(void) {
    submit_more(2);
}

/* ---- Who asks ---- */

static void judge(unsigned i, rota_status status) {
    const bool fails = fates[i].fails || fates[i].early;
    explore_check(status == (fails ? causes[i].status : ROTA_OK), "ticket %u ends with status %d, not %d", i,
                  (int)status, fails ? (int)causes[i].status : 0);
    if (fails) {
        const char *message = messages[lanes_self()];
        char right[64];
        (void)snprintf(right, sizeof right, "submission %u", i + 1);
        explore_check(strcmp(message, right) == 0, "ticket %u says '%s'", i, message);
    } else {
        explore_check(results[i] == i + 1, "ticket %u is OK, and its result is not there", i);
    }
}

static void wait_first(void) {
    judge(0, rota_wait(ticket_of(0), LONG));
}
static void wait_second(void) {
    judge(1, rota_wait(ticket_of(1), LONG));
}
static void poll_first(void) {
    for (unsigned i = 0; i < 2; i++) judge(0, rota_poll(ticket_of(0))); /* it has ended */
}
static void poll_ending(void) {
    for (unsigned i = 0; i < 2; i++) {
        const rota_status status = rota_poll(ticket_of(0));
        if (status != ROTA_BUSY) judge(0, status);
    }
}
static void poll_last(void) {
    const rota_status status = rota_poll(ticket_of(4));
    if (status != ROTA_BUSY && status != ROTA_INVALID_ARGUMENT) judge(4, status);
}

/* ---- Who cancels ---- */

static void cancel(unsigned i) {
    const rota_status status = rota_ticket_cancel(ticket_of(i));
    if (status == ROTA_OK)
        (void)ra_fetch_or_acq_rel(&noted, 1u << i);
    else
        explore_check(status == ROTA_INVALID_ARGUMENT && i == 4, "cancelling ticket %u gives %d", i,
                      (int)status);
}
static void cancel_first(void) {
    cancel(0);
}
static void cancel_second(void) {
    cancel(1);
}
static void cancel_last(void) {
    cancel(4);
}

/* As an executor asks before a node of it begins: events.c. */
static void begin_node(unsigned i) {
    const bool was_noted = ra_load_acquire(&noted) >> i & 1u;
    const bool is_asked = ra_load_acquire(&runtime.failed.active) != 0;
    const bool skips = is_asked && rota_submission_cancelled_by(&submissions[i]) != ROTA_CANCELLED_BY_NOBODY;
    explore_check(!was_noted || skips, "a node of ticket %u begins after that was cancelled", i);
}
static void begin_nodes_of_first(void) {
    for (unsigned n = 0; n < 2; n++) begin_node(0);
}
static void begin_nodes_of_second(void) {
    for (unsigned n = 0; n < 2; n++) begin_node(1);
}

/* ---- Failures of a lane that are kept in fewer runs than there are ---- */

static rota_cell cells[TICKETS];

static void fail_every_other(void) {
    for (unsigned i = 2; i < TICKETS; i += 2)
        rota_ticket_set_failed(&runtime, &cells[i], ticket_of(i).id, causes[i].status, reason_of(i, i + 1));
}

static void find(unsigned i, bool fails) {
    const rota_status status = rota_failure_find(&runtime, ticket_of(i).id);
    if (status == ROTA_NOT_FOUND) {
        explore_check(i == 0, "of ticket %u it is not known whether it failed, and it can be", i);
        return;
    }
    explore_check(status == (fails ? causes[i].status : ROTA_OK), "ticket %u failed with status %d, not %d",
                  i, (int)status, fails ? (int)causes[i].status : 0);
    char right[64];
    (void)snprintf(right, sizeof right, "submission %u", i + 1);
    explore_check(!fails || strcmp(messages[lanes_self()], right) == 0, "ticket %u says '%s'", i,
                  messages[lanes_self()]);
}

static void find_first(void) {
    find(0, true);
    find(1, false);
}
static void find_others(void) {
    find(1, false);
    find(3, false);
}

/* ---- Deadlines ---- */

static void nap(uint64_t ns) {
    (void)rota_futex_wait(&never, 0, rota_deadline_after(ns));
}

/* The ticket will not end: a wait without a deadline of its own says so in time, whatever else gets on. */
static void wait_in_vain(void) {
    const uint64_t from = rota_clock_ns();
    const rota_status status = rota_wait(ticket_of(0), 0);
    const uint64_t ns = rota_clock_ns() - from;
    explore_check(status == ROTA_TIMEOUT, "a ticket that did not end has status %d", (int)status);
    explore_check(ns >= TIMEOUT_NS && ns < TIMEOUT_NS + 2 * (uint64_t)SLICE_NS,
                  "a wait of %u ms without progress of what it waits for took %llu ms", TIMEOUT_NS / 1000000,
                  (unsigned long long)ns / 1000000);
}

/* What is none of the ticket's. */
static void others_get_on(void) {
    for (unsigned i = 1; i <= 6; i++) {
        (void)ra_fetch_add_relaxed(&runtime.stats.submissions, 1);
        (void)ra_fetch_add_relaxed(&runtime.completing.delivered, 1);
        rota_device_publish(&device, 1, i);
        nap(TIMEOUT_NS / 2);
    }
}

/* The ticket's own queue gets on, and then no more. */
static void own_gets_on(void) {
    for (unsigned i = 1; i <= 3; i++) {
        nap(TIMEOUT_NS / 2);
        rota_device_publish(&device, 0, i);
    }
}
static void wait_for_slow(void) {
    const uint64_t from = rota_clock_ns();
    const rota_status status = rota_wait(ticket_of(0), 0);
    const uint64_t ns = rota_clock_ns() - from, last = 3 * (uint64_t)TIMEOUT_NS / 2;
    explore_check(status == ROTA_TIMEOUT, "a ticket that did not end has status %d", (int)status);
    explore_check(ns + 1000000 >= last + TIMEOUT_NS && ns < last + TIMEOUT_NS + 2 * (uint64_t)SLICE_NS,
                  "a wait of %u ms ends %llu ms after the last progress", TIMEOUT_NS / 1000000,
                  (unsigned long long)(ns - last) / 1000000);
}

/* Times out as soon as it looks, and reads its submission then. */
static void wait_shortly(void) {
    const rota_status status = rota_wait(ticket_of(0), 1);
    if (status != ROTA_TIMEOUT) {
        judge(0, status);
        return;
    }
    const char *message = messages[explore_self()];
    explore_check(strstr(message, "read of buffer 'a', submission 1;") || strstr(message, "has ended"),
                  "the message names another submission: %s", message);
}

#endif
