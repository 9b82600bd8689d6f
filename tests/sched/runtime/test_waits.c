/* Waiting calls: what their deadlines count from, and whose turn it is. */
#include "tests/kit/runtime_support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "graph/buffer_internal.h"
#include "sched/plan.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/testing.h"
#include "tests/adversary/adversary.h"
#include "tests/kit/sequenced.h"
#include "tests/kit/nap.h"

/* Of beats several are within a deadline, so that a busy machine may make one late. */
enum { DEADLINE_MS = 1200, BEAT_MS = 200, SOON_MS = 2 * DEADLINE_MS + 1000, QUEUES = 4 };
#define MS 1000000ull

static _Atomic uint32_t never;

/* ---- Plans on a queue of their own ---- */

static rota_status beat(const rota_kernel_call *call) {
    (void)call;
    test_nap_ms(BEAT_MS);
    return ROTA_OK;
}
static const rota_kernel slow = {.name = "beat", .operand_count = 1, .cpu = {.fn = beat}};
static const rota_kernel slow_reader = {.name = "reader", .operand_count = 2, .cpu = {.fn = beat}};

static rota_status nothing(const rota_kernel_call *call) {
    (void)call;
    return ROTA_OK;
}
static const rota_kernel quick_reader = {.name = "quick", .operand_count = 2, .cpu = {.fn = nothing}};

static uint32_t on_queue(void *user, rota_node node, uint32_t queues) {
    (void)node;
    (void)queues;
    return *(const uint32_t *)user;
}

/* `kernel` writes `to`, and reads `from` unless that is NULL. */
static rota_plan *plan_on(rota_device *device, uint32_t queue, const rota_kernel *kernel, rota_buffer *to,
                          rota_buffer *from) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_access accesses[] = {{to, 0, ROTA_WHOLE, ROTA_READWRITE}, {from, 0, ROTA_WHOLE, ROTA_READ}};
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(
        rota_record_kernel(recorder,
                           &ROTA_KERNEL_NODE(.kernel = kernel, .name = kernel->name, .accesses = accesses,
                                             .access_count = kernel->operand_count),
                           NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(rota_device_runtime(device), graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .queues = QUEUES,
                                                 .queue_policy = on_queue, .queue_policy_user = &queue),
                           &plan));
    rota_graph_release(graph);
    return plan;
}

typedef struct waits_fixture {
    rota_runtime *runtime;
    rota_device *device;
    rota_buffer *buffers[QUEUES];
} waits_fixture;

static int set_up(void **state) {
    waits_fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = DEADLINE_MS * MS,
                                                      .queues_per_device = QUEUES, .worker_threads = QUEUES),
                                &f->runtime));
    assert_ok(rota_device_open(f->runtime, "cpu", &f->device));
    for (uint32_t i = 0; i < QUEUES; i++) f->buffers[i] = test_words(f->device, "x", 64, i);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    waits_fixture *f = *state;
    test_gate_open(true);
    for (uint32_t i = 0; i < QUEUES; i++) rota_buffer_release(f->buffers[i]);
    assert_ok(rota_runtime_close(f->runtime, 20000 * MS));
    free(f);
    return 0;
}

/* ---- What a default deadline counts from ---- */

typedef struct heart {
    rota_plan *plan;
    _Atomic uint32_t stop, beats;
} heart;

static void *keep_beating(void *user) {
    heart *h = user;
    while (!ra_load_seq_cst(&h->stop)) {
        rota_ticket ticket;
        if (rota_submit(h->plan, NULL, &ticket) != ROTA_OK || rota_wait(ticket, 20000 * MS) != ROTA_OK)
            return "a beat failed";
        (void)ra_fetch_add_seq_cst(&h->beats, 1);
        /* The hung kernel is let go when the wait should long have ended. */
        if (ra_load_relaxed(&h->beats) == 40) test_gate_open(true);
    }
    return NULL;
}

/* A kernel hangs on one queue; another queue gets on, with what is submitted before and after. */
static void others_progress_extends_no_wait(void **state) {
    waits_fixture *f = *state;
    rota_plan *hangs = plan_on(f->device, 0, &test_gate, f->buffers[0], NULL);
    heart h = {.plan = plan_on(f->device, 1, &slow, f->buffers[1], NULL)};
    pthread_t thread;
    rota_ticket hung, before;
    test_gate_open(false);
    for (uint32_t i = 0; i < 15; i++) assert_ok(rota_submit(h.plan, NULL, &before));
    assert_ok(rota_submit(hangs, NULL, &hung));
    assert_int_equal(pthread_create(&thread, NULL, keep_beating, &h), 0);
    uint64_t begin = rota_clock_ns();
    rota_status status = rota_wait(hung, 0);
    uint64_t took = rota_clock_ns() - begin;
    ra_store_seq_cst(&h.stop, 1);
    test_gate_open(true);
    void *failure;
    (void)pthread_join(thread, &failure);
    assert_null(failure);
    assert_int_equal(status, ROTA_TIMEOUT);
    assert_true(took >= DEADLINE_MS * MS);
    assert_true(took < SOON_MS * MS);
    assert_ok(rota_wait(hung, 20000 * MS));
    rota_plan_release(hangs);
    rota_plan_release(h.plan);
}

/* What a later submission of the hung queue waits for is no concern of who waits for an earlier one. */
static void later_chains_extend_no_wait(void **state) {
    waits_fixture *f = *state;
    rota_plan *hangs = plan_on(f->device, 0, &test_gate, f->buffers[0], NULL);
    rota_plan *beats = plan_on(f->device, 1, &slow, f->buffers[1], NULL);
    rota_plan *reads = plan_on(f->device, 0, &slow_reader, f->buffers[2], f->buffers[1]);
    rota_ticket hung, last;
    test_gate_open(false);
    assert_ok(rota_submit(hangs, NULL, &hung));
    for (uint32_t i = 0; i < 15; i++) assert_ok(rota_submit(beats, NULL, NULL));
    assert_ok(rota_submit(reads, NULL, &last));
    const uint64_t begin = rota_clock_ns();
    test_sequenced(last);
    assert_status(rota_wait(hung, 0), ROTA_TIMEOUT);
    assert_true(rota_clock_ns() - begin < SOON_MS * MS);
    test_gate_open(true);
    assert_ok(rota_wait(last, 20000 * MS));
    rota_plan_release(hangs);
    rota_plan_release(beats);
    rota_plan_release(reads);
}

/* Fourteen beats on one queue, then a submission on a second and a third that come after them: the third's
 * chain gets on all the time, for nearly three times the deadline. */
static void a_chain_that_gets_on_is_waited_for(void **state) {
    waits_fixture *f = *state;
    rota_plan *beats = plan_on(f->device, 1, &slow, f->buffers[1], NULL);
    rota_plan *second = plan_on(f->device, 2, &slow_reader, f->buffers[2], f->buffers[1]);
    rota_plan *third = plan_on(f->device, 0, &slow_reader, f->buffers[0], f->buffers[2]);
    rota_ticket last;
    const uint64_t begin = rota_clock_ns(); /* before the first beat may */
    for (uint32_t i = 0; i < 14; i++) assert_ok(rota_submit(beats, NULL, NULL));
    assert_ok(rota_submit(second, NULL, NULL));
    assert_ok(rota_submit(third, NULL, &last));
    assert_ok(rota_wait(last, 0));
    assert_true(rota_clock_ns() - begin > 2 * DEADLINE_MS * MS);
    rota_plan_release(beats);
    rota_plan_release(second);
    rota_plan_release(third);
}

/* The chain of a submission stays known, or too much is watched and never too little, whatever number of
 * submissions that wait for other queues comes after it. */
static void a_chain_is_not_forgotten(void **state) {
    waits_fixture *f = *state;
    rota_plan *beats = plan_on(f->device, 1, &slow, f->buffers[1], NULL);
    rota_plan *reads = plan_on(f->device, 0, &slow_reader, f->buffers[0], f->buffers[1]);
    rota_plan *quick_1 = plan_on(f->device, 2, &test_increment, f->buffers[2], NULL);
    rota_plan *quick_0 = plan_on(f->device, 0, &quick_reader, f->buffers[3], f->buffers[2]);
    rota_ticket first;
    for (uint32_t i = 0; i < 8; i++) assert_ok(rota_submit(beats, NULL, NULL));
    assert_ok(rota_submit(reads, NULL, &first));
    for (uint32_t i = 0; i < 60; i++) {
        assert_ok(rota_submit(quick_1, NULL, NULL));
        assert_ok(rota_submit(quick_0, NULL, NULL));
    }
    assert_ok(rota_wait(first, 0));
    rota_plan_release(beats);
    rota_plan_release(reads);
    rota_plan_release(quick_1);
    rota_plan_release(quick_0);
}

/* ---- A ticket whose delivery comes after those of other devices ---- */

/* Its OUTPUT is what `kernel` made of a buffer of its own. */
typedef struct to_host {
    rota_buffer *from, *output;
    rota_plan *plan;
} to_host;

enum { OUTPUT_WORDS = 64 };

static to_host plan_to_host(rota_device *device, const rota_kernel *kernel) {
    to_host t = {.from = test_words(device, "from", OUTPUT_WORDS, 1)};
    rota_graph *graph;
    rota_recorder *recorder;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", OUTPUT_WORDS * 4, &t.output));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rota_access access = {t.from, 0, ROTA_WHOLE, ROTA_READWRITE};
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = kernel, .accesses = &access, .access_count = 1), NULL));
    assert_ok(rota_record_copy(recorder, t.output, 0, t.from, 0, OUTPUT_WORDS * 4, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(rota_device_runtime(device), graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &t.plan));
    rota_graph_release(graph);
    return t;
}

static rota_ticket submit_to(const to_host *t, uint32_t *memory) {
    rota_args *args;
    rota_ticket ticket;
    assert_ok(rota_args_create(t->plan, &args));
    assert_ok(rota_args_set_output(args, t->output, memory, OUTPUT_WORDS * 4));
    assert_ok(rota_submit_wait(t->plan, args, 20000 * MS, &ticket));
    rota_args_release(args);
    return ticket;
}

static void drop_to_host(to_host *t) {
    rota_plan_release(t->plan);
    rota_buffer_release(t->from);
}

typedef struct deliveries_fixture {
    adversary_options adversary;
    rota_runtime *runtime;
    rota_device *slow, *others[2];
    uint32_t memory[2 * OUTPUT_WORDS]; /* the second half's first words are both others' */
} deliveries_fixture;

static void open_deliveries(deliveries_fixture *f) {
    *f = (deliveries_fixture){.adversary = {.seed = 3}};
    assert_ok(adversary_runtime_open(
        &f->adversary, &ROTA_RUNTIME_OPTIONS(.timeout_ns = DEADLINE_MS * MS, .worker_threads = QUEUES),
        &f->runtime));
    assert_ok(rota_device_open(f->runtime, "cpu", &f->slow));
    assert_ok(rota_device_open(f->runtime, "adversary", &f->others[0]));
    assert_ok(rota_device_open(f->runtime, "adversary:1", &f->others[1]));
}

/* Fourteen replays of one device write the memory first, one after the other, for nearly three times the
 * deadline; another device's is then delivered there, and a third's after that one alone, which waits for the
 * first device only through it. */
static void deliveries_that_come_before_are_progress(void **state) {
    (void)state;
    deliveries_fixture f;
    open_deliveries(&f);
    to_host first = plan_to_host(f.slow, &slow), second = plan_to_host(f.others[0], &test_increment),
            third = plan_to_host(f.others[1], &test_increment);
    const uint64_t begin = rota_clock_ns(); /* before the first beat may */
    for (uint32_t i = 0; i < 14; i++) (void)submit_to(&first, f.memory);
    rota_ticket t2 = submit_to(&second, f.memory + OUTPUT_WORDS / 2),
                t3 = submit_to(&third, f.memory + OUTPUT_WORDS);
    assert_ok(rota_wait(t3, 0));
    assert_true(rota_clock_ns() - begin > 2 * DEADLINE_MS * MS);
    assert_ok(rota_poll(t2));
    for (uint32_t i = 0; i < 2 * OUTPUT_WORDS; i++)
        assert_int_equal(f.memory[i], i < OUTPUT_WORDS / 2 ? 1 : 2);
    drop_to_host(&first);
    drop_to_host(&second);
    drop_to_host(&third);
    assert_ok(rota_runtime_close(f.runtime, 20000 * MS));
}

/* The replay before hangs; its device gets on with others, which write elsewhere. */
static void other_deliveries_extend_no_wait(void **state) {
    (void)state;
    deliveries_fixture f;
    uint32_t elsewhere[OUTPUT_WORDS];
    open_deliveries(&f);
    to_host first = plan_to_host(f.slow, &test_gate), second = plan_to_host(f.others[0], &test_increment),
            beats = plan_to_host(f.slow, &slow);
    test_gate_open(false);
    (void)submit_to(&first, f.memory);
    test_gates_running(1);
    rota_ticket t2 = submit_to(&second, f.memory), last = {NULL, 0};
    for (uint32_t i = 0; i < 16; i++) last = submit_to(&beats, elsewhere);
    const uint64_t begin = rota_clock_ns();
    assert_status(rota_wait(t2, 0), ROTA_TIMEOUT);
    const uint64_t took = rota_clock_ns() - begin;
    assert_true(took >= DEADLINE_MS * MS);
    assert_true(took < SOON_MS * MS);
    assert_int_equal(rota_poll(last), ROTA_BUSY);
    test_gate_open(true);
    assert_ok(rota_wait(t2, 20000 * MS));
    assert_ok(rota_wait(last, 20000 * MS));
    drop_to_host(&first);
    drop_to_host(&second);
    drop_to_host(&beats);
    assert_ok(rota_runtime_close(f.runtime, 20000 * MS));
}

/* ---- What a message names ---- */

/* Everything that was released has been freed: nobody keeps what it used. */
static void expect_all_freed(rota_runtime *runtime) {
    const uint64_t deadline = rota_deadline_after(20000 * MS);
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    do {
        test_nap_ms(1);
        rota_runtime_get_stats(runtime, &stats);
    } while (stats.reclaim_pending && rota_clock_ns() < deadline);
    assert_int_equal(stats.reclaim_pending, 0);
}

typedef struct queues_of {
    uint32_t queue[4];
} queues_of;

static uint32_t by_node(void *user, rota_node node, uint32_t queues) {
    (void)queues;
    return ((const queues_of *)user)->queue[node.index];
}

/* Two segments hang, of three nodes and of one: the one is named, whichever queue it is on; and if it has
 * ended, the three. */
static void the_smallest_unfinished_segment_is_named(void **state) {
    waits_fixture *f = *state;
    for (uint32_t round = 0; round < 3; round++) {
        const uint32_t small = round == 1 ? 1 : 0, large = 1 - small;
        const bool ends = round == 2;
        const queues_of queues = {{large, large, large, small}};
        const char *const names[] = {"first of three", "second", "last of three", "alone"};
        rota_graph *graph;
        rota_recorder *recorder;
        rota_plan *plan;
        rota_ticket ticket;
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
        for (uint32_t i = 0; i < 4; i++) {
            const bool hangs = i == 0 || (i == 3 && !ends);
            rota_access access = {f->buffers[i == 3], 0, ROTA_WHOLE, ROTA_READWRITE};
            assert_ok(rota_record_kernel(recorder,
                                         &ROTA_KERNEL_NODE(.kernel = hangs ? &test_gate : &test_increment,
                                                           .name = names[i], .accesses = &access,
                                                           .access_count = 1),
                                         NULL));
        }
        rota_recorder_close(recorder);
        assert_ok(rota_compile(f->runtime, graph,
                               &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1, .queues = 2,
                                                     .queue_policy = by_node,
                                                     .queue_policy_user = (void *)(uintptr_t)&queues),
                               &plan));
        rota_graph_release(graph);
        test_gate_open(false);
        assert_ok(rota_submit(plan, NULL, &ticket));
        test_gates_running(ends ? 1 : 2);
        /* What ends has ended. */
        rota_timeline *timeline = &f->device->timelines[small];
        const uint64_t deadline = rota_deadline_after(20000 * MS);
        while (ends && ra_load_seq_cst(&timeline->completed) < ra_load_seq_cst(&timeline->issued) - 1 &&
               rota_clock_ns() < deadline)
            test_nap_ms(1);
        assert_status(rota_wait(ticket, 20 * MS), ROTA_TIMEOUT);
        const char *expected =
            ends ? "from node 'first of three' to node 'last of three'" : "from node 'alone' to node 'alone'";
        if (!strstr(rota_last_error(), expected))
            fail_msg("round %u, expected %s: %s", round, expected, rota_last_error());
        for (uint32_t q = 0; q < QUEUES; q++) { /* those that have never had any work too */
            char queue[64];
            snprintf(queue, sizeof queue, "'cpu' queue %u at %llu of %llu", q,
                     (unsigned long long)ra_load_seq_cst(&f->device->timelines[q].completed),
                     (unsigned long long)ra_load_seq_cst(&f->device->timelines[q].issued));
            if (!strstr(rota_last_error(), queue)) fail_msg("expected %s: %s", queue, rota_last_error());
        }
        test_gate_open(true);
        assert_ok(rota_wait(ticket, 20000 * MS));
        rota_plan_release(plan);
        expect_all_freed(f->runtime); /* also by the thread that looked at where the submission stands */
    }
}

/* Until the sequencer has taken it, that is all there is to say. */
static void what_was_not_sequenced_is_said_to_be_so(void **state) {
    waits_fixture *f = *state;
    rota_ticket ticket;
    rota_plan *plan = test_plan_1(f->device, "later", &test_increment, f->buffers[1], ROTA_READWRITE);
    assert_ok(rota_runtime_lock_submission(f->runtime, true)); /* which keeps the sequencer from its work */
    assert_ok(rota_submit(plan, NULL, &ticket));
    assert_status(rota_wait(ticket, 20 * MS), ROTA_TIMEOUT);
    assert_non_null(strstr(rota_last_error(), "a submission that was not sequenced yet; timelines: "));
    assert_ok(rota_runtime_lock_submission(f->runtime, false));
    assert_ok(rota_wait(ticket, 20000 * MS));
    test_expect_words(f->buffers[1], 64, 2);
    rota_plan_release(plan);
}

/* ---- A ticket over two devices ---- */

/* The device of its last segment is lost while the other is at work: the ticket ends when that one is
 * through. */
static void a_spread_ticket_ends_with_its_last_device(void **state) {
    (void)state;
    uint32_t tried = 0;
    for (uint32_t order = 0; order < 2; order++) {
        adversary_options adversary = {.seed = 5};
        rota_runtime *runtime;
        rota_device *devices[2], *lossy, *host;
        rota_graph *graph;
        rota_recorder *recorders[2];
        rota_plan *plan;
        rota_ticket ticket;
        assert_ok(adversary_runtime_open(&adversary, &ROTA_RUNTIME_OPTIONS(.worker_threads = 2), &runtime));
        assert_ok(rota_device_open(runtime, "adversary", &lossy));
        assert_ok(rota_device_open(runtime, "cpu", &host));
        devices[order] = lossy;
        devices[1 - order] = host;
        rota_buffer *buffers[] = {test_words(devices[0], "x", 4, 0), test_words(devices[1], "y", 4, 0)};
        assert_ok(rota_graph_create(NULL, &graph));
        for (uint32_t i = 0; i < 2; i++) {
            rota_access access = {buffers[i], 0, ROTA_WHOLE, ROTA_READWRITE};
            assert_ok(rota_recorder_open(graph, i, NULL, &recorders[i]));
            assert_ok(rota_record_kernel(
                recorders[i],
                &ROTA_KERNEL_NODE(.kernel = devices[i] == host ? &test_gate : &test_increment,
                                  .accesses = &access, .access_count = 1,
                                  .placement = {.device_plus_1 = i + 1}),
                NULL));
            rota_recorder_close(recorders[i]);
        }
        assert_ok(rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = 2),
                               &plan));
        rota_graph_release(graph);
        if (plan->partitions[plan->segments[plan->final_segment].part].device == lossy) {
            tried++;
            test_gate_open(false);
            ra_store_seq_cst(&adversary.faults.silent,
                             true); /* what is not begun before the loss is not run */
            assert_ok(rota_submit(plan, NULL, &ticket));
            test_gates_running(1);
            ra_store_seq_cst(&adversary.faults.lost_in_works, 1);
            ra_store_seq_cst(&adversary.faults.silent, false);
            const uint64_t deadline = rota_deadline_after(20000 * MS);
            while (!rota_device_is_lost(lossy) && rota_clock_ns() < deadline) test_nap_ms(1);
            assert_true(rota_device_is_lost(lossy));
            for (uint32_t i = 0; i < 5; i++, test_nap_ms(2)) assert_status(rota_poll(ticket), ROTA_BUSY);
            test_gate_open(true);
            assert_status(rota_wait(ticket, 20000 * MS), ROTA_DEVICE_LOST);
        }
        rota_plan_release(plan);
        for (uint32_t i = 0; i < 2; i++) rota_buffer_release(buffers[i]);
        assert_ok(rota_runtime_close(runtime, 20000 * MS));
    }
    assert_true(tried > 0);
}

/* ---- A worker about to sleep ---- */

static _Atomic uint32_t worker_halts, worker_goes_on;

/* Halts the thread where it has found nothing to do and has not said yet that it sleeps. */
static void before_sleep(void *user, const rota_stop_site *site) {
    (void)user;
    if (strcmp(site->function, "sleep_until_woken") != 0) return;
    rota_stop_hook = NULL;
    ra_store_seq_cst(&worker_halts, 1);
    const uint64_t deadline = rota_deadline_after(20000 * MS);
    while (!ra_load_seq_cst(&worker_goes_on) && rota_clock_ns() < deadline)
        (void)rota_futex_wait(&never, 0, rota_deadline_after(100000));
}

static rota_status set_hook(const rota_kernel_call *call) {
    (void)call;
    rota_stop_hook = before_sleep;
    return ROTA_OK;
}
static const rota_kernel hooking = {.name = "hooking", .operand_count = 1, .cpu = {.fn = set_hook}};

/* What comes just then is found at the last look, and not when the worker next wakes by itself. */
static void work_that_comes_before_sleep_is_found(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_device *device;
    rota_ticket ticket;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.worker_threads = 1), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    rota_buffer *buffer = test_words(device, "x", 4, 0);
    rota_plan *hook = test_plan_1(device, "hook", &hooking, buffer, ROTA_READWRITE);
    rota_plan *plan = test_plan_1(device, "inc", &test_increment, buffer, ROTA_READWRITE);
    ra_store_seq_cst(&worker_halts, 0);
    ra_store_seq_cst(&worker_goes_on, 0);
    assert_ok(rota_submit(hook, NULL, NULL));
    const uint64_t deadline = rota_deadline_after(20000 * MS);
    while (!ra_load_seq_cst(&worker_halts) && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_int_equal(ra_load_seq_cst(&worker_halts), 1);
    assert_ok(rota_submit(plan, NULL, &ticket));
    test_sequenced(ticket);
    /* Until the executor has it, with nobody to wake. */
    while (ra_load_seq_cst(&device->timelines[0].handed_over) <
               ra_load_seq_cst(&device->timelines[0].issued) &&
           rota_clock_ns() < deadline)
        test_nap_ms(1);
    test_nap_ms(5);
    const uint64_t begin = rota_clock_ns();
    ra_store_seq_cst(&worker_goes_on, 1);
    assert_ok(rota_wait(ticket, 20000 * MS));
    assert_true(rota_clock_ns() - begin < 3000 * MS);
    rota_plan_release(hook);
    rota_plan_release(plan);
    rota_buffer_release(buffer);
    assert_ok(rota_runtime_close(runtime, 0));
}

/* Deadlines of few of the kernel's ticks are counted from when it was, and not from a tick later. */
static void short_deadlines_are_exact(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_device *device;
    rota_ticket ticket;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 999 * MS), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    rota_buffer *x = test_words(device, "x", 4, 0);
    rota_plan *plan = test_plan_1(device, "plan", &test_increment, x, ROTA_READWRITE);
    for (uint32_t i = 0; i < 10; i++) {
        const uint64_t begin = rota_clock_ns();
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        assert_ok(rota_wait(ticket, 20000 * MS));
        uint64_t latest = 0;
        for (uint32_t q = 0; q < runtime->queue_count; q++) {
            const uint64_t when = ra_load_relaxed(&device->timelines[q].progress_ns);
            if (when > latest) latest = when;
        }
        assert_in_range(latest, begin, rota_clock_ns());
    }
    rota_plan_release(plan);
    rota_buffer_release(x);
    assert_ok(rota_runtime_close(runtime, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(others_progress_extends_no_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(later_chains_extend_no_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_chain_that_gets_on_is_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_chain_is_not_forgotten, set_up, tear_down),
        cmocka_unit_test(deliveries_that_come_before_are_progress),
        cmocka_unit_test(other_deliveries_extend_no_wait),
        cmocka_unit_test_setup_teardown(the_smallest_unfinished_segment_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_not_sequenced_is_said_to_be_so, set_up, tear_down),
        cmocka_unit_test(a_spread_ticket_ends_with_its_last_device),
        cmocka_unit_test(work_that_comes_before_sleep_is_found),
        cmocka_unit_test(short_deadlines_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
