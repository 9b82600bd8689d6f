/* An order that goes through a lost device's gate and two of its queues: what was to come after a work there, which
 * was dropped, comes after what a work before that one, on another queue, was to wait for on the GPU. */
#include "tests/kit/runtime_support.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary.h"
#include "tests/kit/sequenced.h"
#include "tests/kit/nap.h"

enum { WORDS = 64, DEVICES = 3, QUEUES = 3 };
enum { READER, LOST, OTHER };
#define SOON_NS 10000000000u

static rota_status overwrite(const rota_kernel_call *call) {
    uint32_t *x = call->operands[0];
    for (uint32_t w = 0; w < WORDS; w++) x[w] = 99;
    return ROTA_OK;
}
static const rota_kernel overwriting = {.name = "overwrite", .operand_count = 1, .cpu = {.fn = overwrite}};

static rota_plan *on_queue(rota_device *device, uint32_t queue, const rota_kernel *kernel,
                           rota_buffer *buffer, rota_access_mode mode) {
    const test_node node = {kernel, NULL, {{buffer, 0, ROTA_WHOLE, mode}}, 1};
    return test_plan_on_queue(device, queue, QUEUES, &node);
}

static void await_handed_over(const rota_device *device, uint32_t queue) {
    const rota_timeline *timeline = &device->timelines[queue];
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (ra_load_acquire(&timeline->handed_over) < ra_load_acquire(&timeline->issued) &&
           rota_clock_ns() < deadline)
        test_nap_ms(1);
    assert_true(ra_load_acquire(&timeline->handed_over) == ra_load_acquire(&timeline->issued));
}

/* y is copied on the reader, behind a gate; changed on the lost device, which waits for that on the GPU, on one queue
 * and then on the next; written on the other device, and then anew on the reader. `queue`: of the second change. */
static void order_through_the_gate(uint32_t queue) {
    static const char *const ids[] = {"adversary", "adversary:1", "adversary:2"};
    adversary_options options = {.seed = 5, .shares_memory = true, .timelines = true};
    rota_runtime *runtime;
    rota_device *devices[DEVICES];
    assert_ok(adversary_runtime_open(
        &options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = SOON_NS, .queues_per_device = QUEUES), &runtime));
    for (uint32_t d = 0; d < DEVICES; d++) {
        if (d == OTHER) options.shares_memory = options.timelines = false;
        assert_ok(rota_device_open(runtime, ids[d], &devices[d]));
    }
    rota_device *reader = devices[READER], *lost = devices[LOST], *other = devices[OTHER];
    assert_int_not_equal(ra_load_relaxed(&reader->others.linked), 0);
    rota_buffer *y = test_words(reader, "y", WORDS, 5), *w = test_words(reader, "w", WORDS, 0),
                *z = test_words(other, "z", WORDS, 4);
    rota_plan *busy = on_queue(reader, 0, &test_gate, w, ROTA_READWRITE),
              *read = test_plan_copy_kernel(reader, "copy", y, w),
              *first = on_queue(lost, 0, &test_increment, y, ROTA_READWRITE),
              *second = on_queue(lost, queue, &test_increment, y, ROTA_READWRITE),
              *third = test_plan_copy_kernel(other, "copy", z, y),
              *anew = on_queue(reader, 1, &overwriting, y, ROTA_WRITE);
    test_expect_words(y, WORDS, 5);
    test_expect_words(w, WORDS, 0);
    test_expect_words(z, WORDS, 4);
    rota_ticket ticket, copied, last;
    for (uint32_t round = 0; round < 2; round++) { /* from the first one on both signal what is waited for */
        test_gate_open(false);
        assert_ok(rota_submit_wait(busy, NULL, 0, NULL));
        test_gates_running(1);
        assert_ok(rota_submit_wait(read, NULL, 0, &copied));
        test_sequenced(copied);
        await_handed_over(reader, 0);
        if (round == 1) ra_store_seq_cst(&options.faults.submits_stay, 1u << LOST);
        assert_ok(rota_submit_wait(first, NULL, 0, &ticket));
        test_sequenced(ticket);
        if (round == 1) break;
        test_gate_open(true);
        assert_ok(rota_wait(ticket, SOON_NS));
    }
    await_handed_over(lost, 0); /* and its thread stays there */
    assert_int_equal(ra_load_seq_cst(&lost->gate.pending), 1);
    const uint64_t issued = ra_load_acquire(&lost->timelines[queue].issued);
    assert_ok(rota_submit_wait(second, NULL, 0, NULL));
    assert_ok(rota_submit_wait(third, NULL, 0, NULL));
    assert_ok(rota_submit_wait(anew, NULL, 0, &last));
    test_sequenced(last);
    assert_int_equal(ra_load_acquire(&lost->timelines[queue].issued), issued + 1);
    rota_device_set_lost(lost, "given up by the test");
    test_nap_ms(400); /* who waits looks every 50 ms */
    const rota_status early = rota_poll(last);
    test_gate_open(true);
    assert_ok(rota_wait(copied, SOON_NS));
    assert_ok(rota_wait(last, SOON_NS));
    test_expect_words(w, WORDS, 6); /* as it was before the lost device */
    test_expect_words(y, WORDS, 99);
    assert_int_equal(early, ROTA_BUSY);
    ra_store_seq_cst(&options.faults.submits_stay, 0);
    rota_plan *plans[] = {busy, read, first, second, third, anew};
    rota_buffer *buffers[] = {y, w, z};
    for (uint32_t i = 0; i < sizeof plans / sizeof *plans; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < sizeof buffers / sizeof *buffers; i++) rota_buffer_release(buffers[i]);
    (void)rota_runtime_close(runtime, SOON_NS);
    if (options.violations) fail_msg("%s", options.violation);
}

static void on_one_queue(void **state) {
    (void)state;
    order_through_the_gate(0);
}

static void over_two_queues(void **state) {
    (void)state;
    order_through_the_gate(1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_one_queue),
        cmocka_unit_test(over_two_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
