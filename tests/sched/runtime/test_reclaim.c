/* What was released is freed by a thread of its own, since a driver may take any time to free: nothing else
 * waits for that, neither what a submission's end brings about, nor what ends the very wait that holds up the
 * driver, nor close beyond its deadline. */
#include "tests/sched/runtime/across_kit.h"

#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/kit/sequenced.h"
#include "tests/kit/nap.h"

#define PATIENCE_NS 5000000000u

static uint64_t reclaim_pending(const pair *p) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(p->runtime, &stats);
    return stats.reclaim_pending;
}

static void expect_nothing_pending(pair *p) {
    uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (reclaim_pending(p) != 0 && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_int_equal(reclaim_pending(p), 0);
    assert_int_equal(p->options.frees_waiting, 0);
}

/* Memory on the second device that nothing uses, which somebody is now about to free for as long as `frees`
 * says. */
static void begin_to_free(pair *p, rota_buffer *spare, adversary_frees frees) {
    expect_nothing_pending(p);
    p->options.faults.frees = frees;
    rota_buffer_release(spare);
    uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (p->options.frees_waiting == 0 && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_int_equal(p->options.frees_waiting, 1);
}

static void note_status(void *user, rota_status status, const char *message) {
    (void)message;
    ra_store_seq_cst((_Atomic uint32_t *)user, 1u + (uint32_t)status);
}

/* x's words as an output, by way of staging memory. */
static rota_plan *reading(rota_device *device, rota_buffer *x, rota_buffer **out_output) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "reading"), &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", WORDS * 4, out_output));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_copy(recorder, *out_output, 0, x, 0, WORDS * 4, NULL));
    rota_recorder_close(recorder);
    rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.name = "reading", .devices = &device, .device_count = 1);
    assert_ok(rota_compile(rota_device_runtime(device), graph, &options, &plan));
    rota_graph_release(graph);
    return plan;
}

/* Outputs, callbacks and eventfds come while a free does not return; so do they on its own device. What is
 * released meanwhile is freed afterwards. */
static void nothing_waits_for_a_free(void **state) {
    (void)state;
    pair *p = open_pair(5, 10000000000u, 0);
    for (uint32_t d = 0; d < 2; d++) {
        rota_buffer *spare = test_words(p->devices[1], "spare", WORDS, 1);
        rota_buffer *x = test_words(p->devices[d], "x", WORDS, 7 + d), *output;
        rota_plan *plan = reading(p->devices[d], x, &output);
        rota_args *args;
        rota_ticket ticket;
        uint32_t words[WORDS] = {0};
        _Atomic uint32_t called = 0;
        int event = eventfd(0, EFD_NONBLOCK);
        assert_true(event >= 0);
        begin_to_free(p, spare, ADVERSARY_FREES_NEVER);
        assert_ok(rota_args_create(plan, &args));
        assert_ok(rota_args_set_output(args, output, words, sizeof words));
        assert_ok(rota_submit_wait(plan, args, 0, &ticket));
        assert_ok(rota_ticket_on_complete(ticket, note_status, (void *)&called));
        assert_ok(rota_ticket_eventfd(ticket, event));
        assert_ok(rota_wait(ticket, PATIENCE_NS));
        for (uint32_t w = 0; w < WORDS; w++) assert_int_equal(words[w], 7 + d);
        struct pollfd ready = {.fd = event, .events = POLLIN};
        assert_int_equal(poll(&ready, 1, (int)(PATIENCE_NS / 1000000)), 1);
        uint64_t count = 0;
        assert_int_equal(read(event, &count, sizeof count), sizeof count);
        assert_true(count == 1);
        uint64_t deadline = rota_deadline_after(PATIENCE_NS);
        while (!ra_load_seq_cst(&called) && rota_clock_ns() < deadline) test_nap_ms(1);
        assert_int_equal(ra_load_seq_cst(&called), 1u + ROTA_OK);
        rota_args_release(args);
        rota_plan_release(plan);
        rota_buffer_release(x);
        assert_int_equal(p->options.frees_waiting, 1);
        assert_true(reclaim_pending(p) > 1);
        p->options.faults.frees = ADVERSARY_FREES_AT_ONCE;
        expect_nothing_pending(p);
        (void)close(event);
    }
    close_pair(p);
}

/* A free on the second device waits for its works, of which one waits for the first device, which is lost.
 * That wait is ended, and so all ends. */
static void a_wait_that_holds_up_a_free_is_ended(void **state) {
    (void)state;
    scene s;
    scene_open(&s, 10000000000u);
    rota_buffer *spare = test_words(s.p->devices[1], "spare", WORDS, 1);
    scene_wait_on_device(&s);
    begin_to_free(s.p, spare, ADVERSARY_FREES_AFTER_WORKS);
    s.p->options.faults.lost_in_works = 1; /* the gate's */
    test_gate_open(true);
    assert_status(rota_wait(s.step_ticket, 0), ROTA_DEVICE_LOST);
    assert_status(rota_wait(s.copy_ticket, 0), ROTA_DEVICE_LOST);
    assert_status(rota_wait(s.next_ticket, 0), ROTA_DEVICE_LOST);
    assert_ok(rota_wait(s.alone_ticket, 0));
    assert_true(s.p->options.rescues > 0);
    test_expect_words(s.w, WORDS, 3);
    expect_nothing_pending(s.p);
    scene_release(&s);
    close_after_loss(s.p);
}

/* The same, with a first device that just does not end, when the runtime is closed: the second is closed in
 * order. */
static void closed_while_a_wait_holds_up_a_free(void **state) {
    (void)state;
    scene s;
    scene_open(&s, 10000000000u);
    rota_buffer *spare = test_words(s.p->devices[1], "spare", WORDS, 1);
    scene_wait_on_device(&s);
    begin_to_free(s.p, spare, ADVERSARY_FREES_AFTER_WORKS);
    assert_status(rota_runtime_close(s.p->runtime, 200000000u), ROTA_TIMEOUT);
    assert_non_null(strstr(rota_last_error(), "'adversary'"));
    assert_null(strstr(rota_last_error(), "'adversary:1'"));
    assert_int_equal(s.p->options.frees_waiting, 0);
    scene_release(&s);
    if (s.p->options.violations) fail_msg("%s", s.p->options.violation);
    test_gate_open(true);
    keep(s.p);
}

/* Close ends by its deadline while a free does not return, and leaves what the free may touch when it does,
 * and what comes after it: the sanitizers look. */
static void closed_while_a_free_does_not_return(void **state) {
    (void)state;
    pair *p = open_pair(5, 10000000000u, 0);
    rota_buffer *spare = test_words(p->devices[1], "spare", WORDS, 1),
                *next = test_words(p->devices[0], "next", WORDS, 1),
                *held = test_words(p->devices[1], "held", WORDS, 1);
    rota_plan *plan = test_plan_1(p->devices[0], "plan", &test_increment, held, ROTA_READWRITE);
    begin_to_free(p, spare, ADVERSARY_FREES_NEVER);
    rota_plan_release(plan);
    rota_buffer_release(next);
    uint64_t begin = rota_clock_ns(), live = p->options.live_memories;
    assert_status(rota_runtime_close(p->runtime, 100000000u), ROTA_TIMEOUT);
    assert_in_range(rota_clock_ns() - begin, 0, 5000000000u);
    assert_non_null(strstr(rota_last_error(),
                           "frees what was released, or an application's release, did not return within"));
    p->options.faults.frees = ADVERSARY_FREES_AT_ONCE;
    uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (p->options.live_memories + 2 > live && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_int_equal(p->options.live_memories, live - 2);
    rota_buffer_release(held);
    if (p->options.violations) fail_msg("%s", p->options.violation);
    keep(p);
}

/* ---- A thread that is inside its driver when the runtime is closed ---- */

static void wait_for_creation(const adversary_options *options, uint32_t number) {
    uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (options->instance_creations < number && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_true(options->instance_creations >= number);
}

/* The submit thread hands over what lies on the other device, by way of staging memory, which close leaves:
 * the sanitizers look. */
static void closed_while_a_submit_thread_does_not_return(void **state) {
    (void)state;
    static adversary_options options; /* looked at for as long as the thread runs */
    rota_runtime *runtime;
    rota_device *device, *other;
    assert_ok(adversary_runtime_open(
        &options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u, .queues_per_device = 1), &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    assert_ok(rota_device_open(runtime, "adversary:1", &other));
    rota_buffer *far = test_words(other, "far", WORDS, 3), *y = test_words(device, "y", WORDS, 4);
    rota_plan *bringing = test_plan_copy_kernel(device, "bringing", far, y);
    test_expect_words(y, WORDS, 4);
    ra_store_seq_cst(&options.faults.submits_stay, 1);
    for (int i = 0; i < 3; i++) assert_ok(rota_submit_wait(bringing, NULL, 0, NULL));
    assert_status(rota_runtime_close(runtime, 300000000u), ROTA_TIMEOUT);
    assert_non_null(strstr(rota_last_error(), "'adversary'"));
    assert_null(strstr(rota_last_error(), "'adversary:1'"));
    ra_store_seq_cst(&options.faults.submits_stay, 0);
    test_nap_ms(300); /* it goes on */
    if (options.violations) fail_msg("%s", options.violation);
}

/* The maker makes an instance for one replay; another submission brings what lies on the other device, by way
 * of that device's staging memory, which close leaves: the sanitizers look. */
static void closed_while_an_instance_is_made(void **state) {
    (void)state;
    static adversary_options options; /* looked at for as long as the thread runs */
    static uint32_t words[WORDS];
    rota_runtime *runtime;
    rota_device *device, *other;
    rota_buffer *output;
    static rota_args *args; /* never released: the runtime that would free it is left */
    rota_ticket ticket;
    assert_ok(adversary_runtime_open(
        &options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u, .queues_per_device = 1), &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    assert_ok(rota_device_open(runtime, "adversary:1", &other));
    rota_buffer *g = test_words(device, "g", WORDS, 1), *x = test_words(device, "x", WORDS, 2),
                *far = test_words(other, "far", WORDS, 3), *y = test_words(device, "y", WORDS, 4);
    rota_plan *gate = test_plan_1(device, "gate", &test_gate, g, ROTA_READWRITE),
              *plan = reading(device, x, &output),
              *bringing = test_plan_copy_kernel(device, "bringing", far, y);
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_args_set_output(args, output, words, sizeof words));
    test_gate_open(false);
    options.instance_creations = 0;
    options.faults.instances_stay_from = 1;
    assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
    for (int i = 0; i < 2; i++) assert_ok(rota_submit_wait(plan, args, 0, &ticket));
    wait_for_creation(&options, 1);
    assert_ok(rota_submit_wait(bringing, NULL, 0, &ticket));
    test_nap_ms(300); /* it is sequenced */
    options.faults.instances_stay_from = 2;
    /* The maker is asked for the next when it is through with the one before. */
    for (int i = 0; i < 500 && options.instance_creations < 2; i++) {
        assert_ok(rota_submit_wait(plan, args, 0, &ticket));
        test_nap_ms(5);
    }
    wait_for_creation(&options, 2);
    assert_status(rota_runtime_close(runtime, 300000000u), ROTA_TIMEOUT);
    assert_non_null(strstr(rota_last_error(), "'adversary'"));
    assert_null(strstr(rota_last_error(), "'adversary:1'"));
    options.faults.instances_stay_from = 0;
    test_gate_open(true);
    test_nap_ms(300); /* it goes on */
    if (options.violations) fail_msg("%s", options.violation);
}

typedef struct late_end {
    rota_device *device;
    test_hold hold;
} late_end;

/* Opens the gate when close has waited for it and ended the sequencer, and then lets the completer go on. */
static void *end_late(void *user) {
    late_end *late = user;
    while (!ra_load_acquire(&late->device->handover.thread_ended)) test_nap_ms(1);
    test_gate_open(true);
    while (!rota_device_is_finished(late->device)) test_nap_ms(1);
    test_hold_end(&late->hold);
    return NULL;
}

/* Closes while the device is at work, which ends after the deadline and before the threads. False: the
 * machine was too busy for that. */
static bool close_at_an_end(void) {
    enum { BEHIND = 500 };
    static late_end late;
    rota_runtime *runtime;
    pthread_t thread;
    rota_ticket ticket;
    memset(&late, 0, sizeof late);
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.log = {test_hold_log, &late.hold, ROTA_LOG_WARNING},
                                                      .timeout_ns = 20000000000u),
                                &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &late.device));
    rota_buffer *x = test_words(late.device, "x", WORDS, 1);
    rota_plan *gate = test_plan_1(late.device, "gate", &test_gate, x, ROTA_READWRITE),
              *step = test_plan_1(late.device, "step", &test_increment, x, ROTA_READWRITE);
    assert_ok(rota_submit_wait(step, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    test_hold_begin(&late.hold, ticket);
    for (uint32_t i = 0; i < BEHIND; i++) assert_ok(rota_submit_wait(step, NULL, 0, &ticket));
    test_sequenced(ticket);
    const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (ra_load_acquire(&late.device->handover.consumed) !=
               ra_load_acquire(&late.device->handover.published) &&
           rota_clock_ns() < deadline)
        test_nap_ms(1);
    rota_plan_release(gate);
    rota_plan_release(step);
    rota_buffer_release(x);
    assert_int_equal(pthread_create(&thread, NULL, end_late, &late), 0);
    assert_status(rota_runtime_close(runtime, 50000000u), ROTA_TIMEOUT);
    const bool nothing_left =
        strcmp(rota_last_error(),
               "device 'cpu' did not finish within 0.050 s: 0 bytes are abandoned to it") == 0;
    assert_int_equal(pthread_join(thread, NULL), 0);
    return nothing_left;
}

/* What was not recycled when the sequencer ended is freed with its device. */
static void a_device_that_ends_late(void **state) {
    (void)state;
    uint64_t before = 0;
    for (uint32_t good = 0, tried = 0; good < 2; tried++) {
        assert_in_range(tried, 0, 20);
        if (!close_at_an_end()) continue;
        const uint64_t held = mallinfo2().uordblks;
        if (good++ && held > before + 100000)
            fail_msg("%llu bytes more", (unsigned long long)(held - before));
        before = held;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_waits_for_a_free),
        cmocka_unit_test(a_wait_that_holds_up_a_free_is_ended),
        cmocka_unit_test(closed_while_a_wait_holds_up_a_free),
        cmocka_unit_test(closed_while_a_free_does_not_return),
        cmocka_unit_test(closed_while_a_submit_thread_does_not_return),
        cmocka_unit_test(closed_while_an_instance_is_made),
        cmocka_unit_test(a_device_that_ends_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
