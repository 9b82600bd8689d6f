/* A lost device's thread stays in the driver where it makes memory for a read; who waits for what is behind that there,
 * and is not of the same queue's works that it has taken, goes on. */
#include "tests/kit/runtime_support.h"

#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary.h"
#include "tests/kit/sequenced.h"
#include "tests/kit/nap.h"

enum { WORDS = 512, QUEUES = 3 };
#define SOON_NS 10000000000u

static _Atomic uint32_t is_to_hook, is_halted, goes_on;

static void at_prepare(void *user, const rota_mark_site *site) {
    (void)user;
    if (strcmp(site->function, "acquire") != 0) return; /* staging.c: before the driver is asked for memory */
    rota_mark_hook = NULL;
    ra_store_seq_cst(&is_halted, 1);
    const uint64_t deadline = rota_deadline_after(6 * (uint64_t)SOON_NS);
    while (!ra_load_seq_cst(&goes_on) && rota_clock_ns() < deadline) test_nap_ms(1);
    ra_store_seq_cst(&is_halted, 0);
}

static void hook(void *user, uint32_t device) {
    (void)user, (void)device;
    if (ra_exchange_acq_rel(&is_to_hook, 0)) rota_mark_hook = at_prepare;
}

static void await_halt(void) {
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (!ra_load_seq_cst(&is_halted) && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_int_equal(ra_load_seq_cst(&is_halted), 1);
}

static rota_plan *copying(rota_device *device, rota_buffer *from, rota_buffer *to) {
    test_node node = {
        &test_copy, "copy", {{from, 0, ROTA_WHOLE, ROTA_READ}, {to, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    return test_plan(device, "copy", &node, 1);
}

static void loss_in_the_driver(void **state) {
    (void)state;
    adversary_options options = {.seed = 11};
    rota_runtime *runtime;
    rota_device *lost, *well;
    assert_ok(adversary_runtime_open(
        &options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = SOON_NS, .queues_per_device = QUEUES), &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &lost));
    assert_ok(rota_device_open(runtime, "adversary:1", &well));
    rota_buffer *x = test_words(lost, "x", WORDS, 5), *v = test_words(lost, "v", WORDS, 6),
                *y = test_words(well, "y", WORDS, 0);
    rota_plan *hooked = test_plan_1(lost, "hooked", &test_increment, x, ROTA_READWRITE),
              *copy = copying(well, v, y),
              *later = test_plan_1(well, "later", &test_increment, y, ROTA_READWRITE);
    rota_buffer *buffers[] = {x, v, y};
    static const uint32_t values[] = {5, 6, 0};
    for (uint32_t i = 0; i < 3; i++) test_expect_words(buffers[i], WORDS, values[i]);
    static uint32_t words[1 << 20];
    rota_buffer *large = test_buffer(runtime, "large", sizeof words);
    assert_ok(rota_buffer_write(large, lost, 0, words, sizeof words, NULL));
    rota_ticket ticket, read, copied, last;
    ra_store_seq_cst(&is_halted, 0);
    ra_store_seq_cst(&goes_on, 0);
    ra_store_seq_cst(&is_to_hook, 1);
    ra_store_seq_cst(&options.on_submit, hook);
    assert_ok(rota_submit_wait(hooked, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, SOON_NS));
    assert_ok(rota_buffer_read_async(large, 0, words, sizeof words, &read));
    await_halt();
    assert_ok(rota_submit_wait(copy, NULL, 0, &copied)); /* v out, behind the read, and in */
    assert_ok(rota_submit_wait(later, NULL, 0, &last));
    test_sequenced(last);
    rota_device_set_lost(lost, "given up by the test");
    const rota_ticket tickets[] = {read, copied, last};
    rota_status statuses[3];
    for (uint32_t i = 0; i < 3; i++) statuses[i] = rota_wait(tickets[i], SOON_NS / 2);
    const bool was_halted = ra_load_seq_cst(&is_halted) != 0;
    ra_store_seq_cst(&goes_on, 1);
    rota_plan *plans[] = {hooked, copy, later};
    for (uint32_t i = 0; i < sizeof plans / sizeof *plans; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < sizeof buffers / sizeof *buffers; i++) rota_buffer_release(buffers[i]);
    rota_buffer_release(large);
    assert_ok(rota_runtime_close(runtime, SOON_NS));
    if (options.violations) fail_msg("%s", options.violation);
    assert_true(was_halted);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(statuses[i], ROTA_DEVICE_LOST);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_in_the_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
