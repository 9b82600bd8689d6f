/* Instances that are made while replays overlap: how long a driver may be at one before who waits for it
 * gives up, and that nobody else waits for it (sched/runtime/plans/builder.c). */
#include "tests/kit/runtime_support.h"

#include <stdlib.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/adversary/adversary.h"
#include "tests/kit/nap.h"

enum { WORDS = 64 };
#define SOON_NS 8000000000u
#define LATE_NS 20000000000u

typedef struct stage {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *device;
} stage;

static stage *open_stage(uint64_t timeout_ns) {
    stage *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->options.seed = 5;
    assert_ok(
        adversary_runtime_open(&s->options, &ROTA_RUNTIME_OPTIONS(.timeout_ns = timeout_ns), &s->runtime));
    assert_ok(rota_device_open(s->runtime, "adversary", &s->device));
    return s;
}

static void close_stage(stage *s) {
    assert_ok(rota_runtime_close(s->runtime, 5000000000u));
    if (s->options.violations) fail_msg("%s", s->options.violation);
    free(s);
}

/* A plan of which each replay in flight needs an instance of its own: its OUTPUT and y become its INPUT. */
typedef struct replayed {
    rota_plan *plan;
    rota_buffer *in, *out, *y;
    rota_args *args[3];
    uint32_t from[3][WORDS], to[3][WORDS];
    rota_ticket tickets[3];
} replayed;

static replayed *new_replayed(stage *s) {
    replayed *r = calloc(1, sizeof *r);
    rota_graph *graph;
    rota_recorder *recorder;
    assert_non_null(r);
    r->y = test_words(s->device, "y", WORDS, 1);
    test_expect_words(r->y, 1, 1); /* it is sequenced: overlap counts submissions */
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "replayed"), &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_INPUT, "in", WORDS * 4, &r->in));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", WORDS * 4, &r->out));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < 2; i++) {
        rota_access accesses[] = {{r->in, 0, ROTA_WHOLE, ROTA_READ},
                                  {i ? r->out : r->y, 0, ROTA_WHOLE, ROTA_WRITE}};
        assert_ok(rota_record_kernel(
            recorder, &ROTA_KERNEL_NODE(.kernel = &test_copy, .accesses = accesses, .access_count = 2),
            NULL));
    }
    rota_recorder_close(recorder);
    assert_ok(rota_compile(s->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &s->device, .device_count = 1),
                           &r->plan));
    rota_graph_release(graph);
    for (uint32_t i = 0; i < 3; i++) {
        r->from[i][WORDS - 1] = 10 + i;
        assert_ok(rota_args_create(r->plan, &r->args[i]));
        assert_ok(rota_args_set_input(r->args[i], r->in, r->from[i], sizeof r->from[i], false));
        assert_ok(rota_args_set_output(r->args[i], r->out, r->to[i], sizeof r->to[i]));
    }
    return r;
}

static void free_replayed(replayed *r) {
    for (uint32_t i = 0; i < 3; i++) rota_args_release(r->args[i]);
    rota_plan_release(r->plan);
    rota_buffer_release(r->y);
    free(r);
}

/* Replays at once: the device takes nothing before the last of them is sequenced. */
static void overlap(stage *s, replayed *r, uint32_t count) {
    rota_runtime_stats stats = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(s->runtime, &stats);
    const uint64_t wanted = stats.submissions + count, deadline = rota_deadline_after(SOON_NS);
    ra_store_seq_cst(&s->options.faults.submits_stay, 1);
    for (uint32_t i = 0; i < count; i++) assert_ok(rota_submit_wait(r->plan, r->args[i], 0, &r->tickets[i]));
    while (stats.submissions < wanted && rota_clock_ns() < deadline) {
        static _Atomic uint32_t never;
        (void)rota_futex_wait(&never, 0, rota_deadline_after(50000));
        rota_runtime_get_stats(s->runtime, &stats);
    }
    assert_true(stats.submissions == wanted);
    ra_store_seq_cst(&s->options.faults.submits_stay, 0);
}

/* It takes as long as the plan's first did, longer than the deadline: who waits for it, at once or through
 * what comes after it, waits for that long. */
static void a_long_making_is_waited_for(void **state) {
    (void)state;
    stage *s = open_stage(1000000000u);
    ra_store_seq_cst(&s->options.faults.instance_ns, 1600000000u);
    replayed *r = new_replayed(s);
    const uint64_t begin = rota_clock_ns();
    rota_ticket read;
    uint32_t words[WORDS];
    const uint32_t made = ra_load_seq_cst(&s->options.instance_creations);
    overlap(s, r, 2);
    assert_ok(rota_buffer_read_async(r->y, 0, words, sizeof words, &read));
    assert_ok(rota_wait(read, 0));
    assert_true(rota_clock_ns() - begin >= 1600000000u);
    assert_int_equal(ra_load_seq_cst(&s->options.instance_creations), made + 1);
    assert_int_equal(words[WORDS - 1], 11);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(rota_wait(r->tickets[i], 0));
        assert_int_equal(r->to[i][WORDS - 1], 10 + i);
    }
    free_replayed(r);
    close_stage(s);
}

/* One that a driver does not come back from ends no later for it (P2). */
static void a_making_that_never_ends(void **state) {
    (void)state;
    stage *s = open_stage(500000000u);
    replayed *r = new_replayed(s);
    ra_store_seq_cst(&s->options.faults.instances_stay_from,
                     ra_load_seq_cst(&s->options.instance_creations) + 1);
    overlap(s, r, 2);
    const uint64_t begin = rota_clock_ns();
    assert_status(rota_wait(r->tickets[1], 0), ROTA_TIMEOUT);
    assert_in_range(rota_clock_ns() - begin, 400000000u, 5000000000u);
    ra_store_seq_cst(&s->options.faults.instances_stay_from, 0);
    assert_ok(rota_wait(r->tickets[1], SOON_NS));
    free_replayed(r);
    close_stage(s);
}

/* While a driver is at one, replays of other plans, and those of its own that it is not for, have what is
 * there. */
static void a_long_making_keeps_no_others(void **state) {
    (void)state;
    stage *s = open_stage(LATE_NS);
    replayed *slow = new_replayed(s), *other = new_replayed(s);
    rota_buffer *x = test_words(s->device, "x", WORDS, 0), *t;
    test_expect_words(x, 1, 0);
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *shared; /* with two arenas, whose replays go round them */
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "t", WORDS * 4, &t));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rota_access accesses[] = {{x, 0, ROTA_WHOLE, ROTA_READ}, {t, 0, ROTA_WHOLE, ROTA_WRITE}};
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = &test_copy, .accesses = accesses, .access_count = 2), NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(s->runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &s->device, .device_count = 1, .arenas = 2),
                           &shared));
    rota_graph_release(graph);
    const uint32_t made = ra_load_seq_cst(&s->options.instance_creations);
    ra_store_seq_cst(&s->options.faults.instances_stay_from, made + 1);
    overlap(s, slow, 3);
    overlap(s, other, 3);
    assert_ok(rota_wait(slow->tickets[0], SOON_NS));
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(rota_wait(other->tickets[i], SOON_NS));
        assert_int_equal(other->to[i][WORDS - 1], 10 + i);
        rota_ticket ticket;
        assert_ok(rota_submit_wait(shared, NULL, 0, &ticket));
        assert_ok(rota_wait(ticket, SOON_NS));
    }
    /* The driver is at it, once its thread has had its turn. */
    const uint64_t deadline = rota_deadline_after(SOON_NS);
    while (ra_load_seq_cst(&s->options.instance_creations) == made && rota_clock_ns() < deadline)
        test_nap_us(50);
    assert_int_equal(ra_load_seq_cst(&s->options.instance_creations), made + 1);
    assert_int_equal(rota_poll(slow->tickets[1]), ROTA_BUSY);
    ra_store_seq_cst(&s->options.faults.instances_stay_from, 0);
    for (uint32_t i = 1; i < 3; i++) assert_ok(rota_wait(slow->tickets[i], SOON_NS));
    /* And made they are, when the driver is through with what it was at. */
    overlap(s, other, 3);
    for (uint32_t i = 0; i < 3; i++) assert_ok(rota_wait(other->tickets[i], SOON_NS));
    const uint64_t made_by = rota_deadline_after(SOON_NS);
    while (ra_load_seq_cst(&s->options.instance_creations) <= made + 1 && rota_clock_ns() < made_by)
        test_nap_us(50);
    assert_true(ra_load_seq_cst(&s->options.instance_creations) > made + 1);
    free_replayed(slow);
    free_replayed(other);
    rota_plan_release(shared);
    rota_buffer_release(x);
    close_stage(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_making_is_waited_for),
        cmocka_unit_test(a_making_that_never_ends),
        cmocka_unit_test(a_long_making_keeps_no_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
