/* Trials: the runtime opens a device by those that it is given, and nothing of a trial outlives it where a device does
 * not answer. */
#include "tests/kit/runtime_support.h"

#include <string.h>
#include "base/clock.h"
#include "sched/runtime/life/device_open.h"
#include "sched/trials/read_within.h"
#include "tests/adversary/adversary.h"

enum { WORDS = 64 };

static uint32_t tried;
static rota_status outcome;

static rota_status count_and_say(rota_device *device, uint64_t idle_ns, uint64_t patience_ns) {
    (void)device, (void)idle_ns, (void)patience_ns;
    tried++;
    return outcome == ROTA_OK ? ROTA_OK : rota_fail(outcome, "the test says no");
}

static const rota_trials own = {.smoke = count_and_say};

/* One that refuses keeps the device from being seen; the next call tries the same one again. */
static void a_device_is_seen_after_its_trials(void **state) {
    (void)state;
    adversary_options adversary = {.seed = 1};
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(adversary_runtime_open(&adversary, NULL, &runtime));
    outcome = ROTA_REFUSED;
    assert_status(rota_device_open_tried(runtime, "adversary", &own, &device), ROTA_REFUSED);
    assert_non_null(
        strstr(rota_last_error(), "device 'adversary' (adversarial executor 0) is refused: the test"));
    assert_null(device);
    outcome = ROTA_OK;
    assert_ok(rota_device_open_tried(runtime, "adversary", &own, &device));
    assert_int_equal(tried, 2);
    rota_device *again;
    assert_ok(rota_device_open_tried(runtime, "adversary", &own, &again));
    assert_ptr_equal(again, device);
    assert_int_equal(tried, 2);
    assert_int_equal(adversary.closes, 0);
    assert_ok(rota_runtime_close(runtime, 0));
}

/* What a read that was given up brings late goes nowhere, and is freed (the address sanitizer watches both). */
static void a_read_ends_at_its_deadline(void **state) {
    (void)state;
    adversary_options adversary = {.seed = 1};
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(adversary_runtime_open(&adversary, NULL, &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    rota_buffer *x = test_words(device, "x", WORDS, 5);
    test_expect_words(x, WORDS, 5);
    rota_plan *gate = test_plan_1(device, "gate", &test_gate, x, ROTA_READWRITE);
    uint32_t words[WORDS];
    memset(words, 0xee, sizeof words);
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    const uint64_t begin = rota_clock_ns();
    assert_status(rota_trial_read(x, words, sizeof words, 100000000u), ROTA_TIMEOUT);
    assert_in_range(rota_clock_ns() - begin, 100000000u, 5000000000u);
    assert_non_null(strstr(rota_last_error(), "'x'"));
    test_gate_open(true);
    test_expect_words(x, WORDS, 5); /* which comes after that read */
    for (uint32_t w = 0; w < WORDS; w++) assert_int_equal(words[w], 0xeeeeeeee);
    assert_ok(rota_trial_read(x, words, sizeof words, 5000000000u));
    for (uint32_t w = 0; w < WORDS; w++) assert_int_equal(words[w], 5);
    rota_plan_release(gate);
    rota_buffer_release(x);
    assert_ok(rota_runtime_close(runtime, 0));
    if (adversary.violations) fail_msg("%s", adversary.violation);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_is_seen_after_its_trials),
        cmocka_unit_test(a_read_ends_at_its_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
