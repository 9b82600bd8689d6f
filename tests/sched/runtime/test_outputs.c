/* OUTPUT memory: written in the order of submissions wherever replays share it, whatever devices they run on
 * and however those write it; by nobody once a later ticket over it has ended; and not at all for a replay
 * that failed. What shares nothing waits for nothing. */
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/log.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/order/deliver.h"
#include "sched/runtime/order/order.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary.h"
#include "tests/kit/nap.h"
#include "tests/kit/random.h"
#include "tests/kit/runtime_support.h"

#define WORDS 512u
#define PATIENCE_NS 5000000000u
#define SHORT_NS 30000000u /* that a ticket is seen not to end */

/* ---- A runtime with the adversary's two devices, which use staging memory, and the CPU ---- */

typedef struct bench {
    struct bench *next;
    adversary_options options;
    rota_runtime *runtime;
    rota_device *devices[3];
    test_hold hold;
} bench;

static bench *open_bench(void) {
    bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    rota_runtime_options options =
        ROTA_RUNTIME_OPTIONS(.timeout_ns = 4 * (uint64_t)PATIENCE_NS, .worker_threads = 2,
                             .log = {test_hold_log, &b->hold, ROTA_LOG_WARNING});
    assert_ok(adversary_runtime_open(&b->options, &options, &b->runtime));
    assert_ok(rota_device_open(b->runtime, "adversary", &b->devices[0]));
    assert_ok(rota_device_open(b->runtime, "adversary:1", &b->devices[1]));
    assert_ok(rota_device_open(b->runtime, "cpu", &b->devices[2]));
    return b;
}

static void close_bench(bench *b) {
    assert_ok(rota_runtime_close(b->runtime, PATIENCE_NS));
    if (b->options.violations) fail_msg("%s", b->options.violation);
    free(b);
}

/* A device that is given up may look at its options for as long as it runs. */
static void close_after_loss(bench *b) {
    static bench *kept;
    (void)rota_runtime_close(b->runtime, PATIENCE_NS);
    if (b->options.violations) fail_msg("%s", b->options.violation);
    b->next = kept;
    kept = b;
}

/* A plan whose OUTPUT of `words` words gets what a buffer of its own has, all `value`; with `gated`, once the
 * gate is open. */
typedef struct source {
    rota_buffer *from, *output;
    rota_plan *plan;
    uint32_t words;
} source;

static source make_from(bench *b, uint32_t device, uint32_t words, rota_buffer *from, bool gated) {
    source s = {.words = words, .from = from};
    rota_graph *graph;
    rota_recorder *recorder;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "source"), &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", words * 4, &s.output));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rota_access access = {s.from, 0, ROTA_WHOLE, ROTA_READWRITE};
    if (gated)
        assert_ok(rota_record_kernel(
            recorder, &ROTA_KERNEL_NODE(.kernel = &test_gate, .accesses = &access, .access_count = 1), NULL));
    assert_ok(rota_record_copy(recorder, s.output, 0, s.from, 0, words * 4, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(
        b->runtime, graph,
        &ROTA_COMPILE_OPTIONS(.name = "source", .devices = &b->devices[device], .device_count = 1), &s.plan));
    rota_graph_release(graph);
    return s;
}

static source make(bench *b, uint32_t device, uint32_t words, uint32_t value, bool gated) {
    return make_from(b, device, words, test_words(b->devices[device], "from", words, value), gated);
}

static rota_ticket submit(const source *s, uint32_t *memory) {
    rota_args *args;
    rota_ticket ticket;
    assert_ok(rota_args_create(s->plan, &args));
    assert_ok(rota_args_set_output(args, s->output, memory, s->words * 4));
    assert_ok(rota_submit_wait(s->plan, args, 0, &ticket));
    rota_args_release(args);
    return ticket;
}

static void drop(source *s) {
    rota_plan_release(s->plan);
    rota_buffer_release(s->from);
}

static void expect_words(const uint32_t *memory, uint32_t begin, uint32_t end, uint32_t value) {
    for (uint32_t i = begin; i < end; i++)
        if (memory[i] != value) fail_msg("word %u is %u, expected %u", i, memory[i], value);
}

/* ---- Order ---- */

/* On each pair of devices: the older one is held up, the newer one would be through. Its ticket ends after
 * the older one's, and its value stays. On one device of the adversary nothing passes a gate. */
static void the_newest_value_stays(void **state) {
    (void)state;
    bench *b = open_bench();
    for (uint32_t older = 0; older < 3; older++)
        for (uint32_t newer = 0; newer < 3; newer++) {
            if (older == newer && older != 2) continue;
            uint32_t memory[WORDS] = {0};
            source first = make(b, older, WORDS, 1, true), second = make(b, newer, WORDS, 2, false);
            test_gate_open(false);
            rota_ticket t1 = submit(&first, memory);
            test_gates_running(1);
            rota_ticket t2 = submit(&second, memory);
            assert_status(rota_wait(t2, SHORT_NS), ROTA_TIMEOUT);
            expect_words(memory, 0, WORDS, 0);
            test_gate_open(true);
            assert_ok(rota_wait(t2, 0));
            assert_ok(rota_poll(t1));
            expect_words(memory, 0, WORDS, 2);
            drop(&first);
            drop(&second);
        }
    close_bench(b);
}

/* Each overlaps the one before, in part: [0, 256), [128, 384) and [256, 512) words, the first held up. */
static void overlaps_are_ordered_one_after_the_other(void **state) {
    (void)state;
    bench *b = open_bench();
    for (uint32_t last = 1; last < 3; last++) {
        uint32_t memory[WORDS] = {0};
        source first = make(b, 0, 256, 1, true), second = make(b, 1, 256, 2, false),
               third = make(b, last, 256, 3, false), beside = make(b, last, 128, 4, false);
        test_gate_open(false);
        rota_ticket t1 = submit(&first, memory);
        test_gates_running(1);
        rota_ticket t2 = submit(&second, memory + 128), t3 = submit(&third, memory + 256);
        rota_ticket t4 = submit(&beside, memory + 384); /* of the third's only */
        assert_status(rota_wait(t4, SHORT_NS), ROTA_TIMEOUT);
        assert_int_equal(rota_poll(t2), ROTA_BUSY);
        assert_int_equal(rota_poll(t3), ROTA_BUSY);
        expect_words(memory, 0, WORDS, 0);
        test_gate_open(true);
        assert_ok(rota_wait(t4, 0));
        assert_ok(rota_poll(t3));
        assert_ok(rota_poll(t2));
        assert_ok(rota_poll(t1));
        expect_words(memory, 0, 128, 1);
        expect_words(memory, 128, 256, 2);
        expect_words(memory, 256, 384, 3);
        expect_words(memory, 384, WORDS, 4);
        drop(&first);
        drop(&second);
        drop(&third);
        drop(&beside);
    }
    close_bench(b);
}

/* What shares no memory with the one that is held up ends, also where replays of its own plan, more than that
 * has instances, wait for their turn. */
static void nothing_else_waits(void **state) {
    (void)state;
    enum { MANY = 40 };
    bench *b = open_bench();
    uint32_t memory[WORDS] = {0}, others[2][WORDS] = {{0}};
    source first = make(b, 0, WORDS, 1, true), second = make(b, 1, WORDS, 2, false),
           third = make(b, 2, WORDS, 3, false);
    rota_ticket waiting[MANY];
    test_gate_open(false);
    rota_ticket t1 = submit(&first, memory);
    test_gates_running(1);
    for (uint32_t i = 0; i < MANY; i++) waiting[i] = submit(i % 4 ? &second : &third, memory);
    assert_ok(rota_wait(submit(&second, others[0]), PATIENCE_NS));
    assert_ok(rota_wait(submit(&third, others[1]), PATIENCE_NS));
    expect_words(others[0], 0, WORDS, 2);
    expect_words(others[1], 0, WORDS, 3);
    for (uint32_t i = 0; i < MANY; i++) assert_int_equal(rota_poll(waiting[i]), ROTA_BUSY);
    test_gate_open(true);
    assert_ok(rota_wait(waiting[MANY - 1], 0));
    for (uint32_t i = 0; i < MANY; i++) assert_ok(rota_poll(waiting[i]));
    assert_ok(rota_poll(t1));
    expect_words(memory, 0, WORDS, 2);
    drop(&first);
    drop(&second);
    drop(&third);
    close_bench(b);
}

/* A replay that fails before it gets to a device, over memory that an older one will write: its ticket ends
 * afterwards, since who waits for it may free the memory then. */
static void a_failed_ticket_ends_in_its_turn(void **state) {
    (void)state;
    bench *b = open_bench();
    uint32_t memory[WORDS] = {0}, other[WORDS] = {0};
    source first = make(b, 0, WORDS, 1, true), second = make(b, 1, WORDS, 2, false);
    source undefined = make_from(b, 2, WORDS, test_buffer(b->runtime, "never written", WORDS * 4), false);
    test_gate_open(false);
    rota_ticket t1 = submit(&first, memory);
    test_gates_running(1);
    rota_ticket failed = submit(&undefined, memory), t2 = submit(&second, memory);
    assert_status(rota_wait(submit(&undefined, other), 0), ROTA_UNDEFINED_DATA);
    assert_status(rota_wait(failed, SHORT_NS), ROTA_TIMEOUT);
    assert_int_equal(rota_poll(t2), ROTA_BUSY);
    test_gate_open(true);
    assert_status(rota_wait(failed, 0), ROTA_UNDEFINED_DATA);
    assert_ok(rota_poll(t1));
    assert_ok(rota_wait(t2, 0));
    expect_words(memory, 0, WORDS, 2);
    expect_words(other, 0, WORDS, 0);
    drop(&first);
    drop(&second);
    drop(&undefined);
    close_bench(b);
}

/* The same for one whose device is lost meanwhile. */
static void a_lost_ticket_ends_in_its_turn(void **state) {
    (void)state;
    bench *b = open_bench();
    static uint32_t memory[WORDS];
    memset(memory, 0, sizeof memory);
    source first = make(b, 0, WORDS, 1, true), second = make(b, 1, WORDS, 2, false);
    rota_plan *before = test_plan_1(b->devices[1], "before", &test_increment, second.from, ROTA_READWRITE);
    test_gate_open(false);
    rota_ticket t1 = submit(&first, memory);
    test_gates_running(1);
    b->options.faults.lost_in_works = 1; /* of what the second waits for: the first is at its gate */
    assert_ok(rota_submit_wait(before, NULL, 0, NULL));
    rota_ticket t2 = submit(&second, memory);
    const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (!rota_device_is_lost(b->devices[1]) && rota_clock_ns() < deadline) test_nap();
    assert_true(rota_device_is_lost(b->devices[1]));
    assert_status(rota_wait(t2, SHORT_NS), ROTA_TIMEOUT);
    test_gate_open(true);
    assert_status(rota_wait(t2, 0), ROTA_DEVICE_LOST);
    assert_ok(rota_poll(t1));
    expect_words(memory, 0, WORDS, 1);
    rota_plan_release(before);
    drop(&first);
    drop(&second);
    close_after_loss(b);
}

/* ---- Failures ---- */

/* A replay of which the device ran nothing, since what it reads has failed: its staging memory holds what was
 * there before. */
static void a_failed_replay_writes_nothing(void **state) {
    (void)state;
    bench *b = open_bench();
    uint32_t memory[WORDS];
    source s = make(b, 0, WORDS, 1, false);
    rota_plan *bad = test_plan_1(b->devices[2], "bad", &test_failing, s.from, ROTA_WRITE);
    assert_ok(rota_wait(submit(&s, memory), 0));
    expect_words(memory, 0, WORDS, 1);
    memset(memory, 0x5a, sizeof memory);
    test_fail = 1;
    assert_ok(rota_submit_wait(bad, NULL, 0, NULL));
    rota_ticket ticket = submit(&s, memory);
    assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
    test_fail = 0;
    expect_words(memory, 0, WORDS, 0x5a5a5a5a);
    rota_plan_release(bad);
    drop(&s);
    close_bench(b);
}

/* A replay whose delivery waits for its turn when the buffer that it wrote, bound to a slot, is freed: what
 * becomes of it then, with failures noted, does not look into that. */
static void a_slots_buffer_is_not_looked_into(void **state) {
    (void)state;
    bench *b = open_bench();
    uint32_t memory[WORDS] = {0};
    rota_buffer *bad = test_words(b->devices[2], "bad", WORDS, 0), *slot, *output;
    rota_plan *fails = test_plan_1(b->devices[2], "fails", &test_failing, bad, ROTA_WRITE), *plan;
    source first = make(b, 0, WORDS, 1, true);
    rota_buffer *from = test_words(b->devices[2], "from", WORDS, 2),
                *bound = test_words(b->devices[2], "bound", WORDS, 0);
    rota_graph *graph;
    rota_recorder *recorder;
    rota_args *args;
    rota_ticket ticket;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_recorder_buffer(recorder, ROTA_BUFFER_SLOT, "slot", WORDS * 4, &slot));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", WORDS * 4, &output));
    assert_ok(rota_record_copy(recorder, slot, 0, from, 0, WORDS * 4, NULL));
    assert_ok(rota_record_copy(recorder, output, 0, from, 0, WORDS * 4, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(b->runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &b->devices[2], .device_count = 1), &plan));
    rota_graph_release(graph);
    test_fail = 1;
    assert_ok(rota_submit_wait(fails, NULL, 0, &ticket));
    assert_status(rota_wait(ticket, 0), ROTA_NODE_FAILED);
    test_fail = 0;
    test_gate_open(false);
    (void)submit(&first, memory);
    test_gates_running(1);
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_args_set_buffer(args, slot, bound));
    assert_ok(rota_args_set_output(args, output, memory, WORDS * 4));
    assert_ok(rota_submit_wait(plan, args, 0, &ticket));
    rota_args_release(args);
    const uint64_t buffers = ra_load_relaxed(&b->runtime->objects.buffer_count);
    rota_buffer_release(bound);
    const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (ra_load_relaxed(&b->runtime->objects.buffer_count) == buffers && rota_clock_ns() < deadline)
        test_nap();
    assert_true(ra_load_relaxed(&b->runtime->objects.buffer_count) < buffers);
    assert_int_equal(rota_poll(ticket), ROTA_BUSY);
    test_gate_open(true);
    assert_ok(rota_wait(ticket, 0));
    rota_sequencer_reap_now(b->runtime);
    expect_words(memory, 0, WORDS, 2);
    rota_plan_release(fails);
    rota_plan_release(plan);
    rota_buffer_release(bad);
    rota_buffer_release(from);
    drop(&first);
    close_bench(b);
}

/* The replay's end was reached, and then its device was lost, before the completer, which is in the log's
 * function, looked: a caller may have been told of the loss and have freed the memory. */
static void a_lost_replay_writes_nothing(void **state) {
    (void)state;
    bench *b = open_bench();
    static uint32_t memory[WORDS];
    memset(memory, 0x5a, sizeof memory);
    source s = make(b, 0, WORDS, 1, false);
    rota_buffer *x = test_words(b->devices[0], "x", WORDS, 0), *y = test_words(b->devices[2], "y", WORDS, 0);
    rota_plan *step = test_plan_1(b->devices[0], "step", &test_increment, x, ROTA_READWRITE);
    rota_plan *last = test_plan_1(b->devices[0], "last", &test_increment, x, ROTA_READWRITE);
    rota_plan *any = test_plan_1(b->devices[2], "any", &test_increment, y, ROTA_READWRITE);
    rota_ticket ticket;
    assert_ok(rota_submit_wait(any, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    test_hold_begin(&b->hold, ticket);
    rota_ticket output = submit(&s, memory);
    assert_ok(rota_submit_wait(step, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    assert_int_equal(rota_poll(output), ROTA_BUSY);
    b->options.faults.lost_in_works = 1;
    assert_ok(rota_submit_wait(last, NULL, 0, NULL));
    const uint64_t deadline = rota_deadline_after(PATIENCE_NS);
    while (!rota_device_is_lost(b->devices[0]) && rota_clock_ns() < deadline) test_nap();
    assert_true(rota_device_is_lost(b->devices[0]));
    test_hold_end(&b->hold);
    assert_status(rota_wait(output, 0), ROTA_DEVICE_LOST);
    expect_words(memory, 0, WORDS, 0x5a5a5a5a);
    rota_plan_release(step);
    rota_plan_release(last);
    rota_plan_release(any);
    rota_buffer_release(x);
    rota_buffer_release(y);
    drop(&s);
    close_after_loss(b);
}

/* ---- The ranges, against a list of bytes ---- */

enum { SPACE = 96, LIVE = 24, STEPS = 60000 };

typedef struct model {
    rota_submission submissions[LIVE];
    uint64_t owner[SPACE]; /* number; 0: nobody */
    rota_runtime *runtime;
    rota_sequencer sequencer;
} model;

static uint32_t count_before(const model *m, const rota_submission *s, uint32_t begin, uint32_t end) {
    uint32_t count = 0;
    for (uint32_t i = begin; i < end; i++) {
        bool is_new = m->owner[i] != 0;
        for (uint32_t k = begin; k < i; k++) is_new = is_new && m->owner[k] != m->owner[i];
        if (!is_new) continue;
        count++;
        bool found = false;
        for (uint32_t w = 0; w < s->delivery.wait_count; w++)
            found = found || s->delivery.waits[w].number == m->owner[i];
        assert_true(found);
    }
    return count;
}

/* Each finds exactly the newest submission of each byte of its range before it, of those that are not over.
 */
static void ranges_are_taken_over(void **state) {
    (void)state;
    model *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->runtime = aligned_alloc(64, (sizeof *m->runtime + 63) / 64 * 64);
    assert_non_null(m->runtime);
    memset(m->runtime, 0, sizeof *m->runtime);
    m->runtime->sequencer = &m->sequencer;
    m->sequencer.runtime = m->runtime;
    static uint8_t bytes[SPACE];
    uint64_t random = 11, number = 0;
    uint32_t waits = 0;
    for (uint32_t step = 0; step < STEPS; step++) {
        rota_submission *s = &m->submissions[test_random(&random) % LIVE];
        if (s->number) {
            rota_deliver_end(m->runtime->sequencer, s);
            for (uint32_t i = 0; i < SPACE; i++)
                if (m->owner[i] == s->number) m->owner[i] = 0;
            s->number = 0;
            continue;
        }
        const uint32_t begin = (uint32_t)(test_random(&random) % SPACE);
        const uint32_t end = begin + 1 + (uint32_t)(test_random(&random) % (SPACE - begin));
        s->number = ++number;
        assert_true(rota_deliver_to(m->runtime->sequencer, &m->runtime->sequencer->wanted, s, bytes + begin,
                                    end - begin));
        const uint32_t expected = count_before(m, s, begin, end);
        assert_int_equal(s->delivery.wait_count, expected);
        waits += expected;
        for (uint32_t i = begin; i < end; i++) m->owner[i] = number;
    }
    assert_true(waits > STEPS / 2);
    for (uint32_t i = 0; i < LIVE; i++) {
        rota_deliver_end(m->runtime->sequencer, &m->submissions[i]);
        free(m->submissions[i].delivery.waits);
        free(m->submissions[i].delivery.points);
    }
    assert_null(m->runtime->sequencer->deliveries.root);
    rota_deliveries_free(m->runtime->sequencer);
    free(m->runtime);
    free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_taken_over),
        cmocka_unit_test(the_newest_value_stays),
        cmocka_unit_test(overlaps_are_ordered_one_after_the_other),
        cmocka_unit_test(nothing_else_waits),
        cmocka_unit_test(a_failed_ticket_ends_in_its_turn),
        cmocka_unit_test(a_lost_ticket_ends_in_its_turn),
        cmocka_unit_test(a_failed_replay_writes_nothing),
        cmocka_unit_test(a_lost_replay_writes_nothing),
        cmocka_unit_test(a_slots_buffer_is_not_looked_into),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
