/* What a submit thread rests with is ended by somebody (submitter/blocked.c, sched/runtime/submitter/gate.c): as it
 * goes to sleep, each point that keeps a work of its is watched for, and a gate from which works are to leave has some.
 * It is halted where it looks, and what it sees next is changed then. A slice of 50 ms would hide a lost wake-up
 * from who only measures. */
#include "tests/kit/nap.h"
#include "tests/sched/runtime/across_kit.h"

#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/submitter/gate.h"
#include "sched/runtime/submitter/submitter.h"
#include "tests/kit/sequenced.h"

#define SOON_NS 10000000000u

/* ---- The halted thread ---- */

/* The submit thread of `device`, once it has been in its driver. */
static rota_device *halting;
static _Atomic uint32_t is_hooked, is_halted, goes_on, sleeps, bad_sleeps;
/* Where it halts next: at so many marks of the function, from the last halt on. */
static const char *halts_in;
static uint32_t halts_at;

static bool is_watched(const rota_device *device, uint64_t point) {
    const rota_timeline *timeline = rota_runtime_timeline(device->runtime, point);
    return rota_point_passed(device->runtime, point) ||
           ((atomic_load(&timeline->holders) >> device->index & 1u) &&
            atomic_load(&timeline->blocked_for[device->index]) <= rota_point_value(point));
}

/* All that ends what the work waits for; that of its own device is with the thread itself. */
static bool work_is_watched(const rota_device *device, const rota_work *work) {
    bool watched = true;
    for (uint32_t h = 0; h < work->foreign_wait_count; h++)
        watched = watched &&
                  is_watched(device, rota_foreign_wait_point(
                                         work->submission->made.foreign_waits[work->first_foreign_wait + h]));
    for (const rota_work *before = work; work->comes_last && before-- != work->submission->made.works;)
        if (before->device != device)
            watched = watched &&
                      is_watched(device, rota_point(before->device->index, before->queue, before->value));
    return watched;
}

static bool rests_well(rota_device *device) {
    bool well = true;
    for (uint32_t q = 0; q < device->runtime->queue_count; q++)
        if (device->submitter->blocked_first[q])
            well = well && work_is_watched(device, device->submitter->blocked_first[q]);
    rota_gate_lock(device);
    well = well && (!device->gate.is_wanted || device->gate.head != device->gate.tail);
    rota_gate_unlock(device);
    return well;
}

static void at_stop(void *user, const rota_stop_site *site) {
    static uint32_t seen;
    (void)user;
    rota_stop_hook = NULL; /* what is called below has marks, too */
    if (strcmp(site->function, "rota_sleeper_wait") == 0) {
        if (!rests_well(halting)) (void)ra_fetch_add_seq_cst(&bad_sleeps, 1);
        (void)ra_fetch_add_seq_cst(&sleeps, 1);
    }
    if (halts_in && strcmp(site->function, halts_in) == 0 && ++seen == halts_at) {
        seen = 0;
        ra_store_seq_cst(&goes_on, 0);
        ra_store_seq_cst(&is_halted, 1);
        const uint64_t deadline = rota_deadline_after(SOON_NS);
        while (!ra_load_seq_cst(&goes_on) && rota_clock_ns() < deadline) test_nap();
    }
    rota_stop_hook = at_stop;
}

static void hook(void *user, uint32_t device) {
    (void)user;
    if (device != halting->index || ra_exchange_acq_rel(&is_hooked, 1)) return;
    rota_stop_hook = at_stop;
}

static void expect_halt(void) {
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (!ra_load_seq_cst(&is_halted) && rota_clock_ns() < deadline) test_nap();
    assert_int_equal(ra_load_seq_cst(&is_halted), 1);
}

/* It goes on to the next place, and rests for good there if that is NULL. */
static void go_on(const char *function, uint32_t stop) {
    const uint32_t before = ra_load_seq_cst(&sleeps);
    halts_in = function;
    halts_at = stop;
    ra_store_seq_cst(&is_halted, 0);
    ra_store_seq_cst(&goes_on, 1);
    if (function) {
        expect_halt();
        return;
    }
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (ra_load_seq_cst(&sleeps) == before && rota_clock_ns() < deadline) test_nap();
    assert_true(ra_load_seq_cst(&sleeps) > before);
    assert_int_equal(ra_load_seq_cst(&bad_sleeps), 0);
}

/* Halts the device's thread, by way of that plan of its, which is the next that its driver gets. */
static void halt(pair *p, rota_device *device, rota_plan *plan, const char *function, uint32_t stop) {
    rota_ticket ticket;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket)); /* what came before is sequenced by then */
    assert_ok(rota_wait(ticket, SOON_NS));
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (!rota_device_is_finished(device) && rota_clock_ns() < deadline) test_nap();
    assert_true(rota_device_is_finished(device));
    halting = device;
    halts_in = function;
    halts_at = stop;
    ra_store_seq_cst(&is_hooked, 0);
    ra_store_seq_cst(&is_halted, 0);
    ra_store_seq_cst(&sleeps, 0);
    ra_store_seq_cst(&bad_sleeps, 0);
    ra_store_seq_cst(&p->options.on_submit, hook);
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, SOON_NS));
}

/* ---- What it waits for ---- */

/* Something fails that has to do with nothing else, or is well again. */
static void set_failed(rota_runtime *runtime, rota_plan *failing, bool fails) {
    rota_ticket ticket;
    test_fail = fails;
    assert_ok(rota_submit_wait(failing, NULL, 0, &ticket));
    assert_status(rota_wait(ticket, SOON_NS), fails ? ROTA_NODE_FAILED : ROTA_OK);
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while ((ra_load_acquire(&runtime->failed.active) != 0) != fails && rota_clock_ns() < deadline) test_nap();
    assert_int_equal(ra_load_acquire(&runtime->failed.active) != 0, fails);
}

/* A copy that the device could wait for is kept since something has failed; that is well again as the thread
 * looks what it is to watch for, and fails anew before its last look. */
static void what_is_with_the_other_driver(void **state) {
    (void)state;
    scene s;
    rota_device *cpu;
    scene_open(&s, 20000000000u);
    assert_ok(rota_device_open(s.p->runtime, "cpu", &cpu));
    rota_buffer *f = test_words(cpu, "f", WORDS, 1);
    rota_plan *failing = test_plan_1(cpu, "failing", &test_failing, f, ROTA_WRITE);
    set_failed(s.p->runtime, failing, false);
    test_gate_open(false);
    assert_ok(rota_submit_wait(s.gate, NULL, 0, NULL));
    assert_ok(rota_submit_wait(s.step, NULL, 0, &s.step_ticket));
    halt(s.p, s.p->devices[1], s.alone, "rota_sleeper_prepare", 1);
    expect_halt();
    assert_ok(rota_submit_wait(s.copy, NULL, 0, &s.copy_ticket));
    test_sequenced(s.copy_ticket);
    set_failed(s.p->runtime, failing, true);
    go_on("rota_sleeper_prepare", 1); /* after the copy came, and is held */
    assert_int_equal(ra_load_relaxed(&s.p->devices[1]->handover.blocked_count), 1);
    set_failed(s.p->runtime, failing, false);
    go_on("rest", 1);
    set_failed(s.p->runtime, failing, true);
    go_on(NULL, 0);
    test_gate_open(true);
    assert_ok(rota_wait(s.copy_ticket, SOON_NS));
    set_failed(s.p->runtime, failing, false);
    test_expect_words(s.y, WORDS, 3);
    assert_int_equal(ra_load_seq_cst(&bad_sleeps), 0);
    ra_store_seq_cst(&s.p->options.on_submit, NULL);
    rota_plan_release(failing);
    rota_buffer_release(f);
    scene_release(&s);
    close_pair(s.p);
}

static _Atomic uint32_t second_is_open;

static rota_status wait_at_second(const rota_kernel_call *call) {
    (void)call;
    const uint64_t deadline = rota_deadline_after(2 * (uint64_t)SOON_NS);
    while (!ra_load_seq_cst(&second_is_open) && rota_clock_ns() < deadline) test_nap();
    return ROTA_OK;
}
static const rota_kernel second_gate = {
    .name = "second gate", .operand_count = 1, .cpu = {.fn = wait_at_second}};
static const rota_kernel late_gate = {.name = "late gate", .operand_count = 2, .cpu = {.fn = wait_at_second}};

/* The thread has seen works in the gate, and before it looks whether the next one is to wait for them, they
 * have left, and something has failed. */
static void a_gate_that_is_empty_by_then(void **state) {
    (void)state;
    scene s;
    rota_device *cpu;
    scene_open(&s, 20000000000u);
    assert_ok(rota_device_open(s.p->runtime, "cpu", &cpu));
    rota_buffer *f = test_words(cpu, "f", WORDS, 1), *v = test_words(s.p->devices[0], "v", WORDS, 5),
                *u = test_words(s.p->devices[1], "u", WORDS, 1);
    /* After the step: the first device may begin with whatever it can. */
    test_node late = {
        &late_gate, "second", {{s.x, 0, ROTA_WHOLE, ROTA_READ}, {v, 0, ROTA_WHOLE, ROTA_READWRITE}}, 2};
    rota_plan *failing = test_plan_1(cpu, "failing", &test_failing, f, ROTA_WRITE),
              *second = test_plan(s.p->devices[0], "second", &late, 1),
              *copy = test_plan_copy_kernel(s.p->devices[1], "second copy", v, u);
    rota_ticket second_ticket, ticket;
    set_failed(s.p->runtime, failing, false);
    test_gate_open(false);
    ra_store_seq_cst(&second_is_open, 0);
    assert_ok(rota_submit_wait(s.gate, NULL, 0, NULL));
    assert_ok(rota_submit_wait(s.step, NULL, 0, NULL));
    assert_ok(rota_submit_wait(second, NULL, 0, &second_ticket));
    halt(s.p, s.p->devices[1], s.alone, "rota_sleeper_prepare", 1);
    expect_halt();
    assert_ok(rota_submit_wait(s.copy, NULL, 0, &s.copy_ticket));
    test_sequenced(s.copy_ticket);
    go_on("rota_sleeper_prepare", 2); /* once more, as that came, and now it is with the device */
    assert_int_equal(ra_load_acquire(&s.p->devices[1]->gate.pending), 1);
    assert_ok(rota_submit_wait(copy, NULL, 0, &ticket));
    test_sequenced(ticket);
    go_on("rota_gate_takes", 2);
    test_gate_open(true);
    assert_ok(rota_wait(s.copy_ticket, SOON_NS));
    const uint64_t deadline = rota_deadline_after(SOON_NS); /* `pending` is the last that is stored */
    while (ra_load_acquire(&s.p->devices[1]->gate.pending) && rota_clock_ns() < deadline) test_nap();
    assert_int_equal(ra_load_acquire(&s.p->devices[1]->gate.pending), 0);
    set_failed(s.p->runtime, failing, true);
    go_on(NULL, 0);
    ra_store_seq_cst(&second_is_open, 1);
    assert_ok(rota_wait(ticket, SOON_NS));
    set_failed(s.p->runtime, failing, false);
    test_expect_words(u, WORDS, 5);
    assert_int_equal(ra_load_seq_cst(&bad_sleeps), 0);
    ra_store_seq_cst(&s.p->options.on_submit, NULL);
    rota_plan *plans[] = {failing, second, copy};
    rota_buffer *buffers[] = {f, v, u};
    for (uint32_t i = 0; i < 3; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < 3; i++) rota_buffer_release(buffers[i]);
    scene_release(&s);
    close_pair(s.p);
}

/* A work that waits for the second device, of a submission whose first work is the first one's, at a gate.
 * The second is lost as the thread goes to rest, which is told before it is about to sleep: at its last look
 * it finds that the work is to come after the first device's. */
static void what_comes_before_once_a_device_is_lost(void **state) {
    (void)state;
    pair *p = open_pair(7, 20000000000u, 1);
    rota_device *all[3] = {p->devices[0], p->devices[1]};
    assert_ok(rota_device_open(p->runtime, "adversary:2", &all[2]));
    rota_buffer *c = test_words(all[0], "c", WORDS, 1), *x = test_words(all[1], "x", WORDS, 1),
                *y = test_words(all[2], "y", WORDS, 1), *w = test_words(all[2], "w", WORDS, 1);
    rota_plan *alone = test_plan_1(all[2], "alone", &test_increment, w, ROTA_READWRITE);
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    const struct {
        const rota_kernel *kernel;
        rota_access accesses[2];
        uint32_t count, device;
    } nodes[] = {{&second_gate, {{c, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1, 0},
                 {&test_copy, {{c, 0, ROTA_WHOLE, ROTA_READ}, {x, 0, ROTA_WHOLE, ROTA_WRITE}}, 2, 1},
                 {&test_copy, {{x, 0, ROTA_WHOLE, ROTA_READ}, {y, 0, ROTA_WHOLE, ROTA_WRITE}}, 2, 2}};
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < 3; i++)
        assert_ok(
            rota_record_kernel(recorder,
                               &ROTA_KERNEL_NODE(.kernel = nodes[i].kernel, .accesses = nodes[i].accesses,
                                                 .access_count = nodes[i].count,
                                                 .placement = {.device_plus_1 = nodes[i].device + 1}),
                               NULL));
    rota_recorder_close(recorder);
    assert_ok(
        rota_compile(p->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = all, .device_count = 3), &plan));
    rota_graph_release(graph);
    rota_ticket ticket;
    ra_store_seq_cst(&second_is_open, 0);
    halt(p, all[2], alone, "rota_sleeper_prepare", 1);
    expect_halt();
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    test_sequenced(ticket);
    go_on("rota_sleeper_prepare", 1);
    assert_int_equal(ra_load_relaxed(&all[2]->handover.blocked_count), 1);
    rota_device_set_lost(all[1], "given up by the test");
    go_on(NULL, 0);
    assert_int_equal(rota_poll(ticket), ROTA_BUSY);
    ra_store_seq_cst(&second_is_open, 1);
    assert_status(rota_wait(ticket, SOON_NS), ROTA_DEVICE_LOST);
    assert_int_equal(ra_load_seq_cst(&bad_sleeps), 0);
    ra_store_seq_cst(&p->options.on_submit, NULL);
    rota_plan_release(plan);
    rota_plan_release(alone);
    rota_buffer *buffers[] = {c, x, y, w};
    for (uint32_t i = 0; i < 4; i++) rota_buffer_release(buffers[i]);
    close_after_loss(p);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_with_the_other_driver),
        cmocka_unit_test(a_gate_that_is_empty_by_then),
        cmocka_unit_test(what_comes_before_once_a_device_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
