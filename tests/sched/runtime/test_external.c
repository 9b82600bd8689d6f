/* Points of the application's: a submission that comes after one is held until it is reached, what depends on it waits
 * with it, and everything else passes; and tickets reach points in turn. */
#include "tests/sched/runtime/external_kit.h"

#include <pthread.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"

/* ---- Held, and let go ---- */

static void held_on(bool on_other) {
    scene *s = open_scene(on_other, PATIENCE_NS);
    rota_buffer *x = test_words(s->device, "x", WORDS, 1), *y = test_words(s->device, "y", WORDS, 5);
    rota_plan *held = test_plan_1(s->device, "held", &test_increment, x, ROTA_READWRITE);
    rota_plan *free_plan = test_plan_1(s->device, "free", &test_increment, y, ROTA_READWRITE);
    const rota_ticket ticket = submit_after(held, s->timeline, 2), later = submit(held);
    uint64_t number, number_later;
    for (uint32_t i = 0; i < 20; i++) assert_ok(rota_wait(submit(free_plan), 0));
    test_expect_words(y, WORDS, 25);
    assert_ok(rota_external_timeline_signal(s->timeline, 1));
    test_nap_ns(MOMENT_NS);
    assert_status(rota_poll(ticket), ROTA_BUSY);
    assert_status(rota_poll(later), ROTA_BUSY);
    assert_status(rota_wait(ticket, MOMENT_NS), ROTA_TIMEOUT);
    expect_said("held for external timeline 'frames' at 1, of which 2 is waited for");
    assert_ok(rota_external_timeline_signal(s->timeline, 2));
    assert_ok(rota_wait(ticket, 0));
    assert_ok(rota_wait(later, 0));
    test_expect_words(x, WORDS, 3);
    assert_int_equal(ra_load_relaxed(&s->options.acquires),
                     on_other); /* what came before the point is visible */
    assert_ok(rota_ticket_number(ticket, &number));
    assert_ok(rota_ticket_number(later, &number_later));
    assert_true(number < number_later);
    /* Reached before: as if there were no point, but for that. */
    assert_ok(rota_wait(submit_after(held, s->timeline, 2), 0));
    test_expect_words(x, WORDS, 4);
    assert_int_equal(ra_load_relaxed(&s->options.acquires), 2 * on_other);
    rota_plan_release(held);
    rota_plan_release(free_plan);
    rota_buffer_release(x);
    rota_buffer_release(y);
    close_scene(s);
}
static void held(void **state) {
    (void)state;
    both(held_on);
}

/* A value is not taken back, and the application's writes before a signal are seen. */
static void values(void **state) {
    (void)state;
    scene *s = open_scene(false, PATIENCE_NS);
    uint64_t value;
    assert_ok(rota_external_timeline_value(s->timeline, &value));
    assert_int_equal(value, 0);
    assert_ok(rota_external_timeline_signal(s->timeline, 10));
    assert_ok(rota_external_timeline_signal(s->timeline, 4));
    assert_ok(rota_external_timeline_value(s->timeline, &value));
    assert_int_equal(value, 10);
    close_scene(s);
}

/* All of several points; and what is moved between devices for a plan is moved only then. */
static void moves(void **state) {
    (void)state;
    scene *s = open_scene(true, PATIENCE_NS);
    static _Alignas(64) uint32_t words[WORDS];
    memset(words, 0, sizeof words);
    rota_buffer *x;
    assert_ok(rota_buffer_adopt(s->cpu,
                                &ROTA_ADOPT_OPTIONS(.name = "x", .memory = words, .size_bytes = BYTES), &x));
    rota_external_timeline *second;
    assert_ok(rota_external_timeline_create(s->runtime, NULL, &second));
    rota_buffer *y = test_buffer(s->runtime, "y", BYTES);
    const test_node node = {
        &test_copy, "copy", {{x, 0, ROTA_WHOLE, ROTA_READ}, {y, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    rota_plan *plan = test_plan(s->other, "copies", &node, 1);
    const rota_external_point points[] = {{s->timeline, 1}, {second, 7}};
    rota_ticket ticket;
    assert_ok(rota_submit_with(plan, &ROTA_SUBMIT_OPTIONS(.after = points, .after_count = 2, .no_wait = true),
                               &ticket));
    test_nap_ns(MOMENT_NS);
    assert_ok(rota_external_timeline_signal(s->timeline, 1));
    test_nap_ns(MOMENT_NS);
    for (uint32_t i = 0; i < WORDS; i++) words[i] = 77; /* the application's until the second point */
    assert_status(rota_poll(ticket), ROTA_BUSY);
    assert_ok(rota_external_timeline_signal(second, 8));
    rota_external_timeline_release(second);
    assert_ok(rota_wait(ticket, 0));
    test_expect_words(y, WORDS, 77);
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(y);
    close_scene(s);
}

/* Arguments travel along, and an argument set may be changed at once. */
static void arguments(void **state) {
    (void)state;
    scene *s = open_scene(false, PATIENCE_NS);
    rota_graph *graph;
    rota_recorder *recorder;
    rota_buffer *slot, *x[2];
    rota_plan *plan;
    rota_args *args;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_SLOT, "slot", BYTES, &slot));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_fill(recorder, slot, 0, BYTES, 9, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(s->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &s->device, .device_count = 1),
                           &plan));
    assert_ok(rota_args_create(plan, &args));
    const rota_external_point point = {s->timeline, 1};
    for (uint32_t i = 0; i < 2; i++) {
        x[i] = test_words(s->device, "x", WORDS, 1);
        assert_ok(rota_args_set_buffer(args, slot, x[i]));
        assert_ok(rota_submit_with(
            plan, &ROTA_SUBMIT_OPTIONS(.args = args, .after = &point, .after_count = 1), NULL));
    }
    rota_args_release(args);
    assert_ok(rota_external_timeline_signal(s->timeline, 1));
    for (uint32_t i = 0; i < 2; i++) {
        test_expect_words(x[i], WORDS, 9);
        rota_buffer_release(x[i]);
    }
    rota_plan_release(plan);
    rota_graph_release(graph);
    close_scene(s);
}

/* Replays in a row, whose hazards are counted on, with held ones in between: more buffers than resolving is worth. */
static void replays_on(bool on_other) {
    scene *s = open_scene(on_other, PATIENCE_NS);
    enum { BUFFERS = 12, ROUNDS = 60 };
    rota_buffer *x[BUFFERS];
    test_node nodes[BUFFERS];
    for (uint32_t i = 0; i < BUFFERS; i++) {
        x[i] = test_words(s->device, "x", WORDS, i);
        nodes[i] = (test_node){&test_increment, "node", {{x[i], 0, ROTA_WHOLE, ROTA_READWRITE}}, 1};
    }
    rota_plan *plan = test_plan(s->device, "many", nodes, BUFFERS);
    uint64_t value = 0;
    rota_ticket last = {0};
    for (uint32_t round = 0; round < ROUNDS; round++) {
        last = round % 7 == 3 ? submit_after(plan, s->timeline, ++value) : submit(plan);
        if (round % 7 == 5) assert_ok(rota_external_timeline_signal(s->timeline, value));
    }
    assert_ok(rota_external_timeline_signal(s->timeline, value));
    assert_ok(rota_wait(last, 0));
    for (uint32_t i = 0; i < BUFFERS; i++) {
        test_expect_words(x[i], WORDS, i + ROUNDS);
        rota_buffer_release(x[i]);
    }
    rota_plan_release(plan);
    close_scene(s);
}
static void replays(void **state) {
    (void)state;
    both(replays_on);
}

/* A plan on both devices, x there, y = x here, x again there: all parts are held, and all fail together. */
static void parts(void **state) {
    (void)state;
    scene *s = open_scene(false, PATIENCE_NS);
    rota_device *devices[] = {s->cpu, s->other};
    rota_buffer *x = test_words(s->other, "x", WORDS, 1), *y = test_buffer(s->runtime, "y", BYTES);
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < 3; i++) {
        const rota_access accesses[] = {{x, 0, ROTA_WHOLE, i == 1 ? ROTA_READ : ROTA_READWRITE},
                                        {y, 0, ROTA_WHOLE, ROTA_WRITE}};
        assert_ok(rota_record_kernel(recorder,
                                     &ROTA_KERNEL_NODE(.kernel = i == 1 ? &test_copy : &test_increment,
                                                       .accesses = accesses, .access_count = i == 1 ? 2 : 1,
                                                       .placement = {.device_plus_1 = i == 1 ? 1 : 2}),
                                     NULL));
    }
    rota_recorder_close(recorder);
    assert_ok(
        rota_compile(s->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = 2), &plan));
    rota_graph_release(graph);
    for (uint32_t round = 0; round < 6; round++) {
        const rota_ticket held = submit_after(plan, s->timeline, round + 1), next = submit(plan);
        test_nap_ns(MOMENT_NS / 4);
        assert_status(rota_poll(held), ROTA_BUSY);
        assert_ok(rota_external_timeline_signal(s->timeline, round + 1));
        assert_ok(rota_wait(next, 0));
        assert_ok(rota_poll(held));
        test_expect_words(x, WORDS, 1 + 4 * (round + 1));
        test_expect_words(y, WORDS, 4 * (round + 1));
    }
    const rota_external_point never = {s->timeline, 1000};
    rota_ticket ticket;
    assert_ok(rota_submit_with(
        plan, &ROTA_SUBMIT_OPTIONS(.after = &never, .after_count = 1, .after_timeout_ns = MOMENT_NS),
        &ticket));
    assert_status(rota_wait(ticket, 0), ROTA_TIMEOUT);
    expect_said("was held for external timeline 'frames' at 6, of which 1000 is waited for");
    uint32_t word;
    assert_int_not_equal(rota_buffer_read(x, 0, &word, 4), ROTA_OK);
    assert_int_not_equal(rota_buffer_read(y, 0, &word, 4), ROTA_OK);
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(y);
    close_scene(s);
}

/* What is held for one timeline holds up nothing that is held for another, in whatever order they move; and no copy
 * between devices, which is late as well, is held up by any of them, however many there are. */
enum { APART = 5, HELD = 9 };
static void apart_on(bool on_other) {
    scene *s = open_scene(on_other, PATIENCE_NS);
    rota_external_timeline *timelines[HELD];
    rota_buffer *x[HELD], *source = test_words(s->device == s->cpu ? s->other : s->cpu, "source", WORDS, 3);
    rota_plan *plans[HELD];
    rota_ticket first[HELD], second[HELD];
    for (uint32_t i = 0; i < HELD; i++) {
        assert_ok(rota_external_timeline_create(s->runtime, "apart", &timelines[i]));
        x[i] = test_words(s->device, "x", WORDS, 1);
        plans[i] = test_plan_1(s->device, "apart", &test_increment, x[i], ROTA_READWRITE);
    }
    for (uint32_t i = 0; i < APART; i++) first[i] = submit_after(plans[i], timelines[i], 1);
    for (uint32_t i = 0; i < APART; i++) second[i] = submit_after(plans[i], timelines[i], 2);
    for (uint32_t i = APART; i-- > 0;) {
        assert_ok(rota_external_timeline_signal(timelines[i], 1));
        assert_ok(rota_wait(first[i], 0));
    }
    for (uint32_t i = APART; i < HELD; i++) second[i] = submit_after(plans[i], timelines[i], 2);
    for (uint32_t i = 0; i < 4; i++) {
        rota_buffer *y = test_buffer(s->runtime, "y", BYTES);
        const test_node node = {
            &test_copy, "copy", {{source, 0, ROTA_WHOLE, ROTA_READWRITE}, {y, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
        rota_plan *plan = test_plan(i % 2 ? s->other : s->cpu, "copies", &node, 1);
        assert_ok(rota_wait(submit(plan), 0));
        test_expect_words(y, WORDS, 3);
        rota_plan_release(plan);
        rota_buffer_release(y);
    }
    for (uint32_t i = 0; i < HELD; i++) assert_status(rota_poll(second[i]), ROTA_BUSY);
    for (uint32_t i = 0; i < HELD; i++) assert_ok(rota_external_timeline_signal(timelines[i], 2));
    for (uint32_t i = 0; i < HELD; i++) {
        test_expect_words(x[i], WORDS, i < APART ? 3 : 2);
        rota_external_timeline_release(timelines[i]);
        rota_plan_release(plans[i]);
        rota_buffer_release(x[i]);
    }
    rota_buffer_release(source);
    close_scene(s);
}
static void apart(void **state) {
    (void)state;
    both(apart_on);
}

/* A device that waits for another one's held work longer than its deadline takes nobody for lost. Once it is held no
 * more, the device is to get on within the deadline, which a busy machine's does, too, where that is a second. */
static void patience_on(bool on_other) {
    enum { TIMEOUT_NS = 1000000000 };
    scene *s = open_scene(on_other, TIMEOUT_NS);
    rota_buffer *x = test_words(s->device, "x", WORDS, 1), *y = test_buffer(s->runtime, "y", BYTES);
    rota_plan *plan = test_plan_1(s->device, "held", &test_increment, x, ROTA_READWRITE);
    const test_node node = {
        &test_copy, "copy", {{x, 0, ROTA_WHOLE, ROTA_READ}, {y, 0, ROTA_WHOLE, ROTA_WRITE}}, 2};
    rota_plan *copies = test_plan(on_other ? s->cpu : s->other, "copies", &node, 1);
    const rota_external_point point = {s->timeline, 1};
    rota_ticket ticket;
    assert_ok(rota_submit_with(
        plan, &ROTA_SUBMIT_OPTIONS(.after = &point, .after_count = 1, .after_timeout_ns = PATIENCE_NS),
        &ticket));
    const rota_ticket after = submit(copies);
    test_nap_ns(3 * (uint64_t)TIMEOUT_NS / 2);
    assert_status(rota_poll(after), ROTA_BUSY);
    assert_ok(rota_external_timeline_signal(s->timeline, 1));
    assert_ok(rota_wait(ticket, PATIENCE_NS));
    assert_ok(rota_wait(after, PATIENCE_NS));
    test_expect_words(y, WORDS, 2);
    rota_plan_release(plan);
    rota_plan_release(copies);
    rota_buffer_release(x);
    rota_buffer_release(y);
    close_scene(s);
}
static void patience(void **state) {
    (void)state;
    both(patience_on);
}

/* ---- Points that tickets reach ---- */

static void exported(void **state) {
    (void)state;
    scene *s = open_scene(false, PATIENCE_NS);
    rota_buffer *x = test_words(s->cpu, "x", WORDS, 0), *y = test_words(s->other, "y", WORDS, 0);
    rota_plan *first = test_plan_1(s->cpu, "first", &test_gate, x, ROTA_READWRITE);
    rota_plan *second = test_plan_1(s->other, "second", &test_increment, y, ROTA_READWRITE);
    test_gate_open(false);
    const rota_ticket a = submit(first);
    assert_ok(rota_ticket_export(a, s->timeline, 6));
    const rota_ticket b = submit_after(second, s->timeline, 6);
    test_nap_ns(MOMENT_NS);
    uint64_t value;
    assert_ok(rota_external_timeline_value(s->timeline, &value));
    assert_int_equal(value, 0);
    assert_status(rota_poll(b), ROTA_BUSY);
    test_gate_open(true);
    assert_ok(rota_wait(b, 0));
    assert_ok(rota_poll(a));
    assert_ok(rota_external_timeline_value(s->timeline, &value));
    assert_int_equal(value, 6);
    assert_ok(rota_ticket_export(a, s->timeline, 9)); /* of one that has ended */
    for (uint64_t until = rota_deadline_after(PATIENCE_NS); value != 9 && rota_clock_ns() < until;)
        assert_ok(rota_external_timeline_value(s->timeline, &value));
    assert_int_equal(value, 9);
    rota_plan_release(first);
    rota_plan_release(second);
    rota_buffer_release(x);
    rota_buffer_release(y);
    close_scene(s);
}

static void refused(void **state) {
    (void)state;
    scene *s = open_scene(false, PATIENCE_NS), *t = open_scene(false, PATIENCE_NS);
    rota_buffer *x = test_words(s->device, "x", WORDS, 1);
    rota_plan *plan = test_plan_1(s->device, "plan", &test_increment, x, ROTA_READWRITE);
    rota_external_point points[ROTA_AFTER_MAX + 1] = {{0}};
    rota_ticket ticket = submit(plan);
    assert_status(rota_submit_with(plan, &ROTA_SUBMIT_OPTIONS(.after = points, .after_count = 1), NULL),
                  ROTA_INVALID_ARGUMENT);
    expect_said("after[0].timeline is NULL");
    assert_status(rota_submit_with(plan, &ROTA_SUBMIT_OPTIONS(.after_count = 1), NULL),
                  ROTA_INVALID_ARGUMENT);
    assert_status(rota_submit_with(
                      plan, &ROTA_SUBMIT_OPTIONS(.after = points, .after_count = ROTA_AFTER_MAX + 1), NULL),
                  ROTA_INVALID_ARGUMENT);
    points[0] = (rota_external_point){t->timeline, 1};
    assert_status(rota_submit_with(plan, &ROTA_SUBMIT_OPTIONS(.after = points, .after_count = 1), NULL),
                  ROTA_INVALID_ARGUMENT);
    expect_said("of another runtime");
    points[0] = (rota_external_point){s->timeline, 1};
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *wide;
    char name[] = "00";
    assert_ok(rota_graph_create(NULL, &graph));
    for (uint32_t i = 0; i < 150; i++) {
        rota_slot slot;
        name[0] = (char)('0' + i / 50), name[1] = (char)('0' + i % 50);
        assert_ok(rota_graph_slot(graph, name, 4, &slot));
    }
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_fill(recorder, x, 0, BYTES, 9, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(s->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &s->device, .device_count = 1),
                           &wide));
    assert_status(rota_submit_with(wide, &ROTA_SUBMIT_OPTIONS(.after = points, .after_count = 1), NULL),
                  ROTA_INVALID_ARGUMENT);
    expect_said("needs an argument set");
    rota_plan_release(wide);
    rota_graph_release(graph);
    assert_status(rota_ticket_export(ticket, t->timeline, 1), ROTA_INVALID_ARGUMENT);
    assert_status(rota_ticket_export((rota_ticket){0}, s->timeline, 1), ROTA_INVALID_ARGUMENT);
    assert_ok(rota_wait(ticket, 0));
    rota_plan_release(plan);
    rota_buffer_release(x);
    close_scene(s);
    close_scene(t);
}

/* ---- Many at once ---- */

enum { THREADS = 6 };
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { STEPS = 100 };
#else
enum { STEPS = 400 };
#endif

typedef struct worker {
    scene *s;
    rota_plan *own, *shared;
    rota_external_timeline *timeline;
    pthread_t thread, signaller;
} worker;

/* Each step is submitted after a point that its own signaller reaches, and later ones without. */
static void *submit_many(void *user) {
    worker *w = user;
    for (uint32_t i = 1; i <= STEPS; i++) {
        (void)submit_after(w->own, w->timeline, i);
        if (i % 3 == 0) (void)submit(w->own);
        if (i % 5 == 0) (void)submit_after(w->shared, w->timeline, i);
    }
    return NULL;
}
static void *signal_many(void *user) {
    worker *w = user;
    for (uint32_t i = 1; i <= STEPS; i += 1 + i % 3) {
        assert_ok(rota_external_timeline_signal(w->timeline, i));
        if (i % 16 == 0) test_nap_ns(50000);
    }
    assert_ok(rota_external_timeline_signal(w->timeline, STEPS));
    return NULL;
}

static void crowd_on(bool on_other) {
    scene *s = open_scene(on_other, PATIENCE_NS);
    worker workers[THREADS];
    rota_buffer *own[THREADS], *shared = test_words(s->device, "shared", WORDS, 0);
    rota_plan *shared_plan = test_plan_1(s->device, "shared", &test_increment, shared, ROTA_READWRITE);
    for (uint32_t t = 0; t < THREADS; t++) {
        own[t] = test_words(t % 2 ? s->device : s->cpu, "own", WORDS, 0);
        workers[t] = (worker){.s = s, .shared = shared_plan};
        workers[t].own =
            test_plan_1(t % 2 ? s->device : s->cpu, "own", &test_increment, own[t], ROTA_READWRITE);
        assert_ok(rota_external_timeline_create(s->runtime, "own", &workers[t].timeline));
    }
    for (uint32_t t = 0; t < THREADS; t++) {
        assert_int_equal(pthread_create(&workers[t].thread, NULL, submit_many, &workers[t]), 0);
        assert_int_equal(pthread_create(&workers[t].signaller, NULL, signal_many, &workers[t]), 0);
    }
    for (uint32_t t = 0; t < THREADS; t++) {
        assert_int_equal(pthread_join(workers[t].thread, NULL), 0);
        assert_int_equal(pthread_join(workers[t].signaller, NULL), 0);
        rota_external_timeline_release(workers[t].timeline);
    }
    for (uint32_t t = 0; t < THREADS; t++) {
        test_expect_words(own[t], WORDS, STEPS + STEPS / 3);
        rota_plan_release(workers[t].own);
        rota_buffer_release(own[t]);
    }
    test_expect_words(shared, WORDS, THREADS * (STEPS / 5));
    rota_plan_release(shared_plan);
    rota_buffer_release(shared);
    close_scene(s);
}
static void crowd(void **state) {
    (void)state;
    both(crowd_on);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held),      cmocka_unit_test(values),   cmocka_unit_test(moves),
        cmocka_unit_test(arguments), cmocka_unit_test(replays),  cmocka_unit_test(parts),
        cmocka_unit_test(apart),     cmocka_unit_test(patience), cmocka_unit_test(exported),
        cmocka_unit_test(refused),   cmocka_unit_test(crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
