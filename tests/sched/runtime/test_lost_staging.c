/* What a device that is lost has of staging memory, of reads and writes that are under way then, is given back once
 * it touches nothing any more, and not before; nor does a memory limit's promise for it keep others from reading. */
#include "tests/kit/runtime_support.h"

#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/testing.h"
#include "tests/adversary/adversary.h"
#include "tests/kit/sequenced.h"
#include "tests/kit/nap.h"

enum { WORDS = 1 << 18, BYTES = WORDS * 4 };
#define SOON_NS 10000000000u
#define IDLE_NS 10000000u

typedef struct scene {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *lost, *well;
    rota_buffer *x, *y;
    rota_plan *gate;
    uint8_t *bytes;
} scene;

/* The gate of the one that is to be lost is shut, and runs. */
static void open_scene(scene *s, uint64_t limit_bytes) {
    memset((void *)s, 0, sizeof *s);
    s->options.seed = 3;
    s->bytes = calloc(1, BYTES);
    assert_non_null(s->bytes);
    assert_ok(adversary_runtime_open(&s->options,
                                     &ROTA_RUNTIME_OPTIONS(.timeout_ns = SOON_NS, .queues_per_device = 3,
                                                           .staging_slots = 2, .staging_slot_bytes = 4096,
                                                           .staging_idle_ns = IDLE_NS,
                                                           .memory_limit_bytes = limit_bytes),
                                     &s->runtime));
    assert_ok(rota_device_open(s->runtime, "adversary", &s->lost));
    assert_ok(rota_device_open(s->runtime, "adversary:1", &s->well));
    s->x = test_words(s->lost, "x", WORDS, 5);
    test_expect_words(s->x, WORDS, 5); /* its staging memory is free */
    s->y = test_words(s->well, "y", WORDS, 6);
    test_expect_words(s->y, WORDS, 6);
    s->gate = test_plan_1(s->lost, "gate", &test_gate, s->x, ROTA_READWRITE);
    test_gate_open(false);
    assert_ok(rota_submit_wait(s->gate, NULL, 0, NULL));
    test_gates_running(1);
}

static void close_scene(scene *s) {
    rota_plan_release(s->gate);
    rota_buffer_release(s->x);
    rota_buffer_release(s->y);
    assert_ok(rota_runtime_close(s->runtime, SOON_NS));
    if (s->options.violations) fail_msg("%s", s->options.violation);
    free(s->bytes);
}

/* Until the runtime has no more than so many bytes of staging memory; returns how many it has. */
static uint64_t await_staging(const scene *s, uint64_t most, uint64_t patience_ns) {
    const uint64_t deadline = rota_deadline_after(patience_ns);
    uint64_t bytes = rota_runtime_staging_bytes(s->runtime);
    while (bytes > most && rota_clock_ns() < deadline) {
        test_nap_ms(1);
        bytes = rota_runtime_staging_bytes(s->runtime);
    }
    return bytes;
}

/* The device is lost with this under way, which it was given. */
static void lose(scene *s, rota_ticket ticket) {
    test_sequenced(ticket);
    const rota_timeline *timelines = s->lost->timelines;
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    for (uint32_t q = 0; q < s->runtime->queue_count; q++)
        while (ra_load_acquire(&timelines[q].handed_over) < ra_load_acquire(&timelines[q].issued) &&
               rota_clock_ns() < deadline)
            test_nap_ms(1);
    rota_device_set_lost(s->lost, "given up by the test");
    assert_status(rota_wait(ticket, SOON_NS), ROTA_DEVICE_LOST);
}

static void given_back_when_it_is_quiet(bool writes, uint32_t count) {
    scene s;
    rota_ticket ticket;
    open_scene(&s, 0);
    for (uint32_t i = 0; i < count; i++)
        if (writes)
            assert_ok(rota_buffer_write(s.x, s.lost, 0, s.bytes, BYTES, &ticket));
        else
            assert_ok(rota_buffer_read_async(s.x, 0, s.bytes, BYTES, &ticket));
    lose(&s, ticket);
    /* It still runs, and what comes after the gate is still to touch all of that. */
    const uint64_t own = (uint64_t)count * BYTES;
    assert_in_range(await_staging(&s, own - 1, 30 * (uint64_t)IDLE_NS), own, UINT64_MAX);
    test_gate_open(true);
    assert_int_equal(await_staging(&s, 0, SOON_NS), 0);
    test_expect_words(s.y, WORDS, 6); /* the other one goes on */
    close_scene(&s);
}

static void reads(void **state) {
    (void)state;
    given_back_when_it_is_quiet(false, 1);
    given_back_when_it_is_quiet(false, 5);
}

static void writes(void **state) {
    (void)state;
    given_back_when_it_is_quiet(true, 1);
    given_back_when_it_is_quiet(true, 5);
}

/* The device's thread is in its driver when it is lost, and comes back: it drops what it was not at. */
static void writes_that_are_dropped(void **state) {
    (void)state;
    enum { COUNT = 3 };
    scene s;
    rota_ticket ticket;
    open_scene(&s, 0);
    test_gate_open(true);
    test_expect_words(s.x, WORDS, 5);
    assert_int_equal(await_staging(&s, 0, SOON_NS), 0);
    const uint64_t works = ra_load_acquire(&s.lost->timelines[0].handed_over);
    ra_store_seq_cst(&s.options.faults.submits_stay, 1);
    assert_ok(rota_submit_wait(s.gate, NULL, 0, NULL));
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (ra_load_acquire(&s.lost->timelines[0].handed_over) == works && rota_clock_ns() < deadline)
        test_nap_ms(1);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_ok(rota_buffer_write(s.x, s.lost, 0, s.bytes, BYTES, &ticket));
    test_sequenced(ticket);
    rota_device_set_lost(s.lost, "given up by the test");
    assert_status(rota_wait(ticket, SOON_NS), ROTA_DEVICE_LOST);
    const uint64_t own = (uint64_t)COUNT * BYTES;
    assert_in_range(await_staging(&s, own - 1, 30 * (uint64_t)IDLE_NS), own, UINT64_MAX);
    ra_store_seq_cst(&s.options.faults.submits_stay, 0);
    assert_int_equal(await_staging(&s, 0, SOON_NS), 0);
    close_scene(&s);
}

/* There is memory, and a promise of it, for one such read at a time. */
static void another_reads_within_the_limit(void **state) {
    (void)state;
    scene s;
    rota_ticket ticket;
    const uint64_t rest = 3 << 18;
    open_scene(&s, 3 * (uint64_t)BYTES + rest);
    assert_ok(rota_buffer_read_async(s.x, 0, s.bytes, BYTES, &ticket));
    lose(&s, ticket);
    test_nap_ms(100); /* the sequencer has put it away */
    test_gate_open(true);
    test_expect_words(s.y, WORDS, 6);
    close_scene(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),
        cmocka_unit_test(writes),
        cmocka_unit_test(writes_that_are_dropped),
        cmocka_unit_test(another_reads_within_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
