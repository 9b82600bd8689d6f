/* A device that waits for itself while another one waits for it is given up, though that one's thread looks for work
 * for long before it sleeps; and is not for the sake of one that is lost, which waits in vain. */
#include "tests/kit/runtime_support.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary.h"
#include "tests/kit/sequenced.h"
#include "tests/kit/nap.h"

enum { WORDS = 64 };
#define SOON_NS 12000000000u
#define TIMEOUT_NS 500000000u

/* `spin_ms`: how long threads look for work; `apart_ms`: how long after the other device began to do so for what it
 * waits for it is given something else. */
static void awaited(uint32_t spin_ms, uint32_t apart_ms) {
    adversary_options options = {.seed = 9};
    rota_runtime *runtime;
    rota_device *first, *second;
    assert_ok(adversary_runtime_open(&options,
                                     &ROTA_RUNTIME_OPTIONS(.timeout_ns = TIMEOUT_NS, .queues_per_device = 3,
                                                           .spin_ns = (uint64_t)spin_ms * 1000000),
                                     &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &first));
    assert_ok(rota_device_open(runtime, "adversary:1", &second));
    rota_buffer *x = test_words(first, "x", WORDS, 5), *y = test_words(second, "y", WORDS, 0),
                *v = test_words(second, "v", WORDS, 0), *output;
    rota_plan *plan = test_plan_gate_then_output(first, x, WORDS * 4, &output),
              *copy = test_plan_copy_kernel(second, "copy", x, y),
              *apart = test_plan_1(second, "apart", &test_increment, v, ROTA_READWRITE);
    static uint32_t words[2][WORDS];
    rota_args *args[2];
    rota_ticket tickets[4];
    test_expect_words(x, WORDS, 5);
    test_expect_words(y, WORDS, 0);
    test_expect_words(v, WORDS, 0);
    test_gate_open(false);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(rota_args_create(plan, &args[i]));
        assert_ok(rota_args_set_output(args[i], output, words[i], sizeof words[i]));
        assert_ok(rota_submit_wait(plan, args[i], 0, &tickets[i]));
    }
    assert_ok(rota_submit_wait(copy, NULL, 0, &tickets[2]));
    test_nap_ms(apart_ms);
    assert_ok(rota_submit_wait(apart, NULL, 0, &tickets[3]));
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (!rota_device_is_lost(first) && rota_clock_ns() < deadline) test_nap_ms(1);
    const bool is_lost = rota_device_is_lost(first);
    test_gate_open(true);
    for (uint32_t i = 0; i < 4; i++) {
        const rota_status status = rota_wait(tickets[i], SOON_NS);
        if (is_lost) assert_status(status, i == 3 ? ROTA_OK : ROTA_DEVICE_LOST);
    }
    for (uint32_t i = 0; i < 2; i++) rota_args_release(args[i]);
    rota_plan *plans[] = {plan, copy, apart};
    rota_buffer *buffers[] = {x, y, v};
    for (uint32_t i = 0; i < 3; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < 3; i++) rota_buffer_release(buffers[i]);
    assert_ok(rota_runtime_close(runtime, SOON_NS));
    if (options.violations) fail_msg("%s", options.violation);
    assert_true(is_lost);
}

static void while_it_sleeps(void **state) {
    (void)state;
    awaited(0, 10);
}

static void while_it_looks(void **state) {
    (void)state;
    awaited(1000, 500);
}

/* A work of the second device waits for a kernel of the first that does not end; its thread looks for work for longer
 * than it takes until it is given some, again and again, and so never sleeps. */
static void while_it_has_work(void **state) {
    (void)state;
    adversary_options options = {.seed = 9};
    rota_runtime *runtime;
    rota_device *first, *second;
    assert_ok(adversary_runtime_open(
        &options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = TIMEOUT_NS, .queues_per_device = 3, .spin_ns = SOON_NS),
        &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &first));
    assert_ok(rota_device_open(runtime, "adversary:1", &second));
    rota_buffer *x = test_words(first, "x", WORDS, 5), *y = test_words(second, "y", WORDS, 0),
                *v = test_words(second, "v", WORDS, 0);
    rota_plan *gate = test_plan_1(first, "gate", &test_gate, x, ROTA_READWRITE),
              *copy = test_plan_copy_kernel(second, "copy", x, y),
              *apart = test_plan_1(second, "apart", &test_increment, v, ROTA_READWRITE);
    rota_ticket copied, last;
    test_expect_words(x, WORDS, 5);
    test_expect_words(y, WORDS, 0);
    test_expect_words(v, WORDS, 0);
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    assert_ok(rota_submit_wait(copy, NULL, 0, &copied));
    const uint64_t deadline = rota_deadline_after(SOON_NS / 2);
    while (!rota_device_is_lost(first) && rota_clock_ns() < deadline) {
        assert_ok(rota_submit_wait(apart, NULL, 0, &last));
        assert_ok(rota_wait(last, SOON_NS));
        test_nap_ms(5);
    }
    const bool is_lost = rota_device_is_lost(first);
    test_gate_open(true);
    assert_status(rota_wait(copied, SOON_NS), is_lost ? ROTA_DEVICE_LOST : ROTA_OK);
    rota_plan *plans[] = {gate, copy, apart};
    rota_buffer *buffers[] = {x, y, v};
    for (uint32_t i = 0; i < 3; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < 3; i++) rota_buffer_release(buffers[i]);
    assert_ok(rota_runtime_close(runtime, SOON_NS));
    if (options.violations) fail_msg("%s", options.violation);
    assert_true(is_lost);
}

static void while_it_looks_for_long(void **state) {
    (void)state;
    awaited(100000, 500);
}

/* The second device is lost while a work there waits for the first, which is at a long kernel: for that kernel, or with
 * `for_itself` for a replay that waits for it there. `third`: another one waits for that work, by its order. */
static void awaited_by_lost(bool for_itself, bool third) {
    adversary_options options = {.seed = 9};
    rota_runtime *runtime;
    rota_device *devices[3];
    static const char *const ids[] = {"adversary", "adversary:1", "adversary:2"};
    assert_ok(adversary_runtime_open(
        &options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = TIMEOUT_NS, .queues_per_device = 3), &runtime));
    for (uint32_t d = 0; d < 3; d++) assert_ok(rota_device_open(runtime, ids[d], &devices[d]));
    rota_buffer *x = test_words(devices[0], "x", WORDS, 5), *y = test_words(devices[1], "y", WORDS, 0),
                *z = test_words(devices[2], "z", WORDS, 0), *output;
    rota_plan *plan = test_plan_gate_then_output(devices[0], x, WORDS * 4, &output),
              *copy = test_plan_copy_kernel(devices[1], "copy", x, y),
              *next = test_plan_copy_kernel(devices[2], "copy", y, z);
    static uint32_t words[2][WORDS];
    rota_args *args[2];
    rota_ticket tickets[2], copied, last;
    test_expect_words(x, WORDS, 5);
    test_expect_words(y, WORDS, 0);
    test_expect_words(z, WORDS, 0);
    test_gate_open(false);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(rota_args_create(plan, &args[i]));
        assert_ok(rota_args_set_output(args[i], output, words[i], sizeof words[i]));
        if (i == 0 || for_itself) assert_ok(rota_submit_wait(plan, args[i], 0, &tickets[i]));
    }
    assert_ok(rota_submit_wait(copy, NULL, 0, &copied));
    if (third) assert_ok(rota_submit_wait(next, NULL, 0, &last));
    test_sequenced(third ? last : copied);
    rota_device_set_lost(devices[1], "given up by the test");
    const uint64_t deadline = rota_deadline_after(third ? SOON_NS : 3 * (uint64_t)TIMEOUT_NS);
    while (!rota_device_is_lost(devices[0]) && rota_clock_ns() < deadline) test_nap_ms(1);
    const bool is_lost = rota_device_is_lost(devices[0]);
    assert_false(rota_device_is_lost(devices[2]));
    test_gate_open(true);
    for (uint32_t i = 0; i < 1u + for_itself; i++)
        assert_status(rota_wait(tickets[i], SOON_NS), is_lost ? ROTA_DEVICE_LOST : ROTA_OK);
    assert_status(rota_wait(copied, SOON_NS), ROTA_DEVICE_LOST);
    if (third) assert_status(rota_wait(last, SOON_NS), ROTA_DEVICE_LOST);
    for (uint32_t i = 0; i < 2; i++) rota_args_release(args[i]);
    rota_plan *plans[] = {plan, copy, next};
    rota_buffer *buffers[] = {x, y, z};
    for (uint32_t i = 0; i < 3; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < 3; i++) rota_buffer_release(buffers[i]);
    assert_ok(rota_runtime_close(runtime, SOON_NS));
    if (options.violations) fail_msg("%s", options.violation);
    assert_int_equal(is_lost, third);
}

static void by_a_lost_one(void **state) {
    (void)state;
    awaited_by_lost(false, false);
    awaited_by_lost(true, false);
}

static void by_a_lost_one_and_a_third(void **state) {
    (void)state;
    awaited_by_lost(false, true);
    awaited_by_lost(true, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_it_sleeps),   cmocka_unit_test(while_it_looks),
        cmocka_unit_test(while_it_has_work), cmocka_unit_test(while_it_looks_for_long),
        cmocka_unit_test(by_a_lost_one),     cmocka_unit_test(by_a_lost_one_and_a_third),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
