/* Tickets that are cancelled, by calls: what has not begun does not begin, what runs is left to end, and what was to be
 * written counts as failed. On each device that there is. Deadlines: test_deadline.c. */
#include "tests/sched/runtime/cancel_kit.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/testing.h"
#include "tests/kit/nap.h"
#include "tests/kit/sequenced.h"

/* ---- Held, and what depends on it ---- */

static void held_case(house *h, rota_device *device, const char *on) {
    rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2), *z = filled(device, "z", 3);
    rota_buffer *a = filled(device, "a", 4), *b = filled(device, "b", 5);
    rota_plan *map = map_plan(h, device, x, y), *next = map_plan(h, device, y, z);
    rota_plan *apart = map_plan(h, device, a, b);
    rota_external_timeline *timeline = timeline_of(h);
    const uint64_t begin = rota_clock_ns();
    const rota_ticket held = submit_after(map, NULL, timeline);
    const rota_ticket after = submit(next), other = submit(apart);
    test_sequenced(after);
    assert_status(rota_poll(held), ROTA_BUSY);
    assert_ok(rota_ticket_cancel(held));
    expect_cancelled(held, "plan 'map'", on);
    expect_inherited(rota_wait(after, 0), "plan 'map'", on);
    assert_ok(rota_wait(other, 0));
    assert_true(rota_clock_ns() - begin < SOON_NS); /* and not the deadline of what it was held for */
    expect_bad(y, "plan 'map'", on);
    expect_bad(z, "plan 'map'", on);
    test_expect_words(x, WORDS, 1);
    expect_mapped(b, 4, 1, on);
    /* What overwrites it heals it, and the plan can be used as before. */
    const rota_ticket again = submit(map);
    assert_ok(rota_wait(again, 0));
    expect_mapped(y, 1, 1, on);
    assert_ok(rota_wait(submit(next), 0));
    expect_mapped(z, 1, 2, on);
    assert_status(rota_poll(held), ROTA_CANCELLED);
    assert_status(rota_poll(after), ROTA_NODE_FAILED);
    assert_ok(rota_external_timeline_signal(timeline, 1));
    rota_external_timeline_release(timeline);
    rota_plan *plans[] = {map, next, apart};
    for (uint32_t i = 0; i < 3; i++) rota_plan_release(plans[i]);
    rota_buffer *buffers[] = {x, y, z, a, b};
    for (uint32_t i = 0; i < 5; i++) rota_buffer_release(buffers[i]);
}
static void held(void **state) {
    (void)state;
    on_each(held_case);
}

/* One that is held behind another one for the same point ends after that: a wait says that it is cancelled. */
static void in_turn(void **state) {
    (void)state;
    house *h = open_house(false);
    rota_device *cpu = h->devices[CPU];
    rota_buffer *x = filled(cpu, "x", 1), *y = filled(cpu, "y", 2);
    rota_plan *map = map_plan(h, cpu, x, y);
    rota_external_timeline *timeline = timeline_of(h);
    const rota_ticket first = submit_after(map, NULL, timeline), second = submit_after(map, NULL, timeline);
    test_sequenced(second);
    assert_ok(rota_ticket_cancel(second));
    assert_status(rota_wait(second, 50000000), ROTA_TIMEOUT);
    expect_said("plan 'map', submission ");
    expect_said(", which is cancelled and ends after what comes before it");
    assert_ok(rota_external_timeline_signal(timeline, 1));
    assert_ok(rota_wait(first, 0));
    expect_cancelled(second, "plan 'map'", "in turn");
    expect_bad(y, "plan 'map'", "in turn");
    release_all(timeline, PLANS(map), BUFFERS(x, y));
    close_house(h);
}

/* ---- What runs is left to end, and what comes after it in the plan does not begin ---- */

static void running(void **state) {
    (void)state;
    house *h = open_house(false);
    rota_device *cpu = h->devices[CPU];
    for (uint32_t is_host = 0; is_host < 2; is_host++) {
        rota_buffer *x = filled(cpu, "x", 1), *y = filled(cpu, "y", 2);
        sketch s;
        sketch_open(&s);
        add_stay(&s, cpu, is_host, x);
        add_map(&s, cpu, x, y);
        rota_plan *plan = sketch_compile(&s, h, "two");
        hold_nodes();
        const rota_ticket ticket = submit(plan);
        until_begun();
        assert_ok(rota_ticket_cancel(ticket));
        assert_status(rota_poll(ticket), ROTA_BUSY); /* its first node runs */
        let_nodes_go();
        expect_cancelled(ticket, "plan 'two'", "running");
        test_expect_words(x, WORDS, 7);
        expect_bad(y, "plan 'two'", "running");
        /* Of one of which all has begun nothing is left out. */
        sketch_open(&s);
        add_stay(&s, cpu, is_host, x);
        rota_plan *one = sketch_compile(&s, h, "one");
        hold_nodes();
        const rota_ticket late = submit(one);
        until_begun();
        assert_ok(rota_ticket_cancel(late));
        let_nodes_go();
        assert_ok(rota_wait(late, 0));
        test_expect_words(x, WORDS, 7);
        release_all(NULL, PLANS(plan, one), BUFFERS(x, y));
    }
    close_house(h);
}

/* Nodes beside the one that runs, on as many workers as there are, and one that is split: each does not begin, or ends
 * as it should. */
static void wide(void **state) {
    (void)state;
    enum { NODES = 64 };
    house *h = open_house(false);
    rota_device *cpu = h->devices[CPU];
    rota_buffer *x = filled(cpu, "x", 1), *ys[NODES];
    sketch s;
    sketch_open(&s);
    for (uint32_t i = 0; i < NODES; i++) {
        ys[i] = filled(cpu, "y", 2);
        add_map(&s, cpu, x, ys[i]);
    }
    rota_plan *plan = sketch_compile(&s, h, "wide");
    uint32_t left_out = 0, done = 0;
    for (uint32_t round = 0; round < 20; round++) {
        /* Whatever it is at, some of the time; and once nothing has begun. */
        if (!round) assert_ok(rota_runtime_lock_submission(h->runtime, true));
        const rota_ticket ticket = submit(plan);
        for (volatile uint32_t spin = 0; spin < round * 6000; spin++) {
        }
        assert_ok(rota_ticket_cancel(ticket));
        if (!round) assert_ok(rota_runtime_lock_submission(h->runtime, false));
        const rota_status status = rota_wait(ticket, 0);
        assert_true(status == ROTA_OK || status == ROTA_CANCELLED);
        uint32_t bad = 0;
        for (uint32_t i = 0; i < NODES; i++) {
            uint32_t words[WORDS];
            if (rota_buffer_read(ys[i], 0, words, BYTES) == ROTA_OK)
                for (uint32_t w = 0; w < WORDS; w++) assert_int_equal(words[w], mapped(1, w));
            else
                bad++;
            fill(ys[i], cpu, 2);
        }
        assert_int_equal(bad != 0, status == ROTA_CANCELLED);
        left_out += bad;
        done += NODES - bad;
    }
    print_message("%u nodes left out, %u done\n", left_out, done);
    assert_true(left_out > 0);
    rota_plan_release(plan);
    rota_buffer_release(x);
    for (uint32_t i = 0; i < NODES; i++) rota_buffer_release(ys[i]);
    close_house(h);
}

/* ---- Before the record is taken ---- */

static void unsequenced_case(house *h, rota_device *device, const char *on) {
    rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2);
    rota_plan *map = map_plan(h, device, x, y);
    assert_ok(rota_wait(submit(map), 0));
    assert_ok(rota_runtime_lock_submission(h->runtime, true)); /* which keeps the sequencer from its work */
    fill(y, device, 9);
    rota_ticket ticket, kept;
    assert_ok(rota_submit(map, NULL, &ticket));
    assert_ok(rota_ticket_cancel(ticket));
    assert_ok(rota_ticket_cancel(ticket));
    assert_status(rota_poll(ticket), ROTA_BUSY);
    assert_ok(rota_submit(map, NULL, &kept));
    assert_ok(rota_runtime_lock_submission(h->runtime, false));
    expect_cancelled(ticket, "plan 'map'", on);
    assert_ok(rota_wait(kept, 0)); /* the next ticket is not meant */
    expect_mapped(y, 1, 1, on);
    release_all(NULL, PLANS(map), BUFFERS(x, y));
}
static void unsequenced(void **state) {
    (void)state;
    on_each(unsequenced_case);
}

/* ---- Ended, or no ticket ---- */

static void ended_case(house *h, rota_device *device, const char *on) {
    rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2), *z = filled(device, "z", 3);
    rota_plan *map = map_plan(h, device, x, y), *next = map_plan(h, device, y, z);
    const rota_ticket first = submit(map);
    assert_ok(rota_wait(first, 0));
    for (uint32_t i = 0; i < 3; i++) assert_ok(rota_ticket_cancel(first));
    assert_ok(rota_wait(first, 0));
    expect_mapped(y, 1, 1, on);
    rota_external_timeline *timeline = timeline_of(h);
    const rota_ticket held = submit_after(map, NULL, timeline), after = submit(next);
    assert_ok(rota_ticket_cancel(held));
    expect_inherited(rota_wait(after, 0), "plan 'map'", on);
    assert_ok(rota_ticket_cancel(after)); /* it has failed for another reason */
    assert_ok(rota_ticket_cancel(held));
    assert_status(rota_wait(after, 0), ROTA_NODE_FAILED);
    expect_cancelled(held, "plan 'map'", on);
    /* Nobody is made to ask for what has ended, while something else is held for long. */
    assert_ok(rota_wait(submit(map), 0)); /* heals */
    assert_ok(rota_wait(submit(next), 0));
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (ra_load_seq_cst(&h->runtime->failed.active) != 0 && rota_clock_ns() < deadline) test_nap();
    rota_external_timeline *long_one = timeline_of(h);
    rota_buffer *b = filled(device, "b", 5);
    rota_plan *beside = map_plan(h, device, b, b);
    const rota_ticket kept = submit_after(beside, NULL, long_one);
    for (uint32_t i = 0; i < 200; i++) {
        const rota_ticket done = submit(map);
        assert_ok(rota_wait(done, 0));
        assert_ok(rota_ticket_cancel(done));
        assert_int_equal(ra_load_seq_cst(&h->runtime->failed.active), 0);
    }
    assert_ok(rota_external_timeline_signal(long_one, 1));
    assert_ok(rota_wait(kept, 0));
    release_all(long_one, PLANS(beside), BUFFERS(b));
    /* Tickets whose cells have gone on. */
    for (uint32_t i = 0; i < ROTA_TICKET_HISTORY + 2048; i++) {
        const rota_ticket one = submit(map);
        if (i % 64 == 0) assert_ok(rota_wait(one, 0));
    }
    assert_ok(rota_ticket_cancel(first));
    assert_ok(rota_ticket_cancel(held));
    expect_cancelled(held, "plan 'map'", on);
    assert_ok(rota_wait(first, 0));
    assert_ok(rota_wait(submit(map), 0));
    release_all(timeline, PLANS(map, next), BUFFERS(x, y, z));
}
static void ended(void **state) {
    (void)state;
    house *h = open_house(false);
    ended_case(h, h->devices[CPU], ids[CPU]);
    close_house(h);
}

static void refused(void **state) {
    (void)state;
    house *h = open_house(false);
    rota_buffer *x = filled(h->devices[CPU], "x", 1), *y = filled(h->devices[CPU], "y", 2);
    rota_plan *map = map_plan(h, h->devices[CPU], x, y);
    const rota_ticket ticket = submit(map);
    assert_ok(rota_wait(ticket, 0));
    assert_status(rota_ticket_cancel((rota_ticket){NULL, 0}), ROTA_INVALID_ARGUMENT);
    expect_said("names no submission");
    assert_status(rota_ticket_cancel((rota_ticket){h->runtime, 0}), ROTA_INVALID_ARGUMENT);
    const rota_ticket made_up[] = {{h->runtime, ticket.id + ((uint64_t)100000 << 17)},
                                   {h->runtime, ticket.id ^ 0x1ffff},
                                   {h->runtime, 1},
                                   {(rota_runtime *)(uintptr_t)&ticket, ticket.id}};
    for (uint32_t i = 0; i < sizeof made_up / sizeof *made_up; i++) {
        assert_status(rota_ticket_cancel(made_up[i]), ROTA_INVALID_ARGUMENT);
        expect_said("not a ticket of this runtime");
    }
    release_all(NULL, PLANS(map), BUFFERS(x, y));
    close_house(h);
    assert_status(rota_ticket_cancel(ticket), ROTA_WRONG_STATE);
    /* A later runtime, which may have the handle, has not given it out either. */
    h = open_house(false);
    assert_status(rota_ticket_cancel((rota_ticket){h->runtime, ticket.id}),
                  ticket.runtime == h->runtime ? ROTA_WRONG_STATE : ROTA_INVALID_ARGUMENT);
    close_house(h);
}

/* ---- The first cause ---- */

static rota_status add_call(const rota_kernel_call *call) {
    uint32_t *x = call->operands[0];
    const uint32_t *a = call->operands[1];
    for (uint64_t i = 0; i < call->operand_bytes[0] / 4; i++) x[i] += a[i];
    return ROTA_OK;
}
static const rota_kernel add_kernel = {.name = "add", .operand_count = 2, .cpu = {.fn = add_call}};

/* x += a, behind a node that stays and writes a, or not. */
static rota_plan *add_plan(const house *h, rota_device *device, bool stays_first, rota_buffer *x,
                           rota_buffer *a) {
    sketch s;
    sketch_open(&s);
    if (stays_first) add_stay(&s, device, false, a);
    const rota_access accesses[] = {{x, 0, ROTA_WHOLE, ROTA_READWRITE}, {a, 0, ROTA_WHOLE, ROTA_READ}};
    rota_kernel_node node = ROTA_KERNEL_NODE(.kernel = &add_kernel, .accesses = accesses, .access_count = 2,
                                             .placement = {.device_plus_1 = number_of(&s, device)});
    assert_ok(rota_record_kernel(s.recorder, &node, NULL));
    return sketch_compile(&s, h, "add");
}

/* What is cancelled in place of a range that a node was to write that failed before: who reads it later is told that
 * first cause, whether a whole work is left out, or a node when its turn has come; then the ticket says it, too. */
static void older_failure(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t k = CPU; k <= ADVERSARY; k++)
        for (uint32_t has_begun = 0; has_begun < 2; has_begun++) {
            rota_device *device = h->devices[k];
            rota_buffer *x = filled(device, "x", 1), *a = filled(device, "a", 3);
            rota_plan *fails = source_plan(h, k == CPU ? CPU_KERNEL : ADVERSARY_KERNEL, x);
            rota_plan *add = add_plan(h, device, has_begun, x, a);
            rota_external_timeline *timeline = timeline_of(h);
            open_gate(true);
            ra_store_seq_cst(&must_fail, 1);
            expect_ticket(submit(fails), true, ids[k]);
            ra_store_seq_cst(&must_fail, 0);
            hold_nodes();
            const rota_ticket ticket = has_begun ? submit(add) : submit_after(add, NULL, timeline);
            if (has_begun)
                until_begun();
            else
                test_sequenced(ticket);
            assert_ok(rota_ticket_cancel(ticket));
            let_nodes_go();
            if (has_begun)
                expect_ticket(ticket, true, ids[k]);
            else
                expect_cancelled(ticket, "plan 'add'", ids[k]);
            expect_failed(x, ids[k]);
            /* Written over, it is nobody's cause any more, also of who is left out before that is done. */
            fill(x, device, 1);
            rota_plan *map = map_plan(h, device, a, x), *next = map_plan(h, device, x, a);
            const rota_ticket first = submit_after(map, NULL, timeline), second = submit(next);
            assert_ok(rota_ticket_cancel(second));
            assert_ok(rota_ticket_cancel(first));
            expect_cancelled(first, "plan 'map'", ids[k]);
            expect_cancelled(second, "plan 'map'", ids[k]);
            rota_external_timeline_release(timeline);
            rota_plan *plans[] = {fails, add, map, next};
            for (uint32_t i = 0; i < 4; i++) rota_plan_release(plans[i]);
            rota_buffer_release(x);
            rota_buffer_release(a);
        }
    close_house(h);
}

/* Two that are cancelled, of which one reads what the other one was to write, each say that of themselves: also where
 * both are with the device, which asks about nodes when their turn has come. */
static void both_cancelled_case(house *h, rota_device *device, const char *on) {
    rota_buffer *x = filled(device, "x", 1), *a = filled(device, "a", 3), *y = filled(device, "y", 2);
    rota_plan *map = map_plan(h, device, a, x), *next = map_plan(h, device, x, y);
    rota_external_timeline *timeline = timeline_of(h);
    const rota_ticket first = submit_after(map, NULL, timeline), second = submit(next);
    test_sequenced(second);
    assert_ok(rota_ticket_cancel(second));
    assert_ok(rota_ticket_cancel(first));
    expect_cancelled(first, "plan 'map'", on);
    expect_cancelled(second, "plan 'map'", on);
    fill(x, device, 1);
    for (uint32_t round = 0; device == h->devices[CPU] && round < 10; round++) {
        rota_plan *behind = add_plan(h, device, true, x, a);
        hold_nodes();
        const rota_ticket runs = submit(behind), reads = submit(next);
        until_begun();
        test_sequenced(reads);
        test_nap_us((uint64_t)200 * round);
        assert_ok(rota_ticket_cancel(runs));
        assert_ok(rota_ticket_cancel(reads));
        let_nodes_go();
        expect_cancelled(runs, "plan 'add'", on);
        expect_cancelled(reads, "plan 'map'", on);
        expect_bad(x, "plan 'add'", on);
        fill(x, device, 1);
        rota_plan_release(behind);
    }
    release_all(timeline, PLANS(map, next), BUFFERS(x, a, y));
}
static void both_cancelled(void **state) {
    (void)state;
    on_each(both_cancelled_case);
}

/* What it reads had failed, and all before it is decided when it would be handed over, as on a device that is not asked
 * node by node: its ticket has that cause. */
static void reads_failed_case(house *h, rota_device *device, const char *on) {
    rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2), *z = filled(device, "z", 3);
    rota_plan *map = map_plan(h, device, x, y), *next = map_plan(h, device, y, z);
    rota_external_timeline *timeline = timeline_of(h);
    const rota_external_point point = {timeline, 1};
    rota_ticket held, ticket;
    assert_ok(rota_submit_with(
        map, &ROTA_SUBMIT_OPTIONS(.after = &point, .after_count = 1, .after_timeout_ns = 1000000), &held));
    assert_status(rota_wait(held, 0), ROTA_TIMEOUT);
    assert_ok(rota_runtime_lock_submission(h->runtime, true));
    assert_ok(rota_submit(next, NULL, &ticket));
    assert_ok(rota_ticket_cancel(ticket));
    assert_ok(rota_runtime_lock_submission(h->runtime, false));
    const rota_status status = rota_wait(ticket, 0);
    if (status != (device->asks_poison ? ROTA_CANCELLED : ROTA_NODE_FAILED))
        fail_msg("%s: %s: %s", on, rota_status_name(status), rota_last_error());
    expect_said(device->asks_poison ? "was cancelled by a call" : "was held for external timeline 'frames'");
    release_all(timeline, PLANS(map, next), BUFFERS(x, y, z));
}
static void reads_failed(void **state) {
    (void)state;
    on_each(reads_failed_case);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(held),           cmocka_unit_test(running),
                                       cmocka_unit_test(wide),           cmocka_unit_test(unsequenced),
                                       cmocka_unit_test(ended),          cmocka_unit_test(refused),
                                       cmocka_unit_test(in_turn),        cmocka_unit_test(older_failure),
                                       cmocka_unit_test(both_cancelled), cmocka_unit_test(reads_failed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
