/* Nodes that decide on Vulkan and CUDA devices: what fails in them, counts among it, is said in the CPU executor's
 * words, and what a Vulkan device does not run is refused when it is compiled. What they compute: s5.decides, and
 * rota-fuzz --conditional. */
#include "tests/kit/runtime_support.h"

#include <stdlib.h>
#include <string.h>
#include "tests/kernels/kernels.h"
#include "tests/random/decide.h"
#include "tests/sched/runtime/gpu_kit.h"

enum { WIDE = 256, MAX = 100, TEXT_BYTES = 1024 };

typedef struct words {
    rota_buffer *x, *y, *count, *condition, *times, *index;
} words;

typedef struct body {
    rota_graph *graph;
    rota_recorder *lane;
} body;

static rota_access all(rota_buffer *buffer, rota_access_mode mode) {
    return (rota_access){buffer, 0, ROTA_WHOLE, mode};
}

static body begin_body(rota_graph *outer, const char *name) {
    body b = {NULL, NULL};
    assert_ok(rota_graph_create_body(outer, name, &b.graph));
    assert_ok(rota_recorder_open(b.graph, 0, NULL, &b.lane));
    return b;
}

/* y[i] of the first as many as the count says are made of x[i]. */
static void record_use(rota_recorder *lane, const words *w) {
    static const test_params params = {.n = WIDE};
    const rota_param_binding seed = {TEST_BIND_SEED, ROTA_SLOT_CONSTANT};
    const rota_access accesses[] = {all(w->x, ROTA_READ), all(w->y, ROTA_WRITE)};
    assert_ok(rota_record_counted_kernel(
        lane,
        &ROTA_KERNEL_NODE(.kernel = &test_kernels[TEST_KERNEL_map].kernel, .name = "use",
                          .accesses = accesses, .access_count = 2, .params = &params, .bindings = &seed,
                          .binding_count = 1),
        &ROTA_COUNT(.buffer = w->count, .max = MAX, .items_per_group = TEST_ITEMS_PER_GROUP,
                    .bindable_plus_1 = TEST_BIND_COUNT + 1),
        NULL));
}

static void record_down(rota_recorder *lane, rota_buffer *word) {
    const rota_access access = all(word, ROTA_READWRITE);
    assert_ok(rota_record_kernel(
        lane, &ROTA_KERNEL_NODE(.kernel = &decide_count_down, .accesses = &access, .access_count = 1), NULL));
}

/* ---- What fails ---- */

static void record_for(rota_recorder *lane, rota_graph *graph, const words *w, bool fails_inside) {
    body b = begin_body(graph, "step");
    if (fails_inside) record_use(b.lane, w);
    record_down(b.lane, w->count);
    rota_recorder_close(b.lane);
    assert_ok(rota_record_for(lane,
                              &ROTA_FOR_NODE(.name = "loop", .count = w->times, .index = w->index,
                                             .body = b.graph, .iterations_max = fails_inside ? 5 : 3),
                              NULL));
}

/* The limit of a for, which is reached before its first iteration. */
static void limit_of_for(rota_recorder *lane, rota_graph *graph, const words *w) {
    record_for(lane, graph, w, false);
}

/* A count is -1 in the second iteration. */
static void count_in_for(rota_recorder *lane, rota_graph *graph, const words *w) {
    record_for(lane, graph, w, true);
}

/* The second of two that are counted has no loop around it. */
static void count_in_if(rota_recorder *lane, rota_graph *graph, const words *w) {
    body b = begin_body(graph, "then");
    record_use(b.lane, w);
    record_down(b.lane, w->count);
    record_use(b.lane, w);
    rota_recorder_close(b.lane);
    assert_ok(rota_record_if(lane, &ROTA_IF_NODE(.name = "loop", .condition = w->condition, .body = b.graph),
                             NULL));
}

static void limit_of_while(rota_recorder *lane, rota_graph *graph, const words *w) {
    body b = begin_body(graph, "step");
    record_down(b.lane, w->count);
    rota_recorder_close(b.lane);
    assert_ok(rota_record_while(
        lane,
        &ROTA_WHILE_NODE(.name = "loop", .condition = w->condition, .body = b.graph, .iterations_max = 4),
        NULL));
}

/* In an if of a switch's third body, in a for. */
static void count_within(rota_recorder *lane, rota_graph *graph, const words *w) {
    body loop = begin_body(graph, "loop body"), third = begin_body(loop.graph, "third"),
         inner = begin_body(third.graph, "inner");
    record_use(inner.lane, w);
    rota_recorder_close(inner.lane);
    assert_ok(rota_record_if(
        third.lane, &ROTA_IF_NODE(.name = "inner if", .condition = w->condition, .body = inner.graph), NULL));
    rota_recorder_close(third.lane);
    rota_graph *const bodies[] = {NULL, NULL, third.graph};
    assert_ok(rota_record_switch(
        loop.lane,
        &ROTA_SWITCH_NODE(.name = "choice", .condition = w->index, .bodies = bodies, .body_count = 3), NULL));
    record_down(loop.lane, w->count);
    rota_recorder_close(loop.lane);
    assert_ok(rota_record_for(lane,
                              &ROTA_FOR_NODE(.name = "loop", .count = w->times, .index = w->index,
                                             .body = loop.graph, .iterations_max = 5),
                              NULL));
}

typedef void (*record_fn)(rota_recorder *lane, rota_graph *graph, const words *w);

/* How it fails, twice, from where the node is named on; and that it is well once there is nothing to fail. */
static void run_failing(rota_runtime *runtime, rota_device *device, record_fn record, char *out_text) {
    words w = {.x = test_words(device, "x", WIDE, 5),
               .y = test_words(device, "y", WIDE, 0),
               .count = test_words(device, "count", 1, 0),
               .condition = test_words(device, "condition", 1, 7),
               .times = test_words(device, "times", 1, 4),
               .index = test_words(device, "index", 1, 0)};
    rota_graph *graph;
    rota_recorder *lane;
    rota_plan *plan = NULL;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "deciding"), &graph));
    assert_ok(rota_recorder_open(graph, 0, "main", &lane));
    record(lane, graph, &w);
    rota_recorder_close(lane);
    assert_ok(rota_compile(runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .certify = true),
                           &plan));
    rota_graph_release(graph);
    for (uint32_t round = 0; round < 3; round++) {
        static const uint32_t zeros[WIDE];
        const uint32_t times = round == 2 ? 0 : 4, condition = round == 2 ? 0 : 7;
        rota_ticket ticket;
        assert_ok(rota_buffer_write(w.y, device, 0, zeros, sizeof zeros, NULL));
        assert_ok(rota_buffer_write(w.count, device, 0, zeros, 4, NULL));
        assert_ok(rota_buffer_write(w.index, device, 0, zeros, 4, NULL));
        assert_ok(rota_buffer_write(w.times, device, 0, &times, 4, NULL));
        assert_ok(rota_buffer_write(w.condition, device, 0, &condition, 4, NULL));
        assert_ok(rota_submit(plan, NULL, &ticket));
        assert_status(rota_wait(ticket, 0), round == 2 ? ROTA_OK : ROTA_NODE_FAILED);
        if (round == 2) break;
        const char *from = strstr(rota_last_error(), "node 'loop' failed");
        assert_non_null(from);
        assert_true(round == 0 || strcmp(out_text, from) == 0);
        assert_true(strlen(from) < TEXT_BYTES);
        strcpy(out_text, from);
    }
    rota_plan_release(plan);
    rota_buffer *const buffers[] = {w.x, w.y, w.count, w.condition, w.times, w.index};
    for (uint32_t i = 0; i < 6; i++) rota_buffer_release(buffers[i]);
}

static void test_sentences(void **state) {
    static const struct {
        record_fn record;
        const char *says;
    } cases[] = {
        {limit_of_for, "for 'loop': its count is 4, and it may have 3 iterations"},
        {limit_of_while, "iteration 3 of while 'loop': its condition is 7 after 4 iterations"},
        {count_in_for,
         "iteration 1 of for 'loop', node 'use': its count is 4294967295, the most it may be is 100"},
        {count_in_if, "if 'loop', node 'use': its count is 4294967295, the most it may be is 100"},
        {count_within,
         "iteration 2 of for 'loop', switch 'choice', if 'inner if', node 'use': its count is 4294967294"}};
    rota_device *cpu = NULL;
    runtime_fixture f;
    gpu_open(*state, &f);
    for (uint32_t i = 0; f.device && i < sizeof cases / sizeof *cases; i++) {
        char said_by_cpu[TEXT_BYTES], said_by_gpu[TEXT_BYTES];
        if (!cpu) assert_ok(rota_device_open(f.runtime, "cpu", &cpu));
        run_failing(f.runtime, cpu, cases[i].record, said_by_cpu);
        run_failing(f.runtime, f.device, cases[i].record, said_by_gpu);
        if (!strstr(said_by_cpu, cases[i].says)) fail_msg("no '%s' in: %s", cases[i].says, said_by_cpu);
        assert_string_equal(said_by_gpu, said_by_cpu);
    }
    const bool is_there = f.device != NULL;
    gpu_close(&f);
    if (!is_there) skip();
}

/* ---- What is refused ---- */

static rota_status host_function(void *user, void *const *operands, const uint64_t *operand_bytes,
                                 uint32_t operand_count) {
    (void)user, (void)operands, (void)operand_bytes, (void)operand_count;
    return ROTA_OK;
}

/* What Vulkan has no functions for. */
static void test_refused(void **state) {
    const runtime_fixture *f = *state;
    rota_device *vulkan = NULL;
    if (rota_device_open(f->runtime, "vk:0", &vulkan) != ROTA_OK) skip();
    rota_buffer *word = test_words(vulkan, "word", 1, 0);
    const rota_access access = all(word, ROTA_READWRITE);
    rota_graph *graph;
    rota_recorder *lane;
    rota_plan *plan = NULL;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "deciding"), &graph));
    assert_ok(rota_recorder_open(graph, 0, "main", &lane));
    const body b = begin_body(graph, "step");
    assert_ok(rota_record_host(
        b.lane,
        &ROTA_HOST_NODE(.fn = host_function, .name = "function", .accesses = &access, .access_count = 1),
        NULL));
    rota_recorder_close(b.lane);
    assert_ok(rota_record_while(
        lane, &ROTA_WHILE_NODE(.name = "loop", .condition = word, .body = b.graph, .iterations_max = 2),
        NULL));
    rota_recorder_close(lane);
    assert_status(
        rota_compile(f->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &vulkan, .device_count = 1), &plan),
        ROTA_UNSUPPORTED);
    if (!strstr(rota_last_error(), "node 'function'") || !strstr(rota_last_error(), "'loop'"))
        fail_msg("no names in: %s", rota_last_error());
    rota_graph_release(graph);
    rota_buffer_release(word);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_sentences, "vk:0"),
        cmocka_unit_test_prestate(test_sentences, "cuda:0"),
        cmocka_unit_test_prestate(test_sentences, GPU_STAND_IN),
        cmocka_unit_test_setup_teardown(test_refused, runtime_setup, runtime_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
