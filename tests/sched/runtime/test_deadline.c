/* Submissions with deadlines (rota_submit_options.deadline_ns): one that has not ended by then is cancelled. What a
 * cancelled one is says test_cancel.c. */
#include "tests/sched/runtime/travel_kit.h"

#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/testing.h"
#include "tests/exec/cuda/cuda_stub.h"
#include "tests/kit/nap.h"
#include "tests/kit/random.h"

#define BYTES ((uint64_t)4 * WORDS)
#define MS 1000000ull
#define SOON_NS 10000000000u
#define NEVER_NS 3600000000000u

static rota_ticket submit_by(rota_plan *plan, rota_external_timeline *timeline, uint64_t deadline_ns) {
    const rota_external_point point = {timeline, 1};
    rota_ticket ticket;
    assert_ok(
        rota_submit_with(plan,
                         &ROTA_SUBMIT_OPTIONS(.deadline_ns = deadline_ns, .after = timeline ? &point : NULL,
                                              .after_count = timeline != NULL),
                         &ticket));
    return ticket;
}

static void expect_late(rota_ticket ticket, const char *of, const char *when) {
    const rota_status status = rota_wait(ticket, 0);
    if (status != ROTA_CANCELLED)
        fail_msg("%s: the ticket is %s: %s", when, rota_status_name(status), rota_last_error());
    expect_said(of);
    expect_said("was cancelled: it had not ended by its deadline");
}

/* On each device: one that is held passes its deadline, one that is not ends in time. */
static void held(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t k = 0; k < KINDS; k++) {
        rota_device *device = h->devices[k];
        if (!device) continue;
        rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2), *z = filled(device, "z", 3);
        rota_plan *map = map_plan(h, device, x, y), *other = map_plan(h, device, x, z);
        rota_external_timeline *timeline;
        assert_ok(rota_external_timeline_create(h->runtime, "frames", &timeline));
        assert_ok(rota_wait(submit_by(map, NULL, NEVER_NS), 0));
        const uint64_t begin = rota_clock_ns();
        const rota_ticket late = submit_by(map, timeline, 150 * MS), well = submit_by(other, NULL, NEVER_NS);
        assert_ok(rota_wait(well, 0));
        expect_mapped(z, 1, 1, ids[k]);
        expect_late(late, "plan 'map', submission ", ids[k]);
        assert_in_range(rota_clock_ns() - begin, 150 * MS, SOON_NS);
        uint32_t words[WORDS];
        assert_status(rota_buffer_read(y, 0, words, BYTES), ROTA_NODE_FAILED);
        expect_said("had not ended by its deadline");
        assert_ok(rota_external_timeline_signal(timeline, 1));
        assert_ok(rota_wait(submit_by(map, timeline, NEVER_NS), 0));
        expect_mapped(y, 1, 1, ids[k]);
        release_all(timeline, PLANS(map, other), BUFFERS(x, y, z));
    }
    close_house(h);
}

/* What runs at its deadline is left to end; the rest of its plan does not begin. */
static void running(void **state) {
    (void)state;
    house *h = open_house(false);
    rota_device *cpu = h->devices[CPU];
    rota_buffer *x = filled(cpu, "x", 1), *y = filled(cpu, "y", 2);
    sketch s;
    sketch_open(&s);
    add_source(&s, h, CPU_KERNEL, x);
    add_map(&s, cpu, x, y);
    rota_plan *plan = sketch_compile(&s, h, "two");
    open_gate(false);
    const rota_ticket late = submit_by(plan, NULL, 400 * MS);
    test_nap_ms(700);
    assert_status(rota_poll(late), ROTA_BUSY);
    open_gate(true);
    expect_late(late, "plan 'two', submission ", "running");
    test_expect_words(x, WORDS, 7);
    assert_ok(rota_wait(submit_by(plan, NULL, NEVER_NS), 0));
    expect_mapped(y, 7, 1, "running");
    release_all(NULL, PLANS(plan), BUFFERS(x, y));
    close_house(h);
}

/* Passed before its record is taken: nothing of it begins. */
static void unsequenced(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t k = 0; k < KINDS; k++) {
        rota_device *device = h->devices[k];
        if (!device) continue;
        rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2);
        rota_plan *map = map_plan(h, device, x, y);
        assert_ok(rota_runtime_lock_submission(h->runtime, true));
        const rota_ticket late = submit_by(map, NULL, 1), well = submit_by(map, NULL, UINT64_MAX);
        test_nap_ms(2);
        assert_ok(rota_runtime_lock_submission(h->runtime, false));
        expect_late(late, "plan 'map', submission ", ids[k]);
        assert_ok(rota_wait(well, 0));
        expect_mapped(y, 1, 1, ids[k]);
        release_all(NULL, PLANS(map), BUFFERS(x, y));
    }
    close_house(h);
}

/* Many, in an order of their own, some of which end before: each that is late is, and at about its time. */
static void many(void **state) {
    (void)state;
    enum { COUNT = 400 };
    house *h = open_house(false);
    rota_device *cpu = h->devices[CPU];
    rota_buffer *x = filled(cpu, "x", 1), *y = filled(cpu, "y", 2), *z = filled(cpu, "z", 3);
    rota_plan *map = map_plan(h, cpu, x, y), *other = map_plan(h, cpu, x, z);
    rota_external_timeline *timeline;
    assert_ok(rota_external_timeline_create(h->runtime, "frames", &timeline));
    uint64_t random = 17;
    rota_ticket tickets[COUNT];
    bool is_late[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        is_late[i] = test_random(&random) % 2;
        const uint64_t deadline = (50 + test_random(&random) % 400) * MS;
        tickets[i] = is_late[i] ? submit_by(map, timeline, deadline)
                                : submit_by(other, NULL, NEVER_NS - test_random(&random) % MS);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        if (is_late[i])
            expect_late(tickets[i], "plan 'map', submission ", "many");
        else
            assert_ok(rota_wait(tickets[i], 0));
    }
    /* What is kept of all that is one sentence, whatever their deadlines. */
    assert_in_range(ra_load_seq_cst(&h->runtime->causes.count), 1, 2);
    /* One that is cancelled, or fails, before its deadline says so. */
    const rota_ticket cancelled = submit_by(map, timeline, 300 * MS);
    assert_ok(rota_ticket_cancel(cancelled));
    assert_status(rota_wait(cancelled, 0), ROTA_CANCELLED);
    expect_said("was cancelled by a call");
    test_nap_ms(400);
    assert_status(rota_wait(cancelled, 0), ROTA_CANCELLED);
    expect_said("was cancelled by a call");
    release_all(timeline, PLANS(map, other), BUFFERS(x, y, z));
    close_house(h);
}

/* The sequencer looks for work as long as the options say: not past a deadline. */
static void looking_on(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_device *cpu;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.spin_ns = 8000 * MS), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    rota_buffer *x = filled(cpu, "x", 1);
    rota_plan *plan = test_plan_1(cpu, "adds", &test_increment, x, ROTA_READWRITE);
    rota_external_timeline *timeline;
    assert_ok(rota_external_timeline_create(runtime, "frames", &timeline));
    for (uint32_t round = 0; round < 3; round++) {
        const uint64_t begin = rota_clock_ns();
        expect_late(submit_by(plan, timeline, 100 * MS), "plan 'adds', submission ", "looking on");
        assert_in_range(rota_clock_ns() - begin, 100 * MS, 5000 * MS);
        /* One that comes while it looks on, with a deadline before the first one's. */
        const rota_ticket first = submit_by(plan, timeline, NEVER_NS);
        test_nap_ms(20);
        const rota_ticket second = submit_by(plan, timeline, 50 * MS);
        test_nap_ms(20);
        assert_ok(rota_ticket_cancel(first));
        expect_late(second, "plan 'adds', submission ", "looking on");
        assert_in_range(rota_clock_ns() - begin, 100 * MS, 5000 * MS);
    }
    release_all(timeline, PLANS(plan), BUFFERS(x));
    assert_ok(rota_runtime_close(runtime, 0));
}

/* Of a plan that is released, of a device that is lost, of a runtime that closes. */
static void gone(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 3; round++) {
        house *h = open_house(false);
        rota_device *device = h->devices[ADVERSARY];
        rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2);
        rota_plan *map = map_plan(h, device, x, y);
        rota_external_timeline *timeline;
        assert_ok(rota_external_timeline_create(h->runtime, "frames", &timeline));
        const rota_ticket first = submit_by(map, timeline, 30 * MS),
                          last = submit_by(map, timeline, NEVER_NS);
        release_all(NULL, PLANS(map), BUFFERS(x, y));
        if (round == 1) {
            rota_plan *lose = map_plan(h, device, x = filled(device, "x", 1), y = filled(device, "y", 2));
            atomic_store(&h->options.faults.lost_in_works, 1);
            (void)rota_wait(submit_by(lose, NULL, NEVER_NS), 0); /* lost with it, or with a write before it */
            release_all(NULL, PLANS(lose), BUFFERS(x, y));
            assert_status(rota_wait(last, 0), ROTA_DEVICE_LOST);
        }
        if (round != 2) assert_int_not_equal(rota_wait(first, 0), ROTA_OK);
        rota_external_timeline_release(timeline);
        (void)rota_runtime_close(h->runtime, 200 * MS);
        if (h->options.violations) fail_msg("%s", h->options.violation);
#ifdef ROTA_HAVE_CUDA
        if (h->devices[CUDA]) cuda_stub_stop();
#endif
        free(h);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(held),        cmocka_unit_test(running),
                                       cmocka_unit_test(unsequenced), cmocka_unit_test(many),
                                       cmocka_unit_test(looking_on),  cmocka_unit_test(gone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
