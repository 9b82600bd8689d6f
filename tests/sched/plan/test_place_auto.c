/* Automatic placement by rota_compile: what a policy is told, that what it says is done, what has a device keeps it,
 * one copy a device of what many read, plans of one device where that is best, and what is done where one refuses. */
#include "tests/kit/runtime_support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sched/testing.h"
#include "tests/adversary/adversary.h"

enum { WORDS = 256, BYTES = 4 * WORDS, BRANCHES = 12, NODES = 2 + 2 * BRANCHES, COMMANDS_MAX = 400 };

typedef struct world {
    adversary_options options;
    rota_runtime *runtime;
    rota_device *devices[2]; /* cpu, adversary: unlike hardware */
} world;

static int open_world(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->options.seed = 7;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u), &w->runtime));
    assert_ok(rota_runtime_add_driver(w->runtime, &adversary_driver, &w->options));
    assert_ok(rota_device_open(w->runtime, "cpu", &w->devices[0]));
    assert_ok(rota_device_open(w->runtime, "adversary", &w->devices[1]));
    *state = w;
    return 0;
}

static int close_world(void **state) {
    world *w = *state;
    assert_ok(rota_runtime_close(w->runtime, 0));
    assert_int_equal(w->options.violations, 0);
    assert_int_equal(w->options.live_memories, 0);
    free(w);
    return 0;
}

/* y[i] = x[i] + 1, which says that it is much work. */
static rota_status heavy_fn(const rota_kernel_call *call) {
    const uint32_t *x = call->operands[0];
    uint32_t *y = call->operands[1];
    for (uint64_t i = 0; i < call->operand_bytes[1] / 4; i++) y[i] = x[i] + 1;
    return ROTA_OK;
}
static double heavy_work(const void *params, const uint64_t *operand_bytes) {
    (void)params, (void)operand_bytes;
    return 1e9;
}
static const rota_kernel heavy = {
    .name = "heavy", .operand_count = 2, .work = heavy_work, .cpu = {.fn = heavy_fn}};
static const rota_kernel light = {.name = "light", .operand_count = 2, .cpu = {.fn = heavy_fn}};

/* y = the sum of all branches. */
static rota_status join_fn(const rota_kernel_call *call) {
    uint32_t *y = call->operands[BRANCHES];
    for (uint32_t i = 0; i < WORDS; i++) {
        y[i] = 0;
        for (uint32_t b = 0; b < BRANCHES; b++) y[i] += ((const uint32_t *)call->operands[b])[i];
    }
    return ROTA_OK;
}
static const rota_kernel join = {.name = "join", .operand_count = BRANCHES + 1, .cpu = {.fn = join_fn}};

static rota_status record_map(rota_recorder *recorder, const rota_kernel *kernel, rota_buffer *from,
                              rota_buffer *to, uint32_t device_plus_1) {
    const rota_access accesses[] = {{from, 0, ROTA_WHOLE, ROTA_READ}, {to, 0, ROTA_WHOLE, ROTA_WRITE}};
    return rota_record_kernel(recorder,
                              &ROTA_KERNEL_NODE(.kernel = kernel, .accesses = accesses, .access_count = 2,
                                                .placement = {.device_plus_1 = device_plus_1}),
                              NULL);
}

/* x --> root --> 12 branches of 2 nodes --> total: node 0, nodes 1 to 24, node 25. */
typedef struct wide {
    rota_buffer *x, *total;
    rota_graph *graph;
} wide;

static void record_wide(const world *w, const rota_kernel *kernel, uint32_t device_plus_1, wide *out) {
    rota_recorder *recorder;
    rota_buffer *root, *ends[BRANCHES];
    rota_access accesses[BRANCHES + 1];
    out->x = test_words(w->devices[0], "x", WORDS, 5);
    out->total = test_buffer(w->runtime, "total", BYTES);
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "wide"), &out->graph));
    assert_ok(rota_recorder_open(out->graph, 0, NULL, &recorder));
    assert_ok(rota_recorder_buffer(recorder, ROTA_BUFFER_TRANSIENT, "root", BYTES, &root));
    assert_ok(record_map(recorder, &light, out->x, root, device_plus_1));
    for (uint32_t b = 0; b < BRANCHES; b++) {
        rota_buffer *middle;
        assert_ok(rota_recorder_buffer(recorder, ROTA_BUFFER_TRANSIENT, "middle", BYTES, &middle));
        assert_ok(rota_recorder_buffer(recorder, ROTA_BUFFER_TRANSIENT, "end", BYTES, &ends[b]));
        assert_ok(record_map(recorder, kernel, root, middle, device_plus_1));
        assert_ok(record_map(recorder, kernel, middle, ends[b], device_plus_1));
        accesses[b] = (rota_access){ends[b], 0, ROTA_WHOLE, ROTA_READ};
    }
    accesses[BRANCHES] = (rota_access){out->total, 0, ROTA_WHOLE, ROTA_WRITE};
    assert_ok(rota_record_kernel(recorder,
                                 &ROTA_KERNEL_NODE(.kernel = &join, .accesses = accesses,
                                                   .access_count = BRANCHES + 1,
                                                   .placement = {.device_plus_1 = device_plus_1}),
                                 NULL));
    rota_recorder_close(recorder);
}

static void free_wide(wide *it) {
    rota_graph_release(it->graph);
    rota_buffer_release(it->x);
    rota_buffer_release(it->total);
}

static void run(rota_plan *plan) {
    for (uint32_t i = 0; i < 3; i++) {
        rota_ticket ticket;
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        assert_ok(rota_wait(ticket, 0));
    }
}

/* Kernels by device, and copies between devices. */
static void count(const world *w, const rota_plan *plan, uint32_t out_kernels[2], uint32_t *out_copies) {
    static rota_plan_command commands[COMMANDS_MAX];
    rota_plan_stats stats = ROTA_PLAN_STATS();
    assert_ok(rota_plan_get_stats(plan, &stats));
    commands[0].struct_size = sizeof *commands;
    assert_ok(rota_plan_get_commands(plan, commands, COMMANDS_MAX));
    out_kernels[0] = out_kernels[1] = *out_copies = 0;
    for (uint64_t i = 0; i < stats.commands; i++) {
        if (commands[i].kind == ROTA_PLAN_TRANSFER) ++*out_copies;
        for (uint32_t d = 0; d < 2 && commands[i].kind == ROTA_PLAN_KERNEL; d++)
            out_kernels[d] += commands[i].device == w->devices[d];
    }
}

/* ---- What rota chooses ---- */

static void much_work_is_spread_and_little_is_not(void **state) {
    const world *w = *state;
    for (uint32_t is_heavy = 0; is_heavy < 2; is_heavy++)
        for (uint32_t by_option = 0; by_option < 2; by_option++) {
            wide it;
            rota_plan *plan;
            uint32_t kernels[2], copies;
            rota_plan_stats stats = ROTA_PLAN_STATS();
            record_wide(w, is_heavy ? &heavy : &light, by_option ? 0 : ROTA_PLACE_AUTO, &it);
            assert_ok(rota_compile(w->runtime, it.graph,
                                   &ROTA_COMPILE_OPTIONS(.devices = w->devices, .device_count = 2,
                                                         .place_auto = by_option, .certify = true),
                                   &plan));
            assert_ok(rota_plan_get_stats(plan, &stats));
            count(w, plan, kernels, &copies);
            if (is_heavy) {
                assert_true(kernels[0] > 2 && kernels[1] > 2);
                /* `root` goes over once, and each branch's end at the most: two copies each. */
                if (copies > 2 + 2 * BRANCHES) fail_msg("%u copies", copies);
            } else {
                assert_int_equal(kernels[0], NODES);
                assert_int_equal(stats.devices, 1);
                assert_int_equal(stats.segments, 1);
            }
            run(plan);
            test_expect_words(it.total, WORDS, BRANCHES * 8);
            rota_plan_release(plan);
            free_wide(&it);
        }
}

/* As in a plan of that device alone: no part, segment or copy for another one. */
static void one_device_alone_may_be_any(void **state) {
    const world *w = *state;
    wide it;
    rota_plan *plan;
    rota_device *const turned[2] = {w->devices[1], w->devices[0]};
    record_wide(w, &light, ROTA_PLACE_AUTO, &it);
    assert_ok(rota_compile(w->runtime, it.graph,
                           &ROTA_COMPILE_OPTIONS(.devices = turned, .device_count = 2, .certify = true),
                           &plan));
    uint32_t kernels[2], copies;
    rota_plan_stats stats = ROTA_PLAN_STATS();
    assert_ok(rota_plan_get_stats(plan, &stats));
    count(w, plan, kernels, &copies);
    assert_int_equal(kernels[0], NODES); /* the CPU is taken to be faster than what stands in for a device */
    assert_int_equal(stats.devices, 1);
    assert_int_equal(copies, 0);
    run(plan);
    test_expect_words(it.total, WORDS, BRANCHES * 8);
    rota_plan_release(plan);
    free_wide(&it);
}

/* ---- Policies ---- */

typedef struct policy {
    const world *w;
    uint32_t calls;
    bool answers_wrong, fails;
    uint8_t device[NODES];
} policy;

static rota_status choose_as_told(void *user, const rota_placing *placing, uint8_t *out_devices) {
    policy *p = user;
    p->calls++;
    if (p->fails) return rota_fail(ROTA_REFUSED, "not today");
    assert_int_equal(placing->node_count, NODES);
    assert_int_equal(placing->device_count, 2);
    assert_ptr_equal(placing->devices[1], p->w->devices[1]);
    assert_int_equal(placing->hardware[1], 1);
    for (uint32_t n = 0; n < NODES; n++) {
        const rota_placing_node *node = &placing->nodes[n];
        assert_true(node->node.lane == 1 && node->node.index == n);
        assert_int_equal(node->possible, n == 3 ? 2 : 3);
        for (uint32_t d = 0; d < 2; d++) assert_true(isfinite(placing->costs[n * 2 + d].span_ns));
        if (n == 0 || n + 1 == NODES) continue;
        assert_ptr_equal(node->kernel, &heavy);
        assert_int_equal(node->edge_count, 1);
        const rota_placing_edge *edge = &placing->edges[node->first_edge];
        assert_int_equal(edge->from, n % 2 ? 0 : n - 1);
        assert_int_equal(edge->bytes, BYTES);
        assert_true(edge->value < placing->value_count);
    }
    assert_int_equal(placing->nodes[NODES - 1].edge_count, BRANCHES);
    memcpy(out_devices, p->device, NODES);
    if (p->answers_wrong) out_devices[3] = 0;
    return ROTA_OK;
}

/* One to each. */
static rota_status choose_in_turn(void *user, const rota_placing *placing, uint8_t *out_devices) {
    (void)user;
    for (uint32_t n = 0; n < placing->node_count; n++) out_devices[n] = (uint8_t)(n % 2);
    return ROTA_OK;
}

/* Node 3 is placed on the second device. */
static void record_with_one_placed(const world *w, wide *out) {
    rota_recorder *recorder;
    wide *it = out;
    rota_buffer *root, *ends[BRANCHES];
    rota_access accesses[BRANCHES + 1];
    it->x = test_words(w->devices[0], "x", WORDS, 5);
    it->total = test_buffer(w->runtime, "total", BYTES);
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "placed"), &it->graph));
    assert_ok(rota_recorder_open(it->graph, 0, NULL, &recorder));
    assert_ok(rota_recorder_buffer(recorder, ROTA_BUFFER_TRANSIENT, "root", BYTES, &root));
    assert_ok(record_map(recorder, &light, it->x, root, 0));
    for (uint32_t b = 0; b < BRANCHES; b++) {
        rota_buffer *middle;
        assert_ok(rota_recorder_buffer(recorder, ROTA_BUFFER_TRANSIENT, "middle", BYTES, &middle));
        assert_ok(rota_recorder_buffer(recorder, ROTA_BUFFER_TRANSIENT, "end", BYTES, &ends[b]));
        assert_ok(record_map(recorder, &heavy, root, middle, b == 1 ? 2 : 0));
        assert_ok(record_map(recorder, &heavy, middle, ends[b], 0));
        accesses[b] = (rota_access){ends[b], 0, ROTA_WHOLE, ROTA_READ};
    }
    accesses[BRANCHES] = (rota_access){it->total, 0, ROTA_WHOLE, ROTA_WRITE};
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = &join, .accesses = accesses, .access_count = BRANCHES + 1),
        NULL));
    rota_recorder_close(recorder);
}

static void a_policy_is_told_and_obeyed(void **state) {
    const world *w = *state;
    for (uint32_t seed = 1; seed <= 20; seed++) {
        uint64_t random = seed;
        wide it;
        policy p = {.w = w};
        rota_plan *plan = NULL;
        for (uint32_t n = 0; n < NODES; n++) p.device[n] = (uint8_t)test_below(&random, 2);
        p.device[3] = 1;
        record_with_one_placed(w, &it);
        const rota_compile_options options =
            ROTA_COMPILE_OPTIONS(.devices = w->devices, .device_count = 2, .place_auto = true,
                                 .placer = choose_as_told, .placer_user = &p, .certify = true);
        p.answers_wrong = true;
        assert_status(rota_compile(w->runtime, it.graph, &options, &plan), ROTA_INVALID_ARGUMENT);
        expect_said("node 'heavy' on device 0 of 2");
        p.answers_wrong = false;
        p.fails = true;
        assert_status(rota_compile(w->runtime, it.graph, &options, &plan), ROTA_REFUSED);
        expect_said("not today");
        p.fails = false;
        assert_null(plan);
        assert_ok(rota_compile(w->runtime, it.graph, &options, &plan));
        assert_int_equal(p.calls, 3);
        uint32_t kernels[2], copies, wanted = 0;
        for (uint32_t n = 0; n < NODES; n++) wanted += p.device[n];
        count(w, plan, kernels, &copies);
        assert_int_equal(kernels[1], wanted);
        /* Two copies for each value that another device reads, however many nodes of it do. */
        bool root = false;
        uint32_t values = 0;
        for (uint32_t b = 0; b < BRANCHES; b++) {
            root |= p.device[1 + 2 * b] != p.device[0];
            values += p.device[1 + 2 * b] != p.device[2 + 2 * b];
            values += p.device[2 + 2 * b] != p.device[NODES - 1];
        }
        assert_int_equal(copies, 2 * (values + root));
        run(plan);
        test_expect_words(it.total, WORDS, BRANCHES * 8);
        rota_plan_release(plan);
        free_wide(&it);
    }
}

/* What is only read is on each device that reads it from the first replay on, and goes to none again. */
static void what_is_read_on_both_stays_on_both(void **state) {
    const world *w = *state;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_buffer *x = test_words(w->devices[0], "x", WORDS, 5), *y[2];
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < 8; i++) {
        if (i < 2) y[i] = test_buffer(w->runtime, "y", BYTES);
        assert_ok(record_map(recorder, &heavy, x, y[i % 2], ROTA_PLACE_AUTO));
    }
    rota_recorder_close(recorder);
    uint64_t random = 0, migrations = 0;
    const rota_placer placers[] = {choose_in_turn, NULL};
    for (uint32_t p = 0; p < 2; p++) {
        assert_ok(rota_compile(w->runtime, graph,
                               &ROTA_COMPILE_OPTIONS(.devices = w->devices, .device_count = 2,
                                                     .placer = placers[p], .placer_user = &random),
                               &plan));
        run(plan);
        for (uint32_t i = 0; i < 4; i++) {
            rota_runtime_stats stats = ROTA_RUNTIME_STATS();
            assert_ok(rota_runtime_get_stats(w->runtime, &stats));
            if (i == 0) migrations = stats.migrations;
            assert_int_equal(stats.migrations, migrations);
            run(plan);
        }
        rota_plan_release(plan);
    }
    assert_true(migrations > 0);
    for (uint32_t i = 0; i < 2; i++) {
        test_expect_words(y[i], WORDS, 6);
        rota_buffer_release(y[i]);
    }
    rota_buffer_release(x);
    rota_graph_release(graph);
}

/* ---- With rewrites ---- */

/* Any device, the same for some nodes in a row. */
static rota_status choose_at_random(void *user, const rota_placing *placing, uint8_t *out_devices) {
    uint64_t *random = user;
    uint32_t device = 0;
    for (uint32_t n = 0; n < placing->node_count; n++) {
        if (test_below(random, 3) == 0) device = test_below(random, 2);
        out_devices[n] = (uint8_t)device;
    }
    return ROTA_OK;
}

static rota_status record_ops(rota_tape *tape, rota_buffer *from, rota_buffer *to) {
    const uint64_t shape[1] = {WORDS};
    rota_tensor x, y, a, b;
    ROTA_TRY(rota_tensor_of(from, 0, ROTA_F32, 1, shape, &x));
    ROTA_TRY(rota_tensor_of(to, 0, ROTA_F32, 1, shape, &y));
    ROTA_TRY(rota_op_scale(tape, x, ROTA_PLAIN(0.5), &a));
    for (uint32_t i = 0; i < 6; i++) {
        ROTA_TRY(rota_op_gelu(tape, a, &b));
        ROTA_TRY(rota_op_add(tape, b, x, &a));
    }
    return rota_op_mul_into(tape, a, x, y);
}

/* What is fused is on one device, and makes the bits that it makes on one alone; and it teaches its nodes' costs. */
static void fused_nodes_are_of_one_device(void **state) {
    (void)state;
    adversary_options options = {.seed = 5};
    rota_runtime *runtime;
    rota_device *devices[2];
    assert_ok(rota_runtime_open(
        &ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u, .diagnostics = true, .cache_dir = ""), &runtime));
    assert_ok(rota_runtime_add_driver(runtime, &adversary_driver, &options));
    assert_ok(rota_device_open(runtime, "cpu", &devices[0]));
    assert_ok(rota_device_open(runtime, "adversary", &devices[1]));
    float x[WORDS], expected[WORDS], got[WORDS];
    for (uint32_t i = 0; i < WORDS; i++) x[i] = (float)i / 16 - 8;
    rota_buffer *from = test_buffer(runtime, "from", BYTES), *to = test_buffer(runtime, "to", BYTES);
    assert_ok(rota_buffer_write(from, devices[0], 0, x, BYTES, NULL));
    uint64_t random = 9;
    for (uint32_t round = 0; round < 30; round++) {
        rota_graph *graph;
        rota_recorder *recorder;
        rota_tape *tape;
        rota_plan *plan;
        rota_plan_stats stats = ROTA_PLAN_STATS();
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
        assert_ok(rota_tape_create(recorder, &ROTA_TAPE_OPTIONS(.no_gradients = true), &tape));
        assert_ok(record_ops(tape, from, to));
        rota_tape_destroy(tape);
        rota_recorder_close(recorder);
        assert_ok(rota_graph_fuse(graph));
        assert_ok(rota_compile(runtime, graph,
                               &ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = round ? 2 : 1,
                                                     .place_auto = true, .placer = choose_at_random,
                                                     .placer_user = &random, .certify = true),
                               &plan));
        assert_ok(rota_plan_get_stats(plan, &stats));
        if (round == 0) assert_true(stats.merged > 0);
        run(plan);
        assert_ok(rota_plan_learn(plan));
        assert_ok(rota_buffer_read(to, 0, round ? got : expected, BYTES));
        if (round) assert_memory_equal(got, expected, BYTES);
        rota_plan_release(plan);
        rota_graph_release(graph);
    }
    rota_buffer_release(from);
    rota_buffer_release(to);
    assert_ok(rota_runtime_close(runtime, 0));
    assert_int_equal(options.violations, 0);
}

/* ---- What devices refuse ---- */

static void a_kernel_that_no_device_runs_is_named(void **state) {
    const world *w = *state;
    static const rota_kernel nowhere = {.name = "nowhere", .operand_count = 2};
    wide it;
    rota_plan *plan;
    record_wide(w, &nowhere, ROTA_PLACE_AUTO, &it);
    assert_status(rota_compile(w->runtime, it.graph,
                               &ROTA_COMPILE_OPTIONS(.devices = w->devices, .device_count = 2), &plan),
                  ROTA_UNSUPPORTED);
    expect_said("'nowhere'");
    /* Of one device, and of none, it means nothing. */
    free_wide(&it);
    record_wide(w, &light, ROTA_PLACE_AUTO, &it);
    for (uint32_t devices = 0; devices < 2; devices++) {
        assert_ok(rota_compile(w->runtime, it.graph,
                               &ROTA_COMPILE_OPTIONS(.devices = w->devices, .device_count = devices), &plan));
        rota_plan_release(plan);
    }
    free_wide(&it);
}

/* The graph on both devices, with room for what it takes on the first of them alone, which is less than
 * `several_bytes`, what it took on both. */
static rota_plan *compile_with_one_devices_room(world *w, rota_graph *graph, rota_compile_options *options,
                                                uint64_t several_bytes) {
    rota_plan *plan;
    rota_plan_stats one = ROTA_PLAN_STATS();
    options->device_count = 1;
    assert_ok(rota_compile(w->runtime, graph, options, &plan));
    assert_ok(rota_plan_get_stats(plan, &one));
    rota_plan_release(plan);
    assert_true(several_bytes > one.arena_bytes);
    options->device_count = 2;
    options->memory_limit_bytes = one.arena_bytes;
    assert_ok(rota_compile(w->runtime, graph, options, &plan));
    return plan;
}

/* Two devices would be faster, but there is memory for the buffers of one. */
static void where_memory_is_short_one_device_does(void **state) {
    world *w = *state;
    wide it;
    rota_plan *plan;
    uint32_t kernels[2], copies;
    rota_plan_stats several = ROTA_PLAN_STATS();
    record_wide(w, &heavy, ROTA_PLACE_AUTO, &it);
    rota_compile_options options = ROTA_COMPILE_OPTIONS(.devices = w->devices, .device_count = 2);
    assert_ok(rota_compile(w->runtime, it.graph, &options, &plan));
    assert_ok(rota_plan_get_stats(plan, &several));
    rota_plan_release(plan);
    plan = compile_with_one_devices_room(w, it.graph, &options, several.arena_bytes);
    count(w, plan, kernels, &copies);
    assert_true(kernels[0] == 0 || kernels[1] == 0);
    run(plan);
    test_expect_words(it.total, WORDS, BRANCHES * 8);
    rota_plan_release(plan);
    options.memory_limit_bytes = 16;
    assert_status(rota_compile(w->runtime, it.graph, &options, &plan), ROTA_OUT_OF_MEMORY);
    free_wide(&it);
}

/* What touches PERSISTENT buffers is on the first device, the rest where it is best, or where several devices have no
 * room, on that one, too. */
static void what_persistent_buffers_touch_may_stay(void **state) {
    world *w = *state;
    static rota_plan_command commands[COMMANDS_MAX];
    wide it;
    rota_plan *plan;
    uint32_t kernels[2], copies;
    rota_plan_stats several = ROTA_PLAN_STATS();
    rota_device *const turned[] = {w->devices[1], w->devices[0]};
    record_wide(w, &heavy, 0, &it);
    rota_compile_options options = ROTA_COMPILE_OPTIONS(.devices = turned, .device_count = 2,
                                                        .place_auto = true, .place_persistent_first = true);
    assert_ok(rota_compile(w->runtime, it.graph, &options, &plan));
    assert_ok(rota_plan_get_stats(plan, &several));
    commands[0].struct_size = sizeof *commands;
    assert_ok(rota_plan_get_commands(plan, commands, COMMANDS_MAX));
    for (uint64_t i = 0; i < several.commands; i++)
        if (commands[i].kernel == &light || commands[i].kernel == &join)
            assert_ptr_equal(commands[i].device, turned[0]);
    count(w, plan, kernels, &copies);
    assert_true(kernels[0] > 0 && kernels[1] > 0);
    run(plan);
    test_expect_words(it.total, WORDS, BRANCHES * 8);
    rota_plan_release(plan);
    plan = compile_with_one_devices_room(w, it.graph, &options, several.arena_bytes);
    count(w, plan, kernels, &copies);
    assert_true(kernels[0] == 0 && copies == 0);
    run(plan);
    test_expect_words(it.total, WORDS, BRANCHES * 8);
    rota_plan_release(plan);
    free_wide(&it);
}

/* Each branch has a matrix of its own, and no device room for all of them: they are where there is, though all would be
 * faster on one. */
static void what_one_device_has_no_memory_for_is_on_several(void **state) {
    (void)state;
    enum { WEIGHTS = 6, WEIGHT_BYTES = 1 << 16, MEMORY = 4 * WEIGHT_BYTES };
    adversary_options adversary = {.seed = 7, .memory_bytes = MEMORY};
    rota_runtime *runtime;
    rota_device *devices[2];
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_buffer *weights[WEIGHTS];
    uint32_t kernels[2], copies;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u), &runtime));
    assert_ok(rota_runtime_add_driver(runtime, &adversary_driver, &adversary));
    assert_ok(rota_device_open(runtime, "adversary", &devices[0]));
    assert_ok(rota_device_open(runtime, "adversary:1", &devices[1]));
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < WEIGHTS; i++) {
        rota_buffer *sum;
        weights[i] = test_words(devices[0], "weight", WEIGHT_BYTES / 4, 1);
        assert_ok(rota_recorder_buffer(recorder, ROTA_BUFFER_TRANSIENT, "sum", BYTES, &sum));
        const rota_access accesses[] = {{weights[i], 0, ROTA_WHOLE, ROTA_READ}, {sum, 0, BYTES, ROTA_WRITE}};
        assert_ok(rota_record_kernel(
            recorder, &ROTA_KERNEL_NODE(.kernel = &light, .accesses = accesses, .access_count = 2), NULL));
    }
    rota_recorder_close(recorder);
    assert_ok(rota_compile(runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = 2, .place_auto = true),
                           &plan));
    const world of = {.devices = {devices[0], devices[1]}};
    count(&of, plan, kernels, &copies);
    assert_true(kernels[0] + kernels[1] == WEIGHTS && kernels[0] <= 3 && kernels[1] <= 3);
    run(plan);
    rota_plan_release(plan);
    rota_graph_release(graph);
    for (uint32_t i = 0; i < WEIGHTS; i++) rota_buffer_release(weights[i]);
    assert_ok(rota_runtime_close(runtime, 0));
    assert_int_equal(adversary.violations, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(much_work_is_spread_and_little_is_not, open_world, close_world),
        cmocka_unit_test_setup_teardown(one_device_alone_may_be_any, open_world, close_world),
        cmocka_unit_test_setup_teardown(a_policy_is_told_and_obeyed, open_world, close_world),
        cmocka_unit_test_setup_teardown(what_is_read_on_both_stays_on_both, open_world, close_world),
        cmocka_unit_test(fused_nodes_are_of_one_device),
        cmocka_unit_test_setup_teardown(a_kernel_that_no_device_runs_is_named, open_world, close_world),
        cmocka_unit_test_setup_teardown(what_persistent_buffers_touch_may_stay, open_world, close_world),
        cmocka_unit_test_setup_teardown(where_memory_is_short_one_device_does, open_world, close_world),
        cmocka_unit_test(what_one_device_has_no_memory_for_is_on_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
