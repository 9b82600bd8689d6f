/* Devices of one GPU that wait for each other without the host: that they do, that nothing is believed before
 * it is so, and what becomes of works whose wait ends because the other device is lost. The adversary stands
 * in for both. */
#include "tests/kit/nap.h"
#include "tests/sched/runtime/across_kit.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/submitter/gate.h"
#include "tests/kit/sequenced.h"

static uint64_t device_waits(const pair *p) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(p->runtime, &stats);
    return stats.device_waits;
}

/* x += 1, `nodes` times over. */
static rota_plan *alternating(pair *p, rota_buffer *x, uint32_t nodes) {
    const rota_kernel *kernels[8];
    assert_in_range(nodes, 1, 8);
    for (uint32_t i = 0; i < nodes; i++) kernels[i] = &test_increment;
    return in_turns(p, x, kernels, nodes, NULL);
}

/* As test_increment, once it is let go. */
static _Atomic uint32_t first_may_go;

static rota_status held_increment(const rota_kernel_call *call) {
    const uint64_t deadline = rota_deadline_after(60000000000u);
    while (!ra_load_acquire(&first_may_go) && rota_clock_ns() < deadline) test_nap();
    uint32_t *x = call->operands[0];
    for (uint32_t i = 0; i < WORDS; i++) x[i]++;
    return ROTA_OK;
}
static const rota_kernel held_kernel = {.name = "held", .operand_count = 1, .cpu = {.fn = held_increment}};

enum { TURNS = 8, ROUNDS_HELD = 6 };

/* While the first of nodes in turns does not end, none does, and each other one is handed over with a wait on the GPU
 * for the one before: exactly so many, however fast anybody is. In the first round, whose first work may have gone
 * before it was known that somebody waits for it, they may be less. */
static void expect_waits_on_device(pair *p, rota_buffer *x, uint32_t *value) {
    const rota_kernel *kernels[TURNS] = {&held_kernel};
    for (uint32_t i = 1; i < TURNS; i++) kernels[i] = &test_increment;
    rota_plan *plan = in_turns(p, x, kernels, TURNS, NULL);
    for (uint32_t round = 0; round < ROUNDS_HELD; round++) {
        rota_ticket ticket;
        const uint64_t before = device_waits(p), deadline = rota_deadline_after(20000000000u);
        ra_store_release(&first_may_go, 0);
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        if (round == 0) test_sequenced(ticket);
        while (round && device_waits(p) - before < TURNS - 1 && rota_clock_ns() < deadline) test_nap();
        if (round) assert_int_equal(device_waits(p) - before, TURNS - 1);
        assert_int_equal(rota_poll(ticket), ROTA_BUSY);
        ra_store_release(&first_may_go, 1);
        assert_ok(rota_wait(ticket, 0));
        if (round) assert_int_equal(device_waits(p) - before, TURNS - 1);
        *value += TURNS;
        test_expect_words(x, WORDS, *value);
    }
    rota_plan_release(plan);
}

/* Some of these wait on the GPU and some don't need to: what the one before did may have passed by the time a work is
 * handed over. */
static void expect_sums(pair *p, rota_buffer *x, uint32_t *value) {
    enum { REPLAYS = 50 };
    rota_plan *plan = alternating(p, x, TURNS);
    const uint64_t before = device_waits(p);
    for (uint32_t i = 0; i < REPLAYS; i++) assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
    *value += REPLAYS * TURNS;
    test_expect_words(x, WORDS, *value);
    assert_true(device_waits(p) - before <= REPLAYS * TURNS); /* one of each work, at the most */
    rota_plan_release(plan);
}

static void waits_are_the_devices(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        pair *p = open_pair(seed, 30000000000u, 0);
        assert_string_equal(p->told, "devices 'adversary' and 'adversary:1' order their works on the GPU");
        uint32_t value = 5;
        rota_buffer *x = test_words(p->devices[0], "x", WORDS, value);
        expect_waits_on_device(p, x, &value);
        expect_sums(p, x, &value);
        rota_buffer_release(x);
        close_pair(p);
    }
}

/* While a submission that was cancelled has not ended nothing has failed: they wait for each other as before. */
static void waits_are_the_devices_while_something_is_cancelled(void **state) {
    (void)state;
    pair *p = open_pair(1, 30000000000u, 0);
    rota_device *cpu;
    assert_ok(rota_device_open(p->runtime, "cpu", &cpu));
    uint32_t value = 5;
    rota_buffer *x = test_words(p->devices[0], "x", WORDS, value), *y = test_words(cpu, "y", 1, 0);
    rota_plan *gate = test_plan_1(cpu, "gate", &test_gate, y, ROTA_READWRITE);
    rota_ticket ticket;
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, &ticket));
    test_gates_running(1);
    assert_ok(rota_ticket_cancel(ticket)); /* all of it has begun */
    expect_waits_on_device(p, x, &value);
    expect_sums(p, x, &value);
    assert_int_not_equal(ra_load_seq_cst(&p->runtime->failed.active), 0);
    test_gate_open(true);
    assert_ok(rota_wait(ticket, 0));
    rota_plan_release(gate);
    rota_buffer_release(x);
    rota_buffer_release(y);
    close_pair(p);
}

static _Atomic uint32_t increments;

static rota_status held_doubling(const rota_kernel_call *call) {
    const uint64_t deadline = rota_deadline_after(60000000000u);
    while (!ra_load_acquire(&first_may_go) && rota_clock_ns() < deadline) test_nap();
    uint32_t *x = call->operands[0];
    for (uint32_t i = 0; i < WORDS; i++) x[i] *= 2;
    return ROTA_OK;
}

static rota_status noted_increment(const rota_kernel_call *call) {
    uint32_t *x = call->operands[0];
    for (uint32_t i = 0; i < WORDS; i++) x[i]++;
    (void)ra_fetch_add_seq_cst(&increments, 1);
    return ROTA_OK;
}
static const rota_kernel doubling_kernel = {
    .name = "double", .operand_count = 1, .cpu = {.fn = held_doubling}};
static const rota_kernel noted_kernel = {.name = "noted", .operand_count = 1, .cpu = {.fn = noted_increment}};

/* With waits that are not kept the results come out wrong: these tests would notice. */
static void a_wait_left_out_is_noticed(void **state) {
    (void)state;
    enum { WITHOUT = 2 }; /* the round whose wait is not kept */
    pair *p = open_pair(1, 30000000000u, 0);
    uint32_t value = 5;
    rota_buffer *x = test_words(p->devices[0], "x", WORDS, value);
    const rota_kernel *const kernels[] = {&doubling_kernel, &noted_kernel};
    rota_plan *plan = in_turns(p, x, kernels, 2, NULL);
    for (uint32_t round = 0; round <= WITHOUT; round++) {
        rota_ticket ticket;
        const uint64_t before = device_waits(p), deadline = rota_deadline_after(20000000000u);
        const uint32_t done = ra_load_seq_cst(&increments);
        p->options.breaks.timeline_waits = round == WITHOUT;
        ra_store_release(&first_may_go, 0);
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        test_sequenced(ticket);
        while (round && device_waits(p) == before && rota_clock_ns() < deadline) test_nap();
        while (round == WITHOUT && ra_load_seq_cst(&increments) == done && rota_clock_ns() < deadline)
            test_nap();
        assert_int_equal(ra_load_seq_cst(&increments), done + (round == WITHOUT));
        ra_store_release(&first_may_go, 1);
        assert_ok(rota_wait(ticket, 0));
        value = 2 * value + 1;
        if (round != WITHOUT) test_expect_words(x, WORDS, value);
    }
    /* What the increment has read was not doubled, whenever what it wrote arrives. */
    static uint32_t words[WORDS];
    assert_ok(rota_buffer_read(x, 0, words, sizeof words));
    for (uint32_t w = 0; w < WORDS; w++) assert_int_not_equal(words[w], value);
    rota_plan_release(plan);
    rota_buffer_release(x);
    assert_ok(rota_runtime_close(p->runtime, 5000000000u));
    free(p);
}

/* Without timelines the host orders the two, as well. */
static void without_timelines(void **state) {
    (void)state;
    for (uint32_t nth = 1; nth <= 3; nth++) {
        pair *p = open_pair(3, 10000000000u, nth);
        assert_non_null(strstr(p->told, "ordered by the host"));
        rota_buffer *x = test_words(p->devices[0], "x", WORDS, 5);
        rota_plan *plan = alternating(p, x, 8);
        for (uint32_t i = 0; i < 10; i++) assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
        test_expect_words(x, WORDS, 85);
        assert_int_equal(device_waits(p), 0);
        rota_plan_release(plan);
        rota_buffer_release(x);
        close_pair(p);
    }
}

/* What depends on the lost device failed with its cause, what does not is well, and the second device lives.
 */
static void scene_expect_failed(scene *s) {
    uint32_t word;
    assert_status(rota_wait(s->step_ticket, 0), ROTA_DEVICE_LOST);
    assert_status(rota_wait(s->copy_ticket, 0), ROTA_DEVICE_LOST);
    assert_non_null(strstr(rota_last_error(), "'adversary' is lost"));
    assert_status(rota_wait(s->next_ticket, 0), ROTA_DEVICE_LOST);
    assert_ok(rota_wait(s->alone_ticket, 0));
    assert_status(rota_buffer_read(s->y, 0, &word, 4), ROTA_DEVICE_LOST);
    assert_status(rota_buffer_read(s->z, 0, &word, 4), ROTA_DEVICE_LOST);
    test_expect_words(s->w, WORDS, 3);
    assert_true(s->p->options.rescues > 0);
    /* Written anew, y and what follows are good again. */
    static const uint32_t words[WORDS];
    rota_ticket ticket;
    assert_ok(rota_buffer_write(s->y, s->p->devices[1], 0, words, sizeof words, NULL));
    assert_ok(rota_submit_wait(s->next, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    test_expect_words(s->z, WORDS, 0);
}

#define SOON_NS 8000000000u /* for what nothing keeps: the runtime's deadline is later */

static void runs_now(rota_plan *plan) {
    rota_ticket ticket;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, SOON_NS));
}

static void are_kept(const rota_ticket *tickets, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) assert_int_equal(rota_poll(tickets[i]), ROTA_BUSY);
}

/* Works, and reads and writes, that don't come after the copy. */
static void others_pass(scene *s, uint32_t *w) {
    static uint32_t words[WORDS];
    for (uint32_t i = 0; i < 12; i++) {
        runs_now(s->alone);
        if (i % 4) continue;
        test_expect_words(s->w, WORDS, *w + i + 1);
    }
    for (uint32_t i = 0; i < WORDS; i++) words[i] = *w;
    assert_ok(rota_buffer_write(s->w, s->p->devices[1], 0, words, sizeof words, NULL));
    test_expect_words(s->w, WORDS, *w);
    runs_now(s->alone);
    test_expect_words(s->w, WORDS, ++*w);
}

/* While a copy waits on the device for the other one's kernel, what does not depend on it goes on, though it
 * is of the same logical queue; what does depends keeps its place: y is what the copy wrote until `next` has
 * read it. With `fails`, also when something has failed meanwhile, and what has failed travels as ever. */
static void passes_on(bool fails) {
    scene s;
    uint32_t w = 3, word;
    scene_open(&s, 20000000000u);
    rota_device *device = s.p->devices[1];
    rota_buffer *f = test_words(device, "f", WORDS, 1), *g = test_words(device, "g", WORDS, 1);
    rota_plan *failing = test_plan_1(device, "failing", &test_failing, f, ROTA_WRITE),
              *reader = test_plan_copy_kernel(device, "reader", f, g),
              *more = test_plan_1(device, "more", &test_increment, s.y, ROTA_READWRITE),
              *spoil = test_plan_copy_kernel(device, "spoil", f, s.z),
              *again = test_plan_copy_kernel(device, "again", s.x, g);
    rota_ticket kept[5], ticket;
    test_fail = 0;
    runs_now(failing);
    runs_now(reader);
    test_expect_words(g, WORDS, 7);
    scene_wait_on_device(&s);
    assert_ok(rota_wait(s.alone_ticket, SOON_NS));
    if (fails) {
        test_fail = 1;
        assert_ok(rota_submit_wait(failing, NULL, 0, &ticket));
        assert_status(rota_wait(ticket, SOON_NS), ROTA_NODE_FAILED);
        assert_ok(rota_submit_wait(reader, NULL, 0, &ticket));
        assert_status(rota_wait(ticket, SOON_NS), ROTA_NODE_FAILED);
        assert_status(rota_buffer_read(g, 0, &word, 4), ROTA_NODE_FAILED);
    }
    kept[0] = s.copy_ticket;
    kept[1] = s.next_ticket;
    assert_ok(rota_submit_wait(more, NULL, 0, &kept[2])); /* after `next` has read y */
    others_pass(&s, &w);
    assert_ok(rota_submit_wait(spoil, NULL, 0, &kept[3])); /* after `next` has written z */
    assert_ok(rota_submit_wait(again, NULL, 0, &kept[4])); /* after the other device, as the copy */
    others_pass(&s, &w);
    are_kept(kept, 5);
    test_gate_open(true);
    for (uint32_t i = 0; i < 5; i++)
        assert_status(rota_wait(kept[i], 0), fails && i == 3 ? ROTA_NODE_FAILED : ROTA_OK);
    test_expect_words(s.y, WORDS, 4); /* x is 3 now */
    test_expect_words(g, WORDS, 3);
    if (fails) {
        assert_status(rota_buffer_read(s.z, 0, &word, 4), ROTA_NODE_FAILED);
        test_fail = 0;
        runs_now(failing);
        runs_now(spoil);
    }
    test_expect_words(s.z, WORDS, 7);
    others_pass(&s, &w);
    rota_plan *plans[] = {failing, reader, more, spoil, again};
    for (uint32_t i = 0; i < 5; i++) rota_plan_release(plans[i]);
    rota_buffer_release(f);
    rota_buffer_release(g);
    scene_release(&s);
    close_pair(s.p);
}

static void what_is_independent_passes(void **state) {
    (void)state;
    passes_on(false);
}

static void after_a_failure_too(void **state) {
    (void)state;
    passes_on(true);
}

/* After close: who is linked to a device that was left stays, as that one's executor looks at it. */
static void expect_kept(const pair *p) {
    for (uint32_t d = 0; d < 2; d++) {
        assert_int_equal(p->devices[d]->index, d);
        assert_int_equal(ra_load_acquire(&p->devices[d]->others.linked), 2 >> d);
    }
}

/* It is lost with works before it that it will never do. */
static void the_other_is_lost(void **state) {
    (void)state;
    scene s;
    scene_open(&s, 10000000000u);
    scene_wait_on_device(&s);
    s.p->options.faults.lost_in_works = 1; /* the gate's */
    test_gate_open(true);
    scene_expect_failed(&s);
    scene_release(&s);
    close_after_loss(s.p);
}

/* It never ends: the deadline finds that out, though nobody but a device waits for it. */
static void the_other_never_ends(void **state) {
    (void)state;
    scene s;
    scene_open(&s, 3000000000u);
    scene_wait_on_device(&s);
    uint64_t begin = rota_clock_ns();
    rota_status status = ROTA_TIMEOUT;
    while (status == ROTA_TIMEOUT && rota_clock_ns() - begin < 20000000000u)
        status = rota_wait(s.copy_ticket, 0);
    assert_int_equal(status, ROTA_DEVICE_LOST);
    scene_expect_failed(&s);
    scene_release(&s);
    assert_status(rota_runtime_close(s.p->runtime, 1000000000u), ROTA_TIMEOUT);
    assert_non_null(strstr(rota_last_error(), "'adversary'"));
    assert_null(strstr(rota_last_error(), "'adversary:1'"));
    assert_int_equal(s.p->options.violations, 0);
    expect_kept(s.p);
    test_gate_open(true);
    keep(s.p);
}

/* The runtime is closed while it does not end: who only waits for it is closed in order. */
static void closed_while_waiting(void **state) {
    (void)state;
    scene s;
    scene_open(&s, 10000000000u);
    scene_wait_on_device(&s);
    assert_status(rota_runtime_close(s.p->runtime, 200000000u), ROTA_TIMEOUT);
    assert_non_null(strstr(rota_last_error(), "'adversary'"));
    assert_null(strstr(rota_last_error(), "'adversary:1'"));
    scene_release(&s);
    assert_int_equal(s.p->options.violations, 0);
    expect_kept(s.p);
    test_gate_open(true);
    keep(s.p);
}

/* A read that its device's loss ended has staging memory, which is given back while that device has it: in
 * what has been freed, malloc writes something else. */
static void reads_let_go_of_a_lost_device(void **state) {
    (void)state;
    pair *p = open_pair(7, 10000000000u, 0);
    rota_buffer *x = test_words(p->devices[0], "x", WORDS, 1);
    rota_plan *gate = test_plan_1(p->devices[0], "gate", &test_gate, x, ROTA_READWRITE);
    static uint32_t words[WORDS];
    rota_ticket ticket;
    test_gate_open(false);
    assert_ok(rota_submit_wait(gate, NULL, 0, NULL));
    assert_ok(rota_buffer_read_async(x, 0, words, sizeof words, &ticket));
    test_gates_running(1);
    p->options.faults.lost_in_works = 1; /* the gate's */
    test_gate_open(true);
    assert_status(rota_wait(ticket, 0), ROTA_DEVICE_LOST);
    rota_plan_release(gate);
    rota_buffer_release(x);
    close_after_loss(p);
}

static _Atomic uint32_t late_calls;

/* As test_increment, behind the gate. */
static rota_status late(const rota_kernel_call *call) {
    ROTA_TRY(test_gate.cpu.fn(call));
    uint32_t *x = call->operands[0];
    for (uint32_t i = 0; i < WORDS; i++) x[i]++;
    (void)ra_fetch_add_seq_cst(&late_calls, 1);
    return ROTA_OK;
}
static const rota_kernel late_kernel = {.name = "late", .operand_count = 1, .cpu = {.fn = late}};

/* A plan of both ends, as failed, on the second, while the first, which was given up, is still at its part.
 * What that part touches stays until it is through, though nobody else holds it, and plans that come later
 * get none of it. */
static void what_is_lost_keeps_what_it_has(void **state) {
    (void)state;
    pair *p = open_pair(7, 3000000000u, 0);
    rota_buffer *x = test_words(p->devices[0], "x", WORDS, 1), *w = test_words(p->devices[1], "w", WORDS, 0);
    rota_plan *alone = test_plan_1(p->devices[1], "alone", &test_increment, w, ROTA_READWRITE);
    rota_buffer *slot;
    rota_args *args;
    const rota_kernel *const kernels[] = {&late_kernel, &test_increment};
    rota_plan *both = in_turns(p, NULL, kernels, 2, &slot);
    assert_ok(rota_args_create(both, &args));
    assert_ok(rota_args_set_buffer(args, slot, x));
    rota_ticket ticket;
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    test_gate_open(false);
    ra_store_seq_cst(&late_calls, 0);
    assert_ok(rota_submit_wait(both, args, 0, &ticket));
    rota_status status = ROTA_TIMEOUT;
    for (uint32_t i = 0; i < 20 && status == ROTA_TIMEOUT; i++) status = rota_wait(ticket, 0);
    assert_int_equal(status, ROTA_DEVICE_LOST);
    rota_args_release(args);
    rota_plan_release(both);
    rota_buffer_release(x);
    for (uint32_t i = 0; i < 100; i++) {
        assert_ok(rota_submit_wait(alone, NULL, 0, &ticket));
        assert_ok(rota_wait(ticket, 0));
    }
    uint64_t deadline = rota_deadline_after(10000000000u);
    do { /* the arguments are the reclaimer's, and what the trials had */
        test_nap_ms(1);
        rota_runtime_get_stats(p->runtime, &stats);
    } while (stats.reclaim_pending > 2 && rota_clock_ns() < deadline);
    assert_int_equal(stats.reclaim_pending, 2);
    test_gate_open(true);
    deadline = rota_deadline_after(10000000000u);
    while (!ra_load_seq_cst(&late_calls) && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_int_equal(ra_load_seq_cst(&late_calls), 1);
    /* Through with it: the buffer goes, the plan when the runtime is closed. */
    do {
        test_nap_ms(1);
        rota_runtime_get_stats(p->runtime, &stats);
    } while (stats.reclaim_pending != 1 && rota_clock_ns() < deadline);
    assert_int_equal(stats.reclaim_pending, 1);
    test_expect_words(w, WORDS, 100);
    rota_plan_release(alone);
    rota_buffer_release(w);
    close_pair(p);
}

/* Memory of inputs and outputs is the caller's again when the ticket has ended, by the loss of a device, too:
 * freed at once, it is not touched (which the sanitizers see). */
static void callers_memory_is_left_alone(void **state) {
    (void)state;
    enum { ROUNDS = 12, SEEDS = 8 };
    uint32_t lost_some = 0;
    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        pair *p = open_pair(seed, 10000000000u, 0);
        rota_buffer *in, *out;
        rota_plan *plan = through_both(p, 0, NULL, &in, &out);
        rota_ticket tickets[ROUNDS];
        uint32_t *words[2][ROUNDS];
        rota_args *args;
        assert_ok(rota_args_create(plan, &args));
        p->options.faults.lost_in_works = 1 + seed * 2;
        for (uint32_t i = 0; i < ROUNDS; i++) {
            for (uint32_t k = 0; k < 2; k++) assert_non_null(words[k][i] = calloc(WORDS, 4));
            for (uint32_t w = 0; w < WORDS; w++) words[0][i][w] = seed + i;
            assert_ok(rota_args_set_input(args, in, words[0][i], WORDS * 4, false));
            assert_ok(rota_args_set_output(args, out, words[1][i], WORDS * 4));
            assert_ok(rota_submit_wait(plan, args, 0, &tickets[i]));
        }
        uint32_t well = 0;
        for (uint32_t i = 0; i < ROUNDS; i++) {
            rota_status status = rota_wait(tickets[i], 0);
            if (status == ROTA_OK) {
                well++;
                assert_memory_equal(words[0][i], words[1][i], WORDS * 4);
            } else {
                assert_int_equal(status, ROTA_DEVICE_LOST);
            }
            for (uint32_t k = 0; k < 2; k++) free(words[k][i]);
        }
        lost_some += well < ROUNDS;
        rota_args_release(args);
        rota_plan_release(plan);
        close_after_loss(p);
    }
    assert_true(lost_some > SEEDS / 2);
}

/* One of the two, whichever completes so many works first, is lost with much in flight on both: every ticket
 * ends, one that is well has its sums, and what each device did alone is as its own tickets say. */
static void lost_at_random(void **state) {
    (void)state;
    enum { ROUNDS = 30, SEEDS = 24 };
    uint32_t lost_some = 0;
    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        pair *p = open_pair(seed, 10000000000u, 0);
        rota_buffer *x = test_words(p->devices[0], "x", WORDS, 0), *own[2];
        rota_plan *both = alternating(p, x, 6), *alone[2];
        for (uint32_t d = 0; d < 2; d++) {
            own[d] = test_words(p->devices[d], "own", WORDS, 0);
            alone[d] = test_plan_1(p->devices[d], "alone", &test_increment, own[d], ROTA_READWRITE);
        }
        rota_ticket tickets[3][ROUNDS];
        p->options.faults.lost_in_works = 1 + seed * 7;
        for (uint32_t i = 0; i < ROUNDS; i++) {
            assert_ok(rota_submit_wait(both, NULL, 0, &tickets[0][i]));
            for (uint32_t d = 0; d < 2; d++)
                assert_ok(rota_submit_wait(alone[d], NULL, 0, &tickets[1 + d][i]));
        }
        uint32_t well[3] = {0, 0, 0};
        for (uint32_t k = 0; k < 3; k++)
            for (uint32_t i = 0; i < ROUNDS; i++) {
                rota_status status = rota_wait(tickets[k][i], 0);
                if (status != ROTA_DEVICE_LOST) assert_ok(status);
                if (status == ROTA_OK) assert_int_equal(well[k]++, i); /* none after one that failed */
            }
        lost_some += well[0] < ROUNDS;
        p->options.faults.lost_in_works = 0;
        static uint32_t words[WORDS];
        rota_buffer *buffers[] = {x, own[0], own[1]};
        for (uint32_t k = 0; k < 3; k++) {
            rota_status status = rota_buffer_read(buffers[k], 0, words, sizeof words);
            if (status != ROTA_DEVICE_LOST) assert_ok(status);
            for (uint32_t w = 0; w < WORDS && status == ROTA_OK; w++)
                if (words[w] != well[k] * (k ? 1 : 6))
                    fail_msg("seed %u: word %u of %u is %u after %u good submissions", seed, w, k, words[w],
                             well[k]);
        }
        rota_plan_release(both);
        for (uint32_t d = 0; d < 2; d++) rota_plan_release(alone[d]);
        for (uint32_t k = 0; k < 3; k++) rota_buffer_release(buffers[k]);
        close_after_loss(p);
    }
    assert_true(lost_some > SEEDS / 2);
}

/* A move out of a device that waits on the device for one that is lost meanwhile is skipped, or, where its
 * device has it already (`is_given`), has read in vain; what it was to move gets on after all. Where the
 * bytes did not leave, none arrive: who reads the copy later gets the right bytes, or is told. */
typedef struct lateness {
    pair *p;
    uint32_t queue;            /* of `alone` */
    const rota_work *out, *in; /* of the move */
    bool is_given, out_has_failed;
} lateness;
static lateness *late_one;
static _Atomic uint32_t keeps_third, third_is_kept;

/* The third device's thread is with its driver, which keeps it. */
static void keep_third(void *user, uint32_t device) {
    const uint64_t deadline = rota_deadline_after(10000000000u);
    (void)user;
    while (device == 2 && ra_load_acquire(&keeps_third) && rota_clock_ns() < deadline) {
        ra_store_release(&third_is_kept, 1);
        test_nap_us(20);
    }
}

static void pause_until_passed(const lateness *l, const rota_work *work) {
    const uint64_t point = rota_point(work->device->index, work->queue, work->value);
    const uint64_t deadline = rota_deadline_after(2000000000u);
    while (!rota_point_passed(l->p->runtime, point) && rota_clock_ns() < deadline) test_nap_us(20);
}

/* Called by who says that the second device is lost, before anybody is told. The first one's thread, which
 * stands before the gate, goes on to where it finds out, and stands there until the second has got on. Where
 * the first has the work, the completer, who finds out by itself, ends its wait. */
static void gets_on_late(void *user, rota_log_level level, const char *message) {
    lateness *l = late_one;
    (void)user, (void)level;
    if (!l || !strstr(message, "is lost")) return;
    late_one = NULL;
    rota_device *first = l->p->devices[0], *second = l->p->devices[1];
    const rota_timeline *timeline = &first->timelines[l->queue];
    const uint64_t deadline = rota_deadline_after(2000000000u);
    if (l->is_given) {
        rota_sleeper_wake(&l->p->runtime->completing.sleeper);
        pause_until_passed(l, l->out);
    } else {
        rota_gate_unlock(first);
        while (ra_load_acquire(&timeline->handed_over) < ra_load_acquire(&timeline->issued) &&
               rota_clock_ns() < deadline) {
        }
        rota_gate_lock(first);
        while (!ra_load_acquire(&l->out->failed) && rota_clock_ns() < deadline) {
        }
    }
    l->out_has_failed = ra_load_acquire(&l->out->failed);
    test_gate_open(true);
    while (!rota_device_is_finished(second) && rota_clock_ns() < deadline) test_nap_us(20);
    if (!l->is_given) rota_gate_unlock(first);
    pause_until_passed(l, l->out);
    ra_store_release(&keeps_third, 0);
}

/* The move is to a third device, whose thread looks at the second half only then. */
static void moves_in_vain(bool is_given) {
    pair *p = calloc(1, sizeof *p);
    rota_device *third;
    p->options.shares_memory = p->options.timelines = true;
    p->options.seed = 7;
    assert_ok(adversary_runtime_open(&p->options,
                                     &ROTA_RUNTIME_OPTIONS(.log = {gets_on_late, p, ROTA_LOG_INFO},
                                                           .timeout_ns = 10000000000u, .queues_per_device = 3,
                                                           .memory_limit_bytes = is_given ? 0 : 256u << 20),
                                     &p->runtime));
    assert_ok(rota_device_open(p->runtime, "adversary", &p->devices[0]));
    assert_ok(rota_device_open(p->runtime, "adversary:1", &p->devices[1]));
    p->options.shares_memory = false;
    assert_ok(rota_device_open(p->runtime, "adversary:2", &third));
    rota_buffer *x = test_words(p->devices[1], "x", WORDS, 5), *y = test_words(p->devices[0], "y", WORDS, 1),
                *w = test_words(p->devices[0], "w", WORDS, 1), *seen = test_words(third, "seen", WORDS, 0),
                *v = test_words(third, "v", WORDS, 0);
    rota_plan *step = test_plan_1(p->devices[1], "step", &late_kernel, x, ROTA_READWRITE),
              *copy = test_plan_copy_kernel(p->devices[0], "copy", x, y),
              *alone = test_plan_1(p->devices[0], "alone", &test_increment, w, ROTA_READWRITE),
              *look = test_plan_copy_kernel(third, "look", x, seen),
              *busy = test_plan_1(third, "busy", &test_increment, v, ROTA_READWRITE);
    rota_ticket ticket;
    /* Once round, as in scene_open. */
    test_gate_open(false);
    assert_ok(rota_submit_wait(step, NULL, 0, NULL));
    assert_ok(rota_submit_wait(copy, NULL, 0, NULL));
    assert_ok(rota_submit_wait(alone, NULL, 0, &ticket));
    test_sequenced(ticket);
    test_gate_open(true);
    test_expect_words(y, WORDS, 6);
    test_expect_words(x, WORDS, 6);
    rota_sequencer_reap_now(p->runtime);
    test_gate_open(false);
    assert_ok(rota_submit_wait(step, NULL, 0, NULL));
    test_gates_running(1);
    ra_store_release(&third_is_kept, 0);
    ra_store_release(&keeps_third, 1);
    ra_store_seq_cst(&p->options.on_submit, keep_third);
    assert_ok(rota_submit_wait(busy, NULL, 0, NULL));
    while (!ra_load_acquire(&third_is_kept)) test_nap_us(100);
    rota_device *device = p->devices[0];
    uint64_t published = ra_load_acquire(&device->handover.published);
    if (!is_given) {
        rota_gate_lock(device);
        assert_ok(rota_submit_wait(alone, NULL, 0, NULL));
        while (ra_load_acquire(&device->handover.published) <= published ||
               !rota_ring_seems_empty_spsc(&device->handover.ring))
            test_nap_us(100);
        published = ra_load_acquire(&device->handover.published);
    }
    assert_ok(rota_submit_wait(look, NULL, 0, &ticket));
    rota_ticket next; /* once it is sequenced, what came before has all its works */
    assert_ok(rota_submit_wait(busy, NULL, 0, &next));
    test_sequenced(next);
    lateness late = {
        .p = p, .queue = rota_point_queue(alone->executable->order.last_point), .is_given = is_given};
    late.out = device->handover.ring.cells[published % ROTA_HANDOVER_CELLS].value;
    late.in = late.out + 1;
    assert_int_equal(late.out->kind, ROTA_WORK_MIGRATE_OUT);
    assert_int_equal(late.in->kind, ROTA_WORK_MIGRATE_IN);
    const rota_timeline *timeline = &device->timelines[late.out->queue];
    while (is_given && ra_load_acquire(&timeline->handed_over) < late.out->value) test_nap_us(100);
    late_one = &late;
    rota_device_set_lost(p->devices[1], "given up");
    assert_true(late.out_has_failed);
    assert_status(rota_wait(ticket, 0), ROTA_DEVICE_LOST);
    assert_ok(rota_submit_wait(look, NULL, 0, &ticket));
    rota_status status = rota_wait(ticket, 0);
    if (status == ROTA_OK) test_expect_words(seen, WORDS, 7);
    rota_plan *plans[] = {step, copy, alone, look, busy};
    for (uint32_t i = 0; i < 5; i++) rota_plan_release(plans[i]);
    rota_buffer *buffers[] = {x, y, w, seen, v};
    for (uint32_t i = 0; i < 5; i++) rota_buffer_release(buffers[i]);
    close_after_loss(p);
}

static void what_did_not_leave_does_not_arrive(void **state) {
    (void)state;
    moves_in_vain(false);
}

static void what_left_in_vain_does_not_arrive(void **state) {
    (void)state;
    moves_in_vain(true);
}

static rota_status look_at_two(const rota_kernel_call *call) {
    memcpy(call->operands[2], call->operands[0], WORDS * 4);
    return ROTA_OK;
}
static const rota_kernel look_at_two_kernel = {
    .name = "look at two", .operand_count = 3, .cpu = {.fn = look_at_two}};

static rota_plan *looking(rota_device *device, rota_buffer *first, rota_buffer *second, rota_buffer *to) {
    test_node node = {&look_at_two_kernel,
                      "look",
                      {{first, 0, ROTA_WHOLE, ROTA_READ},
                       {second, 0, ROTA_WHOLE, ROTA_READ},
                       {to, 0, ROTA_WHOLE, ROTA_WRITE}},
                      3};
    return test_plan(device, "look", &node, 1);
}

/* Under a memory limit a move has its memory from when it was sequenced. Where its device is lost before it
 * was given the move, nobody has that memory any more, though the submission is kept; and what another move
 * of the same submission had, of a device that is well, is that one's again. */
static void lost_before_it_gets(bool both) {
    pair *p = calloc(1, sizeof *p);
    rota_device *cpu, *third;
    assert_non_null(p);
    p->options.shares_memory = p->options.timelines = true;
    p->options.seed = 7;
    assert_ok(adversary_runtime_open(&p->options,
                                     &ROTA_RUNTIME_OPTIONS(.timeout_ns = 10000000000u, .queues_per_device = 3,
                                                           .memory_limit_bytes = 256u << 20),
                                     &p->runtime));
    assert_ok(rota_device_open(p->runtime, "cpu", &cpu));
    for (uint32_t d = 0; d < 2; d++)
        assert_ok(rota_device_open(p->runtime, d ? "adversary:1" : "adversary", &p->devices[d]));
    p->options.shares_memory = false;
    assert_ok(rota_device_open(p->runtime, "adversary:2", &third));
    rota_device *device = p->devices[0];
    rota_buffer *buffers[] = {test_words(device, "x", WORDS, 5), test_words(device, "y", WORDS, 6),
                              test_words(cpu, "a", WORDS, 7),    test_words(cpu, "b", WORDS, 8),
                              test_words(device, "w", WORDS, 1), test_words(third, "seen", WORDS, 0)};
    rota_plan *plans[] = {looking(third, buffers[2], buffers[0], buffers[5]),
                          looking(third, buffers[3], buffers[1], buffers[5]),
                          test_plan_1(device, "alone", &test_increment, buffers[4], ROTA_READWRITE)};
    rota_ticket ticket;
    runs_now(plans[2]);
    runs_now(plans[0]); /* what its moves had lies idle from then on */
    rota_sequencer_reap_now(p->runtime);
    assert_false(rota_staging_is_busy(device) || rota_staging_is_busy(third));
    rota_gate_lock(device); /* the thread stops before it gives its device the next work */
    const uint64_t published = ra_load_acquire(&device->handover.published);
    assert_ok(rota_submit_wait(plans[2], NULL, 0, NULL));
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while ((ra_load_acquire(&device->handover.published) == published ||
            !rota_ring_seems_empty_spsc(&device->handover.ring)) &&
           rota_clock_ns() < deadline)
        test_nap_us(100);
    assert_ok(rota_submit_wait(plans[1], NULL, 0, &ticket));
    while (!(rota_staging_is_busy(device) && rota_staging_is_busy(third)) && rota_clock_ns() < deadline)
        test_nap_us(100);
    assert_true(rota_staging_is_busy(device) && rota_staging_is_busy(third));
    rota_device_set_lost(device, "given up");
    if (!both) rota_gate_unlock(device);
    assert_status(rota_wait(ticket, SOON_NS), ROTA_DEVICE_LOST);
    if (both) {
        test_nap_ms(100);
        rota_gate_unlock(device);
    }
    while ((rota_staging_is_busy(device) || rota_staging_is_busy(third)) && rota_clock_ns() < deadline)
        test_nap_us(100);
    assert_false(rota_staging_is_busy(device));
    assert_false(rota_staging_is_busy(third));
    for (uint32_t i = 0; i < 3; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < 6; i++) rota_buffer_release(buffers[i]);
    close_after_loss(p);
}

static void what_a_lost_device_did_not_get(void **state) {
    (void)state;
    lost_before_it_gets(false);
}

/* The same where the thread finds out only after the submission was kept. */
static void what_it_finds_late(void **state) {
    (void)state;
    lost_before_it_gets(true);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_are_the_devices),
        cmocka_unit_test(waits_are_the_devices_while_something_is_cancelled),
        cmocka_unit_test(a_wait_left_out_is_noticed),
        cmocka_unit_test(without_timelines),
        cmocka_unit_test(what_is_independent_passes),
        cmocka_unit_test(after_a_failure_too),
        cmocka_unit_test(what_did_not_leave_does_not_arrive),
        cmocka_unit_test(what_left_in_vain_does_not_arrive),
        cmocka_unit_test(what_a_lost_device_did_not_get),
        cmocka_unit_test(what_it_finds_late),
        cmocka_unit_test(the_other_is_lost),
        cmocka_unit_test(the_other_never_ends),
        cmocka_unit_test(closed_while_waiting),
        cmocka_unit_test(reads_let_go_of_a_lost_device),
        cmocka_unit_test(what_is_lost_keeps_what_it_has),
        cmocka_unit_test(callers_memory_is_left_alone),
        cmocka_unit_test(lost_at_random),
    };
    (void)mallopt(M_PERTURB, 0x5a); /* what is freed is overwritten */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
