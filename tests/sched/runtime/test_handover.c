/* A device that others wait for is not given up for what it has only just been given: when that was is noted
 * before it is seen that it was (submitter/blocked.c). Its submit thread is halted between the two. Nor is one that
 * nobody waits for but itself. */
#include "tests/kit/runtime_support.h"
#include "tests/kit/nap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary.h"

enum { WORDS = 64 };
#define SOON_NS 10000000000u
#define TIMEOUT_NS 500000000u

/* ---- The halted thread ---- */

static _Atomic uint32_t is_to_hook, halts_at, is_halted, goes_on;
/* Of note_hand_over by this thread since it was hooked; and the first mark in there. */
static _Thread_local uint32_t calls;
static _Thread_local const rota_stop_site *first_mark;

static void at_note(void *user, const rota_stop_site *site) {
    (void)user;
    if (!first_mark && strcmp(site->function, "rota_handover_note") == 0) first_mark = site;
    if (site != first_mark || ++calls != ra_load_seq_cst(&halts_at)) return;
    rota_stop_hook = NULL;
    ra_store_seq_cst(&is_halted, 1);
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (!ra_load_seq_cst(&goes_on) && rota_clock_ns() < deadline) test_nap_ms(1);
}

static void hook(void *user, uint32_t device) {
    (void)user, (void)device;
    if (!ra_exchange_acq_rel(&is_to_hook, 0)) return;
    calls = 0;
    first_mark = NULL;
    rota_stop_hook = at_note;
}

/* ---- The CPU goes on with something else all the time ---- */

static _Atomic uint32_t beats, second_gate;

static rota_status wait_at_second(const rota_kernel_call *call) {
    (void)call;
    const uint64_t deadline = rota_deadline_after(2 * (uint64_t)SOON_NS);
    while (!ra_load_seq_cst(&second_gate) && rota_clock_ns() < deadline) test_nap_ms(1);
    return ROTA_OK;
}
static const rota_kernel second_gate_kernel = {
    .name = "second gate", .operand_count = 1, .cpu = {.fn = wait_at_second}};

static void *keep_beating(void *user) {
    rota_plan *plan = user;
    while (ra_load_seq_cst(&beats)) {
        rota_ticket ticket;
        if (rota_submit_wait(plan, NULL, 0, &ticket) == ROTA_OK) (void)rota_wait(ticket, 0);
        test_nap_ms(5);
    }
    return NULL;
}

static rota_plan *on_cpu(rota_device *cpu, const rota_kernel *kernel, uint32_t queue, rota_buffer *buffer) {
    const test_node node = {kernel, NULL, {{buffer, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1};
    return test_plan_on_queue(cpu, queue, 3, &node);
}

/* y of the first device comes from x, which is behind a gate of the CPU, and z of the second one from y. For
 * longer than the deadline all of them wait. Then the first one's thread goes on, and stops where it notes
 * when that was: for the `halt`th time. It holds three works, x in, the copy, and y out, and takes note for
 * each that it holds no longer and then for what it hands over. With `another`, it holds two more, for
 * another gate. */
static void halt_at(uint32_t halt, bool another) {
    adversary_options options = {.seed = 9};
    rota_runtime *runtime;
    rota_device *cpu, *first, *second;
    assert_ok(adversary_runtime_open(
        &options,
        &ROTA_RUNTIME_OPTIONS(.timeout_ns = TIMEOUT_NS, .queues_per_device = 3, .worker_threads = 4),
        &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    assert_ok(rota_device_open(runtime, "adversary", &first));
    assert_ok(rota_device_open(runtime, "adversary:1", &second));
    rota_buffer *x = test_words(cpu, "x", WORDS, 5), *u = test_words(cpu, "u", WORDS, 6),
                *w = test_words(cpu, "w", WORDS, 0), *y = test_words(first, "y", WORDS, 0),
                *v = test_words(first, "v", WORDS, 0), *z = test_words(second, "z", WORDS, 0);
    rota_plan *gate = on_cpu(cpu, &test_gate, 0, x), *other_gate = on_cpu(cpu, &second_gate_kernel, 1, u),
              *beat = on_cpu(cpu, &test_increment, 2, w), *copy = test_plan_copy_kernel(first, "copy", x, y),
              *other = test_plan_copy_kernel(first, "copy", u, v),
              *next = test_plan_copy_kernel(second, "copy", y, z),
              *hooked = test_plan_1(first, "hooked", &test_increment, v, ROTA_READWRITE);
    rota_buffer *buffers[] = {x, u, w, y, v, z}; /* all are written: the next submit is the first one's */
    static const uint32_t values[] = {5, 6, 0, 0, 0, 0};
    for (uint32_t i = 0; i < 6; i++) test_expect_words(buffers[i], WORDS, values[i]);
    pthread_t thread;
    rota_ticket ticket, last, kept = {NULL, 0};
    test_gate_open(false);
    ra_store_seq_cst(&second_gate, 0);
    ra_store_seq_cst(&beats, 1);
    ra_store_seq_cst(&is_halted, 0);
    ra_store_seq_cst(&goes_on, 0);
    ra_store_seq_cst(&halts_at, halt);
    assert_int_equal(pthread_create(&thread, NULL, keep_beating, beat), 0);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    if (another) assert_ok(rota_submit_wait(other_gate, NULL, 0, NULL));
    ra_store_seq_cst(&is_to_hook, 1);
    ra_store_seq_cst(&options.on_submit, hook);
    assert_ok(rota_submit_wait(hooked, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, SOON_NS));
    if (another) assert_ok(rota_submit_wait(other, NULL, 0, &kept));
    assert_ok(rota_submit_wait(copy, NULL, 0, NULL));
    assert_ok(rota_submit_wait(next, NULL, 0, &last));
    test_nap_ms(TIMEOUT_NS / 1000000 + 100);
    assert_int_equal(ra_load_seq_cst(&is_halted), 0);
    test_gate_open(true);
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (!ra_load_seq_cst(&is_halted) && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_int_equal(ra_load_seq_cst(&is_halted), 1);
    assert_in_range(ra_load_seq_cst(&first->handover.blocked_count), another ? 2 : 0, another ? 2 : 1);
    test_nap_ms(TIMEOUT_NS / 1000000 + 300); /* the second device's thread looks every 50 ms */
    if (rota_device_is_lost(first)) fail_msg("%s", ra_load_acquire(&first->lost_cause)->message);
    ra_store_seq_cst(&goes_on, 1);
    assert_ok(rota_wait(last, SOON_NS));
    ra_store_seq_cst(&second_gate, 1);
    if (another) assert_ok(rota_wait(kept, SOON_NS));
    ra_store_seq_cst(&beats, 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    test_expect_words(z, WORDS, 5);
    assert_false(rota_device_is_lost(cpu));
    rota_plan *plans[] = {gate, other_gate, beat, copy, other, next, hooked};
    for (uint32_t i = 0; i < sizeof plans / sizeof *plans; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < sizeof buffers / sizeof *buffers; i++) rota_buffer_release(buffers[i]);
    assert_ok(rota_runtime_close(runtime, SOON_NS));
    if (options.violations) fail_msg("%s", options.violation);
}

static void before_it_is_held_no_longer(void **state) {
    (void)state;
    halt_at(3, false);
}

static void before_it_is_handed_over(void **state) {
    (void)state;
    halt_at(4, true);
}

/* ---- A device that waits for itself ---- */

/* A plan's second replay waits for the first, whose kernel takes longer than the deadline; `awaited`: and another
 * device for what the second one writes. */
static void replays_at_a_long_kernel(bool awaited) {
    adversary_options options = {.seed = 9};
    rota_runtime *runtime;
    rota_device *first, *second;
    assert_ok(adversary_runtime_open(
        &options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = TIMEOUT_NS, .queues_per_device = 3), &runtime));
    assert_ok(rota_device_open(runtime, "adversary", &first));
    assert_ok(rota_device_open(runtime, "adversary:1", &second));
    rota_buffer *x = test_words(first, "x", WORDS, 5), *y = test_words(second, "y", WORDS, 0), *output;
    rota_plan *plan = test_plan_gate_then_output(first, x, WORDS * 4, &output),
              *copy = test_plan_copy_kernel(second, "copy", x, y);
    static uint32_t words[2][WORDS];
    rota_args *args[2];
    rota_ticket tickets[3];
    test_expect_words(x, WORDS, 5);
    test_expect_words(y, WORDS, 0);
    test_gate_open(false);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(rota_args_create(plan, &args[i]));
        assert_ok(rota_args_set_output(args[i], output, words[i], sizeof words[i]));
        assert_ok(rota_submit_wait(plan, args[i], 0, &tickets[i]));
    }
    if (awaited) assert_ok(rota_submit_wait(copy, NULL, 0, &tickets[2]));
    const uint64_t deadline = rota_deadline_after(awaited ? SOON_NS : 3 * (uint64_t)TIMEOUT_NS);
    while (!rota_device_is_lost(first) && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_int_equal(rota_device_is_lost(first), awaited);
    if (!awaited) assert_int_equal(ra_load_seq_cst(&first->handover.blocked_count), 1);
    test_gate_open(true);
    const rota_status wanted = awaited ? ROTA_DEVICE_LOST : ROTA_OK;
    for (uint32_t i = 0; i < 2u + awaited; i++) assert_status(rota_wait(tickets[i], SOON_NS), wanted);
    for (uint32_t w = 0; !awaited && w < WORDS; w++) assert_int_equal(words[1][w], 5);
    for (uint32_t i = 0; i < 2; i++) rota_args_release(args[i]);
    rota_plan_release(plan);
    rota_plan_release(copy);
    rota_buffer_release(x);
    rota_buffer_release(y);
    assert_ok(rota_runtime_close(runtime, SOON_NS));
    if (options.violations) fail_msg("%s", options.violation);
}

static void nobody_waits_for_a_long_kernel(void **state) {
    (void)state;
    replays_at_a_long_kernel(false);
}

static void another_waits_for_a_long_kernel(void **state) {
    (void)state;
    replays_at_a_long_kernel(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_it_is_held_no_longer),
        cmocka_unit_test(before_it_is_handed_over),
        cmocka_unit_test(nobody_waits_for_a_long_kernel),
        cmocka_unit_test(another_waits_for_a_long_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
