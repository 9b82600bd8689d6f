/* A device whose thread does not come back from the driver is given up by one that waits for what that thread has not
 * looked at, though it holds something else for a third device, too. */
#include "tests/kit/runtime_support.h"

#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/sleep.h"
#include "exec/exec.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary.h"
#include "tests/kit/sequenced.h"
#include "tests/kit/nap.h"

enum { WORDS = 64 };
#define SOON_NS 5000000000u
#define TIMEOUT_NS 500000000u

static _Atomic uint32_t stays, goes_on, stays_for_memory, is_to_hook;
static void at_memory(void *user, const rota_stop_site *site) {
    (void)user;
    if (strcmp(site->function, "acquire") != 0) return; /* staging.c: before the driver is asked for memory */
    rota_stop_hook = NULL;
    ra_store_seq_cst(&stays_for_memory, 0);
    while (!ra_load_seq_cst(&goes_on)) test_nap_ms(1);
}

static void on_submit(void *user, uint32_t device) {
    (void)user;
    if (device != 0) return;
    if (ra_exchange_acq_rel(&is_to_hook, 0)) rota_stop_hook = at_memory;
    if (!ra_exchange_acq_rel(&stays, 0)) return;
    while (!ra_load_seq_cst(&goes_on)) test_nap_ms(1);
}

/* The second device waits for v of the first, whose thread stays in the driver with `busy`. `holds`: it has a work
 * that waits for the CPU, too, which gets on all the time. `limited`: there is a memory limit, and it stays where it
 * makes memory for a read behind that. */
static void stays_in_driver(bool holds, bool limited) {
    adversary_options options = {.seed = 9};
    rota_runtime *runtime;
    rota_device *cpu, *first, *second;
    assert_ok(adversary_runtime_open(&options,
                                     &ROTA_RUNTIME_OPTIONS(.timeout_ns = TIMEOUT_NS, .queues_per_device = 3,
                                                           .worker_threads = 4,
                                                           .memory_limit_bytes = limited ? 1u << 30 : 0),
                                     &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    assert_ok(rota_device_open(runtime, "adversary", &first));
    assert_ok(rota_device_open(runtime, "adversary:1", &second));
    rota_buffer *x = test_words(cpu, "x", WORDS, 5), *u = test_words(first, "u", WORDS, 0),
                *b = test_words(first, "b", WORDS, 0), *v = test_words(first, "v", WORDS, 0),
                *y = test_words(second, "y", WORDS, 0), *c = test_words(cpu, "c", WORDS, 0);
    rota_buffer *buffers[] = {x, u, b, v, y, c};
    static const uint32_t values[] = {5, 0, 0, 0, 0, 0};
    for (uint32_t i = 0; i < 6; i++) test_expect_words(buffers[i], WORDS, values[i]);
    rota_plan *gate = test_plan_1(cpu, "gate", &test_gate, x, ROTA_READWRITE),
              *held = test_plan_copy_kernel(first, "copy", x, u),
              *busy = test_plan_1(first, "busy", &test_increment, b, ROTA_READWRITE),
              *change = test_plan_1(first, "change", &test_increment, v, ROTA_READWRITE),
              *copy = test_plan_copy_kernel(second, "copy", v, y),
              *beat = test_plan_1(cpu, "beat", &test_increment, c, ROTA_READWRITE);
    rota_plan *plans[] = {gate, held, busy, change, copy, beat};
    rota_ticket ticket, read;
    static uint32_t words[1 << 20];
    rota_buffer *large = test_buffer(runtime, "large", sizeof words);
    if (limited) {
        assert_ok(rota_buffer_write(large, first, 0, words, sizeof words, NULL));
    }
    test_gate_open(false);
    if (holds) {
        assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
        assert_ok(rota_submit_wait(held, NULL, 0, &ticket));
        test_sequenced(ticket);
        const uint64_t until = rota_deadline_after(SOON_NS);
        while (ra_load_acquire(&first->handover.blocked_count) == 0 && rota_clock_ns() < until) test_nap();
        assert_in_range(ra_load_acquire(&first->handover.blocked_count), 1, 3);
    }
    ra_store_seq_cst(&goes_on, 0);
    ra_store_seq_cst(&stays, !limited);
    ra_store_seq_cst(&stays_for_memory, limited);
    ra_store_seq_cst(&is_to_hook, limited);
    ra_store_seq_cst(&options.on_submit, on_submit);
    assert_ok(rota_submit_wait(busy, NULL, 0, &ticket));
    if (limited) {
        assert_ok(rota_wait(ticket, SOON_NS));
        assert_ok(rota_buffer_read_async(large, 0, words, sizeof words, &read));
    }
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while ((ra_load_seq_cst(&stays) || ra_load_seq_cst(&stays_for_memory)) && rota_clock_ns() < deadline)
        test_nap_ms(1);
    assert_int_equal(ra_load_seq_cst(&stays) || ra_load_seq_cst(&stays_for_memory), 0);
    assert_ok(rota_submit_wait(change, NULL, 0, NULL));
    assert_ok(rota_submit_wait(copy, NULL, 0, &ticket));
    for (uint32_t i = 0; i < 200 && !rota_device_is_lost(first); i++) {
        if (i % 20 == 0) (void)rota_submit(beat, NULL, NULL);
        test_nap_ms(20);
    }
    const bool is_lost = rota_device_is_lost(first), cpu_is = rota_device_is_lost(cpu);
    ra_store_seq_cst(&goes_on, 1);
    test_gate_open(true);
    (void)rota_wait(ticket, SOON_NS);
    if (limited) (void)rota_wait(read, SOON_NS);
    rota_buffer_release(large);
    for (uint32_t i = 0; i < 6; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < 6; i++) rota_buffer_release(buffers[i]);
    (void)rota_runtime_close(runtime, SOON_NS);
    assert_true(is_lost);
    assert_false(cpu_is);
}

static void holds_nothing(void **state) {
    (void)state;
    stays_in_driver(false, false);
}
static void holds_something(void **state) {
    (void)state;
    stays_in_driver(true, false);
}
static void under_a_limit(void **state) {
    (void)state;
    stays_in_driver(false, true);
    stays_in_driver(true, true);
}

static _Atomic uint32_t is_in_go_on;
static rota_status stay_in_go_on(rota_exec_device *device, bool *out_moved) {
    (void)device;
    *out_moved = false;
    ra_store_seq_cst(&is_in_go_on, 1);
    while (!ra_load_seq_cst(&goes_on)) test_nap_ms(1);
    return ROTA_OK;
}

/* The first device holds a work, for which the second waits, and had nothing to hand over for longer than the
 * deadline: its thread then goes on with something, and is looked at. It has the whole deadline for that. Returns
 * whether the device was lost, and how long its thread was seen there. */
static bool goes_on_after(uint64_t timeout_ns, uint64_t *out_looked_ns) {
    adversary_options options = {.seed = 9};
    rota_runtime *runtime;
    rota_device *cpu, *first, *second;
    assert_ok(adversary_runtime_open(
        &options,
        &ROTA_RUNTIME_OPTIONS(.timeout_ns = timeout_ns, .queues_per_device = 3, .worker_threads = 4),
        &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    assert_ok(rota_device_open(runtime, "adversary", &first));
    assert_ok(rota_device_open(runtime, "adversary:1", &second));
    rota_buffer *x = test_words(cpu, "x", WORDS, 5), *u = test_words(first, "u", WORDS, 0),
                *y = test_words(second, "y", WORDS, 0), *c = test_words(cpu, "c", WORDS, 0);
    rota_plan *gate = test_plan_1(cpu, "gate", &test_gate, x, ROTA_READWRITE),
              *held = test_plan_copy_kernel(first, "copy", x, u),
              *copy = test_plan_copy_kernel(second, "copy", u, y),
              *beat = test_plan_1(cpu, "beat", &test_increment, c, ROTA_READWRITE);
    rota_plan *plans[] = {gate, held, copy, beat};
    rota_buffer *buffers[] = {x, u, y, c};
    rota_ticket ticket;
    test_gate_open(false);
    ra_store_seq_cst(&goes_on, 0);
    ra_store_seq_cst(&is_in_go_on, 0);
    first->exec->go_on = stay_in_go_on;
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    assert_ok(rota_submit_wait(held, NULL, 0, NULL));
    assert_ok(rota_submit_wait(copy, NULL, 0, &ticket));
    test_sequenced(ticket);
    for (const rota_device *device = first;; device = second) {
        const uint64_t until = rota_deadline_after(SOON_NS);
        while (ra_load_acquire(&device->handover.blocked_count) == 0 && rota_clock_ns() < until) test_nap();
        assert_true(ra_load_acquire(&device->handover.blocked_count) != 0);
        if (device == second) break;
    }
    const uint64_t until = rota_deadline_after(timeout_ns + timeout_ns / 4);
    while (rota_clock_ns() < until) { /* the CPU gets on all the time */
        assert_ok(rota_submit_wait(beat, NULL, 0, NULL));
        test_nap_ms(20);
    }
    assert_false(rota_device_is_lost(first));
    const uint64_t began_ns = rota_clock_ns();
    ra_store_seq_cst(&first->handover.goes_on, 1); /* as in events.c */
    rota_sleeper_wake(first->handover.sleeper);
    const uint64_t looks_until = rota_deadline_after(timeout_ns / 4);
    while ((!ra_load_seq_cst(&is_in_go_on) || rota_clock_ns() < looks_until) && !rota_device_is_lost(first)) {
        (void)rota_submit(beat, NULL, NULL);
        test_nap_ms(20);
    }
    *out_looked_ns = rota_clock_ns() - began_ns;
    const bool is_lost = rota_device_is_lost(first);
    ra_store_seq_cst(&goes_on, 1);
    test_gate_open(true);
    const rota_status status = rota_wait(ticket, SOON_NS);
    for (uint32_t i = 0; i < 4; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < 4; i++) rota_buffer_release(buffers[i]);
    (void)rota_runtime_close(runtime, SOON_NS);
    return is_lost || status != ROTA_OK;
}

/* A thread of the test that was held for the whole deadline proves nothing: once more then, with a longer one. */
static void goes_on_later(void **state) {
    (void)state;
    uint64_t timeout_ns = 1000000000, looked_ns;
    bool is_lost = goes_on_after(timeout_ns, &looked_ns);
    for (uint32_t more = 0; is_lost && looked_ns >= timeout_ns && more < 3; more++) {
        timeout_ns *= 2;
        is_lost = goes_on_after(timeout_ns, &looked_ns);
    }
    assert_false(is_lost);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_later),
        cmocka_unit_test(holds_nothing),
        cmocka_unit_test(holds_something),
        cmocka_unit_test(under_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
