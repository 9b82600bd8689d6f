/* A device is lost while its submit thread prepares a move into it, out of memory that the host sees. Another
 * device's thread looks through what the lost one holds and drops what comes after the move there: who waits
 * for that must not take the move itself to be over, which still reads. */
#include "tests/kit/runtime_support.h"

#include "base/atomic.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/kit/sequenced.h"
#include "tests/kit/nap.h"
#include "tests/sched/runtime/halt_kit.h"

enum { WORDS = 512, QUEUES = 3 };
#define SOON_NS 10000000000u

/* ---- Who writes what it reads ---- */

static _Atomic uint32_t wrote, wrote_early;

static rota_status overwrite(const rota_kernel_call *call) {
    uint32_t *x = call->operands[0];
    if (halt_is_on()) ra_store_seq_cst(&wrote_early, 1);
    for (uint32_t w = 0; w < WORDS; w++) x[w] = 9;
    ra_store_seq_cst(&wrote, 1);
    return ROTA_OK;
}
static const rota_kernel overwriting = {.name = "overwrite", .operand_count = 1, .cpu = {.fn = overwrite}};

/* A copy on this queue of the device; one of a buffer to itself changes it. */
static rota_plan *copy_on(rota_device *device, uint32_t queue, rota_buffer *from, rota_buffer *to) {
    const bool changes = from == to;
    const test_node node = {
        changes ? &test_increment : &test_copy,
        NULL,
        {{from, 0, ROTA_WHOLE, changes ? ROTA_READWRITE : ROTA_READ}, {to, 0, ROTA_WHOLE, ROTA_WRITE}},
        changes ? 1 : 2};
    return test_plan_on_queue(device, queue, QUEUES, &node);
}

/* The queues of the device that got works by this submission, as bits. */
static uint32_t queues_of(rota_device *device, rota_plan *plan) {
    uint64_t before[ROTA_EXEC_QUEUES_MAX];
    uint32_t queues = 0;
    rota_ticket ticket;
    for (uint32_t q = 0; q < device->runtime->queue_count; q++)
        before[q] = ra_load_acquire(&device->timelines[q].issued);
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    test_sequenced(ticket);
    for (uint32_t q = 0; q < device->runtime->queue_count; q++)
        if (ra_load_acquire(&device->timelines[q].issued) != before[q]) queues |= 1u << q;
    return queues;
}

/* x moves to the lost device, which copies it. What is dropped there: a second move and a second copy, behind
 * those; or, with `other_queue`, one that changes x, which is after them and all that who overwrites x waits
 * for. */
static void loss_while_prepared(bool other_queue) {
    adversary_options options = {.seed = 11};
    rota_runtime *runtime;
    rota_device *cpu, *lost;
    assert_ok(adversary_runtime_open(
        &options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = SOON_NS, .queues_per_device = QUEUES), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    assert_ok(rota_device_open(runtime, "adversary", &lost));
    rota_buffer *x = test_words(cpu, "x", WORDS, 5), *u = test_words(cpu, "u", WORDS, 6),
                *y = test_words(lost, "y", WORDS, 0), *v = test_words(lost, "v", WORDS, 0);
    rota_plan *copy = copy_on(lost, 0, x, y),
              *later = other_queue ? copy_on(lost, 1, x, x) : copy_on(lost, 0, u, v),
              *hooked = test_plan_1(lost, "hooked", &test_increment, y, ROTA_READWRITE),
              *first = test_plan_1(cpu, "first", &overwriting, x, ROTA_WRITE),
              *second = test_plan_1(cpu, "second", &overwriting, x, ROTA_WRITE);
    rota_buffer *buffers[] = {x, u, y, v}; /* all are written: the next submit is the hooked one's */
    static const uint32_t values[] = {5, 6, 0, 0};
    for (uint32_t i = 0; i < 4; i++) test_expect_words(buffers[i], WORDS, values[i]);
    rota_ticket ticket, failing, last;
    ra_store_seq_cst(&wrote, 0);
    ra_store_seq_cst(&wrote_early, 0);
    halt_begin(&options, "rota_migration_in_prepare", 2 * (uint64_t)SOON_NS);
    assert_ok(rota_submit_wait(hooked, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, SOON_NS));
    const uint32_t moved_on = queues_of(lost, copy) & ~1u; /* but for its kernel's */
    halt_await();
    const uint32_t later_on = queues_of(lost, later);
    assert_int_equal(__builtin_popcount(moved_on), 1);
    assert_int_equal((later_on & moved_on) != 0, !other_queue);
    assert_ok(rota_submit_wait(first, NULL, 0, &failing));
    assert_ok(rota_submit_wait(second, NULL, 0, &last));
    test_sequenced(last);
    rota_device_set_lost(lost, "given up by the test");
    /* Who waits looks every 50 ms. */
    for (uint32_t ms = 0; ms < 300 && !ra_load_seq_cst(&wrote); ms++) test_nap_ms(1);
    halt_end();
    assert_ok(rota_wait(last, SOON_NS));
    assert_status(rota_wait(failing, SOON_NS), ROTA_DEVICE_LOST);
    assert_false(ra_load_seq_cst(&wrote_early));
    assert_true(ra_load_seq_cst(&wrote));
    test_expect_words(x, WORDS, 9);
    rota_plan *plans[] = {copy, later, hooked, first, second};
    for (uint32_t i = 0; i < 5; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < 4; i++) rota_buffer_release(buffers[i]);
    assert_ok(rota_runtime_close(runtime, SOON_NS));
    if (options.violations) fail_msg("%s", options.violation);
}

static void later_on_its_queue(void **state) {
    (void)state;
    loss_while_prepared(false);
}

static void later_on_another_queue(void **state) {
    (void)state;
    loss_while_prepared(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_on_its_queue),
        cmocka_unit_test(later_on_another_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
