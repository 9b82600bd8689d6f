/* Stopped threads (P4): a thread halted at any stop inside record, submit, poll, wait or release
 * delays nobody. The stops are the atomic operations of base/atomic.h. Every one that a call reaches
 * in a situation of stopped_calls.c is found first; then a thread is halted at each in turn while eight
 * others record, submit, wait and release, and then goes on, and its own work is checked.
 *
 * That none is left out is checked against the list of all stops that the program has: each function
 * of the library with stops is known here to be part of those calls or not, and of those that are
 * every point must have been halted at. */
#include "tests/kit/nap.h"
#include "tests/kit/support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "tests/sched/runtime/stopped_calls.h"

enum { OTHERS = 8, EACH = 6, SITES_MAX = 256, TRIES = 50 };

extern const rota_stop_site *const __start_rota_stops[], *const __stop_rota_stops[];

/* ---- What belongs to the calls ---- */

typedef struct listed_function {
    const char *file, *function; /* function "*": all of the file's that are not named */
} listed_function;

/* Parts of record, submit, poll, wait and release, and of what is promised with them (retain, the numbers of
 * tickets, setting arguments). */
static const listed_function inside[] = {
    {"base/slab.c", "rota_slab_free"},
    {"graph/buffer.c", "rota_buffer_retain"},
    {"graph/buffer.c", "rota_buffer_release"},
    {"graph/graph.c", "rota_graph_retain"},
    {"graph/graph.c", "rota_graph_release"},
    {"graph/graph.c", "rota_recorder_close"},
    {"graph/graph.c", "rota_node_after"},
    {"graph/record.c", "begin_record"},
    {"graph/record.c", "check_bindings"},
    {"graph/record.c", "check_type"},

    {"sched/runtime/plans/handle.c", "rota_plan_retain"},
    {"sched/runtime/plans/handle.c", "rota_plan_release"},
    {"sched/runtime/shared/progress.c", "*"},
    {"sched/runtime/shared/loss.c", "rota_device_is_lost"},
    {"sched/runtime/shared/loss.c", "rota_device_fills"},
    {"sched/runtime/shared/lanes.c", "*"},
    {"sched/runtime/shared/cancel.c", "*"},
    {"sched/runtime/shared/pins.c", "rota_submission_pin"},
    {"sched/runtime/shared/pins.c", "rota_submission_unpin"},
    {"sched/runtime/shared/mailboxes.c", "rota_reclaim_push"},
    {"sched/runtime/shared/handle.c", "rota_runtime_check"},
    {"sched/runtime/shared/handle.c", "rota_runtime_is_forked"},
    {"sched/runtime/shared/timeline.c", "rota_point_passed"},
    {"sched/runtime/shared/handle.c", "rota_runtime_is_known"},
    {"sched/runtime/caller/submit.c", "*"},
    {"sched/runtime/shared/failures.c", "is_in_run"},
    {"sched/runtime/shared/failures.c", "rota_cell_failure"},
    {"sched/runtime/shared/failures.c", "rota_failure_find"},
    {"sched/runtime/shared/ticket_state.c", "rota_ticket_view"},
    {"sched/runtime/shared/ticket_state.c", "rota_ticket_status"},
    {"sched/runtime/kinds/plan_describe.c", "describe_segment"},
    {"sched/runtime/caller/tickets.c", "devices_of"},
    {"sched/runtime/caller/tickets.c", "pin_viewed"},
    {"sched/runtime/caller/tickets.c", "timed_out"},
    {"sched/runtime/caller/tickets.c", "sleep_once"},
    {"sched/runtime/caller/tickets.c", "last_progress"},
    {"sched/runtime/caller/tickets.c", "wait_until"},
    {"sched/runtime/caller/tickets.c", "rota_ticket_number"},
    {"sched/runtime/shared/handle.c", "rota_opened_check"},
    {"sched/runtime/shared/handle.c", "rota_opened_check_lasts"},
    {"sched/runtime/shared/external_timeline.c", "note_move"},
    {"sched/runtime/shared/external_timeline.c", "wake_holders"},
    {"sched/runtime/shared/external_timeline.c", "rota_external_timeline_raise"},
    {"sched/runtime/shared/external_timeline.c", "rota_external_timeline_value"},
    {"sched/runtime/shared/external_timeline.c", "rota_external_timeline_has"},
    {"sched/runtime/shared/external_timeline.c", "rota_external_timeline_retain"},
    {"sched/runtime/shared/external_timeline.c", "rota_external_timeline_drop"},
    {"sched/runtime/shared/external_timeline.c", "rota_external_wait_describe"},
    {"sched/runtime/shared/external_timeline.c", "rise"},
    {"sched/runtime/shared/external_semaphore.c", "rota_external_semaphore_enter"},
    {"sched/runtime/shared/external_semaphore.c", "rota_external_semaphore_leave"},
    {"sched/runtime/shared/external_semaphore.c", "rota_external_semaphore_reach"},
    {"tests/adversary/adversary_semaphore.c", "adversary_semaphore_look"},
    {"base/turns.c", "*"},
    {"base/sleep.c", "rota_sleeper_wake"},
    {"base/stack_upmc.h", "rota_stack_push_upmc"},
    {"base/sleep.c", "rota_wait_table_sleep"},
    {"exec/cpu/device.c", "stuck_node"},
};

/* Not parts of them: rota's own threads, and calls that may block. */
static const listed_function outside[] = {
    {"base/arena.c", "rota_chunk_cache_sweep"},
    {"base/output.c", "*"},
    {"base/ring_spsc.h", "*"},
    {"base/slab.c", "advance"},
    {"base/thread_cpus.c", "*"},
    {"exec/locality.c", "*"},
    {"graph/buffer.c", "rota_buffer_create"},
    {"graph/conditional.c", "*"},
    {"graph/graph.c", "add_slot"},
    {"graph/graph.c", "check_open"},
    {"graph/graph.c", "rota_graph_freeze"},
    {"graph/graph.c", "rota_graph_node_count"},
    {"graph/graph.c", "rota_recorder_buffer"},
    {"graph/record.c", "rota_recorder_reserve"},
    {"sched/runtime/life/link.c", "*"},
    {"sched/runtime/shared/devices.c", "rota_device_open_gate"},
    {"sched/runtime/plans/args.c", "rota_args_set_buffer"}, /* may give the buffer memory */
    {"sched/runtime/completer/callbacks.c", "*"},
    /* Loads alone, where an instance is being made: test_making waits there. */
    {"sched/runtime/shared/progress.c", "watch_builder"},
    {"sched/runtime/shared/progress.c", "look_at_builders"},
    {"sched/runtime/order/chain.c", "*"},
    {"sched/runtime/order/clocks.c", "*"},
    {"sched/runtime/life/close.c", "*"},
    {"sched/runtime/completer/complete.c", "*"},
    {"sched/runtime/order/deliver.c", "*"},
    {"sched/runtime/life/device.c", "*"},
    {"sched/runtime/shared/timeline.c", "rota_device_publish"},
    {"sched/runtime/shared/timeline.c", "rota_device_wake_holders"},
    {"sched/runtime/shared/timeline.c", "rota_device_wake_waiters"},
    {"sched/runtime/life/device_open.c", "*"},
    {"sched/runtime/shared/hooks.h", "rota_hooks_lent"},
    {"sched/runtime/shared/loss.c", "was_lost"},
    {"sched/runtime/shared/loss.c", "rota_device_note_abandoned"},
    {"sched/runtime/shared/loss.c", "rota_devices_abandoned"},
    {"sched/runtime/shared/devices.c", "rota_runtime_name_devices"},
    {"sched/runtime/shared/device_life.c", "rota_device_life"},
    {"sched/runtime/shared/device_life.c", "rota_device_move"},
    {"sched/runtime/shared/loss.c", "give_up"},
    {"sched/runtime/shared/loss.c", "tell_of_loss"},
    {"sched/runtime/shared/loss.c", "rota_device_is_finished"},
    {"sched/runtime/shared/loss.c", "rota_device_begin_filling"},
    {"sched/runtime/shared/loss.c", "rota_device_end_filling"},
    {"sched/runtime/order/linked.c", "*"},
    {"sched/runtime/memory/memory.c", "*"},
    {"sched/runtime/memory/adopt.c", "*"},
    {"sched/runtime/shared/external_timeline.c", "*"},
    /* The executor's thread's, and of calls that may block. */
    {"sched/runtime/shared/external_semaphore.c", "*"},
    {"sched/runtime/caller/semaphores.c", "*"},
    {"sched/runtime/life/application.c", "*"},
    {"sched/runtime/order/hazard.c", "*"},
    {"sched/runtime/memory/ranges.c", "*"},
    {"sched/runtime/caller/read.c", "*"},
    {"sched/runtime/caller/streams.c", "*"},
    {"sched/runtime/caller/room.c", "*"},
    {"sched/runtime/caller/write.c", "*"},
    {"sched/runtime/shared/lanes.c", "rota_cell_is_to_cancel"},
    {"sched/runtime/shared/lanes.c", "add_block"},
    {"sched/runtime/shared/lanes.c", "rota_lanes_destroy"},
    {"sched/runtime/shared/lanes.c", "collect"},
    {"sched/runtime/shared/lanes.c", "provide"},
    {"sched/runtime/shared/lanes.c", "rota_lane_take"},
    {"sched/runtime/shared/lanes.c", "rota_lanes_provide"},
    {"sched/runtime/shared/pins.c", "rota_submission_publish"},
    {"sched/runtime/shared/pins.c", "rota_submission_unpublish"},
    {"sched/plan/", "*"},
    {"sched/runtime/reclaimer/reclaimer.c", "take_unused"},
    {"sched/runtime/reclaimer/reclaimer.c", "rota_reclaimer_main"},
    {"sched/runtime/order/replay.c", "*"},
    {"sched/runtime/memory/residency.c", "*"},
    {"sched/runtime/memory/peers.c", "*"},
    {"sched/runtime/plans/limit.c", "*"},
    {"sched/runtime/plans/make.c", "*"},
    {"sched/runtime/plans/instances.c", "*"},
    {"sched/runtime/plans/builder.c", "*"},
    {"sched/runtime/plans/executable.c", "*"},
    {"sched/runtime/plans/times.c", "*"},
    {"sched/runtime/shared/handle.c", "forked"},
    {"sched/runtime/shared/handle.c", "find_handle"},
    {"sched/runtime/shared/handle.c", "rota_opened_now"},
    {"sched/runtime/shared/handle.c", "rota_runtime_take_handle"},
    {"sched/runtime/shared/handle.c", "rota_runtime_note_opened"},
    {"sched/runtime/memory/residency.h", "rota_residency_bit"},
    {"sched/runtime/life/open.c", "rota_runtime_open"},
    {"sched/runtime/shared/handle.c", "rota_runtime_note_closed"},
    {"sched/runtime/shared/handle.c", "rota_runtime_thread_ends"},
    {"sched/runtime/life/stats.c", "rota_runtime_get_stats"},
    {"sched/runtime/life/stats.c", "read_stats"},
    {"sched/runtime/kinds/", "*"},
    {"sched/runtime/sequencer/", "*"},
    {"sched/runtime/shared/failed_ranges.c", "*"},
    {"sched/runtime/shared/stats.h", "*"},
    {"sched/runtime/submitter/", "*"},
    {"sched/runtime/memory/import.c", "*"},
    {"sched/runtime/order/side_queues.c", "*"},
    {"sched/runtime/memory/staging.c", "*"},
    {"sched/runtime/life/testing.c", "*"},
    {"sched/runtime/shared/mailboxes.c", "*"},
    {"base/stack_upmc.h", "*"},
    {"sched/runtime/completer/rescue.c", "*"},
    {"sched/runtime/plans/trace.c", "*"},
    {"sched/runtime/shared/causes.c", "*"},
    {"sched/runtime/shared/failures.c", "*"},
    {"base/sleep.c", "rota_sleeper_prepare"},
    {"base/sleep.c", "rota_sleeper_cancel"},
    {"base/sleep.c", "rota_sleeper_wait"},
    {"base/sleep.c", "rota_wait_table_wake"},
    {"exec/common/", "*"},
    {"exec/cpu/", "*"},
    {"exec/cuda/", "*"},
    {"exec/vk/", "*"},
    {"tests/", "*"},
};

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* How well a site is named: 2 by function, 1 by "*", 0 not at all. A file that ends with '/' is a folder. */
static int named(const listed_function *listed, size_t count, const rota_stop_site *site) {
    int best = 0;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(listed[i].file);
        const char *found = strstr(site->file, listed[i].file);
        if (!found || (listed[i].file[length - 1] != '/' && found[length])) continue;
        if (strcmp(listed[i].function, site->function) == 0) return 2;
        if (listed[i].function[0] == '*') best = 1;
    }
    return best;
}

static uint32_t unlisted;

static bool is_inside(const rota_stop_site *site) {
    int in = named(inside, LENGTH(inside), site), out = named(outside, LENGTH(outside), site);
    if (in == out) {
        print_message("%s:%d: %s has a stop and is %s in this test's lists\n", site->file, site->line,
                      site->function, in ? "twice" : "not");
        unlisted++;
    }
    return in > out;
}

/* A site of an inline function stands once for each file that has the function. */
static bool is_same_site(const rota_stop_site *a, const rota_stop_site *b) {
    return a == b || (a->line == b->line && strcmp(a->file, b->file) == 0);
}

/* ---- The thread that is halted ---- */

typedef struct halting {
    victim v;
    const situation *in;
    const rota_stop_site *halt_at; /* NULL: only the sites are collected */
    const rota_stop_site *sites[SITES_MAX];
    uint32_t site_count;
    _Atomic uint32_t halted, go_on, done, calling;
    bool was_halted; /* the thread's own */
    rota_status status;
    char message[512];
} halting;

static void on_stop(void *user, const rota_stop_site *site) {
    halting *h = user;
    if (!h->halt_at) {
        for (uint32_t i = 0; i < h->site_count; i++)
            if (h->sites[i] == site) return;
        if (h->site_count < SITES_MAX) h->sites[h->site_count++] = site;
        return;
    }
    if (h->was_halted || site != h->halt_at) return;
    h->was_halted = true;
    atomic_store(&h->halted, 1);
    while (!atomic_load(&h->go_on)) test_nap_us(50);
}

static rota_status victim_work(halting *h) {
    if (h->in->prepare) ROTA_TRY(h->in->prepare(&h->v));
    atomic_store(&h->calling, 1);
    rota_stop_user = h;
    rota_stop_hook = on_stop;
    rota_status status = h->in->call(&h->v);
    rota_stop_hook = NULL;
    return status;
}

static void *victim_main(void *user) {
    halting *h = user;
    h->status = victim_work(h);
    if (h->status != ROTA_OK) snprintf(h->message, sizeof h->message, "%s", rota_last_error());
    atomic_store(&h->calling, 1);
    atomic_store(&h->done, 1);
    return NULL;
}

/* ---- The eight others: all five calls, to the end ---- */

typedef struct other {
    world *w;
    uint32_t index;
    rota_status status;
    char message[256];
} other;

static rota_status other_work(const other *o) {
    world *w = o->w;
    rota_recorder *recorder = NULL;
    ROTA_TRY(rota_recorder_open(w->graph, 1 + o->index, NULL, &recorder));
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < EACH && status == ROTA_OK; i++) {
        rota_buffer *buffer = NULL;
        rota_ticket ticket = {0};
        uint32_t word = o->index;
        status = world_record(w, recorder, NULL);
        if (status == ROTA_OK) status = rota_submit_wait(w->plan, NULL, STOPPED_PATIENCE_NS, &ticket);
        if (status == ROTA_OK && rota_poll(ticket) != ROTA_BUSY) status = rota_poll(ticket);
        if (status == ROTA_OK) status = rota_wait(ticket, STOPPED_PATIENCE_NS);
        if (status == ROTA_OK) status = rota_buffer_create_in(w->runtime, "another's", 256, &buffer);
        if (status == ROTA_OK) status = rota_buffer_write(buffer, w->device, 0, &word, 4, NULL);
        rota_buffer_release(buffer);
        if (status == ROTA_OK && w->semaphore) status = world_signal(w);
        if (status == ROTA_OK && w->cancelled.id) status = world_cancel(w);
    }
    rota_recorder_close(recorder);
    return status;
}

static void *other_main(void *user) {
    other *o = user;
    o->status = other_work(o);
    if (o->status != ROTA_OK) snprintf(o->message, sizeof o->message, "%s", rota_last_error());
    return NULL;
}

static void others_finish(world *w, const char *when) {
    pthread_t threads[OTHERS];
    other others[OTHERS] = {0};
    uint64_t begin = rota_clock_ns();
    for (uint32_t i = 0; i < OTHERS; i++) {
        others[i] = (other){.w = w, .index = i};
        assert_int_equal(pthread_create(&threads[i], NULL, other_main, &others[i]), 0);
    }
    for (uint32_t i = 0; i < OTHERS; i++) {
        pthread_join(threads[i], NULL);
        if (others[i].status != ROTA_OK)
            fail_msg("%s: thread %u: %s: %s", when, i, rota_status_name(others[i].status), others[i].message);
    }
    if (rota_clock_ns() - begin > STOPPED_PATIENCE_NS) fail_msg("%s: the others took too long", when);
}

/* ---- Rounds ---- */

static void expect_sum(const world *w, uint32_t expected, const char *when) {
    uint32_t words[STOPPED_WORDS];
    assert_ok(rota_buffer_read(w->shared, 0, words, sizeof words));
    for (uint32_t i = 0; i < STOPPED_WORDS; i++)
        if (words[i] != expected) fail_msg("%s: word %u is %u, expected %u", when, i, words[i], expected);
}

/* While a thread is halted all that others submitted is recycled, and what they released is freed. It may
 * itself be about to push one released object, or wait for what a lost device keeps. */
static void expect_recycled(const world *w, const char *when) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    const uint64_t deadline = rota_deadline_after(STOPPED_PATIENCE_NS / 4);
    do {
        rota_runtime_get_stats(w->runtime, &stats);
        if (stats.reclaim_pending <= 1 && stats.completed + 2 >= stats.submissions) return;
        test_nap_us(100);
    } while (rota_clock_ns() < deadline);
    fail_msg("%s: %llu objects are not freed, and of %llu submissions %llu are recycled", when,
             (unsigned long long)stats.reclaim_pending, (unsigned long long)stats.submissions,
             (unsigned long long)stats.completed);
}

/* A thread in the call, halted at `at` (NULL: nowhere); the others run meanwhile. */
static void round_of(const situation *in, const rota_stop_site *site, halting *h) {
    char when[256];
    world w;
    snprintf(when, sizeof when, "%s, halted at %s:%d", in->name, site ? site->file : "no point",
             site ? site->line : 0);
    memset(h, 0, sizeof *h);
    assert_ok(world_open(&w));
    h->v.w = &w;
    h->in = in;
    h->halt_at = site;
    if (in->set_up) assert_ok(in->set_up(&w));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, victim_main, h), 0);
    while (!atomic_load(&h->calling)) test_nap_us(20);
    uint64_t release_at = rota_clock_ns() + RELEASE_AFTER_MS * 1000000ull;
    while (!atomic_load(&h->halted) && !atomic_load(&h->done) &&
           (!in->release || rota_clock_ns() < release_at))
        test_nap_us(20);
    if (in->release) assert_ok(in->release(&w));
    while (!atomic_load(&h->halted) && !atomic_load(&h->done)) test_nap_us(20);
    bool halted = atomic_load(&h->halted);
    if (halted) {
        others_finish(&w, when);
        expect_recycled(&w, when);
    }
    atomic_store(&h->go_on, 1);
    pthread_join(thread, NULL);
    if (h->status != ROTA_OK) fail_msg("%s: %s: %s", when, rota_status_name(h->status), h->message);
    if (h->v.ticket.id) assert_ok(rota_wait(h->v.ticket, STOPPED_PATIENCE_NS));
    /* Nothing was lost and nothing done twice. */
    uint32_t others = halted ? OTHERS * EACH : 0;
    expect_sum(&w, h->v.added + others, when);
    victim_drop(&h->v);
    assert_int_equal(rota_graph_node_count(w.graph), h->v.recorded + others);
    if (world_close(&w) != ROTA_OK) fail_msg("%s: closing: %s", when, rota_last_error());
}

static void nobody_waits_for_a_stopped_thread(void **state) {
    (void)state;
    static halting h;
    static const rota_stop_site *halted_at[4096];
    uint32_t halted_count = 0;
    assert_ok(crowd_open());
    for (const situation *in = situations; in->name; in++) {
        const rota_stop_site *sites[SITES_MAX];
        round_of(in, NULL, &h);
        uint32_t count = h.site_count;
        memcpy(sites, h.sites, count * sizeof *sites);
        for (uint32_t i = 0; i < count; i++) {
            if (!is_inside(sites[i]))
                fail_msg("%s reaches %s:%d (%s), which is not known to be part of the calls", in->name,
                         sites[i]->file, sites[i]->line, sites[i]->function);
            /* Some are passed only if a thread of rota's is slow enough. */
            for (uint32_t tries = 0; tries < TRIES && !h.was_halted; tries++) round_of(in, sites[i], &h);
            if (h.was_halted) halted_at[halted_count++] = sites[i];
            h.was_halted = false;
        }
        print_message("%-28s %u stops\n", in->name, count);
    }
    uint32_t all = 0, missed = 0;
    for (const rota_stop_site *const *site = __start_rota_stops; site < __stop_rota_stops; site++) {
        if (!is_inside(*site)) continue;
        all++;
        bool found = false;
        for (uint32_t i = 0; i < halted_count && !found; i++) found = is_same_site(halted_at[i], *site);
        /* Passed by when the sites were collected, on a busy machine. */
        for (uint32_t tries = 0; tries < TRIES / 10 && !found; tries++)
            for (const situation *in = situations; in->name && !found; in++) {
                round_of(in, *site, &h);
                found = h.was_halted;
            }
        if (!found)
            print_message("not halted at: %s:%d (%s)\n", (*site)->file, (*site)->line, (*site)->function);
        missed += !found;
    }
    print_message("halted at %u of the %u stops inside the calls\n", all - missed, all);
    assert_ok(crowd_close());
    assert_int_equal(unlisted, 0);
    assert_int_equal(missed, 0);
}

/* A thread is stopped when it has read its ticket's submission for the message. That one has ended since and
 * its plan was released: it is there until the thread goes on. */
static void a_message_keeps_what_it_is_made_of(void **state) {
    (void)state;
    static halting h;
    world w;
    const situation *in = situations;
    while (strcmp(in->name, "wait past the deadline") != 0) in++;
    const rota_stop_site *const *site = __start_rota_stops;
    while (strcmp((*site)->function, "rota_submission_unpin") != 0) site++;
    assert_ok(world_open(&w));
    h.v.w = &w;
    h.in = in;
    h.halt_at = *site;
    assert_ok(in->set_up(&w));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, victim_main, &h), 0);
    while (!atomic_load(&h.halted) && !atomic_load(&h.done)) test_nap_us(20);
    assert_true(atomic_load(&h.halted));
    assert_ok(in->release(&w));
    assert_ok(rota_wait(h.v.ticket, STOPPED_PATIENCE_NS));
    rota_plan_release(h.v.plan);
    h.v.plan = NULL;
    others_finish(&w, in->name);
    expect_recycled(&w, in->name);
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(w.runtime, &stats);
    assert_int_equal(stats.plans, 2);
    atomic_store(&h.go_on, 1);
    pthread_join(thread, NULL);
    if (h.status != ROTA_OK) fail_msg("%s: %s", rota_status_name(h.status), h.message);
    const uint64_t deadline = rota_deadline_after(STOPPED_PATIENCE_NS / 4);
    do rota_runtime_get_stats(w.runtime, &stats);
    while (stats.plans != 1 && rota_clock_ns() < deadline);
    assert_int_equal(stats.plans, 1);
    victim_drop(&h.v);
    assert_ok(world_close(&w));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_waits_for_a_stopped_thread),
                                       cmocka_unit_test(a_message_keeps_what_it_is_made_of)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
