/* Callbacks of tickets: one that blocks holds up other callbacks and nothing else, is named in the log, and
 * may itself use the runtime; and what waits to be called costs other completions nothing. */
#include "tests/adversary/adversary.h"
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <sched.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/shared/runtime.h"

#define WORDS 64u
#define PATIENCE_NS 5000000000u

static void wait_for(const _Atomic uint32_t *counter, uint32_t count) {
    const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (ra_load_seq_cst(counter) < count && rota_clock_ns() < deadline) test_nap();
    assert_true(ra_load_seq_cst(counter) >= count);
}

typedef struct blocking {
    _Atomic uint32_t begun, may_end, ended, others;
} blocking;

static void block(void *user, rota_status status, const char *message) {
    blocking *b = user;
    (void)status;
    (void)message;
    ra_store_seq_cst(&b->begun, 1);
    const uint64_t deadline = rota_deadline_after(4 * (uint64_t)PATIENCE_NS);
    while (!ra_load_seq_cst(&b->may_end) && rota_clock_ns() < deadline) test_nap();
    ra_store_seq_cst(&b->ended, 1);
}

static void count(void *user, rota_status status, const char *message) {
    blocking *b = user;
    (void)status;
    (void)message;
    (void)ra_fetch_add_seq_cst(&b->others, 1);
}

/* x's words as an OUTPUT. */
static rota_plan *reading(rota_device *device, rota_buffer *x, rota_buffer **out_output) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", WORDS * 4, out_output));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_copy(recorder, *out_output, 0, x, 0, WORDS * 4, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(rota_device_runtime(device), graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    rota_graph_release(graph);
    return plan;
}

static void one_that_blocks_holds_up_callbacks_only(void **state) {
    (void)state;
    adversary_options adversary = {.seed = 3};
    test_hold log = {0};
    blocking b = {0};
    rota_runtime *runtime;
    rota_device *device;
    rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.timeout_ns = 4 * (uint64_t)PATIENCE_NS,
                                                        .log = {test_hold_log, &log, ROTA_LOG_WARNING});
    assert_ok(adversary_runtime_open(&adversary, &options, &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    rota_buffer *x = test_words(device, "x", WORDS, 7), *y = test_words(device, "y", WORDS, 0), *output;
    rota_plan *plan = reading(device, x, &output),
              *step = test_plan_1(device, "step", &test_increment, y, ROTA_READWRITE);
    rota_ticket first, ticket;
    rota_args *args;
    uint32_t words[WORDS] = {0};
    test_gate_open(false);
    rota_plan *gate = test_plan_1(device, "gate", &test_gate, y, ROTA_READWRITE);
    assert_ok(rota_submit_wait(gate, NULL, 0, &first));
    assert_ok(rota_ticket_on_complete(first, block, &b));
    const uint64_t begin = rota_clock_ns();
    test_gate_open(true);
    wait_for(&b.begun, 1);
    /* An OUTPUT, an eventfd, and a buffer that is freed; another callback waits. */
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_args_set_output(args, output, words, sizeof words));
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    assert_ok(rota_submit_wait(plan, args, 0, &ticket));
    int event = eventfd(0, EFD_NONBLOCK);
    assert_ok(rota_ticket_eventfd(ticket, event));
    assert_ok(rota_ticket_on_complete(ticket, count, &b));
    test_gate_open(true);
    assert_ok(rota_wait(ticket, PATIENCE_NS));
    for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(words[i], 7);
    struct pollfd ready = {.fd = event, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, (int)(PATIENCE_NS / 1000000)), 1);
    assert_int_equal(ra_load_seq_cst(&b.others), 0);
    /* It is named once it has run for a second, and once only. */
    uint64_t number;
    char named[64];
    assert_ok(rota_ticket_number(first, &number));
    (void)snprintf(named, sizeof named, "of submission %llu has run for ", (unsigned long long)number);
    wait_for(&log.lines, 1);
    assert_true(rota_clock_ns() - begin >= 1000000000u);
    assert_non_null(strstr(log.line, named));
    assert_int_equal(ra_load_seq_cst(&b.others), 0);
    assert_int_equal(ra_load_seq_cst(&b.ended), 0);
    ra_store_seq_cst(&b.may_end, 1);
    wait_for(&b.others, 1);
    assert_int_equal(ra_load_seq_cst(&b.ended), 1);
    (void)close(event);
    rota_args_release(args);
    rota_plan_release(plan);
    rota_plan_release(step);
    rota_plan_release(gate);
    rota_buffer_release(x);
    rota_buffer_release(y);
    assert_ok(rota_runtime_close(runtime, PATIENCE_NS));
    assert_int_equal(ra_load_seq_cst(&log.lines), 1);
    assert_string_equal(adversary.violation, "");
}

/* ---- A callback that works ---- */

typedef struct working {
    rota_plan *plan, *step;
    rota_args *args;
    rota_buffer *y;
    uint32_t read[WORDS];
    rota_status statuses[6];
    _Atomic uint32_t done;
} working;

static void work(void *user, rota_status status, const char *message) {
    working *w = user;
    rota_ticket ticket;
    (void)status;
    (void)message;
    w->statuses[0] = rota_submit_wait(w->step, NULL, 0, &ticket);
    w->statuses[1] = rota_wait(ticket, PATIENCE_NS);
    w->statuses[2] = rota_submit_wait(w->plan, w->args, 0, &ticket);
    w->statuses[3] = rota_wait(ticket, PATIENCE_NS); /* which the completer ends */
    w->statuses[4] = rota_buffer_read(w->y, 0, w->read, sizeof w->read);
    w->statuses[5] = rota_buffer_write(w->y, NULL, 0, w->read, sizeof w->read, NULL);
    ra_store_seq_cst(&w->done, 1);
}

static void one_may_use_the_runtime(void **state) {
    (void)state;
    adversary_options adversary = {.seed = 4};
    static uint32_t words[WORDS];
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(adversary_runtime_open(
        &adversary, &ROTA_RUNTIME_OPTIONS(.timeout_ns = 4 * (uint64_t)PATIENCE_NS), &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    rota_buffer *x = test_words(device, "x", WORDS, 7), *output;
    working w = {.y = test_words(device, "y", WORDS, 0)};
    w.plan = reading(device, x, &output);
    w.step = test_plan_1(device, "step", &test_increment, w.y, ROTA_READWRITE);
    rota_plan *gate = test_plan_1(device, "gate", &test_gate, w.y, ROTA_READWRITE);
    rota_ticket ticket;
    assert_ok(rota_args_create(w.plan, &w.args));
    assert_ok(rota_args_set_output(w.args, output, words, sizeof words));
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
    assert_ok(rota_ticket_on_complete(ticket, work, &w));
    test_gate_open(true);
    wait_for(&w.done, 1);
    for (uint32_t i = 0; i < 6; i++) assert_int_equal(w.statuses[i], ROTA_OK);
    for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(words[i], 7);
    for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(w.read[i], 1);
    rota_args_release(w.args);
    rota_plan_release(w.plan);
    rota_plan_release(w.step);
    rota_plan_release(gate);
    rota_buffer_release(x);
    rota_buffer_release(w.y);
    assert_ok(rota_runtime_close(runtime, PATIENCE_NS));
    assert_string_equal(adversary.violation, "");
}

/* Close ends by its deadline, and says why. What the callback may touch when it goes on is left: the
 * sanitizers look. */
static void closed_while_one_does_not_return(void **state) {
    (void)state;
    static blocking b;
    rota_runtime *runtime;
    rota_device *device;
    rota_ticket ticket;
    memset(&b, 0, sizeof b);
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.worker_threads = 1), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    rota_buffer *y = test_words(device, "y", WORDS, 0);
    rota_plan *gate = test_plan_1(device, "gate", &test_gate, y, ROTA_READWRITE);
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
    assert_ok(rota_ticket_on_complete(ticket, block, &b));
    test_gate_open(true);
    wait_for(&b.begun, 1);
    const uint64_t begin = rota_clock_ns();
    assert_status(rota_runtime_close(runtime, 100000000u), ROTA_TIMEOUT);
    assert_true(rota_clock_ns() - begin < PATIENCE_NS);
    assert_non_null(strstr(rota_last_error(), "a ticket's callback did not return within"));
    ra_store_seq_cst(&b.may_end, 1);
    wait_for(&b.ended, 1);
    rota_plan_release(gate);
    rota_buffer_release(y);
}

/* ---- Many that wait ---- */

/* The least of a few: what else the machine does only adds to it. */
static uint64_t cpu_of_steps(rota_runtime *runtime, rota_plan *step, uint32_t steps) {
    enum { ROUNDS = 8 };
    uint64_t least = UINT64_MAX;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        rota_runtime_stats before = ROTA_RUNTIME_STATS(), after = ROTA_RUNTIME_STATS();
        rota_runtime_get_stats(runtime, &before);
        for (uint32_t i = 0; i < steps; i++) {
            rota_ticket ticket;
            assert_ok(rota_submit_wait(step, NULL, 0, &ticket));
            assert_ok(rota_wait(ticket, 0));
        }
        rota_runtime_get_stats(runtime, &after);
        const uint64_t took = after.scheduler_cpu_ns - before.scheduler_cpu_ns;
        if (took < least) least = took;
    }
    return least;
}

/* Of tickets that do not end for now: what ends meanwhile costs rota's threads what it does without them. */
static void those_that_wait_cost_others_nothing(void **state) {
    (void)state;
    enum { MANY = 4000, STEPS = 100 };
    adversary_options adversary = {.seed = 5};
    blocking b = {0};
    rota_runtime *runtime;
    rota_device *device, *cpu;
    assert_ok(adversary_runtime_open(
        &adversary, &ROTA_RUNTIME_OPTIONS(.timeout_ns = 4 * (uint64_t)PATIENCE_NS), &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    rota_buffer *x = test_words(device, "x", WORDS, 7), *y = test_words(cpu, "y", WORDS, 0);
    rota_plan *gate = test_plan_1(device, "gate", &test_gate, x, ROTA_READWRITE),
              *step = test_plan_1(cpu, "step", &test_increment, y, ROTA_READWRITE);
    rota_ticket ticket;
    (void)cpu_of_steps(runtime, step, STEPS);
    const uint64_t without = cpu_of_steps(runtime, step, STEPS);
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
    for (uint32_t i = 0; i < MANY; i++) assert_ok(rota_ticket_on_complete(ticket, count, &b));
    const uint64_t with = cpu_of_steps(runtime, step, STEPS);
    print_message("%d steps: %.1f ms, with %d that wait %.1f ms\n", STEPS, (double)without * 1e-6, MANY,
                  (double)with * 1e-6);
    assert_int_equal(ra_load_seq_cst(&b.others), 0);
    assert_true(with < 3 * without + STEPS * 20000u);
    test_gate_open(true);
    wait_for(&b.others, MANY);
    assert_int_equal(ra_load_seq_cst(&b.others), MANY);
    rota_plan_release(gate);
    rota_plan_release(step);
    rota_buffer_release(x);
    rota_buffer_release(y);
    assert_ok(rota_runtime_close(runtime, PATIENCE_NS));
}

/* The same of tickets whose value was reached, and whose delivery another device's comes before: by that
 * device, which is to write all of the memory, of which each of them writes a piece. */
static void those_before_their_turn_cost_others_nothing(void **state) {
    (void)state;
    enum { REPLAYS = 1000, EACH = 4, STEPS = 100 };
    adversary_options adversary = {.seed = 5};
    blocking b = {0};
    rota_runtime *runtime;
    rota_device *device, *beside, *cpu;
    assert_ok(adversary_runtime_open(
        &adversary, &ROTA_RUNTIME_OPTIONS(.timeout_ns = 4 * (uint64_t)PATIENCE_NS, .worker_threads = 2),
        &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    assert_ok(rota_device_open(runtime, "adversary:1", &beside));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    rota_buffer *y = test_words(beside, "y", WORDS, 0), *from[2], *outputs[2];
    rota_plan *step = test_plan_1(beside, "step", &test_increment, y, ROTA_READWRITE), *plans[2];
    const uint32_t sizes[] = {REPLAYS * WORDS, WORDS};
    for (uint32_t i = 0; i < 2; i++) {
        rota_graph *graph;
        rota_recorder *recorder;
        rota_device *on = i ? device : cpu;
        from[i] = test_words(on, "from", sizes[i], i + 1);
        const rota_access access = {from[i], 0, ROTA_WHOLE, ROTA_READWRITE};
        const rota_kernel_node gate =
            ROTA_KERNEL_NODE(.kernel = &test_gate, .accesses = &access, .access_count = 1);
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", sizes[i] * 4, &outputs[i]));
        assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
        if (i == 0) assert_ok(rota_record_kernel(recorder, &gate, NULL));
        assert_ok(rota_record_copy(recorder, outputs[i], 0, from[i], 0, sizes[i] * 4, NULL));
        rota_recorder_close(recorder);
        assert_ok(rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &on, .device_count = 1),
                               &plans[i]));
        rota_graph_release(graph);
    }
    uint32_t *memory = calloc(REPLAYS, WORDS * 4);
    assert_non_null(memory);
    (void)cpu_of_steps(runtime, step, STEPS);
    const uint64_t without = cpu_of_steps(runtime, step, STEPS);
    test_gate_open(false);
    rota_ticket ticket = {NULL, 0}, whole;
    for (uint32_t i = 0; i <= REPLAYS; i++) {
        const uint32_t p = i != 0;
        rota_args *args;
        assert_ok(rota_args_create(plans[p], &args));
        assert_ok(rota_args_set_output(args, outputs[p], memory + (p ? i - 1 : 0) * WORDS, sizes[p] * 4));
        assert_ok(rota_submit_wait(plans[p], args, 0, &ticket));
        if (i == 0) whole = ticket;
        for (uint32_t k = 0; p && k < EACH; k++) assert_ok(rota_ticket_on_complete(ticket, count, &b));
        rota_args_release(args);
    }
    /* The last one's value is reached. */
    const rota_cell *cell = rota_lane_cell(rota_lane_at(&runtime->lanes, rota_ticket_lane(ticket.id)),
                                           rota_ticket_sequence(ticket.id));
    assert_non_null(cell);
    uint64_t point;
    do (void)sched_yield();
    while ((point = ra_load_acquire(&cell->point)) == ROTA_POINT_NONE || !rota_point_passed(runtime, point));
    (void)cpu_of_steps(runtime, step, STEPS);
    const uint64_t with = cpu_of_steps(runtime, step, STEPS);
    print_message("%d steps: %.1f ms, with %d deliveries and %d callbacks that wait %.1f ms\n", STEPS,
                  (double)without * 1e-6, REPLAYS, EACH * REPLAYS, (double)with * 1e-6);
    assert_int_equal(ra_load_seq_cst(&b.others), 0);
    assert_int_equal(rota_poll(ticket), ROTA_BUSY);
    assert_true(with < 3 * without + STEPS * 60000u);
    test_gate_open(true);
    wait_for(&b.others, EACH * REPLAYS);
    assert_int_equal(ra_load_seq_cst(&b.others), EACH * REPLAYS);
    assert_ok(rota_wait(whole, 0));
    for (uint32_t i = 0; i < REPLAYS * WORDS; i++) assert_int_equal(memory[i], 2);
    free(memory);
    for (uint32_t i = 0; i < 2; i++) {
        rota_plan_release(plans[i]);
        rota_buffer_release(from[i]);
    }
    rota_plan_release(step);
    rota_buffer_release(y);
    assert_ok(rota_runtime_close(runtime, PATIENCE_NS));
}

/* ---- A ticket that has no point yet ---- */

static _Atomic uint32_t hooks, halts, goes_on;

/* Halts the sequencer where all works of a submission are handed on and its ticket has no point yet. */
static void before_point(void *user, const rota_stop_site *site) {
    (void)user;
    if (strcmp(site->function, "rota_submission_publish") != 0) return;
    rota_stop_hook = NULL;
    ra_store_seq_cst(&halts, 1);
    const uint64_t deadline = rota_deadline_after(4 * (uint64_t)PATIENCE_NS);
    while (!ra_load_seq_cst(&goes_on) && rota_clock_ns() < deadline) (void)sched_yield();
}

static const rota_runtime *hooked;

/* The device's submit thread may be the one that submits, which has no tickets. */
static void hook_sequencer(void *user, uint32_t device) {
    (void)user, (void)device;
    if (pthread_equal(pthread_self(), hooked->sequencing.thread) && ra_exchange_acq_rel(&hooks, 0))
        rota_stop_hook = before_point;
}

/* How late the callback is of a ticket whose device was through with it before it had a point. */
static uint64_t lateness(rota_runtime *runtime, rota_device *device, rota_plan *plan, rota_plan *other) {
    blocking b = {0};
    rota_ticket ticket;
    const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    ra_store_seq_cst(&halts, 0);
    ra_store_seq_cst(&goes_on, 0);
    ra_store_seq_cst(&hooks, 1);
    do { /* by the sequencer itself, once the submit thread has nothing more to do */
        assert_ok(rota_submit_wait(other, NULL, 0, &ticket));
        assert_ok(rota_wait(ticket, PATIENCE_NS));
    } while (ra_load_seq_cst(&hooks) && rota_clock_ns() < deadline);
    assert_int_equal(ra_load_seq_cst(&hooks), 0);
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    wait_for(&halts, 1);
    assert_ok(rota_ticket_on_complete(ticket, count, &b));
    rota_sleeper_wake(device->handover.sleeper);
    for (uint32_t q = 0; q < runtime->queue_count; q++)
        while (ra_load_seq_cst(&device->timelines[q].completed) <
                   ra_load_seq_cst(&device->timelines[q].issued) &&
               rota_clock_ns() < deadline)
            (void)sched_yield();
    test_nap(); /* the completer has looked again, in vain, and sleeps */
    test_nap();
    while (!ra_load_seq_cst(&runtime->completing.sleeper.asleep) && rota_clock_ns() < deadline)
        (void)sched_yield();
    const uint64_t begin = rota_clock_ns();
    ra_store_seq_cst(&goes_on, 1);
    wait_for(&b.others, 1);
    return rota_clock_ns() - begin;
}

static void one_that_was_over_at_once_is_not_late(void **state) {
    (void)state;
    enum { ROUNDS = 9 };
    adversary_options options = {.seed = 2, .quiet_ns = 1};
    rota_runtime *runtime;
    rota_device *first, *second;
    assert_ok(adversary_runtime_open(&options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = 4 * (uint64_t)PATIENCE_NS),
                                     &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &first));
    options.submit_never_blocks = true;
    assert_ok(rota_device_open(runtime, "adversary:1", &second));
    rota_buffer *x = test_words(first, "x", WORDS, 1), *y = test_words(second, "y", WORDS, 1);
    test_expect_words(x, WORDS, 1);
    test_expect_words(y, WORDS, 1);
    rota_plan *plan = test_plan_1(first, "plan", &test_increment, x, ROTA_READWRITE);
    rota_plan *other = test_plan_1(second, "other", &test_increment, y, ROTA_READWRITE);
    hooked = runtime;
    ra_store_seq_cst(&options.on_submit, hook_sequencer);
    uint32_t late = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) late += lateness(runtime, first, plan, other) > 50000000u;
    if (late > ROUNDS / 2) fail_msg("%u of %d callbacks came more than 50 ms late", late, ROUNDS);
    ra_store_seq_cst(&options.on_submit, NULL);
    rota_plan_release(plan);
    rota_plan_release(other);
    rota_buffer_release(x);
    rota_buffer_release(y);
    assert_ok(rota_runtime_close(runtime, PATIENCE_NS));
    if (options.violations) fail_msg("%s", options.violation);
}

/* Called when the value is reached, and not when the completer next wakes by itself: the shortest of a few,
 * as the machine may be busy. */
static void calls_come_at_once(void **state) {
    (void)state;
    enum { ROUNDS = 8 };
    rota_runtime *runtime;
    rota_device *device;
    blocking b = {0};
    uint64_t shortest = UINT64_MAX;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 4 * (uint64_t)PATIENCE_NS), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    rota_buffer *x = test_words(device, "x", WORDS, 1);
    rota_plan *gate = test_plan_1(device, "gate", &test_gate, x, ROTA_READWRITE);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        rota_ticket ticket;
        test_gate_open(false);
        assert_ok(rota_submit(gate, NULL, &ticket));
        test_gates_running(1);
        assert_ok(rota_ticket_on_complete(ticket, count, &b));
        for (int n = 0; n < 25; n++) test_nap(); /* for the completer to note it, and sleep */
        const uint64_t begin = rota_clock_ns();
        test_gate_open(true);
        wait_for(&b.others, i + 1);
        const uint64_t took = rota_clock_ns() - begin;
        if (took < shortest) shortest = took;
    }
    print_message("the shortest took %.3f ms\n", (double)shortest * 1e-6);
    assert_true(shortest < 40000000u);
    rota_plan_release(gate);
    rota_buffer_release(x);
    assert_ok(rota_runtime_close(runtime, 0));
}

static uint64_t process_cpu_ns(void) {
    struct timespec time;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time), 0);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* No thread of a runtime that has nothing to do looks for something to do all the time. */
static void who_has_nothing_to_do_sleeps(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_device *device;
    rota_ticket ticket;
    blocking b = {0};
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 4 * (uint64_t)PATIENCE_NS), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    rota_buffer *x = test_words(device, "x", WORDS, 1);
    rota_plan *plan = test_plan_1(device, "increment", &test_increment, x, ROTA_READWRITE);
    assert_ok(rota_submit(plan, NULL, &ticket));
    assert_ok(rota_ticket_on_complete(ticket, count, &b));
    wait_for(&b.others, 1);
    test_nap_ms(200);
    const uint64_t before = process_cpu_ns();
    test_nap_ms(1000);
    const uint64_t took = process_cpu_ns() - before;
    print_message("%.3f ms in a second\n", (double)took * 1e-6);
    assert_true(took < 30000000u);
    rota_plan_release(plan);
    rota_buffer_release(x);
    assert_ok(rota_runtime_close(runtime, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_was_over_at_once_is_not_late),
        cmocka_unit_test(one_that_blocks_holds_up_callbacks_only),
        cmocka_unit_test(one_may_use_the_runtime),
        cmocka_unit_test(those_that_wait_cost_others_nothing),
        cmocka_unit_test(those_before_their_turn_cost_others_nothing),
        cmocka_unit_test(closed_while_one_does_not_return),
        cmocka_unit_test(calls_come_at_once),
        cmocka_unit_test(who_has_nothing_to_do_sleeps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
