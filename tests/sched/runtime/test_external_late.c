/* Points of the application's where order, deadlines and references cross. */
#include "tests/sched/runtime/external_kit.h"

#include <pthread.h>
#include <stdio.h>
#include "base/atomic.h"
#include "sched/runtime/shared/limits.h"

static rota_ticket submit_for(rota_plan *plan, rota_external_timeline *timeline, uint64_t value,
                              uint64_t timeout_ns) {
    const rota_external_point point = {timeline, value};
    rota_ticket ticket;
    assert_ok(rota_submit_with(
        plan, &ROTA_SUBMIT_OPTIONS(.after = &point, .after_count = 1, .after_timeout_ns = timeout_ns),
        &ticket));
    return ticket;
}

/* One with a short deadline is not kept by an earlier one of the same timeline that has a long one. */
static void deadlines_on(bool on_other) {
    enum { SHORT_NS = 60000000 };
    scene *s = open_scene(on_other, PATIENCE_NS);
    rota_buffer *x = test_words(s->device, "x", WORDS, 1), *y = test_words(s->device, "y", WORDS, 1);
    rota_plan *patient = test_plan_1(s->device, "patient", &test_increment, x, ROTA_READWRITE);
    rota_plan *hasty = test_plan_1(s->device, "hasty", &test_increment, y, ROTA_READWRITE);
    const rota_ticket first = submit_for(patient, s->timeline, 1, PATIENCE_NS);
    const rota_ticket second = submit_for(hasty, s->timeline, 2, SHORT_NS);
    assert_status(rota_wait(second, 100 * (uint64_t)SHORT_NS), ROTA_TIMEOUT);
    assert_status(rota_poll(second), ROTA_TIMEOUT); /* it has ended, and not only the wait for it */
    assert_status(rota_poll(first), ROTA_BUSY);
    assert_ok(rota_external_timeline_signal(s->timeline, 1));
    assert_ok(rota_wait(first, 0));
    rota_plan_release(patient);
    rota_plan_release(hasty);
    rota_buffer_release(x);
    rota_buffer_release(y);
    close_scene(s);
}
static void deadlines(void **state) {
    (void)state;
    both(deadlines_on);
}

/* Values of one timeline that fall: each is on a queue of its own, as long as there are any. */
static void falling_on(bool on_other) {
    enum { COUNT = 5 };
    scene *s = open_scene(on_other, PATIENCE_NS);
    rota_buffer *x[COUNT];
    rota_plan *plans[COUNT];
    rota_ticket tickets[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        x[i] = test_words(s->device, "x", WORDS, 1);
        plans[i] = test_plan_1(s->device, "falling", &test_increment, x[i], ROTA_READWRITE);
        tickets[i] = submit_after(plans[i], s->timeline, COUNT - i);
    }
    for (uint32_t i = COUNT; i-- > 0;) {
        assert_ok(rota_external_timeline_signal(s->timeline, COUNT - i));
        const rota_status status = rota_wait(tickets[i], 4000000000u);
        if (status != ROTA_OK) fail_msg("value %u: %s", COUNT - i, rota_last_error());
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        rota_plan_release(plans[i]);
        rota_buffer_release(x[i]);
    }
    close_scene(s);
}
static void falling(void **state) {
    (void)state;
    both(falling_on);
}

/* Submissions that come after several timelines, all of which rise, are a row, and share a queue: they leave others to
 * other timelines. One for which a value falls does not, as long as there are queues. */
static void rows_on(bool on_other) {
    enum { COUNT = 9, OTHERS = 3, FALLS = COUNT, ALL = COUNT + 1 + OTHERS };
    scene *s = open_scene(on_other, PATIENCE_NS);
    rota_external_timeline *second, *others[OTHERS];
    rota_buffer *x[ALL];
    rota_plan *plans[ALL];
    rota_ticket tickets[ALL];
    assert_ok(rota_external_timeline_create(s->runtime, "second", &second));
    for (uint32_t i = 0; i < ALL; i++) {
        x[i] = test_words(s->device, "x", WORDS, 1);
        plans[i] = test_plan_1(s->device, "row", &test_increment, x[i], ROTA_READWRITE);
        if (i <= FALLS) { /* the last of them at the first one's values */
            const rota_external_point points[] = {{s->timeline, i < FALLS ? i + 2 : 2},
                                                  {second, i < FALLS ? i + 1 : 1}};
            assert_ok(rota_submit_with(plans[i], &ROTA_SUBMIT_OPTIONS(.after = points, .after_count = 2),
                                       &tickets[i]));
        } else {
            assert_ok(rota_external_timeline_create(s->runtime, "other", &others[i - FALLS - 1]));
            tickets[i] = submit_after(plans[i], others[i - FALLS - 1], 1);
        }
    }
    for (uint32_t i = ALL; --i > FALLS;) {
        assert_ok(rota_external_timeline_signal(others[i - FALLS - 1], 1));
        assert_ok(rota_wait(tickets[i], 4000000000u));
        rota_external_timeline_release(others[i - FALLS - 1]);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_ok(rota_external_timeline_signal(s->timeline, i + 2));
        assert_status(rota_poll(tickets[i]), ROTA_BUSY);
        assert_ok(rota_external_timeline_signal(second, i + 1));
        assert_ok(rota_wait(tickets[i], 4000000000u));
        assert_ok(rota_wait(tickets[FALLS], 4000000000u));
    }
    rota_external_timeline_release(second);
    for (uint32_t i = 0; i < ALL; i++) {
        rota_plan_release(plans[i]);
        rota_buffer_release(x[i]);
    }
    close_scene(s);
}
static void rows(void **state) {
    (void)state;
    both(rows_on);
}

/* Fills the slot's buffer with 9, with so many instances. */
static rota_plan *filling_plan(scene *s, uint32_t instances, rota_graph **out_graph, rota_buffer **out_slot) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_SLOT, "slot", BYTES, out_slot));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_fill(recorder, *out_slot, 0, BYTES, 9, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(
        s->runtime, graph,
        &ROTA_COMPILE_OPTIONS(.devices = &s->device, .device_count = 1, .instances = instances), &plan));
    *out_graph = graph; /* the slot's */
    return plan;
}

/* A plan whose one instance a held replay has: what waits for that instance goes with it, and keeps no other work. */
static void instance_on(bool on_other) {
    enum { HELD = 5 };
    scene *s = open_scene(on_other, PATIENCE_NS);
    rota_device *elsewhere = on_other ? s->cpu : s->other;
    rota_external_timeline *timelines[HELD];
    rota_buffer *x[HELD], *slot, *filled[2], *source = test_words(elsewhere, "source", WORDS, 3);
    rota_plan *plans[HELD];
    rota_ticket tickets[HELD], filling[2];
    rota_args *args;
    rota_graph *graph;
    rota_plan *plan = filling_plan(s, 1, &graph, &slot);
    assert_ok(rota_args_create(plan, &args));
    for (uint32_t i = 0; i < HELD; i++) {
        assert_ok(rota_external_timeline_create(s->runtime, "held", &timelines[i]));
        x[i] = test_words(s->device, "x", WORDS, 1);
        plans[i] = test_plan_1(s->device, "held", &test_increment, x[i], ROTA_READWRITE);
        if (i + 1 < HELD) tickets[i] = submit_after(plans[i], timelines[i], 1);
    }
    const rota_external_point point = {timelines[HELD - 1], 1};
    for (uint32_t i = 0; i < 2; i++) {
        filled[i] = test_words(s->device, "filled", WORDS, 1);
        assert_ok(rota_args_set_buffer(args, slot, filled[i]));
        assert_ok(rota_submit_with(
            plan, &ROTA_SUBMIT_OPTIONS(.args = args, .after = i ? NULL : &point, .after_count = i ? 0 : 1),
            &filling[i]));
    }
    for (uint32_t i = 0; i < 4; i++) { /* late as well: for copies between the devices */
        rota_buffer *y = test_buffer(s->runtime, "y", BYTES);
        const test_node node = {
            &test_copy, "copy", {{source, 0, ROTA_WHOLE, ROTA_READWRITE}, {y, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
        rota_plan *copies = test_plan(i % 2 ? elsewhere : s->device, "copies", &node, 1);
        assert_ok(rota_wait(submit(copies), 4000000000u));
        rota_plan_release(copies);
        rota_buffer_release(y);
    }
    assert_status(rota_poll(filling[0]), ROTA_BUSY);
    assert_ok(rota_external_timeline_signal(timelines[HELD - 1], 1));
    for (uint32_t i = 0; i < 2; i++) { /* though the other timelines have not moved */
        assert_ok(rota_wait(filling[i], 4000000000u));
        test_expect_words(filled[i], WORDS, 9);
        rota_buffer_release(filled[i]);
    }
    for (uint32_t i = 0; i < HELD; i++) {
        if (i + 1 < HELD) assert_status(rota_poll(tickets[i]), ROTA_BUSY);
        assert_ok(rota_external_timeline_signal(timelines[i], 1));
        if (i + 1 < HELD) assert_ok(rota_wait(tickets[i], 0));
        rota_external_timeline_release(timelines[i]);
        rota_plan_release(plans[i]);
        rota_buffer_release(x[i]);
    }
    rota_args_release(args);
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(source);
    close_scene(s);
}
static void instance(void **state) {
    (void)state;
    both(instance_on);
}

/* One row, though of each buffer's two increments the second comes after the first: it leaves queues to another
 * timeline. `apart`: all firsts are before all seconds. */
static void pairs_on(bool on_other, bool apart) {
    enum { PAIRS = 5, COUNT = 2 * PAIRS };
    scene *s = open_scene(on_other, PATIENCE_NS);
    rota_external_timeline *other;
    rota_buffer *x[PAIRS], *y = test_words(s->device, "y", WORDS, 1);
    rota_plan *plans[PAIRS], *alone = test_plan_1(s->device, "alone", &test_increment, y, ROTA_READWRITE);
    rota_ticket tickets[COUNT];
    assert_ok(rota_external_timeline_create(s->runtime, "other", &other));
    for (uint32_t i = 0; i < PAIRS; i++) {
        x[i] = test_words(s->device, "x", WORDS, 1);
        plans[i] = test_plan_1(s->device, "pair", &test_increment, x[i], ROTA_READWRITE);
    }
    for (uint32_t i = 0; i < COUNT; i++)
        tickets[i] = submit_after(plans[apart ? i % PAIRS : i / 2], s->timeline, i + 1);
    const rota_ticket ticket = submit_after(alone, other, 1);
    test_nap_ns(MOMENT_NS);
    assert_ok(rota_external_timeline_signal(other, 1));
    assert_ok(rota_wait(ticket, 4000000000u));
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_status(rota_poll(tickets[i]), ROTA_BUSY);
        assert_ok(rota_external_timeline_signal(s->timeline, i + 1));
        assert_ok(rota_wait(tickets[i], 4000000000u));
    }
    for (uint32_t i = 0; i < PAIRS; i++) {
        test_expect_words(x[i], WORDS, 3);
        rota_plan_release(plans[i]);
        rota_buffer_release(x[i]);
    }
    rota_external_timeline_release(other);
    rota_plan_release(alone);
    rota_buffer_release(y);
    close_scene(s);
}
static void pairs(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 4; i++) pairs_on(i & 1u, i & 2u);
}

/* A sixth row shares a queue with another one; what comes later of it takes one that is free by then. */
static void sixth_on(bool on_other) {
    enum { ROWS = 6, SIXTH = ROWS - 1, COUNT = ROWS + 1 };
    scene *s = open_scene(on_other, PATIENCE_NS);
    rota_external_timeline *timelines[ROWS];
    rota_buffer *x[COUNT];
    rota_plan *plans[COUNT];
    rota_ticket tickets[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        x[i] = test_words(s->device, "x", WORDS, 1);
        plans[i] = test_plan_1(s->device, "row", &test_increment, x[i], ROTA_READWRITE);
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        assert_ok(rota_external_timeline_create(s->runtime, "row", &timelines[i]));
        tickets[i] = submit_after(plans[i], timelines[i], 1);
    }
    test_nap_ns(MOMENT_NS);
    for (uint32_t i = 1; i < SIXTH; i++) {
        assert_ok(rota_external_timeline_signal(timelines[i], 1));
        assert_ok(rota_wait(tickets[i], 0));
    }
    tickets[ROWS] = submit_after(plans[ROWS], timelines[SIXTH], 2);
    test_nap_ns(MOMENT_NS);
    assert_ok(rota_external_timeline_signal(timelines[SIXTH], 2));
    assert_ok(rota_wait(tickets[ROWS], 4000000000u));
    assert_status(rota_poll(tickets[0]), ROTA_BUSY);
    assert_ok(rota_external_timeline_signal(timelines[0], 1));
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_ok(rota_wait(tickets[i], 0));
        rota_plan_release(plans[i]);
        rota_buffer_release(x[i]);
        if (i < ROWS) rota_external_timeline_release(timelines[i]);
    }
    close_scene(s);
}
static void sixth(void **state) {
    (void)state;
    both(sixth_on);
}

/* One of a row waits for its instance as well, at which a driver stays: nothing of other plans is kept with it, neither
 * where its point is reached nor where its deadline passes. */
static void building(void **state) {
    (void)state;
    const uint64_t short_ns = 2000000000;
    scene *s = open_scene(true, PATIENCE_NS);
    rota_external_timeline *other;
    rota_buffer *x[2], *slot, *filled[2];
    rota_plan *plans[2];
    rota_ticket tickets[2], filling[2];
    rota_args *args;
    rota_graph *graph;
    rota_plan *plan = filling_plan(s, 2, &graph, &slot);
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_external_timeline_create(s->runtime, "other", &other));
    ra_store_seq_cst(&s->options.faults.instances_stay_from,
                     ra_load_seq_cst(&s->options.instance_creations) + 3); /* but for the two plans below */
    for (uint32_t i = 0; i < 2; i++) {
        x[i] = test_words(s->device, "x", WORDS, 1);
        plans[i] = test_plan_1(s->device, "plan", &test_increment, x[i], ROTA_READWRITE);
    }
    for (uint32_t i = 0; i < 2; i++) {
        const rota_external_point point = {i ? s->timeline : other, 1};
        filled[i] = test_words(s->device, "filled", WORDS, 1);
        assert_ok(rota_args_set_buffer(args, slot, filled[i]));
        assert_ok(rota_submit_with(plan,
                                   &ROTA_SUBMIT_OPTIONS(.args = args, .after = &point, .after_count = 1,
                                                        .after_timeout_ns = short_ns),
                                   &filling[i]));
    }
    tickets[0] = submit_for(plans[0], s->timeline, 1, short_ns);
    tickets[1] = submit_for(plans[1], s->timeline, 2, short_ns);
    test_nap_ns(MOMENT_NS);
    assert_ok(rota_external_timeline_signal(other, 1));
    assert_ok(rota_external_timeline_signal(s->timeline, 1));
    assert_ok(rota_wait(tickets[0], 20000000000u));
    assert_status(rota_wait(tickets[1], 20000000000u), ROTA_TIMEOUT);
    assert_status(rota_poll(tickets[1]), ROTA_TIMEOUT); /* it has ended, and not only the wait for it */
    assert_status(rota_poll(filling[1]), ROTA_BUSY);
    ra_store_seq_cst(&s->options.faults.instances_stay_from, 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(rota_wait(filling[i], 0));
        test_expect_words(filled[i], WORDS, 9);
        rota_buffer_release(filled[i]);
        rota_plan_release(plans[i]);
        rota_buffer_release(x[i]);
    }
    rota_external_timeline_release(other);
    rota_args_release(args);
    rota_plan_release(plan);
    rota_graph_release(graph);
    close_scene(s);
}

/* Points behind as many words as a plan may have, in a lane's ring of words that stands where the rest is too short. */
static void words(void **state) {
    (void)state;
    scene *s = open_scene(false, PATIENCE_NS);
    rota_buffer *x = test_words(s->device, "x", WORDS, 1);
    rota_external_point points[ROTA_AFTER_MAX];
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_args *args;
    assert_ok(rota_graph_create(NULL, &graph));
    for (uint32_t i = 0; i < ROTA_PAYLOAD_WORDS_MAX; i++) {
        char name[16];
        rota_slot slot;
        (void)snprintf(name, sizeof name, "%u", i);
        assert_ok(rota_graph_slot(graph, name, 4, &slot));
    }
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_fill(recorder, x, 0, BYTES, 9, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(s->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &s->device, .device_count = 1),
                           &plan));
    assert_ok(rota_args_create(plan, &args));
    for (uint32_t i = 0; i < ROTA_AFTER_MAX; i++) points[i] = (rota_external_point){s->timeline, 1};
    for (uint32_t count = 1; count <= ROTA_AFTER_MAX; count++) {
        rota_ticket ticket;
        assert_ok(rota_submit(plan, args, &ticket));
        assert_ok(rota_wait(ticket, 0));
        assert_ok(rota_submit_with(plan,
                                   &ROTA_SUBMIT_OPTIONS(.args = args, .timeout_ns = 4000000000u,
                                                        .after = points, .after_count = count),
                                   &ticket));
        assert_ok(rota_external_timeline_signal(s->timeline, 1));
        assert_ok(rota_wait(ticket, 0));
    }
    rota_args_release(args);
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(x);
    close_scene(s);
}

/* A timeline of a runtime that was closed, by a later one that has its handle. */
static void stale(void **state) {
    (void)state;
    scene *s = open_scene(false, PATIENCE_NS);
    rota_external_timeline *old;
    assert_ok(rota_external_timeline_create(s->runtime, "old", &old));
    const rota_runtime *handle = s->runtime;
    close_scene(s);
    s = open_scene(false, PATIENCE_NS);
    assert_ptr_equal(s->runtime, handle);
    rota_buffer *x = test_words(s->device, "x", WORDS, 1);
    rota_plan *plan = test_plan_1(s->device, "plan", &test_increment, x, ROTA_READWRITE);
    const rota_external_point point = {old, 1};
    const rota_status status =
        rota_submit_with(plan, &ROTA_SUBMIT_OPTIONS(.after = &point, .after_count = 1), NULL);
    (void)rota_external_timeline_signal(old, 1);
    assert_status(status, ROTA_WRONG_STATE);
    rota_external_timeline_release(old);
    rota_plan_release(plan);
    rota_buffer_release(x);
    close_scene(s);
}

/* ---- Who waits for what is held releases the timeline while it is signalled ---- */

typedef struct halt {
    rota_external_timeline *timeline;
    uint32_t target, passed; /* which stop of the signal's it halts at, and how many it has passed */
    _Atomic uint32_t is_halted, goes_on;
} halt;

static void stop(void *user, const rota_stop_site *site) {
    halt *h = user;
    (void)site;
    if (h->passed++ != h->target) return;
    ra_store_release(&h->is_halted, 1);
    while (!ra_load_acquire(&h->goes_on)) test_nap_ns(100000);
}

static void *signal_halting(void *user) {
    halt *h = user;
    rota_stop_user = h;
    rota_stop_hook = stop;
    (void)rota_external_timeline_signal(h->timeline, 1);
    rota_stop_hook = NULL;
    ra_store_release(&h->is_halted, 1); /* there are no more stops */
    return NULL;
}

static void released(void **state) {
    (void)state;
    for (uint32_t target = 0; target < 16; target++) {
        scene *s = open_scene(false, PATIENCE_NS);
        rota_buffer *x = test_words(s->device, "x", WORDS, 1);
        rota_plan *plan = test_plan_1(s->device, "plan", &test_increment, x, ROTA_READWRITE);
        halt h = {.target = target};
        assert_ok(rota_external_timeline_create(s->runtime, "once", &h.timeline));
        const rota_ticket ticket = submit_after(plan, h.timeline, 1);
        test_nap_ns(MOMENT_NS);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, signal_halting, &h), 0);
        while (!ra_load_acquire(&h.is_halted)) test_nap_ns(100000);
        uint64_t value;
        assert_ok(rota_external_timeline_value(h.timeline, &value));
        if (value == 0) ra_store_release(&h.goes_on, 1); /* the reference is lent to the call until then */
        assert_ok(rota_wait(ticket, 0));
        rota_external_timeline_release(h.timeline);
        for (uint32_t i = 0; i < 4; i++)
            assert_ok(rota_wait(submit(plan), 0)); /* the held one is forgotten */
        test_nap_ns(MOMENT_NS);
        ra_store_release(&h.goes_on, 1);
        assert_int_equal(pthread_join(thread, NULL), 0);
        rota_plan_release(plan);
        rota_buffer_release(x);
        close_scene(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(deadlines), cmocka_unit_test(falling),
                                       cmocka_unit_test(rows),      cmocka_unit_test(instance),
                                       cmocka_unit_test(pairs),     cmocka_unit_test(sixth),
                                       cmocka_unit_test(building),  cmocka_unit_test(words),
                                       cmocka_unit_test(stale),     cmocka_unit_test(released)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
