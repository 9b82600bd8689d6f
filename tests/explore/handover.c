/* Works on their way from the sequencer to a device's driver (base/ring_spsc.h, sched/runtime/submitter/ring.c,
 * thread.c, blocked.c, base/sleep.c): pushed into a small ring, taken by the submit thread, or by another one where the
 * device is lost and its thread stays in the driver; or handed over by the sequencer itself while that thread has
 * nothing. The thread does not look for long before it sleeps, and takes two works at most (handover.plants). What
 * blocks a work, and what a driver does with one, is not here. */
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "explore.h"
#include "sched/runtime/kinds/kinds.h"
#include "sched/runtime/shared/external_timeline.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/submitter/batch_memory.h"
#include "sched/runtime/submitter/blocked.h"
#include "sched/runtime/submitter/cancelled.h"
#include "sched/runtime/submitter/device_wait.h"
#include "sched/runtime/submitter/gate.h"
#include "sched/runtime/submitter/handover.h"
#include "sched/runtime/submitter/ring.h"
#include "sched/runtime/submitter/submitter.h"

enum { WORKS = 4, CELLS = 4 };

void serve(rota_submitter *submitter);   /* thread.c's: handover.plants */
void look_for_thread(rota_device *lost); /* blocked.c's */

static rota_runtime runtime;
static rota_device device;
static rota_exec_device exec;
static rota_outbox outbox;
static rota_submitter submitter;
static rota_sleeper sleeper;
static rota_timeline timelines[1];
static rota_ring_cell cells[CELLS];
static rota_submission submission;
static rota_work works[WORKS];
static _Atomic uint32_t is_lost;
static bool may_stay; /* the driver may keep who hands over */
/* Plain: whoever hands over or drops comes after whoever did so before. */
static uint64_t over, dropped;

/* ---- In place of what is called ---- */

const rota_work_row rota_work_rows[] = {[ROTA_WORK_SEGMENT] = {.prepare = NULL}};

bool rota_device_is_lost(const rota_device *of) {
    (void)of;
    return ra_load_acquire(&is_lost) != 0;
}

static void leaves(const rota_work *work) {
    explore_check(work >= works && work < works + WORKS && work->value == over + dropped + 1,
                  "work %llu leaves after %llu others", (unsigned long long)work->value,
                  (unsigned long long)(over + dropped));
}

void rota_handover_drop(rota_device *of, rota_work *const *batch, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        leaves(batch[i]);
        dropped++;
        ra_store_seq_cst(&of->timelines[0].dropped, batch[i]->value);
    }
}

/* As handover.c hands over, or drops, what it is given. */
void rota_hand_over(rota_device *of, rota_work **batch, uint32_t count, const rota_batch_memory *memory) {
    (void)memory;
    if (ra_load_acquire(&is_lost)) {
        rota_handover_drop(of, batch, count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        leaves(batch[i]);
        over++;
        ra_store_release(&of->timelines[0].handed_over, batch[i]->value);
    }
    if (may_stay) explore_may_stop();
}

void rota_handover_note(rota_device *of) {
    (void)of;
}
void rota_work_skip(rota_work *work, rota_reason reason, bool first) {
    (void)work, (void)reason, (void)first;
}
bool rota_work_take_memory(const rota_work *work) {
    (void)work;
    return true;
}
bool rota_work_starves(rota_submitter *of, const rota_work *work) {
    (void)of, (void)work;
    return false;
}
void rota_batch_memory_ask(const rota_submitter *of, rota_batch_memory *memory) {
    (void)of;
    memory->is_needed = false;
}
void rota_batch_memory_make(rota_submitter *of, rota_batch_memory *memory) {
    (void)of, (void)memory;
}
void rota_batch_memory_give(const rota_batch_memory *memory) {
    (void)memory;
}
void rota_batch_memory_release(const rota_batch_memory *memory) {
    (void)memory;
}
bool rota_cancelled_leaves_out(const rota_work *work) {
    (void)work;
    return false;
}
bool rota_cancelled_lets_go(const rota_work *work) {
    (void)work;
    return false;
}
bool rota_cancelled_move(const rota_work *work, rota_reason *out_reason) {
    (void)work, (void)out_reason;
    return false;
}
bool rota_gate_takes(const rota_work *work) {
    (void)work;
    return true;
}
bool rota_gate_is_through(rota_device *of, uint32_t queue, uint64_t value) {
    (void)of, (void)queue, (void)value;
    return true;
}
bool rota_gate_keeps(rota_device *of, uint64_t point) {
    (void)of, (void)point;
    return false;
}
bool rota_linked_is_ready(rota_runtime *of, uint64_t foreign) {
    (void)of, (void)foreign;
    return true;
}
bool rota_point_passed(rota_runtime *of, uint64_t point) {
    (void)of, (void)point;
    return true;
}
void rota_device_set_lost(rota_device *of, const char *message) {
    (void)of, (void)message;
}
const rota_cause *rota_cause_new(rota_runtime *of, rota_status status, const char *format, ...) {
    (void)of, (void)status, (void)format;
    return NULL;
}
rota_external_outcome rota_external_wait_look(rota_external_wait *after, bool closes) {
    (void)after, (void)closes;
    return ROTA_EXTERNAL_WAIT_REACHED;
}
uint32_t rota_external_wait_semaphores(const rota_external_wait *after, rota_exec_timeline_wait *out_waits) {
    (void)after, (void)out_waits;
    return 0;
}
void rota_external_wait_describe(const rota_external_wait *after, char *text, size_t capacity) {
    (void)after, (void)text, (void)capacity;
}
void rota_external_wait_watch(const rota_external_wait *after, uint32_t of) {
    (void)after, (void)of;
}
void rota_external_wait_watch_nothing(const rota_external_wait *after, uint32_t of) {
    (void)after, (void)of;
}

/* ---- Threads ---- */

/* As the sequencer, of which a round gives so many works: what found no room is tried again. */
static void push_works(uint32_t first, uint32_t count) {
    for (uint32_t i = first; i < first + count; i++) {
        works[i] = (rota_work){.submission = &submission, .device = &device, .value = i + 1};
        rota_handover_push(&device, &works[i]);
    }
    rota_handover_flush(&device);
    while (outbox.overflow_first) {
        (void)explore_yield();
        rota_handover_flush(&device);
    }
}

static void push_one_by_one(void) {
    for (uint32_t i = 0; i < 3; i++) push_works(i, 1);
}
static void push_two_and_one(void) {
    push_works(0, 2);
    push_works(2, 1);
}
static void push_all(void) {
    push_works(0, WORKS);
}
static void push_two(void) {
    push_works(0, 2);
}

/* The first way is the submit thread's, which it may be at when the next one goes directly. */
static void push_directly(void) {
    exec.caps.submit_never_blocks = false;
    push_works(0, 1);
    exec.caps.submit_never_blocks = true;
    push_works(1, 2);
}

/* The same, with works that find no room before those that may go directly. */
static void push_more_directly(void) {
    exec.caps.submit_never_blocks = false;
    for (uint32_t i = 0; i < WORKS; i++) {
        if (i + 1 == WORKS) exec.caps.submit_never_blocks = true;
        works[i] = (rota_work){.submission = &submission, .device = &device, .value = i + 1};
        rota_handover_push(&device, &works[i]);
    }
    push_works(WORKS, 0);
}

static void submit(void) {
    serve(&submitter);
}

/* The device is lost, and who waits for its works looks until all of them have left (is_through_before). */
static void lose_and_look(void) {
    ra_store_seq_cst(&is_lost, 1);
    rota_sleeper_wake(&sleeper);
    while (ra_load_acquire(&timelines[0].handed_over) < 2 && ra_load_seq_cst(&timelines[0].dropped) < 2) {
        look_for_thread(&device);
        (void)explore_yield();
    }
}

/* ---- Executions ---- */

static void begin_with(uint32_t cell_count) {
    memset((void *)&device, 0, sizeof device);
    memset((void *)&outbox, 0, sizeof outbox);
    memset((void *)&submitter, 0, sizeof submitter);
    memset((void *)timelines, 0, sizeof timelines);
    memset((void *)works, 0, sizeof works);
    memset((void *)cells, 0, sizeof cells);
    memset((void *)&exec, 0, sizeof exec);
    ra_store_relaxed(&sleeper.asleep, 0);
    ra_store_relaxed(&is_lost, 0);
    ra_store_relaxed(&runtime.stop, 0);
    over = dropped = 0;
    may_stay = false;
    rota_ring_begin_spsc(&device.handover.ring, cells, cell_count);
    device.runtime = &runtime;
    device.exec = &exec;
    device.outbox = &outbox;
    device.submitter = &submitter;
    device.timelines = timelines;
    device.handover.sleeper = &sleeper;
    submitter.device = &device;
    explore_name(&device.handover, sizeof device.handover, "handover");
    explore_name(&submitter, sizeof submitter, "submitter");
    explore_name(&outbox, sizeof outbox, "outbox");
    explore_name(timelines, sizeof timelines, "timeline");
    explore_name(cells, sizeof cells, "cells");
    explore_name(works, sizeof works, "works");
    explore_name(&sleeper, 4, "asleep");
    explore_name(&is_lost, 4, "is_lost");
    explore_name(&over, 8, "over");
}

static void begin(void) {
    begin_with(CELLS);
}
/* A ring of one. */
static void begin_small(void) {
    begin_with(2);
}
static void begin_loss(void) {
    begin_with(CELLS);
    may_stay = true;
}

static void end_three(void) {
    explore_check(over == 3, "%llu of 3 works are handed over", (unsigned long long)over);
}
static void end_all(void) {
    explore_check(over == WORKS, "%llu of all works are handed over", (unsigned long long)over);
}
static void end_loss(void) {
    explore_check(over + dropped == 2, "%llu of 2 works have left", (unsigned long long)(over + dropped));
}

int main(int argc, char **argv) {
    enum { SLEEPS = 1 << 1 };
    static const explore_scenario scenarios[] = {
        {"one by one", 3, 3, {push_one_by_one, submit}, begin, end_three, false, SLEEPS},
        {"two and one", 4, 3, {push_two_and_one, submit}, begin, end_three, false, SLEEPS},
        {"more than the ring holds", 3, 1, {push_all, submit}, begin_small, end_all, false, SLEEPS},
        {"directly while the thread has nothing",
         4,
         3,
         {push_directly, submit},
         begin,
         end_three,
         false,
         SLEEPS},
        {"directly behind what finds no room",
         2,
         2,
         {push_more_directly, submit},
         begin_small,
         end_all,
         false,
         SLEEPS},
        {"a lost device's thread stays",
         3,
         1,
         {push_two, submit, lose_and_look},
         begin_loss,
         end_loss,
         false,
         SLEEPS},
    };
    runtime.queue_count = 1;
    runtime.devices[0] = &device;
    ra_store_relaxed(&runtime.device_count, 1);
    return explore_main(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv);
}
