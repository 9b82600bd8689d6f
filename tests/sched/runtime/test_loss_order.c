/* An order of works that goes through a lost device: what was to come after a work there comes after what
 * that was to come after. Who reads a buffer is told what failed, though later writers have failed by then.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/shared/failed_ranges.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary.h"
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"
#include "tests/kit/sequenced.h"

enum { WORDS = 64, DEVICES = 3 };

/* The reader's device, the one that is lost, and another one. */
enum { READER, LOST, OTHER };

typedef struct world {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *devices[DEVICES];
    rota_buffer *x, *y, *z, *held;
    rota_plan *first, *copy, *second, *third, *busy;
    rota_ticket copied, read, last;
    uint32_t words[WORDS];
} world;

static world *world_open(void) {
    static const char *const ids[] = {"adversary", "adversary:1", "adversary:2"};
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    assert_ok(
        adversary_runtime_open(&w->options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u), &w->runtime));
    for (uint32_t d = 0; d < DEVICES; d++) assert_ok(rota_device_open(w->runtime, ids[d], &w->devices[d]));
    w->x = test_words(w->devices[READER], "x", WORDS, 1);
    w->y = test_words(w->devices[READER], "y", WORDS, 1);
    w->z = test_words(w->devices[OTHER], "z", WORDS, 1);
    w->held = test_words(w->devices[READER], "held", WORDS, 1);
    test_node copy = {
        &test_copy, "copy", {{w->x, 0, ROTA_WHOLE, ROTA_READ}, {w->y, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    w->first = test_plan_1(w->devices[LOST], "first", &test_gate, w->x, ROTA_READWRITE);
    w->second = test_plan_1(w->devices[LOST], "second", &test_increment, w->x, ROTA_READWRITE);
    test_node third = {
        &test_copy, "third", {{w->z, 0, ROTA_WHOLE, ROTA_READ}, {w->x, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    w->third = test_plan(w->devices[OTHER], "third", &third, 1);
    w->busy = test_plan_1(w->devices[READER], "busy", &test_gate, w->held, ROTA_READWRITE);
    w->copy = test_plan(w->devices[READER], "copy", &copy, 1);
    return w;
}

/* What the lost device writes to x never arrives where the read takes it from; later writers, on the lost
 * device and then on another one, come after the read, which has not begun. */
static void submit_all(world *w, bool stays) {
    test_gate_open(false);
    assert_ok(rota_submit_wait(w->first, NULL, 0, NULL));
    test_gates_running(1);
    assert_ok(rota_submit_wait(w->busy, NULL, 0, NULL));
    test_gates_running(2);
    if (stays) ra_store_seq_cst(&w->options.faults.submits_stay, 1u << LOST);
    assert_ok(rota_submit_wait(w->copy, NULL, 0, &w->copied));
    assert_ok(rota_buffer_read_async(w->x, 0, w->words, sizeof w->words, &w->read));
    assert_ok(rota_submit_wait(w->second, NULL, 0, NULL));
    assert_ok(rota_submit_wait(w->third, NULL, 0, &w->last));
    test_sequenced(w->last);
}

static void lose(world *w) {
    rota_device_set_lost(w->devices[LOST], "given up by the test");
    /* Who comes after what is lost knows it. */
    const rota_copies other = rota_residency_bit(w->x->residency, w->devices[OTHER]);
    while (rota_poison_copies(w->runtime, w->x, 0, sizeof w->words, other) == 0) test_nap();
    /* The last one's end is what later ones go by. */
    assert_status(rota_wait(w->last, 100000000u), ROTA_TIMEOUT);
    rota_sequencer_reap_now(w->runtime);
}

static void expect_failure(world *w) {
    assert_status(rota_wait(w->read, 0), ROTA_DEVICE_LOST);
    assert_status(rota_wait(w->copied, 0), ROTA_DEVICE_LOST);
    assert_status(rota_wait(w->last, 0), ROTA_DEVICE_LOST);
    assert_status(rota_buffer_read(w->x, 0, w->words, sizeof w->words), ROTA_DEVICE_LOST);
    test_expect_words(w->held, WORDS, 1);
}

static void world_close(world *w) {
    rota_plan *plans[] = {w->first, w->copy, w->second, w->third, w->busy};
    rota_buffer *buffers[] = {w->x, w->y, w->z, w->held};
    for (uint32_t i = 0; i < 5; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < 4; i++) rota_buffer_release(buffers[i]);
    (void)rota_runtime_close(w->runtime, 5000000000u);
    if (w->options.violations) fail_msg("%s", w->options.violation);
    free(w);
}

static void marks_stay_for_those_before(void **state) {
    (void)state;
    world *w = world_open();
    submit_all(w, false);
    lose(w);
    test_gate_open(true);
    expect_failure(w);
    world_close(w);
}

/* Its thread is in the driver and never looks at what it has been given since. */
static void nobody_waits_for_the_thread(void **state) {
    (void)state;
    world *w = world_open();
    submit_all(w, true);
    lose(w);
    test_gate_open(true);
    expect_failure(w);
    ra_store_seq_cst(&w->options.faults.submits_stay, 0);
    world_close(w);
}

/* ---- Of two devices that wait for each other ---- */

/* The reader's and the lost one are one GPU. */
typedef struct linked {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *devices[DEVICES];
    rota_buffer *x, *y, *z, *w;
    rota_plan *busy, *first, *fails, *look, *next, *last;
} linked;

static linked *linked_open(void) {
    static const char *const ids[] = {"adversary", "adversary:1", "adversary:2"};
    linked *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->options.shares_memory = l->options.timelines = true;
    const rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u);
    assert_ok(adversary_runtime_open(&l->options, &options, &l->runtime));
    for (uint32_t d = 0; d < DEVICES; d++) {
        if (d == OTHER) l->options.shares_memory = l->options.timelines = false;
        assert_ok(rota_device_open(l->runtime, ids[d], &l->devices[d]));
    }
    assert_int_not_equal(ra_load_relaxed(&l->devices[READER]->others.linked), 0);
    rota_device *reader = l->devices[READER], *lost = l->devices[LOST];
    l->x = test_words(reader, "x", WORDS, 1);
    l->y = test_words(reader, "y", WORDS, 2);
    l->w = test_words(reader, "w", WORDS, 3);
    l->z = test_words(l->devices[OTHER], "z", WORDS, 4);
    l->busy = test_plan_1(reader, "busy", &test_gate, l->w, ROTA_READWRITE);
    l->first = test_plan_1(lost, "first", &test_gate, l->x, ROTA_READWRITE);
    l->fails = test_plan_copy_kernel(reader, "fails", l->x, l->y);
    l->look = test_plan_copy_kernel(reader, "look", l->y, l->w);
    l->next = test_plan_1(lost, "next", &test_increment, l->y, ROTA_READWRITE);
    l->last = test_plan_copy_kernel(l->devices[OTHER], "last", l->z, l->y);
    return l;
}

/* Each of the two comes after works of the other one; the last but one, on the lost device, after the look at
 * what is to fail. It is with its device when this returns. */
static void begin_linked(linked *l, rota_ticket *out_look, rota_ticket *out_next) {
    test_gate_open(false);
    const uint64_t waits = l->options.timeline_waits;
    assert_ok(rota_submit_wait(l->busy, NULL, 0, NULL));
    assert_ok(rota_submit_wait(l->first, NULL, 0, NULL));
    test_gates_running(2);
    assert_ok(rota_submit_wait(l->fails, NULL, 0, NULL));
    assert_ok(rota_submit_wait(l->look, NULL, 0, out_look));
    assert_ok(rota_submit_wait(l->next, NULL, 0, out_next));
    test_sequenced(*out_next);
    const uint64_t deadline = rota_deadline_after(5000000000u);
    while (l->options.timeline_waits < waits + 2 && rota_clock_ns() < deadline) test_nap();
}

/* The lost one had been given what comes after the look, which it was to wait for itself. */
static void an_order_that_the_lost_one_was_to_keep(void **state) {
    (void)state;
    linked *l = linked_open();
    rota_ticket look, next, last;
    begin_linked(l, &look, &next); /* once round: from then on both signal what is waited for */
    test_gate_open(true);
    assert_ok(rota_wait(next, 0));
    const uint64_t waits = l->options.timeline_waits;
    begin_linked(l, &look, &next);
    assert_true(l->options.timeline_waits >= waits + 2);
    assert_ok(rota_submit_wait(l->last, NULL, 0, &last));
    test_sequenced(last);
    rota_device_set_lost(l->devices[LOST], "given up by the test");
    const rota_copies other = rota_residency_bit(l->y->residency, l->devices[OTHER]);
    while (rota_poison_copies(l->runtime, l->y, 0, WORDS * 4, other) == 0) test_nap();
    assert_status(rota_wait(last, 100000000u), ROTA_TIMEOUT);
    rota_sequencer_reap_now(l->runtime);
    test_gate_open(true);
    assert_status(rota_wait(look, 0), ROTA_DEVICE_LOST);
    assert_status(rota_wait(next, 0), ROTA_DEVICE_LOST);
    assert_status(rota_wait(last, 0), ROTA_DEVICE_LOST);
    rota_plan *plans[] = {l->busy, l->first, l->fails, l->look, l->next, l->last};
    rota_buffer *buffers[] = {l->x, l->y, l->z, l->w};
    for (uint32_t i = 0; i < 6; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < 4; i++) rota_buffer_release(buffers[i]);
    (void)rota_runtime_close(l->runtime, 5000000000u);
    if (l->options.violations) fail_msg("%s", l->options.violation);
    free(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_stay_for_those_before),
        cmocka_unit_test(nobody_waits_for_the_thread),
        cmocka_unit_test(an_order_that_the_lost_one_was_to_keep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
