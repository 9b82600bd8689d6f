/* Tickets that are cancelled, by calls: what has not begun does not begin, what runs is left to end, and what was to be
 * written counts as failed. On each device that there is. Deadlines: test_deadline.c. */
#include "tests/sched/runtime/travel_kit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/testing.h"
#include "tests/kit/nap.h"
#include "tests/kit/sequenced.h"

#define BYTES ((uint64_t)4 * WORDS)
#define SOON_NS 10000000000u

/* ---- What is wanted ---- */

static void expect_cancelled(rota_ticket ticket, const char *of, const char *when) {
    const rota_status status = rota_wait(ticket, 0);
    if (status != ROTA_CANCELLED)
        fail_msg("%s: the ticket is %s: %s", when, rota_status_name(status), rota_last_error());
    char said[128];
    (void)snprintf(said, sizeof said, "%s, submission ", of);
    expect_said(said);
    expect_said("was cancelled by a call");
}

static void expect_inherited(rota_status status, const char *of, const char *when) {
    if (status != ROTA_NODE_FAILED) fail_msg("%s: %s: %s", when, rota_status_name(status), rota_last_error());
    char said[128];
    (void)snprintf(said, sizeof said, "%s, submission ", of);
    expect_said(said);
    expect_said("was cancelled by a call");
}

static void expect_bad(rota_buffer *buffer, const char *of, const char *when) {
    uint32_t words[WORDS];
    memset(words, 0xee, sizeof words);
    expect_inherited(rota_buffer_read(buffer, 0, words, sizeof words), of, when);
    expect_untouched(words, WORDS, when);
}

static rota_buffer *filled(rota_device *device, const char *name, uint32_t value) {
    return test_words(device, name, WORDS, value);
}

static void fill(rota_buffer *buffer, rota_device *device, uint32_t value) {
    uint32_t words[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) words[i] = value;
    assert_ok(rota_buffer_write(buffer, device, 0, words, BYTES, NULL));
}

/* Nodes that stay until they may go, and then write 7: it can be known that one runs. */
static _Atomic uint32_t stays, begun;

static rota_status stay(uint32_t *words, uint64_t bytes) {
    const uint64_t deadline = rota_deadline_after(2 * SOON_NS);
    ra_store_release(&begun, 1);
    while (ra_load_acquire(&stays) && rota_clock_ns() < deadline) test_nap_us(50);
    for (uint64_t i = 0; i < bytes / 4; i++) words[i] = 7;
    return ROTA_OK;
}
static rota_status stay_host(void *user, void *const *operands, const uint64_t *bytes, uint32_t count) {
    (void)user, (void)count;
    return stay(operands[0], bytes[0]);
}
static rota_status stay_call(const rota_kernel_call *call) {
    return stay(call->operands[0], call->operand_bytes[0]);
}
static const rota_kernel stay_kernel = {.name = "stay", .operand_count = 1, .cpu = {.fn = stay_call}};

static void add_stay(sketch *s, rota_device *cpu, bool is_host, rota_buffer *x) {
    const rota_access access = {x, 0, ROTA_WHOLE, ROTA_WRITE};
    rota_host_node host = ROTA_HOST_NODE(stay_host, NULL, "stay", &access, 1);
    rota_kernel_node node = ROTA_KERNEL_NODE(.kernel = &stay_kernel, .accesses = &access, .access_count = 1,
                                             .placement = {.device_plus_1 = number_of(s, cpu)});
    assert_ok(is_host ? rota_record_host(s->recorder, &host, NULL)
                      : rota_record_kernel(s->recorder, &node, NULL));
}

static void hold_nodes(void) {
    ra_store_release(&begun, 0);
    ra_store_release(&stays, 1);
}
static void until_begun(void) {
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (!ra_load_acquire(&begun) && rota_clock_ns() < deadline) test_nap();
    assert_int_equal(ra_load_acquire(&begun), 1);
}

typedef void (*case_fn)(house *h, rota_device *device, const char *on);

static void on_each(case_fn fn) {
    house *h = open_house(false);
    for (uint32_t k = 0; k < KINDS; k++)
        if (h->devices[k]) fn(h, h->devices[k], ids[k]);
    close_house(h);
}

static rota_external_timeline *timeline_of(const house *h) {
    rota_external_timeline *timeline;
    assert_ok(rota_external_timeline_create(h->runtime, "frames", &timeline));
    return timeline;
}

static rota_ticket submit_after(rota_plan *plan, rota_args *args, rota_external_timeline *timeline) {
    const rota_external_point point = {timeline, 1};
    rota_ticket ticket;
    assert_ok(rota_submit_with(plan, &ROTA_SUBMIT_OPTIONS(.args = args, .after = &point, .after_count = 1),
                               &ticket));
    return ticket;
}

static rota_ticket submit(rota_plan *plan) {
    rota_ticket ticket;
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    return ticket;
}

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
    rota_external_timeline_release(timeline);
    rota_plan_release(map);
    rota_buffer_release(x);
    rota_buffer_release(y);
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
        ra_store_release(&stays, 0);
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
        ra_store_release(&stays, 0);
        assert_ok(rota_wait(late, 0));
        test_expect_words(x, WORDS, 7);
        rota_plan_release(plan);
        rota_plan_release(one);
        rota_buffer_release(x);
        rota_buffer_release(y);
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
    rota_plan_release(map);
    rota_buffer_release(x);
    rota_buffer_release(y);
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
    rota_external_timeline_release(long_one);
    rota_plan_release(beside);
    rota_buffer_release(b);
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
    rota_external_timeline_release(timeline);
    rota_plan_release(map);
    rota_plan_release(next);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(z);
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
    rota_plan_release(map);
    rota_buffer_release(x);
    rota_buffer_release(y);
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
            ra_store_release(&stays, 0);
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
        ra_store_release(&stays, 0);
        expect_cancelled(runs, "plan 'add'", on);
        expect_cancelled(reads, "plan 'map'", on);
        expect_bad(x, "plan 'add'", on);
        fill(x, device, 1);
        rota_plan_release(behind);
    }
    rota_external_timeline_release(timeline);
    rota_plan_release(map);
    rota_plan_release(next);
    rota_buffer_release(x);
    rota_buffer_release(a);
    rota_buffer_release(y);
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
    rota_external_timeline_release(timeline);
    rota_plan_release(map);
    rota_plan_release(next);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(z);
}
static void reads_failed(void **state) {
    (void)state;
    on_each(reads_failed_case);
}

/* ---- From where it is called ---- */

typedef struct called {
    rota_ticket ticket;
    _Atomic uint32_t status, calls;
} called;

static void cancel_it(void *user, rota_status status, const char *message) {
    called *c = user;
    (void)status, (void)message;
    ra_store_release(&c->status, (uint32_t)rota_ticket_cancel(c->ticket));
    (void)ra_fetch_add_acq_rel(&c->calls, 1);
}

static void from_callback_case(house *h, rota_device *device, const char *on) {
    rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2), *z = filled(device, "z", 3);
    rota_plan *map = map_plan(h, device, x, y), *other = map_plan(h, device, x, z);
    rota_external_timeline *timeline = timeline_of(h), *first = timeline_of(h);
    called c = {.ticket = submit_after(map, NULL, timeline)};
    const rota_ticket trigger = submit_after(other, NULL, first);
    assert_ok(rota_ticket_on_complete(trigger, cancel_it, &c));
    called itself = {.ticket = c.ticket};
    assert_ok(rota_ticket_on_complete(c.ticket, cancel_it, &itself)); /* its own, which has ended then */
    assert_ok(rota_external_timeline_signal(first, 1));
    expect_cancelled(c.ticket, "plan 'map'", on);
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (!ra_load_acquire(&itself.calls) && rota_clock_ns() < deadline) test_nap();
    assert_int_equal(ra_load_acquire(&c.status), ROTA_OK);
    assert_int_equal(ra_load_acquire(&itself.calls), 1);
    assert_int_equal(ra_load_acquire(&itself.status), ROTA_OK);
    rota_external_timeline_release(timeline);
    rota_external_timeline_release(first);
    rota_plan_release(map);
    rota_plan_release(other);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(z);
}
static void from_callback(void **state) {
    (void)state;
    on_each(from_callback_case);
}

/* Several at once, and one that is told of all. */
static void *cancel_call(void *user) {
    const rota_ticket *tickets = user;
    for (uint32_t i = 0; tickets[i].id; i++)
        if (rota_ticket_cancel(tickets[i]) != ROTA_OK) return "failed";
    return NULL;
}

static void by_many_case(house *h, rota_device *device, const char *on) {
    enum { THREADS = 4, TICKETS = 40 };
    rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2), *z = filled(device, "z", 3);
    rota_plan *map = map_plan(h, device, x, y), *other = map_plan(h, device, x, z);
    rota_external_timeline *timeline = timeline_of(h);
    rota_ticket tickets[TICKETS + 1] = {{NULL, 0}}, kept[TICKETS];
    for (uint32_t i = 0; i < TICKETS; i++) {
        tickets[i] = submit_after(map, NULL, timeline);
        kept[i] = submit(other);
    }
    pthread_t threads[THREADS];
    for (uint32_t t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, cancel_call, tickets), 0);
    for (uint32_t t = 0; t < THREADS; t++) {
        void *said;
        assert_int_equal(pthread_join(threads[t], &said), 0);
        assert_null(said);
    }
    for (uint32_t i = 0; i < TICKETS; i++) {
        expect_cancelled(tickets[i], "plan 'map'", on);
        assert_ok(rota_wait(kept[i], 0));
    }
    expect_bad(y, "plan 'map'", on);
    expect_mapped(z, 1, 1, on);
    rota_external_timeline_release(timeline);
    rota_plan_release(map);
    rota_plan_release(other);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(z);
}
static void by_many(void **state) {
    (void)state;
    on_each(by_many_case);
}

/* ---- Over several devices ---- */

static void spread(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t k = 1; k < KINDS; k++) {
        rota_device *cpu = h->devices[CPU], *other = h->devices[k];
        if (!other) continue;
        rota_buffer *x = filled(cpu, "x", 1), *y = filled(other, "y", 2), *z = filled(cpu, "z", 3);
        sketch s;
        sketch_open(&s);
        add_map(&s, cpu, x, y);
        add_map(&s, other, y, z);
        rota_plan *plan = sketch_compile(&s, h, "both");
        rota_external_timeline *timeline = timeline_of(h);
        const rota_ticket held = submit_after(plan, NULL, timeline);
        test_sequenced(held);
        assert_ok(rota_ticket_cancel(held));
        expect_cancelled(held, "plan 'both'", ids[k]);
        expect_bad(y, "plan 'both'", ids[k]);
        expect_bad(z, "plan 'both'", ids[k]);
        test_expect_words(x, WORDS, 1);
        /* The first part runs; the other one's does not begin. */
        sketch_open(&s);
        add_stay(&s, cpu, false, x);
        add_map(&s, other, x, y);
        add_map(&s, cpu, y, z);
        rota_plan *behind = sketch_compile(&s, h, "behind");
        hold_nodes();
        const rota_ticket ticket = submit(behind);
        until_begun();
        assert_ok(rota_ticket_cancel(ticket));
        ra_store_release(&stays, 0);
        expect_cancelled(ticket, "plan 'behind'", ids[k]);
        test_expect_words(x, WORDS, 7);
        expect_bad(y, "plan 'behind'", ids[k]);
        expect_bad(z, "plan 'behind'", ids[k]);
        assert_ok(rota_wait(submit(behind), 0));
        expect_mapped(z, 7, 2, ids[k]);
        rota_external_timeline_release(timeline);
        rota_plan_release(plan);
        rota_plan_release(behind);
        rota_buffer_release(x);
        rota_buffer_release(y);
        rota_buffer_release(z);
    }
    close_house(h);
}

/* Bytes that moved for a cancelled submission, and that it did not write, are good where they came to. */
static void moved(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t k = 1; k < KINDS; k++) {
        rota_device *cpu = h->devices[CPU], *other = h->devices[k];
        if (!other) continue;
        rota_buffer *x = filled(cpu, "x", 5), *y = filled(other, "y", 2), *z = filled(other, "z", 3);
        rota_plan *map = map_plan(h, other, x, y), *again = map_plan(h, other, x, z);
        rota_external_timeline *timeline = timeline_of(h);
        const rota_ticket held = submit_after(map, NULL, timeline);
        assert_ok(rota_ticket_cancel(held));
        expect_cancelled(held, "plan 'map'", ids[k]);
        assert_ok(rota_wait(submit(again), 0));
        expect_mapped(z, 5, 1, ids[k]);
        test_expect_words(x, WORDS, 5);
        expect_bad(y, "plan 'map'", ids[k]);
        rota_external_timeline_release(timeline);
        rota_plan_release(map);
        rota_plan_release(again);
        rota_buffer_release(x);
        rota_buffer_release(y);
        rota_buffer_release(z);
    }
    close_house(h);
}

/* ---- The host's reads and writes ---- */

static void host_case(house *h, rota_device *device, const char *on) {
    rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2);
    rota_plan *map = map_plan(h, device, x, y);
    rota_external_timeline *timeline = timeline_of(h);
    uint32_t words[WORDS];
    memset(words, 0xee, sizeof words);
    /* Both wait for a replay that is held: a write of what it reads, a read of what it writes. */
    const rota_ticket held = submit_after(map, NULL, timeline);
    uint32_t nine[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) nine[i] = 9;
    rota_ticket written, taken;
    assert_ok(rota_buffer_write(x, device, 0, nine, BYTES / 2, &written));
    assert_ok(rota_buffer_read_async(y, 0, words, BYTES, &taken));
    test_sequenced(taken);
    assert_ok(rota_ticket_cancel(written));
    assert_ok(rota_ticket_cancel(taken));
    assert_status(rota_poll(written), ROTA_BUSY);
    assert_status(rota_poll(taken), ROTA_BUSY);
    assert_ok(rota_external_timeline_signal(timeline, 1));
    assert_ok(rota_wait(held, 0));
    expect_cancelled(written, "write to buffer 'x'", on);
    expect_cancelled(taken, "read of buffer 'y'", on);
    expect_untouched(words, WORDS, on);
    expect_mapped(y, 1, 1, on); /* a read that was cancelled has done nothing to it */
    expect_inherited(rota_buffer_read(x, 0, words, 4), "write to buffer 'x'", on);
    assert_ok(rota_buffer_read(x, BYTES / 2, words, BYTES / 2)); /* beside it */
    for (uint32_t i = 0; i < WORDS / 2; i++) assert_int_equal(words[i], 1);
    assert_ok(rota_buffer_write(x, device, 0, nine, BYTES / 2, NULL));
    assert_ok(rota_buffer_read(x, 0, words, BYTES / 2));
    for (uint32_t i = 0; i < WORDS / 2; i++) assert_int_equal(words[i], 9);
    rota_external_timeline_release(timeline);
    rota_plan_release(map);
    rota_buffer_release(x);
    rota_buffer_release(y);
}
static void host(void **state) {
    (void)state;
    on_each(host_case);
}

/* ---- Released at once, and its inputs and outputs ---- */

static rota_plan *in_out(const house *h, rota_device *device, rota_buffer **out_in, rota_buffer **out_out,
                         rota_buffer *y) {
    sketch s;
    sketch_open(&s);
    assert_ok(rota_graph_buffer(s.graph, ROTA_BUFFER_INPUT, "in", BYTES, out_in));
    assert_ok(rota_graph_buffer(s.graph, ROTA_BUFFER_OUTPUT, "out", BYTES, out_out));
    add_map(&s, device, *out_in, y);
    add_map(&s, device, y, *out_out);
    return sketch_compile(&s, h, "in and out");
}

static void released_case(house *h, rota_device *device, const char *on) {
    rota_buffer *in, *out, *y = filled(device, "y", 2);
    rota_plan *plan = in_out(h, device, &in, &out, y);
    rota_external_timeline *timeline = timeline_of(h);
    uint32_t *given = malloc(BYTES), *brought = malloc(BYTES);
    assert_true(given && brought);
    for (uint32_t i = 0; i < WORDS; i++) given[i] = 3;
    memset(brought, 0xee, BYTES);
    rota_args *args;
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_args_set_input(args, in, given, BYTES, false));
    assert_ok(rota_args_set_output(args, out, brought, BYTES));
    /* A later one that writes the same memory has its turn. */
    const rota_ticket held = submit_after(plan, args, timeline);
    rota_ticket later;
    assert_ok(rota_submit_wait(plan, args, 0, &later));
    assert_ok(rota_ticket_cancel(held));
    expect_cancelled(held, "plan 'in and out'", on);
    assert_ok(rota_wait_inputs_taken(held, 0));
    assert_ok(rota_wait(later, 0));
    for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(brought[i], mapped(mapped(3, i), i));
    /* And by itself: nothing is written, and all of it may go as soon as the ticket has ended. */
    memset(brought, 0xee, BYTES);
    const rota_ticket last = submit_after(plan, args, timeline);
    rota_args_release(args);
    rota_plan_release(plan);
    rota_buffer_release(y);
    rota_external_timeline_release(timeline);
    test_nap_ms(2);
    assert_ok(rota_ticket_cancel(last));
    expect_cancelled(last, "plan 'in and out'", on);
    expect_untouched(brought, WORDS, on);
    free(given);
    free(brought);
}
static void released(void **state) {
    (void)state;
    on_each(released_case);
}

/* ---- Lost devices, and closing ---- */

/* Whatever the loss of its device does to it, it ends, and as one or the other. */
static void lost(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 6; round++) {
        house *h = open_house(false);
        rota_device *device = h->devices[ADVERSARY], *cpu = h->devices[CPU];
        rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2), *z = filled(cpu, "z", 3);
        rota_buffer *a = filled(device, "a", 4);
        sketch s;
        sketch_open(&s);
        add_map(&s, device, x, y);
        add_map(&s, cpu, y, z);
        rota_plan *plan = sketch_compile(&s, h, "both"), *other = map_plan(h, device, x, a);
        rota_external_timeline *timeline = timeline_of(h);
        const rota_ticket held = submit_after(plan, NULL, timeline);
        const rota_ticket twice = submit_after(plan, NULL, timeline);
        if (round & 1) assert_ok(rota_ticket_cancel(held));
        atomic_store(&h->options.faults.lost_in_works, 1);
        (void)rota_wait(submit(other), 0);
        if (!(round & 1)) assert_ok(rota_ticket_cancel(held));
        if (round & 2) assert_ok(rota_ticket_cancel(twice));
        const rota_status status = rota_wait(held, 0);
        assert_true(status == ROTA_CANCELLED || status == ROTA_DEVICE_LOST);
        /* One that is held ends no earlier than what it is held for, also of a lost device. */
        if (!(round & 2)) assert_ok(rota_external_timeline_signal(timeline, 1));
        const rota_status second = rota_wait(twice, 0);
        assert_true(second == ROTA_DEVICE_LOST || (round & 2 && second == ROTA_CANCELLED));
        assert_int_not_equal(rota_buffer_read(z, 0, &(uint32_t){0}, 4), ROTA_OK);
        rota_external_timeline_release(timeline);
        rota_plan_release(plan);
        rota_plan_release(other);
        rota_buffer_release(x);
        rota_buffer_release(y);
        rota_buffer_release(z);
        rota_buffer_release(a);
        close_house(h);
    }
}

static void note_status(void *user, rota_status status, const char *message) {
    (void)message;
    ra_store_release((_Atomic uint32_t *)user, (uint32_t)status);
}

/* Closed over what was cancelled just now, on every device. */
static void closed(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 8; round++) {
        house *h = open_house(false);
        _Atomic uint32_t said[KINDS];
        rota_external_timeline *timeline = timeline_of(h);
        for (uint32_t k = 0; k < KINDS; k++) {
            ra_store_relaxed(&said[k], ROTA_CANCELLED);
            if (!h->devices[k]) continue;
            rota_buffer *x = filled(h->devices[k], "x", 1), *y = filled(h->devices[k], "y", 2);
            rota_plan *map = map_plan(h, h->devices[k], x, y);
            const rota_ticket ticket = submit_after(map, NULL, timeline);
            assert_ok(rota_ticket_on_complete(ticket, note_status, &said[k]));
            assert_ok(rota_ticket_cancel(ticket));
            rota_plan_release(map);
            rota_buffer_release(x);
            rota_buffer_release(y);
        }
        test_nap_us((uint64_t)round * 300);
        rota_external_timeline_release(timeline);
        close_house(h);
        for (uint32_t k = 0; k < KINDS; k++) assert_int_equal(ra_load_acquire(&said[k]), ROTA_CANCELLED);
    }
}

/* ---- What it leaves behind ---- */

/* Nobody is asked any more once what was cancelled has ended and nothing counts as failed. */
static void forgotten(void **state) {
    (void)state;
    house *h = open_house(false);
    for (uint32_t k = 0; k < KINDS; k++) {
        rota_device *device = h->devices[k];
        if (!device) continue;
        rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2);
        rota_plan *map = map_plan(h, device, x, y);
        rota_external_timeline *timeline = timeline_of(h);
        const rota_ticket held = submit_after(map, NULL, timeline);
        test_sequenced(held);
        assert_ok(rota_ticket_cancel(held));
        expect_cancelled(held, "plan 'map'", ids[k]);
        assert_ok(rota_wait(submit(map), 0));
        expect_mapped(y, 1, 1, ids[k]);
        const uint64_t deadline = rota_deadline_after(SOON_NS);
        while (ra_load_seq_cst(&h->runtime->failed.active) != 0 && rota_clock_ns() < deadline) test_nap();
        assert_int_equal(ra_load_seq_cst(&h->runtime->failed.active), 0);
        rota_external_timeline_release(timeline);
        rota_plan_release(map);
        rota_buffer_release(x);
        rota_buffer_release(y);
    }
    close_house(h);
}

/* A ticket's end is told where it is exported, and through an eventfd, as that of one that failed. */
static void told(void **state) {
    (void)state;
    house *h = open_house(false);
    rota_device *device = h->devices[CPU];
    rota_buffer *x = filled(device, "x", 1), *y = filled(device, "y", 2);
    rota_plan *map = map_plan(h, device, x, y);
    rota_external_timeline *timeline = timeline_of(h), *out = timeline_of(h);
    const rota_ticket held = submit_after(map, NULL, timeline);
    assert_ok(rota_ticket_export(held, out, 4));
    _Atomic uint32_t said;
    ra_store_relaxed(&said, ROTA_BUSY);
    assert_ok(rota_ticket_on_complete(held, note_status, &said));
    assert_ok(rota_ticket_cancel(held));
    expect_cancelled(held, "plan 'map'", "told");
    uint64_t value = 0, deadline = rota_deadline_after(SOON_NS);
    while ((value < 4 || ra_load_acquire(&said) == ROTA_BUSY) && rota_clock_ns() < deadline) {
        test_nap();
        assert_ok(rota_external_timeline_value(out, &value));
    }
    assert_int_equal(value, 4);
    assert_int_equal(ra_load_acquire(&said), ROTA_CANCELLED);
    rota_external_timeline_release(timeline);
    rota_external_timeline_release(out);
    rota_plan_release(map);
    rota_buffer_release(x);
    rota_buffer_release(y);
    close_house(h);
}

/* With diagnostics the trace says so, and a wait that times out over what is held to its turn. */
static void traced(void **state) {
    (void)state;
    rota_runtime *runtime;
    rota_device *cpu;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.diagnostics = true), &runtime));
    assert_ok(rota_device_open(runtime, "cpu", &cpu));
    rota_buffer *x = filled(cpu, "x", 1);
    const test_node nodes[] = {{&test_increment, "first", {{x, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1},
                               {&test_increment, "second", {{x, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1}};
    rota_plan *plan = test_plan(cpu, "traced", nodes, 2);
    rota_external_timeline *timeline;
    assert_ok(rota_external_timeline_create(runtime, "frames", &timeline));
    const char *said[] = {"\"ph\":\"i\",\"s\":\"p\",\"name\":\"CANCELLED\"", "\"name\":\"first\""};
    for (uint32_t cancelled = 0; cancelled < 2; cancelled++) {
        const rota_ticket ticket = submit_after(plan, NULL, timeline);
        if (cancelled)
            assert_ok(rota_ticket_cancel(ticket));
        else
            assert_ok(rota_external_timeline_signal(timeline, 1));
        assert_status(rota_wait(ticket, 0), cancelled ? ROTA_CANCELLED : ROTA_OK);
        rota_sequencer_reap_now(runtime);
        char path[] = "/tmp/rota_trace_XXXXXX", text[8192] = {0};
        const int file = mkstemp(path);
        assert_true(file >= 0);
        (void)close(file);
        assert_ok(rota_plan_write_trace(plan, path));
        FILE *written = fopen(path, "r");
        assert_non_null(written);
        assert_true(fread(text, 1, sizeof text - 1, written) > 0);
        (void)fclose(written);
        (void)unlink(path);
        assert_int_equal(strstr(text, said[0]) != NULL, cancelled);
        assert_int_equal(strstr(text, said[1]) != NULL, !cancelled);
        rota_external_timeline_release(timeline);
        assert_ok(rota_external_timeline_create(runtime, "frames", &timeline));
    }
    rota_external_timeline_release(timeline);
    rota_plan_release(plan);
    rota_buffer_release(x);
    assert_ok(rota_runtime_close(runtime, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held),          cmocka_unit_test(running),        cmocka_unit_test(wide),
        cmocka_unit_test(unsequenced),   cmocka_unit_test(ended),          cmocka_unit_test(refused),
        cmocka_unit_test(from_callback), cmocka_unit_test(by_many),        cmocka_unit_test(spread),
        cmocka_unit_test(moved),         cmocka_unit_test(host),           cmocka_unit_test(released),
        cmocka_unit_test(lost),          cmocka_unit_test(closed),         cmocka_unit_test(forgotten),
        cmocka_unit_test(told),          cmocka_unit_test(traced),         cmocka_unit_test(in_turn),
        cmocka_unit_test(older_failure), cmocka_unit_test(both_cancelled), cmocka_unit_test(reads_failed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
