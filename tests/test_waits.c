/* Waiting calls: what their deadlines count from, and whose turn it is. */
#include "tests/runtime_support.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "sched/plan.h"

enum { DEADLINE_MS = 300, BEAT_MS = 60, QUEUES = 4 };
#define MS 1000000ull

static _Atomic uint32_t never;

static void nap_ms(uint64_t ms) {
    uint64_t deadline = rota_deadline_after(ms * MS);
    while (rota_clock_ns() < deadline) (void)rota_futex_wait(&never, 0, deadline);
}

/* ---- Plans on a queue of their own ---- */

static rota_status beat(const rota_kernel_call *call) {
    (void)call;
    nap_ms(BEAT_MS);
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
    assert_ok(rota_record_kernel(recorder,
                                 &(rota_kernel_node){.kernel = kernel,
                                                     .name = kernel->name,
                                                     .accesses = accesses,
                                                     .access_count = kernel->operand_count},
                                 NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(rota_device_runtime(device), graph,
                           &(rota_compile_options){.devices = &device,
                                                   .device_count = 1,
                                                   .queues = QUEUES,
                                                   .queue_policy = on_queue,
                                                   .queue_policy_user = &queue},
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
    assert_ok(rota_runtime_open(&(rota_runtime_options){.timeout_ns = DEADLINE_MS * MS,
                                                        .queues_per_device = QUEUES,
                                                        .worker_threads = QUEUES},
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
    assert_true(took < (DEADLINE_MS + 450) * MS);
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
    uint64_t number, begin = rota_clock_ns();
    while (rota_ticket_number(last, &number) == ROTA_BUSY) nap_ms(1);
    assert_status(rota_wait(hung, 0), ROTA_TIMEOUT);
    assert_true(rota_clock_ns() - begin < (DEADLINE_MS + 450) * MS);
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
    for (uint32_t i = 0; i < 14; i++) assert_ok(rota_submit(beats, NULL, NULL));
    assert_ok(rota_submit(second, NULL, NULL));
    assert_ok(rota_submit(third, NULL, &last));
    uint64_t begin = rota_clock_ns();
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(others_progress_extends_no_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(later_chains_extend_no_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_chain_that_gets_on_is_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_chain_is_not_forgotten, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
