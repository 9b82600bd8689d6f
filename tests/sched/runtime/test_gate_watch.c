/* Of two devices that wait for each other on the GPU the one that is stuck is given up, not the one that waits for it.
 */
#include "tests/kit/runtime_support.h"

#include "base/atomic.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary.h"
#include "tests/kit/sequenced.h"
#include "tests/kit/nap.h"

enum { WORDS = 64, QUEUES = 3 };
#define SOON_NS 5000000000u
#define TIMEOUT_NS 500000000u

static rota_plan *on_queue(rota_device *device, uint32_t queue, const rota_kernel *kernel,
                           rota_buffer *buffer) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_access access = {buffer, 0, ROTA_WHOLE, ROTA_READWRITE};
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_kernel(recorder,
                                 &ROTA_KERNEL_NODE(.kernel = kernel, .accesses = &access, .access_count = 1,
                                                   .placement = {.queue_plus_1 = queue + 1}),
                                 NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(rota_device_runtime(device), graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .queues = QUEUES),
                           &plan));
    rota_graph_release(graph);
    return plan;
}

/* A kernel on `stuck` does not end; the other device waits for it on the GPU, and a second queue of `stuck` for that
 * one (`back`). `spin_ns`: how long threads look for work. */
static void stuck_one(uint32_t stuck, bool back, uint64_t spin_ns) {
    adversary_options options = {.seed = 5, .shares_memory = true, .timelines = true};
    rota_runtime *runtime;
    rota_device *devices[2];
    assert_ok(adversary_runtime_open(
        &options,
        &ROTA_RUNTIME_OPTIONS(.timeout_ns = TIMEOUT_NS, .queues_per_device = QUEUES, .spin_ns = spin_ns),
        &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &devices[0]));
    assert_ok(rota_device_open(runtime, "adversary:1", &devices[1]));
    rota_device *one = devices[stuck], *two = devices[1 - stuck];
    assert_int_not_equal(ra_load_relaxed(&one->others.linked), 0);
    rota_buffer *y = test_words(one, "y", WORDS, 5);
    rota_plan *gate = on_queue(one, 0, &test_gate, y), *next = on_queue(two, 0, &test_increment, y),
              *last = on_queue(one, 1, &test_increment, y);
    test_expect_words(y, WORDS, 5);
    rota_ticket ticket;
    for (uint32_t round = 0; round < 2; round++) {
        test_gate_open(false);
        assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
        test_gates_running(1);
        assert_ok(rota_submit_wait(next, NULL, 0, &ticket));
        if (back) assert_ok(rota_submit_wait(last, NULL, 0, &ticket));
        test_sequenced(ticket);
        if (round == 1) break;
        test_gate_open(true);
        assert_ok(rota_wait(ticket, SOON_NS));
    }
    for (uint32_t i = 0; i < 2000 && !rota_device_is_lost(one); i++) test_nap_ms(1);
    test_nap_ms(300);
    const bool one_is = rota_device_is_lost(one), two_is = rota_device_is_lost(two);
    test_gate_open(true);
    (void)rota_wait(ticket, SOON_NS);
    rota_plan_release(gate);
    rota_plan_release(next);
    rota_plan_release(last);
    rota_buffer_release(y);
    (void)rota_runtime_close(runtime, SOON_NS);
    assert_true(one_is);
    assert_false(two_is);
}

/* A third device, which is no GPU's of theirs, waits for the one that waits for the other. */
static void third_waits(uint32_t stuck) {
    adversary_options options = {.seed = 5, .shares_memory = true, .timelines = true};
    rota_runtime *runtime;
    rota_device *devices[2], *third;
    assert_ok(adversary_runtime_open(
        &options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = TIMEOUT_NS, .queues_per_device = QUEUES), &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &devices[0]));
    assert_ok(rota_device_open(runtime, "adversary:1", &devices[1]));
    options.shares_memory = options.timelines = false;
    assert_ok(rota_device_open(runtime, "adversary:2", &third));
    rota_device *one = devices[stuck], *two = devices[1 - stuck];
    assert_int_not_equal(ra_load_relaxed(&one->others.linked), 0);
    rota_buffer *y = test_words(one, "y", WORDS, 5), *z = test_words(third, "z", WORDS, 0);
    test_node copy = {&test_copy, "copy", {{y, 0, ROTA_WHOLE, ROTA_READ}, {z, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    rota_plan *gate = on_queue(one, 0, &test_gate, y), *next = on_queue(two, 0, &test_increment, y),
              *last = test_plan(third, "last", &copy, 1);
    test_expect_words(y, WORDS, 5);
    test_expect_words(z, WORDS, 0);
    rota_ticket ticket;
    for (uint32_t round = 0; round < 2; round++) {
        test_gate_open(false);
        assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
        test_gates_running(1);
        assert_ok(rota_submit_wait(next, NULL, 0, &ticket));
        if (round == 1) assert_ok(rota_submit_wait(last, NULL, 0, &ticket));
        test_sequenced(ticket);
        if (round == 1) break;
        test_gate_open(true);
        assert_ok(rota_wait(ticket, SOON_NS));
    }
    for (uint32_t i = 0; i < 2000 && !rota_device_is_lost(one); i++) test_nap_ms(1);
    test_nap_ms(300);
    const bool one_is = rota_device_is_lost(one), two_is = rota_device_is_lost(two);
    test_gate_open(true);
    (void)rota_wait(ticket, SOON_NS);
    rota_plan_release(gate);
    rota_plan_release(next);
    rota_plan_release(last);
    rota_buffer_release(y);
    rota_buffer_release(z);
    (void)rota_runtime_close(runtime, SOON_NS);
    assert_true(one_is);
    assert_false(two_is);
}

/* The device that waits on the GPU is lost, and so waits in vain: the other one is not given up for its sake, whose
 * kernel is a long one. `third`: a device that is well waits for what the lost one's work was to come after. */
static void awaited_by_lost(bool third) {
    adversary_options options = {.seed = 5, .shares_memory = true, .timelines = true};
    rota_runtime *runtime;
    rota_device *devices[3];
    assert_ok(adversary_runtime_open(
        &options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = TIMEOUT_NS, .queues_per_device = QUEUES), &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &devices[0]));
    assert_ok(rota_device_open(runtime, "adversary:1", &devices[1]));
    options.shares_memory = options.timelines = false;
    assert_ok(rota_device_open(runtime, "adversary:2", &devices[2]));
    rota_buffer *y = test_words(devices[0], "y", WORDS, 5), *z = test_words(devices[2], "z", WORDS, 0);
    test_node copy = {&test_copy, "copy", {{y, 0, ROTA_WHOLE, ROTA_READ}, {z, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    rota_plan *gate = on_queue(devices[0], 0, &test_gate, y),
              *next = on_queue(devices[1], 0, &test_increment, y),
              *last = test_plan(devices[2], "last", &copy, 1);
    test_expect_words(y, WORDS, 5);
    test_expect_words(z, WORDS, 0);
    rota_ticket tickets[3];
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, &tickets[0]));
    test_gates_running(1);
    assert_ok(rota_submit_wait(next, NULL, 0, &tickets[1]));
    if (third) assert_ok(rota_submit_wait(last, NULL, 0, &tickets[2]));
    test_sequenced(tickets[1 + third]);
    for (uint32_t i = 0; i < 100 && !ra_load_acquire(&devices[1]->gate.pending); i++) test_nap_ms(1);
    const bool is_pending = ra_load_acquire(&devices[1]->gate.pending) != 0;
    rota_device_set_lost(devices[1], "given up by the test");
    for (uint32_t i = 0; i < (third ? 5000u : 1500u) && !rota_device_is_lost(devices[0]); i++) test_nap_ms(1);
    const bool is_lost = rota_device_is_lost(devices[0]), third_is = rota_device_is_lost(devices[2]);
    const rota_status waited = rota_wait(tickets[1], SOON_NS);
    /* Of a lost device's work while it is stuck: it may get there as soon as the gate is open, and then it did. */
    rota_status first = third ? rota_wait(tickets[0], SOON_NS) : ROTA_BUSY;
    test_gate_open(true);
    if (!third) first = rota_wait(tickets[0], SOON_NS);
    rota_plan *plans[] = {gate, next, last};
    for (uint32_t i = 0; i < 3; i++) rota_plan_release(plans[i]);
    rota_buffer_release(y);
    rota_buffer_release(z);
    (void)rota_runtime_close(runtime, SOON_NS);
    assert_true(is_pending);
    assert_false(third_is);
    assert_int_equal(is_lost, third);
    assert_int_equal(waited, ROTA_DEVICE_LOST);
    assert_int_equal(first, third ? ROTA_DEVICE_LOST : ROTA_OK);
}

static void a_lost_one_waits(void **state) {
    (void)state;
    awaited_by_lost(false);
}
static void a_lost_one_waits_and_a_third_for_it(void **state) {
    (void)state;
    awaited_by_lost(true);
}

static void a_third_waits(void **state) {
    (void)state;
    third_waits(0);
    third_waits(1);
}
static void first_is_stuck(void **state) {
    (void)state;
    stuck_one(0, false, 0);
}
static void second_is_stuck(void **state) {
    (void)state;
    stuck_one(1, false, 0);
}
static void one_is_stuck_and_threads_look_for_long(void **state) {
    (void)state;
    stuck_one(0, false, 100000000000u);
}
static void first_is_stuck_and_waits(void **state) {
    (void)state;
    stuck_one(0, true, 0);
}
static void second_is_stuck_and_waits(void **state) {
    (void)state;
    stuck_one(1, true, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_is_stuck),
        cmocka_unit_test(second_is_stuck),
        cmocka_unit_test(one_is_stuck_and_threads_look_for_long),
        cmocka_unit_test(first_is_stuck_and_waits),
        cmocka_unit_test(second_is_stuck_and_waits),
        cmocka_unit_test(a_third_waits),
        cmocka_unit_test(a_lost_one_waits),
        cmocka_unit_test(a_lost_one_waits_and_a_third_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
