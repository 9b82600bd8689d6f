/* Replays of one plan in a row, whose hazards are resolved once: the order between one replay and the next
 * holds also where nodes of a replay only add up, whose order the plan leaves open. And replays of plans that
 * share their transient memory. */
#include "tests/kit/runtime_support.h"

#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/order/replay.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/testing.h"
#include "tests/adversary/adversary.h"
#include "tests/kit/random.h"

enum { WORDS = 16, OTHERS = 10, REPLAYS = 8, ROUNDS = 24 };

static rota_status add_up(const rota_kernel_call *call) {
    uint32_t *x = call->operands[0];
    const uint32_t *y = call->operands[1];
    for (uint32_t i = 0; i < WORDS; i++) x[i] += y[i];
    return ROTA_OK;
}
static rota_status triple(const rota_kernel_call *call) {
    uint32_t *x = call->operands[0];
    for (uint32_t i = 0; i < WORDS; i++) x[i] = x[i] * 3 + 1;
    return ROTA_OK;
}
static const rota_kernel add_up_kernel = {.name = "add_up",
                                          .operand_count = 2,
                                          .flags =
                                              ROTA_KERNEL_ATOMIC_ACCUMULATE | ROTA_KERNEL_INTEGER_ACCUMULATE,
                                          .cpu = {.fn = add_up}};
static const rota_kernel triple_kernel = {.name = "triple", .operand_count = 1, .cpu = {.fn = triple}};

static void record(rota_recorder *recorder, const rota_kernel *kernel, uint32_t queue, rota_buffer *x,
                   rota_access_mode mode, rota_buffer *y) {
    const rota_access accesses[] = {{x, 0, ROTA_WHOLE, mode}, {y, 0, ROTA_WHOLE, ROTA_READ}};
    assert_ok(rota_record_kernel(recorder,
                                 &ROTA_KERNEL_NODE(.kernel = kernel, .accesses = accesses,
                                                   .access_count = kernel->operand_count,
                                                   .placement = {.queue_plus_1 = queue + 1}),
                                 NULL));
}

static void sums_stay_in_their_replay(void **state) {
    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        adversary_options options = {.seed = round};
        rota_runtime *runtime;
        rota_device *device;
        assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u, .queues_per_device = 4),
                                    &runtime));
        assert_ok(rota_runtime_add_driver(runtime, &adversary_driver, &options));
        assert_ok(rota_device_open(runtime, "adversary", &device));
        rota_buffer *x = test_words(device, "x", WORDS, 1), *a = test_words(device, "a", WORDS, 5),
                    *b = test_words(device, "b", WORDS, 7), *others[OTHERS];
        rota_graph *graph;
        rota_recorder *recorder;
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
        record(recorder, &add_up_kernel, 1, x, ROTA_ACCUMULATE, a);
        record(recorder, &add_up_kernel, 2, x, ROTA_ACCUMULATE, b);
        record(recorder, &triple_kernel, 0, x, ROTA_READWRITE, NULL);
        /* So many more that what a replay waits for is worth remembering. */
        for (uint32_t i = 0; i < OTHERS; i++) {
            others[i] = test_words(device, "other", WORDS, i);
            record(recorder, &triple_kernel, 3, others[i], ROTA_READWRITE, NULL);
        }
        rota_recorder_close(recorder);
        rota_plan *plan;
        assert_ok(rota_compile(
            runtime, graph,
            &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .queues = 4, .instances = 8),
            &plan));
        rota_ticket ticket;
        uint32_t expected = 1;
        for (uint32_t r = 0; r < REPLAYS; r++) {
            assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
            expected = (expected + 5 + 7) * 3 + 1;
        }
        assert_ok(rota_wait(ticket, 0));
        test_expect_words(x, WORDS, expected);
        rota_plan_release(plan);
        rota_graph_release(graph);
        for (uint32_t i = 0; i < OTHERS; i++) rota_buffer_release(others[i]);
        rota_buffer_release(x);
        rota_buffer_release(a);
        rota_buffer_release(b);
        assert_ok(rota_runtime_close(runtime, 0));
        assert_int_equal(options.violations, 0);
    }
}

/* x = 3 x + 1 by way of `stops` transients, one after the other, on a queue of its own. */
static rota_plan *by_transients(rota_device *device, const char *name, rota_buffer *x, uint32_t stops,
                                uint32_t queue, rota_plan *other) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_buffer *from = x;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < stops; i++) {
        rota_buffer *to;
        assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "stop", WORDS * 4, &to));
        const rota_access accesses[] = {{from, 0, ROTA_WHOLE, ROTA_READ}, {to, 0, ROTA_WHOLE, ROTA_WRITE}};
        assert_ok(
            rota_record_kernel(recorder,
                               &ROTA_KERNEL_NODE(.kernel = &test_copy, .accesses = accesses,
                                                 .access_count = 2, .placement = {.queue_plus_1 = queue + 1}),
                               NULL));
        from = to;
    }
    record(recorder, &triple_kernel, queue, from, ROTA_READWRITE, NULL);
    const rota_access back[] = {{from, 0, ROTA_WHOLE, ROTA_READ}, {x, 0, ROTA_WHOLE, ROTA_WRITE}};
    assert_ok(rota_record_kernel(recorder,
                                 &ROTA_KERNEL_NODE(.kernel = &test_copy, .accesses = back, .access_count = 2,
                                                   .placement = {.queue_plus_1 = queue + 1}),
                                 NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(rota_device_runtime(device), graph,
                           &ROTA_COMPILE_OPTIONS(.name = name, .devices = &device, .device_count = 1,
                                                 .queues = queue + 1, .instances = 8, .arena_of = other),
                           &plan));
    rota_graph_release(graph);
    return plan;
}

/* The first piece of a plan's arena. */
static const rota_exec_memory *arena_of(const rota_plan *plan) {
    const rota_partition *part = &plan->partitions[0];
    for (uint32_t m = 0; m < part->desc.memory_count; m++)
        if (part->memories[m].kind == ROTA_EXEC_BASE_ARENA) return plan->executable->arenas.memory[0][m];
    return NULL;
}

/* Nothing but the memory orders the replays of plans that touch different buffers. */
static void plans_share_an_arena(void **state) {
    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        adversary_options options = {.seed = round};
        rota_runtime *runtime;
        rota_device *device;
        assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u, .queues_per_device = 4),
                                    &runtime));
        assert_ok(rota_runtime_add_driver(runtime, &adversary_driver, &options));
        assert_ok(rota_device_open(runtime, "adversary", &device));
        rota_buffer *x = test_words(device, "x", WORDS, 1), *y = test_words(device, "y", WORDS, 2),
                    *z = test_words(device, "z", WORDS, 3);
        rota_plan *first = by_transients(device, "first", x, 3, 0, NULL);
        rota_plan *second = by_transients(device, "second", y, 2, 1, first);
        rota_plan *third = by_transients(device, "third", z, 1, 2, second);
        assert_non_null(arena_of(first));
        assert_ptr_equal(arena_of(second), arena_of(first));
        assert_ptr_equal(arena_of(third), arena_of(first));
        rota_ticket ticket;
        uint32_t expected[3] = {1, 2, 3};
        for (uint32_t r = 0; r < REPLAYS; r++) {
            assert_ok(rota_submit_wait(first, NULL, 0, NULL));
            assert_ok(rota_submit_wait(second, NULL, 0, NULL));
            assert_ok(rota_submit_wait(third, NULL, 0, NULL));
            for (int i = 0; i < 3; i++) expected[i] = 3 * expected[i] + 1;
        }
        /* What a plan borrows from stays as long as the plan. */
        rota_plan_release(first);
        assert_ok(rota_submit_wait(second, NULL, 0, NULL));
        rota_plan_release(second);
        assert_ok(rota_submit_wait(third, NULL, 0, &ticket));
        expected[1] = 3 * expected[1] + 1, expected[2] = 3 * expected[2] + 1;
        assert_ok(rota_wait(ticket, 0));
        test_expect_words(x, WORDS, expected[0]);
        test_expect_words(y, WORDS, expected[1]);
        test_expect_words(z, WORDS, expected[2]);
        if (round % 2) rota_plan_release(third);
        rota_buffer_release(x);
        rota_buffer_release(y);
        rota_buffer_release(z);
        assert_ok(rota_runtime_close(runtime, 0));
        if (round % 2 == 0) rota_plan_release(third);
        assert_int_equal(options.violations, 0);
    }
}

/* A plan that needs more than there is to borrow has memory of its own; what can't be shared is refused. */
static void arenas_are_shared_as_far_as_they_go(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *x = test_words(f->device, "x", WORDS, 1), *y = test_words(f->device, "y", WORDS, 2);
    rota_plan *small = by_transients(f->device, "small", x, 1, 0, NULL);
    rota_plan *large = by_transients(f->device, "large", y, 3, 0, small);
    assert_non_null(arena_of(large));
    assert_ptr_not_equal(arena_of(large), arena_of(small));
    for (uint32_t r = 0; r < REPLAYS; r++) {
        assert_ok(rota_submit_wait(small, NULL, 0, NULL));
        assert_ok(rota_submit_wait(large, NULL, 0, NULL));
    }
    uint32_t expected[2] = {1, 2};
    for (uint32_t r = 0; r < REPLAYS; r++)
        for (int i = 0; i < 2; i++) expected[i] = 3 * expected[i] + 1;
    test_expect_words(x, WORDS, expected[0]);
    test_expect_words(y, WORDS, expected[1]);
    rota_graph *graph;
    rota_plan *refused;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_int_equal(rota_compile(f->runtime, graph,
                                  &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1, .arenas = 2,
                                                        .arena_of = small),
                                  &refused),
                     ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "2 arenas"));
    assert_non_null(strstr(rota_last_error(), "'small'"));
    assert_int_equal(rota_compile(f->runtime, graph, &ROTA_COMPILE_OPTIONS(.arena_of = small), &refused),
                     ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "one device"));
    rota_graph_release(graph);
    rota_plan_release(small);
    rota_plan_release(large);
    rota_buffer_release(x);
    rota_buffer_release(y);
}

/* More works than a device's ring takes, while its thread does not come back from its driver: what finds no
 * room waits, and all are handed over in order. */
static void more_works_than_the_ring_takes(void **state) {
    (void)state;
    enum { NODES = 3000, SUBMISSIONS = 4 };
    static adversary_options options;
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u, .queues_per_device = 4),
                                &runtime));
    assert_ok(rota_runtime_add_driver(runtime, &adversary_driver, &options));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    rota_buffer *x = test_words(device, "x", WORDS, 1), *y = test_words(device, "y", WORDS, 2), *output;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan, *first;
    /* Each node on another queue than the one before, so each is a work. */
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < NODES; i++) record(recorder, &triple_kernel, i % 4, x, ROTA_READWRITE, NULL);
    rota_recorder_close(recorder);
    assert_ok(rota_compile(runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .queues = 4), &plan));
    rota_graph_release(graph);
    assert_true((uint64_t)plan->segment_count * SUBMISSIONS > ROTA_HANDOVER_CELLS + ROTA_HANDOVER_BATCH);
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", WORDS * 4, &output));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    record(recorder, &triple_kernel, 0, y, ROTA_READWRITE, NULL);
    assert_ok(rota_record_copy(recorder, output, 0, y, 0, WORDS * 4, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(
        runtime, graph,
        &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .queues = 4, .instances = 4), &first));
    rota_graph_release(graph);
    rota_args *args;
    rota_ticket ticket;
    uint32_t words[WORDS], expected = 1;
    assert_ok(rota_args_create(first, &args));
    assert_ok(rota_args_set_output(args, output, words, sizeof words));
    options.faults.submits_stay = 1;
    assert_ok(rota_runtime_lock_submission(runtime, true));
    for (uint32_t i = 0; i < 2; i++) assert_ok(rota_submit(first, args, NULL));
    for (uint32_t i = 0; i < SUBMISSIONS; i++) assert_ok(rota_submit(plan, NULL, &ticket));
    assert_ok(rota_runtime_lock_submission(runtime, false));
    const uint64_t deadline = rota_deadline_after(10000000000u);
    uint64_t number = 0;
    while ((rota_ticket_number(ticket, &number) != ROTA_OK ||
            rota_ring_count_spsc(&device->handover.ring) != ROTA_HANDOVER_CELLS - 1) &&
           rota_clock_ns() < deadline) {
    }
    assert_int_equal(rota_ring_count_spsc(&device->handover.ring), ROTA_HANDOVER_CELLS - 1);
    assert_int_equal(rota_poll(ticket), ROTA_BUSY);
    options.faults.submits_stay = 0;
    assert_ok(rota_wait(ticket, 0));
    for (uint32_t i = 0; i < NODES * SUBMISSIONS; i++) expected = expected * 3 + 1;
    test_expect_words(x, WORDS, expected);
    test_expect_words(y, WORDS, (2 * 3 + 1) * 3 + 1);
    rota_args_release(args);
    rota_plan_release(plan);
    rota_plan_release(first);
    rota_buffer_release(x);
    rota_buffer_release(y);
    assert_ok(rota_runtime_close(runtime, 0));
    assert_int_equal(options.violations, 0);
}

enum { SLOTS = 9, POOL = 16, FIXED = 4, STEPS = 120 };

/* A plan whose buffers are in slots, what there is to bind to them, and another plan of some of that. */
typedef struct bound_anew {
    rota_runtime *runtime;
    rota_device *device;
    rota_plan *plan, *other;
    rota_args *args;
    rota_buffer *slots[SLOTS], *pool[POOL];
    uint32_t in_slot[SLOTS], value[POOL], made;
    uint64_t seed;
} bound_anew;

static void make_plans(bound_anew *b) {
    rota_graph *graph;
    rota_recorder *recorder;
    const rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.devices = &b->device, .device_count = 1, .queues = 4, .instances = 8);
    assert_ok(rota_graph_create(NULL, &graph));
    for (uint32_t i = 0; i < SLOTS; i++)
        assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_SLOT, "slot", WORDS * 4, &b->slots[i]));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < SLOTS; i++)
        record(recorder, &triple_kernel, i % 4, b->slots[i], ROTA_READWRITE, NULL);
    for (uint32_t i = 0; i < SLOTS; i += 2)
        record(recorder, &add_up_kernel, (i + 1) % 4, b->slots[i], ROTA_READWRITE, b->slots[(i + 1) % SLOTS]);
    rota_recorder_close(recorder);
    assert_ok(rota_compile(b->runtime, graph, &options, &b->plan));
    rota_graph_release(graph);
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < FIXED; i++)
        record(recorder, &triple_kernel, i % 4, b->pool[i], ROTA_READWRITE, NULL);
    rota_recorder_close(recorder);
    assert_ok(rota_compile(b->runtime, graph, &options, &b->other));
    rota_graph_release(graph);
}

static void submit_bound(bound_anew *b) {
    assert_ok(rota_submit_wait(b->plan, b->args, 0, NULL));
    for (uint32_t i = 0; i < SLOTS; i++) b->value[b->in_slot[i]] = 3 * b->value[b->in_slot[i]] + 1;
    for (uint32_t i = 0; i < SLOTS; i += 2) b->value[b->in_slot[i]] += b->value[b->in_slot[(i + 1) % SLOTS]];
}

static bool is_bound(const bound_anew *b, uint32_t p) {
    for (uint32_t i = 0; i < SLOTS; i++)
        if (b->in_slot[i] == p) return true;
    return false;
}

/* One slot gets another buffer; the one that it had is released, while replays with it may be in flight. */
static void bind_anew(bound_anew *b, bool releases) {
    const uint32_t slot = test_below(&b->seed, SLOTS), before = b->in_slot[slot];
    uint32_t p = test_below(&b->seed, POOL);
    while (is_bound(b, p)) p = (p + 1) % POOL;
    b->in_slot[slot] = p;
    assert_ok(rota_args_set_buffer(b->args, b->slots[slot], b->pool[p]));
    if (!releases || before < FIXED) return;
    rota_buffer_release(b->pool[before]);
    b->value[before] = 1000 + b->made++;
    b->pool[before] = test_words(b->device, "anew", WORDS, b->value[before]);
}

static void step(bound_anew *b) {
    const uint32_t what = test_below(&b->seed, 24), p = test_below(&b->seed, POOL);
    if (what == 0) {
        test_expect_words(b->pool[p], WORDS, b->value[p]);
    } else if (what == 1) {
        assert_ok(rota_submit_wait(b->other, NULL, 0, NULL));
        for (uint32_t i = 0; i < FIXED; i++) b->value[i] = 3 * b->value[i] + 1;
    } else if (what < 4) {
        bind_anew(b, what == 2);
    } else {
        submit_bound(b);
    }
}

/* Replays with the same buffers in their slots are counted on like others, until other buffers are bound, or the
 * same are touched, read or released by others. */
static void slots_are_bound_anew(void **state) {
    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        adversary_options options = {.seed = round};
        bound_anew b = {.seed = round + 1};
        assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u, .queues_per_device = 4),
                                    &b.runtime));
        assert_ok(rota_runtime_add_driver(b.runtime, &adversary_driver, &options));
        assert_ok(rota_device_open(b.runtime, "adversary", &b.device));
        for (uint32_t p = 0; p < POOL; p++) b.pool[p] = test_words(b.device, "pool", WORDS, b.value[p] = p);
        make_plans(&b);
        assert_ok(rota_args_create(b.plan, &b.args));
        for (uint32_t i = 0; i < SLOTS; i++) {
            b.in_slot[i] = i;
            assert_ok(rota_args_set_buffer(b.args, b.slots[i], b.pool[i]));
        }
        for (uint32_t i = 0; i < STEPS; i++) step(&b);
        for (uint32_t p = 0; p < POOL; p++) test_expect_words(b.pool[p], WORDS, b.value[p]);
        for (uint32_t i = 0; i < 6; i++) {
            rota_ticket ticket;
            assert_ok(rota_submit_wait(b.plan, b.args, 0, &ticket));
            assert_ok(rota_wait(ticket, 0));
        }
        assert_true(rota_replay_is_known(b.plan->executable));
        /* The plan goes first, or what was in its slots does. */
        if (round % 2) rota_args_release(b.args), rota_plan_release(b.plan);
        for (uint32_t p = 0; p < POOL; p++) rota_buffer_release(b.pool[p]);
        if (round % 2 == 0) rota_args_release(b.args), rota_plan_release(b.plan);
        rota_plan_release(b.other);
        assert_ok(rota_runtime_close(b.runtime, 0));
        assert_int_equal(options.violations, 0);
    }
}

/* x = 3 x + 1, each alone in its plan. */
static rota_plan *triple_plan(rota_device *device, rota_buffer *x, rota_buffer *y) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    record(recorder, &triple_kernel, 0, x, ROTA_READWRITE, NULL);
    record(recorder, &triple_kernel, 1, y, ROTA_READWRITE, NULL);
    rota_recorder_close(recorder);
    assert_ok(rota_compile(
        rota_device_runtime(device), graph,
        &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .queues = 4, .instances = 8), &plan));
    rota_graph_release(graph);
    return plan;
}

/* Also with few buffers, but not where two plans take turns at them: then it is given up, tried again now and then, and
 * done once the turns end. */
static void turns_are_not_counted_on(void **state) {
    (void)state;
    enum { TURNS = 100, IN_A_ROW = 70 };
    for (uint32_t round = 0; round < 4; round++) {
        adversary_options options = {.seed = round};
        rota_runtime *runtime;
        rota_device *device;
        assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u, .queues_per_device = 4),
                                    &runtime));
        assert_ok(rota_runtime_add_driver(runtime, &adversary_driver, &options));
        assert_ok(rota_device_open(runtime, "adversary", &device));
        rota_buffer *x = test_words(device, "x", WORDS, 1), *y = test_words(device, "y", WORDS, 1);
        rota_plan *plans[] = {triple_plan(device, x, y), triple_plan(device, y, x)};
        rota_ticket ticket;
        uint32_t expected = 1, known = 0;
        for (uint32_t i = 0; i < TURNS + IN_A_ROW; i++) {
            assert_ok(rota_submit_wait(plans[i < TURNS ? i % 2 : 1], NULL, 0, &ticket));
            expected = 3 * expected + 1;
            assert_ok(rota_wait(ticket, 0));
            if (i < TURNS) known += rota_replay_is_known(plans[i % 2]->executable);
        }
        assert_int_equal(known, 0);
        assert_true(rota_replay_is_known(plans[1]->executable));
        test_expect_words(x, WORDS, expected);
        test_expect_words(y, WORDS, expected);
        for (uint32_t p = 0; p < 2; p++) rota_plan_release(plans[p]);
        rota_buffer_release(x);
        rota_buffer_release(y);
        assert_ok(rota_runtime_close(runtime, 0));
        assert_int_equal(options.violations, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_stay_in_their_replay),
                                       cmocka_unit_test(slots_are_bound_anew),
                                       cmocka_unit_test(turns_are_not_counted_on),
                                       cmocka_unit_test(plans_share_an_arena),
                                       cmocka_unit_test(more_works_than_the_ring_takes),
                                       cmocka_unit_test_setup_teardown(arenas_are_shared_as_far_as_they_go,
                                                                       runtime_setup, runtime_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
