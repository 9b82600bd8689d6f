/* The runtime on the CPU executor: order, tickets, deadlines, lanes, closing. */
#include "tests/kit/runtime_support.h"
#include "sched/testing.h"
#include "tests/adversary/adversary.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/futex.h"

static void replays_are_in_order(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer = test_words(f->device, "x", 256, 0);
    test_node node = {&test_increment, NULL, {{buffer, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1};
    test_node nodes[8];
    for (int i = 0; i < 8; i++) nodes[i] = node;
    rota_plan *plan = test_plan(f->device, "eight", nodes, 8);
    rota_ticket ticket = {0}, previous = {0};
    for (int i = 0; i < 3000; i++) {
        previous = ticket;
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    }
    assert_ok(rota_wait(ticket, 0));
    assert_ok(rota_poll(previous));
    uint64_t number, before;
    assert_ok(rota_ticket_number(ticket, &number));
    assert_ok(rota_ticket_number(previous, &before));
    assert_true(number == before + 1);
    test_expect_words(buffer, 256, 24000);
    rota_plan_release(plan);
    rota_buffer_release(buffer);
}

static void host_access_is_ordered(void **state) {
    runtime_fixture *f = *state;
    uint32_t words[64];
    rota_buffer *buffer = test_words(f->device, "x", 64, 1), *view;
    rota_plan *plan = test_plan_1(f->device, "inc", &test_increment, buffer, ROTA_READWRITE);
    for (uint32_t round = 0; round < 500; round++) {
        for (int i = 0; i < 64; i++) words[i] = round;
        assert_ok(rota_buffer_write(buffer, NULL, 0, words, sizeof words, NULL));
        assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
        memset(words, 0xee, sizeof words); /* copied before the call returned */
        test_expect_words(buffer, 64, round + 1);
    }
    /* Pieces of a buffer, through a view. */
    assert_ok(rota_buffer_create_view(buffer, 16, 32, &view));
    uint32_t two = 2, three[8];
    assert_ok(rota_buffer_write(view, NULL, 28, &two, 4, NULL));
    assert_ok(rota_buffer_read(view, 0, three, sizeof three));
    assert_int_equal(three[7], 2);
    assert_int_equal(three[6], 500);
    assert_status(rota_buffer_read(view, 8, three, 28), ROTA_OUT_OF_RANGE);
    rota_buffer_release(view);
    rota_plan_release(plan);
    rota_buffer_release(buffer);
}

/* Larger than the whole upload ring, and more writes in flight than it has slots. */
static void uploads_reuse_the_ring(void **state) {
    runtime_fixture *f = *state;
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(
        rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.staging_slots = 4, .staging_slot_bytes = 4096), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    rota_buffer *buffers[64];
    rota_plan *plans[64];
    for (uint32_t k = 0; k < 64; k++) buffers[k] = test_words(device, "k", 1000, k);
    for (uint32_t k = 0; k < 64; k++) {
        plans[k] = test_plan_1(device, "inc", &test_increment, buffers[k], ROTA_READWRITE);
        assert_ok(rota_submit_wait(plans[k], NULL, 0, NULL));
    }
    for (uint32_t k = 0; k < 64; k++) {
        test_expect_words(buffers[k], 1000, k + 1);
        rota_plan_release(plans[k]);
        rota_buffer_release(buffers[k]);
    }
    rota_buffer *large = test_words(device, "large", 100000, 9);
    test_expect_words(large, 100000, 9);
    rota_buffer_release(large);
    assert_ok(rota_runtime_close(runtime, 0));
    (void)f;
}

/* ---- Threads ---- */

typedef struct submitter {
    rota_plan *plan;
    int count;
} submitter;

static void *submit_many(void *user) {
    submitter *work = user;
    rota_ticket ticket = {0};
    for (int i = 0; i < work->count; i++)
        if (rota_submit_wait(work->plan, NULL, 0, &ticket) != ROTA_OK) return "submit failed";
    return rota_wait(ticket, 0) == ROTA_OK ? NULL : "wait failed";
}

static void sixteen_threads_add_to_one_buffer(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer = test_words(f->device, "acc", 64, 0);
    rota_plan *plan = test_plan_1(f->device, "inc", &test_increment, buffer, ROTA_READWRITE);
    pthread_t threads[16];
    submitter work = {plan, 1000};
    for (int t = 0; t < 16; t++) assert_int_equal(pthread_create(&threads[t], NULL, submit_many, &work), 0);
    for (int t = 0; t < 16; t++) {
        void *failure;
        (void)pthread_join(threads[t], &failure);
        assert_null(failure);
    }
    test_expect_words(buffer, 64, 16000);
    rota_plan_release(plan);
    rota_buffer_release(buffer);
}

/* Two threads take turns: each submit returns before the next is called, so numbers must ascend over both. */
typedef struct turns {
    rota_plan *plan;
    _Atomic uint64_t turn;
    rota_ticket tickets[2000];
} turns;

typedef struct turn_taker {
    turns *shared;
    uint64_t parity;
} turn_taker;

static void *take_turns(void *user) {
    turn_taker *self = user;
    for (uint64_t i = self->parity; i < 2000; i += 2) {
        while (ra_load_acquire(&self->shared->turn) != i) ra_pause();
        if (rota_submit_wait(self->shared->plan, NULL, 0, &self->shared->tickets[i]) != ROTA_OK)
            return "failed";
        ra_store_release(&self->shared->turn, i + 1);
    }
    return NULL;
}

static void numbers_follow_real_time(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer = test_words(f->device, "x", 4, 0);
    turns *shared = calloc(1, sizeof *shared);
    assert_non_null(shared);
    shared->plan = test_plan_1(f->device, "inc", &test_increment, buffer, ROTA_READWRITE);
    pthread_t threads[2];
    turn_taker takers[2] = {{shared, 0}, {shared, 1}};
    for (int t = 0; t < 2; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, take_turns, &takers[t]), 0);
    for (int t = 0; t < 2; t++) {
        void *failure;
        (void)pthread_join(threads[t], &failure);
        assert_null(failure);
    }
    assert_ok(rota_wait(shared->tickets[1999], 0));
    uint64_t last = 0, number;
    for (int i = 0; i < 2000; i++) {
        assert_ok(rota_ticket_number(shared->tickets[i], &number));
        assert_true(number > last);
        last = number;
    }
    rota_plan_release(shared->plan);
    rota_buffer_release(buffer);
    free(shared);
}

static void *submit_once(void *user) {
    submitter *work = user;
    return rota_submit_wait(work->plan, NULL, 0, NULL) == ROTA_OK ? NULL : "submit failed";
}

/* More threads than there are lanes, one after the other: ended threads give theirs back. */
static void lanes_come_back(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer = test_words(f->device, "x", 4, 0);
    submitter work = {test_plan_1(f->device, "inc", &test_increment, buffer, ROTA_READWRITE), 1};
    for (int i = 0; i < 1500; i++) {
        pthread_t thread;
        void *failure;
        assert_int_equal(pthread_create(&thread, NULL, submit_once, &work), 0);
        (void)pthread_join(thread, &failure);
        assert_null(failure);
    }
    test_expect_words(buffer, 4, 1500);
    rota_plan_release(work.plan);
    rota_buffer_release(buffer);
}

/* ---- Tickets ---- */

static _Atomic uint32_t called;
static _Atomic uint32_t called_status;

static void on_complete(void *user, rota_status status, const char *message) {
    (void)message;
    ra_store_relaxed(&called_status, (uint32_t)status);
    (void)ra_fetch_add_seq_cst(&called, *(const uint32_t *)user);
    rota_futex_wake(&called, INT32_MAX);
}

static void wait_for_calls(uint32_t expected) {
    uint64_t deadline = rota_deadline_after(10000000000u);
    for (uint32_t seen; (seen = ra_load_seq_cst(&called)) != expected;)
        if (!rota_futex_wait(&called, seen, deadline)) break;
    assert_int_equal(ra_load_seq_cst(&called), expected);
}

static void callbacks_and_eventfds(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer = test_words(f->device, "x", 4, 0);
    rota_plan *gate = test_plan_1(f->device, "gate", &test_gate, buffer, ROTA_READWRITE);
    rota_ticket ticket;
    uint32_t one = 1;
    int event = eventfd(0, EFD_NONBLOCK);
    assert_true(event >= 0);
    ra_store_relaxed(&called, 0);
    test_gate_open(false);
    assert_ok(rota_submit(gate, NULL, &ticket));
    assert_ok(rota_ticket_on_complete(ticket, on_complete, &one));
    assert_ok(rota_ticket_eventfd(ticket, event));
    assert_status(rota_poll(ticket), ROTA_BUSY);
    assert_int_equal(ra_load_seq_cst(&called), 0);
    test_gate_open(true);
    assert_ok(rota_wait(ticket, 0));
    wait_for_calls(1);
    struct pollfd ready = {.fd = event, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 10000), 1);
    uint64_t count = 0;
    assert_int_equal(read(event, &count, sizeof count), sizeof count);
    assert_true(count == 1);
    /* One that cannot take the 1, though a write would wait for room, holds up nothing. */
    int full = eventfd(0, 0);
    count = UINT64_MAX - 1;
    assert_int_equal(write(full, &count, sizeof count), sizeof count);
    test_gate_open(false);
    assert_ok(rota_submit(gate, NULL, &ticket));
    assert_ok(rota_ticket_eventfd(ticket, full));
    assert_ok(rota_ticket_on_complete(ticket, on_complete, &one));
    test_gate_open(true);
    wait_for_calls(2);
    (void)close(full);
    ra_store_relaxed(&called, 1);
    /* Already complete: at once. */
    assert_ok(rota_ticket_on_complete(ticket, on_complete, &one));
    assert_int_equal(ra_load_seq_cst(&called), 2);
    assert_int_equal(ra_load_relaxed(&called_status), ROTA_OK);
    (void)close(event);
    rota_plan_release(gate);
    rota_buffer_release(buffer);
}

static void old_tickets_still_answer(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer = test_words(f->device, "x", 4, 0);
    rota_plan *plan = test_plan_1(f->device, "inc", &test_increment, buffer, ROTA_READWRITE);
    rota_plan *fails = test_plan_1(f->device, "fails", &test_failing, buffer, ROTA_WRITE);
    rota_ticket first, failed, last;
    assert_ok(rota_submit_wait(plan, NULL, 0, &first));
    test_fail = 1;
    assert_ok(rota_submit_wait(fails, NULL, 0, &failed));
    assert_status(rota_wait(failed, 0), ROTA_NODE_FAILED);
    test_fail = 0;
    assert_ok(rota_submit_wait(fails, NULL, 0, NULL));
    for (int i = 0; i < ROTA_TICKET_HISTORY + 100; i++) assert_ok(rota_submit_wait(plan, NULL, 0, &last));
    assert_ok(rota_wait(last, 0));
    uint64_t number;
    assert_ok(rota_poll(first));
    assert_status(rota_ticket_number(first, &number), ROTA_NOT_FOUND);
    assert_status(rota_poll(failed), ROTA_NODE_FAILED);
    assert_non_null(strstr(rota_last_error(), "told to fail"));
    assert_ok(rota_ticket_number(last, &number));
    assert_status(rota_poll((rota_ticket){f->runtime, 0}), ROTA_INVALID_ARGUMENT);
    rota_plan_release(fails);
    rota_plan_release(plan);
    rota_buffer_release(buffer);
}

static void a_full_lane_is_busy(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer = test_words(f->device, "x", 4, 0);
    rota_plan *gate = test_plan_1(f->device, "gate", &test_gate, buffer, ROTA_READWRITE);
    rota_plan *plan = test_plan_1(f->device, "inc", &test_increment, buffer, ROTA_READWRITE);
    test_gate_open(false);
    rota_ticket ticket = {0};
    assert_ok(rota_submit(gate, NULL, NULL));
    test_gates_running(1);
    uint32_t accepted = 0;
    rota_status status = ROTA_OK;
    /* Bounded space: BUSY comes at some point, and nothing that was accepted is lost. */
    for (int i = 0; i < 100000 && status == ROTA_OK; i++) {
        status = rota_submit_wait(plan, NULL, 200000000, &ticket);
        if (status == ROTA_OK) accepted++;
    }
    assert_int_equal(status, ROTA_TIMEOUT);
    assert_status(rota_submit(plan, NULL, NULL), ROTA_BUSY);
    test_gate_open(true);
    test_expect_words(buffer, 4, accepted);
    rota_plan_release(gate);
    rota_plan_release(plan);
    rota_buffer_release(buffer);
}

/* ---- Deadlines, closing, releasing ---- */

static void deadlines_name_the_node(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer = test_words(f->device, "x", 4, 0);
    test_node nodes[2] = {{&test_increment, "before", {{buffer, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1},
                          {&test_gate, "the slow one", {{buffer, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1}};
    rota_plan *plan = test_plan(f->device, "slow plan", nodes, 2);
    test_gate_open(false);
    rota_ticket ticket;
    assert_ok(rota_submit(plan, NULL, &ticket));
    test_gates_running(1); /* it is there */
    uint64_t start = rota_clock_ns();
    assert_status(rota_wait(ticket, 50000000), ROTA_TIMEOUT);
    assert_true(rota_clock_ns() - start < 5000000000u);
    assert_non_null(strstr(rota_last_error(), "slow plan"));
    assert_non_null(strstr(rota_last_error(), "stuck at node 'the slow one'"));
    assert_non_null(strstr(rota_last_error(), "from node 'before' to node 'the slow one'"));
    assert_non_null(strstr(rota_last_error(), "'cpu' queue 0 at"));
    test_gate_open(true);
    assert_ok(rota_wait(ticket, 0));
    rota_plan_release(plan);
    rota_buffer_release(buffer);
}

/* Threads that look for long instead of sleeping end their waits at the same deadlines, and close. The
 * executor is one that has a submit thread. */
static void spinning_ends_at_deadlines(void **state) {
    (void)state;
    adversary_options adversary = {.seed = 3};
    rota_runtime *runtime;
    rota_device *device;
    const uint64_t spin_ns = 120000000000u, soon_ns = 60000000000u;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.spin_ns = spin_ns), &runtime));
    assert_ok(rota_runtime_add_driver(runtime, &adversary_driver, &adversary));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    rota_buffer *buffer = test_words(device, "x", 4, 0);
    rota_plan *plan = test_plan_1(device, "inc", &test_increment, buffer, ROTA_READWRITE);
    rota_plan *gate = test_plan_1(device, "gate", &test_gate, buffer, ROTA_READWRITE);
    rota_ticket ticket;
    for (uint32_t i = 0; i < 20; i++) {
        assert_ok(rota_submit(plan, NULL, &ticket));
        assert_ok(rota_wait(ticket, 0));
    }
    test_expect_words(buffer, 4, 20);
    test_gate_open(false);
    assert_ok(rota_submit(gate, NULL, &ticket));
    uint64_t start = rota_clock_ns();
    assert_status(rota_wait(ticket, 20000000), ROTA_TIMEOUT);
    assert_true(rota_clock_ns() - start < soon_ns);
    test_gate_open(true);
    assert_ok(rota_wait(ticket, 0));
    rota_plan_release(plan);
    rota_plan_release(gate);
    rota_buffer_release(buffer);
    start = rota_clock_ns();
    assert_ok(rota_runtime_close(runtime, 0));
    assert_true(rota_clock_ns() - start < soon_ns);
}

static void releasing_in_flight_is_legal(void **state) {
    runtime_fixture *f = *state;
    rota_runtime_stats after = ROTA_RUNTIME_STATS();
    test_gate_open(false);
    rota_buffer *buffer = test_words(f->device, "x", 1024, 3), *result = test_words(f->device, "y", 1024, 0);
    rota_plan *gate = test_plan_1(f->device, "gate", &test_gate, buffer, ROTA_READWRITE);
    test_node node = {
        &test_copy, NULL, {{buffer, 0, ROTA_WHOLE, ROTA_READ}, {result, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    rota_plan *copy = test_plan(f->device, "copy", &node, 1);
    rota_ticket ticket;
    assert_ok(rota_submit(gate, NULL, NULL));
    assert_ok(rota_submit(copy, NULL, &ticket));
    rota_plan_release(gate);
    rota_plan_release(copy);
    rota_buffer_release(buffer);
    /* A buffer of the same size does not get memory that is still read. */
    rota_buffer *other = test_words(f->device, "z", 1024, 7);
    test_gate_open(true);
    assert_ok(rota_wait(ticket, 0));
    test_expect_words(result, 1024, 3);
    test_expect_words(other, 1024, 7);
    rota_buffer_release(result);
    rota_buffer_release(other);
    uint64_t deadline = rota_deadline_after(10000000000u);
    do rota_runtime_get_stats(f->runtime, &after);
    while (after.reclaim_pending != 0 && rota_clock_ns() < deadline);
    assert_int_equal(after.reclaim_pending, 0);
    assert_int_equal(after.buffers, 0);
    assert_int_equal(after.plans, 0);
}

static void closed_runtimes_say_so(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(rota_runtime_open(NULL, &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    rota_buffer *buffer = test_words(device, "x", 64, 0);
    rota_plan *plan = test_plan_1(device, "inc", &test_increment, buffer, ROTA_READWRITE);
    rota_ticket ticket;
    for (int i = 0; i < 100; i++) assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_ok(rota_runtime_close(runtime, 0)); /* waits for what is in flight */
    uint32_t word;
    assert_status(rota_poll(ticket), ROTA_WRONG_STATE);
    assert_status(rota_submit(plan, NULL, NULL), ROTA_WRONG_STATE);
    assert_status(rota_buffer_read(buffer, 0, &word, 4), ROTA_WRONG_STATE);
    /* The struct may serve a later runtime: old tickets and objects still are of the closed one. */
    assert_ok(rota_runtime_open(NULL, &runtime));
    assert_status(rota_poll(ticket), ROTA_WRONG_STATE);
    assert_status(rota_submit(plan, NULL, NULL), ROTA_WRONG_STATE);
    assert_status(rota_buffer_read(buffer, 0, &word, 4), ROTA_WRONG_STATE);
    rota_args *args;
    assert_status(rota_args_create(plan, &args), ROTA_WRONG_STATE);
    uint64_t begin, end;
    assert_status(rota_plan_node_times(plan, (rota_node){1, 0}, &begin, &end), ROTA_WRONG_STATE);
    assert_non_null(strstr(rota_last_error(), "its runtime was closed"));
    assert_status(rota_plan_write_trace(plan, "/dev/null"), ROTA_WRONG_STATE);
    /* Nor do its buffers come back to life in a plan of the new one. */
    assert_ok(rota_device_open(runtime, "cpu", &device));
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *stale;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_fill(recorder, buffer, 0, ROTA_WHOLE, 0, NULL));
    rota_recorder_close(recorder);
    assert_status(
        rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &stale),
        ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "buffer 'x' is not of this runtime"));
    rota_graph_release(graph);
    rota_plan_release(plan);
    rota_buffer_release(buffer);
    assert_ok(rota_runtime_close(runtime, 0));
}

static _Atomic uint32_t counted;

static rota_status count_1(const rota_kernel_call *call) {
    (void)call;
    (void)ra_fetch_add_seq_cst(&counted, 1);
    return ROTA_OK;
}
static const rota_kernel counting = {.name = "count", .operand_count = 1, .cpu = {.fn = count_1}};

/* Closed before they were all taken, as likely as not in the middle: all ran, or it is said what did not. The
 * sanitizers look at what those that are taken by then use. In time, all run. */
static void closing_drops_nothing_in_silence(void **state) {
    (void)state;
    enum { ROUNDS = 40, TIMES = 100 };
    uint32_t dropping = 0;
    for (uint32_t round = 0; round <= ROUNDS; round++) {
        rota_runtime *runtime;
        rota_device *device;
        assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.worker_threads = 2), &runtime));
        assert_ok(rota_device_open(runtime, "cpu", &device));
        rota_buffer *buffer = test_words(device, "x", 64, 0);
        rota_plan *plan = test_plan_1(device, "count", &counting, buffer, ROTA_READWRITE);
        test_expect_words(buffer, 64, 0); /* its write is over */
        ra_store_seq_cst(&counted, 0);
        for (uint32_t i = 0; i < TIMES; i++) assert_ok(rota_submit(plan, NULL, NULL));
        uint64_t deadline_ns = round < ROUNDS ? 1 + round * 2000 : 20000000000u;
        rota_status status = rota_runtime_close(runtime, deadline_ns);
        uint32_t ran = ra_load_seq_cst(&counted), dropped = 0;
        if (status == ROTA_OK) {
            assert_int_equal(ran, TIMES);
        } else {
            assert_int_equal(status, ROTA_TIMEOUT);
            const char *said = strstr(rota_last_error(), " submissions had not begun");
            while (said && said > rota_last_error() && said[-1] >= '0' && said[-1] <= '9') said--;
            if (said) assert_int_equal(sscanf(said, "%u", &dropped), 1);
            assert_in_range(ran + dropped, 0, TIMES);
            if (!strstr(rota_last_error(), "did not finish")) assert_int_equal(ran + dropped, TIMES);
        }
        assert_true(round < ROUNDS || status == ROTA_OK);
        dropping += dropped != 0;
        rota_plan_release(plan);
        rota_buffer_release(buffer);
    }
    print_message("%u of %u dropped submissions\n", dropping, (uint32_t)ROUNDS);
}

static void closing_ends_at_its_deadline(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.worker_threads = 2), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    rota_buffer *buffer = test_words(device, "x", 64, 0);
    rota_plan *plan = test_plan_1(device, "gate", &test_gate, buffer, ROTA_READWRITE);
    test_gate_open(false);
    rota_ticket ticket;
    int event = eventfd(0, EFD_NONBLOCK);
    assert_true(event >= 0);
    assert_ok(rota_submit(plan, NULL, &ticket));
    assert_ok(rota_ticket_eventfd(ticket, event));
    test_gates_running(1);
    uint64_t start = rota_clock_ns(), count = 0;
    assert_status(rota_runtime_close(runtime, 200000000), ROTA_TIMEOUT);
    /* Who sleeps on the descriptor is told too. */
    assert_int_equal(read(event, &count, sizeof count), sizeof count);
    (void)close(event);
    assert_true(rota_clock_ns() - start < 5000000000u);
    assert_non_null(strstr(rota_last_error(), "'cpu'"));
    assert_non_null(strstr(rota_last_error(), "abandoned"));
    rota_plan_release(plan);
    rota_buffer_release(buffer);
    test_gate_open(true); /* the kernel ends after all, and touches nothing of ours */
    rota_futex_wait(&called, ra_load_relaxed(&called), rota_deadline_after(50000000));
}

static void a_fork_is_noticed(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer = test_words(f->device, "x", 64, 5);
    rota_plan *plan = test_plan_1(f->device, "inc", &test_increment, buffer, ROTA_READWRITE);
    rota_ticket ticket;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        uint32_t word;
        int bad = (rota_submit(plan, NULL, NULL) != ROTA_WRONG_STATE) |
                  (rota_wait(ticket, 0) != ROTA_WRONG_STATE) << 1 |
                  (rota_buffer_read(buffer, 0, &word, 4) != ROTA_WRONG_STATE) << 2 |
                  (strstr(rota_last_error(), "fork") == NULL) << 3 |
                  (rota_runtime_close(f->runtime, 0) != ROTA_OK) << 4;
        rota_plan_release(plan);
        rota_buffer_release(buffer);
        _exit(bad);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    test_expect_words(buffer, 64, 6);
    rota_plan_release(plan);
    rota_buffer_release(buffer);
}

static void the_memory_limit_holds(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_device *device;
    rota_buffer *small, *large;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.memory_limit_bytes = 8u << 20, .staging_slots = 4,
                                                      .staging_slot_bytes = 65536),
                                &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &device));
    assert_ok(rota_buffer_create_in(runtime, "small", 1u << 20, &small));
    assert_ok(rota_buffer_create_in(runtime, "large one", 8u << 20, &large));
    assert_ok(rota_buffer_prepare(small, device));
    assert_status(rota_buffer_prepare(large, device), ROTA_OUT_OF_MEMORY);
    assert_non_null(strstr(rota_last_error(), "'large one' needs 8388608 bytes"));
    assert_non_null(strstr(rota_last_error(), "limit of 8388608"));
    uint64_t address, again;
    assert_ok(rota_buffer_address(small, device, &address));
    assert_status(rota_buffer_address(large, device, &again), ROTA_NOT_FOUND);
    rota_buffer_release(small);
    rota_buffer_release(large);
    assert_ok(rota_runtime_close(runtime, 0));
}

/* 1000 plans made, run and released: nothing piles up. */
static void compiling_and_releasing_is_even(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *buffer = test_words(f->device, "x", 64, 0);
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    uint64_t memory = 0;
    for (int i = 0; i < 300; i++) {
        rota_plan *plan = test_plan_1(f->device, "inc", &test_increment, buffer, ROTA_READWRITE);
        assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
        rota_plan_release(plan);
        if (i == 100) {
            test_expect_words(buffer, 64, 101);
            rota_runtime_get_stats(f->runtime, &stats);
            memory = stats.memory_bytes;
        }
    }
    test_expect_words(buffer, 64, 300);
    uint64_t deadline = rota_deadline_after(10000000000u);
    do rota_runtime_get_stats(f->runtime, &stats);
    while (stats.plans != 0 && rota_clock_ns() < deadline);
    assert_int_equal(stats.plans, 0);
    assert_true(stats.memory_bytes <= memory);
    assert_true(stats.submissions >= 300);
    rota_buffer_release(buffer);
}

/* With merge_max 1 every work is a driver call of its own; without, those that wait share one. */
static void merging_is_bounded(void **state) {
    (void)state;
    enum { SUBMISSIONS = 200 };
    for (uint32_t merge_max = 0; merge_max < 2; merge_max++) {
        adversary_options options = {.quiet_ns = 2000000};
        rota_runtime *runtime;
        rota_device *device;
        assert_ok(adversary_runtime_open(
            &options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u, .merge_max = merge_max), &runtime));
        assert_ok(rota_device_open(runtime, "adversary", &device));
        rota_buffer *buffer = test_words(device, "x", 64, 0);
        rota_plan *plan = test_plan_1(device, "inc", &test_increment, buffer, ROTA_READWRITE);
        rota_ticket ticket;
        assert_ok(rota_submit(plan, NULL, &ticket));
        assert_ok(rota_wait(ticket, 0)); /* for the write before it, too */
        rota_runtime_stats before = ROTA_RUNTIME_STATS(), after = ROTA_RUNTIME_STATS();
        rota_runtime_get_stats(runtime, &before);
        for (int i = 0; i < SUBMISSIONS; i++) assert_ok(rota_submit(plan, NULL, &ticket));
        assert_ok(rota_wait(ticket, 0));
        rota_runtime_get_stats(runtime, &after);
        uint64_t calls = after.driver_submits - before.driver_submits;
        if (merge_max)
            assert_int_equal(calls, SUBMISSIONS);
        else
            assert_true(calls < SUBMISSIONS);
        test_expect_words(buffer, 64, SUBMISSIONS + 1);
        rota_plan_release(plan);
        rota_buffer_release(buffer);
        assert_ok(rota_runtime_close(runtime, 0));
    }
}

int main(void) {
#define RUNTIME_TEST(name) cmocka_unit_test_setup_teardown(name, runtime_setup, runtime_teardown)
    const struct CMUnitTest tests[] = {
        RUNTIME_TEST(replays_are_in_order),
        RUNTIME_TEST(host_access_is_ordered),
        RUNTIME_TEST(uploads_reuse_the_ring),
        RUNTIME_TEST(sixteen_threads_add_to_one_buffer),
        RUNTIME_TEST(numbers_follow_real_time),
        RUNTIME_TEST(lanes_come_back),
        RUNTIME_TEST(callbacks_and_eventfds),
        RUNTIME_TEST(old_tickets_still_answer),
        RUNTIME_TEST(a_full_lane_is_busy),
        RUNTIME_TEST(deadlines_name_the_node),
        RUNTIME_TEST(releasing_in_flight_is_legal),
        RUNTIME_TEST(a_fork_is_noticed),
        RUNTIME_TEST(compiling_and_releasing_is_even),
        cmocka_unit_test(merging_is_bounded),
        cmocka_unit_test(spinning_ends_at_deadlines),
        cmocka_unit_test(closed_runtimes_say_so),
        cmocka_unit_test(the_memory_limit_holds),
        cmocka_unit_test(closing_drops_nothing_in_silence),
        cmocka_unit_test(closing_ends_at_its_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
