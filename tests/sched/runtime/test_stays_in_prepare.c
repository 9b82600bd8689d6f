/* A lost device's thread stays in the driver where it makes memory for a read; who waits for what is behind that there,
 * and is not of the same queue's works that it has taken, goes on. */
#include "tests/kit/runtime_support.h"

#include "base/atomic.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/kit/sequenced.h"
#include "tests/sched/runtime/halt_kit.h"

enum { WORDS = 512, QUEUES = 3, LARGE = 4 << 20 };
#define LIMIT ((uint64_t)1 << 30)
#define SOON_NS 10000000000u

/* Where it stays, in staging.c: before the driver is asked for memory, or is given some back for that. */
static const char *const making = "acquire", *const giving_back = "rota_staging_free_memory";

/* The CPU's staging memory for `idle` lies idle, and beside it there is not enough for as many bytes. Returns what was
 * taken for that. */
static uint64_t leave_too_little(rota_buffer *idle, rota_device *cpu, uint32_t *words) {
    rota_runtime *runtime = rota_device_runtime(cpu);
    assert_ok(rota_buffer_write(idle, cpu, 0, words, LARGE, NULL));
    assert_ok(rota_buffer_read(idle, 0, words, LARGE));
    rota_sequencer_reap_now(runtime); /* and what was used has come back */
    const uint64_t taken = LIMIT - ra_load_seq_cst(&runtime->budget.memory_bytes) - LARGE / 2;
    (void)ra_fetch_add_acq_rel(&runtime->budget.memory_bytes, taken);
    return taken;
}

/* `limit`: of memory, 0: none. `where`: it stays; where it gives back, memory of the CPU's is in the way. */
static void lost_in_the_driver(uint64_t limit, const char *where) {
    adversary_options options = {.seed = 11};
    rota_runtime *runtime;
    rota_device *cpu, *lost, *well;
    assert_ok(adversary_runtime_open(&options,
                                     &ROTA_RUNTIME_OPTIONS(.timeout_ns = SOON_NS, .queues_per_device = QUEUES,
                                                           .memory_limit_bytes = limit),
                                     &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    assert_ok(rota_device_open(runtime, "adversary", &lost));
    assert_ok(rota_device_open(runtime, "adversary:1", &well));
    rota_buffer *x = test_words(lost, "x", WORDS, 5), *v = test_words(lost, "v", WORDS, 6),
                *y = test_words(well, "y", WORDS, 0);
    rota_plan *hooked = test_plan_1(lost, "hooked", &test_increment, x, ROTA_READWRITE),
              *copy = test_plan_copy_kernel(well, "copy", v, y),
              *later = test_plan_1(well, "later", &test_increment, y, ROTA_READWRITE);
    rota_buffer *buffers[] = {x, v, y};
    static const uint32_t values[] = {5, 6, 0};
    for (uint32_t i = 0; i < 3; i++) test_expect_words(buffers[i], WORDS, values[i]);
    static uint32_t words[LARGE / 4];
    rota_buffer *large = test_buffer(runtime, "large", LARGE), *idle = test_buffer(runtime, "idle", LARGE);
    assert_ok(rota_buffer_write(large, lost, 0, words, LARGE, NULL));
    const uint64_t taken = where == giving_back ? leave_too_little(idle, cpu, words) : 0;
    rota_ticket ticket, read, copied, last;
    halt_begin(&options, where, 6 * (uint64_t)SOON_NS);
    assert_ok(rota_submit_wait(hooked, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, SOON_NS));
    assert_ok(rota_buffer_read_async(large, 0, words, LARGE, &read));
    halt_await();
    assert_ok(rota_submit_wait(copy, NULL, 0, &copied)); /* v out, behind the read, and in */
    assert_ok(rota_submit_wait(later, NULL, 0, &last));
    test_sequenced(last);
    rota_device_set_lost(lost, "given up by the test");
    const rota_ticket tickets[] = {read, copied, last};
    rota_status statuses[3];
    for (uint32_t i = 0; i < 3; i++) statuses[i] = rota_wait(tickets[i], SOON_NS / 2);
    const bool was_halted = halt_is_on();
    halt_end();
    (void)ra_fetch_sub_acq_rel(&runtime->budget.memory_bytes, taken);
    rota_plan *plans[] = {hooked, copy, later};
    for (uint32_t i = 0; i < sizeof plans / sizeof *plans; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < sizeof buffers / sizeof *buffers; i++) rota_buffer_release(buffers[i]);
    rota_buffer_release(large);
    rota_buffer_release(idle);
    assert_ok(rota_runtime_close(runtime, SOON_NS));
    if (options.violations) fail_msg("%s", options.violation);
    assert_true(was_halted);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(statuses[i], ROTA_DEVICE_LOST);
}

static void loss_in_the_driver(void **state) {
    (void)state;
    lost_in_the_driver(0, making);
}
static void loss_in_the_driver_under_a_limit(void **state) {
    (void)state;
    lost_in_the_driver(LIMIT, making);
    lost_in_the_driver(LIMIT, giving_back);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_in_the_driver),
        cmocka_unit_test(loss_in_the_driver_under_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
