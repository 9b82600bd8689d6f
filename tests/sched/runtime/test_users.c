/* What is lent to a graph, for languages that can't make a function for each use: a kernel's and an op's `user`
 * comes to their functions, on whichever executor; and a graph says once when nothing of it borrows any more,
 * after its plans. */
#include "tests/kit/runtime_support.h"

#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "tests/kernels/kernels.h"
#include "tests/kit/nap.h"

enum { COUNT = 1000, BYTES = 4 * COUNT };

/* What a binding has of a kernel. */
typedef struct bound {
    uint32_t added;
    _Atomic uint32_t items_asked, groups_asked, calls;
} bound;

static void items_of_bound(void *user, const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                           uint64_t *out_grain) {
    (void)params;
    (void)ra_fetch_add_relaxed(&((bound *)user)->items_asked, 1);
    *out_items = operand_bytes[0] / 4;
    *out_grain = 16;
}

static rota_status add_bound(const rota_kernel_call *call) {
    bound *mine = call->user;
    uint32_t *x = call->operands[0];
    for (uint64_t i = call->begin; i < call->end; i++) x[i] += mine->added;
    (void)ra_fetch_add_relaxed(&mine->calls, (uint32_t)(call->end - call->begin));
    return ROTA_OK;
}

static rota_kernel kernel_of(bound *mine) {
    return (rota_kernel){.name = "bound",
                         .operand_count = 1,
                         .cpu = {.fn = add_bound, .items_with = items_of_bound},
                         .user = mine};
}

/* Two kernels of the same functions, each with its own; whole, and in pieces that workers share. */
static void kernels(void **state) {
    runtime_fixture *f = *state;
    bound small = {.added = 3}, large = {.added = 500};
    const rota_kernel add_small = kernel_of(&small), add_large = kernel_of(&large);
    rota_buffer *words = test_words(f->device, "words", COUNT, 1);
    const rota_access access = {words, 0, ROTA_WHOLE, ROTA_READWRITE};
    rota_plan *plan =
        test_plan(f->device, "two of one",
                  (test_node[]){{&add_small, "small", {access}, 1}, {&add_large, "large", {access}, 1}}, 2);
    for (uint32_t replay = 1; replay <= 3; replay++) {
        assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
        test_expect_words(words, COUNT, 1 + replay * 503);
    }
    assert_int_equal(ra_load_relaxed(&small.calls), 3 * COUNT);
    assert_int_equal(ra_load_relaxed(&large.calls), 3 * COUNT);
    assert_true(ra_load_relaxed(&small.items_asked) > 0 && ra_load_relaxed(&large.items_asked) > 0);
    rota_plan_release(plan);
    rota_buffer_release(words);
}

static rota_grid_fn map_grid;

static void groups_of_bound(void *user, const void *params, const uint64_t *operand_bytes,
                            uint32_t out_groups[3]) {
    (void)ra_fetch_add_relaxed(&((bound *)user)->groups_asked, 1);
    map_grid(params, operand_bytes, out_groups);
}

/* How many workgroups there are is asked of grid_with, and not of grid. */
static void no_grid(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)params, (void)operand_bytes;
    memset(out_groups, 0, 3 * sizeof *out_groups);
    fail_msg("grid was asked beside grid_with");
}

static void grids(void **state) {
    (void)state;
    rota_device *device;
    if (rota_open("vk:0", NULL, &device) != ROTA_OK) skip();
    bound mine = {.added = 0};
    const rota_kernel *map = &test_kernels[TEST_KERNEL_map].kernel;
    rota_kernel kernel = *map;
    map_grid = map->vk.grid;
    kernel.vk.grid = no_grid;
    kernel.vk.grid_with = groups_of_bound;
    kernel.user = &mine;
    rota_runtime *runtime = rota_device_runtime(device);
    rota_buffer *from = test_words(device, "from", COUNT, 5), *to = test_buffer(runtime, "to", BYTES);
    uint32_t made[2][COUNT];
    for (uint32_t i = 0; i < 2; i++) {
        rota_graph *graph;
        rota_recorder *recorder;
        rota_plan *plan;
        const test_params params = {.n = COUNT, .p = 7, .seed = 9};
        const rota_access accesses[] = {{from, 0, ROTA_WHOLE, ROTA_READ}, {to, 0, ROTA_WHOLE, ROTA_WRITE}};
        const rota_param_binding constant = {TEST_BIND_SEED, ROTA_SLOT_CONSTANT};
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
        assert_ok(rota_record_kernel(recorder,
                                     &ROTA_KERNEL_NODE(.kernel = i ? &kernel : map, .accesses = accesses,
                                                       .access_count = 2, .params = &params,
                                                       .bindings = &constant, .binding_count = 1),
                                     NULL));
        rota_recorder_close(recorder);
        assert_ok(rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1),
                               &plan));
        rota_graph_release(graph);
        assert_ok(rota_submit_wait(plan, NULL, 0, NULL));
        assert_ok(rota_buffer_read(to, 0, made[i], BYTES));
        rota_plan_release(plan);
    }
    assert_memory_equal(made[0], made[1], BYTES);
    assert_true(ra_load_relaxed(&mine.groups_asked) > 0);
    rota_buffer_release(from);
    rota_buffer_release(to);
    assert_ok(rota_close(device, 0));
}

/* ---- Ops ---- */

static rota_status shape_of_bound(const rota_op_use *use, rota_tensor *out_outputs) {
    return rota_shape_like(&use->inputs[0], use->inputs[0].dtype, out_outputs);
}

static rota_status record_bound(rota_tape *tape, rota_op_use *use) {
    const float *times = use->op->user;
    return rota_op_scale_into(tape, use->inputs[0], ROTA_CONSTANT(*times), use->outputs[0]);
}

static bool example_of_bound(uint32_t index, uint32_t size, rota_op_example *out_example) {
    (void)size;
    const float *times = out_example->use.op->user;
    *out_example = (rota_op_example){.label = "bound", .flops = (double)*times};
    return index == 0;
}

static void ops(void **state) {
    runtime_fixture *f = *state;
    const float three = 3;
    const rota_op op = {.name = "bound",
                        .input_count = 1,
                        .output_count = 1,
                        .input_names = {"x"},
                        .output_names = {"y"},
                        .shape = shape_of_bound,
                        .record = record_bound,
                        .example = example_of_bound,
                        .user = (void *)(uintptr_t)&three};
    rota_op_example example = {0};
    assert_true(rota_op_get_example(&op, 0, 0, &example));
    assert_true(example.flops == 3 && example.use.op == &op && example.use.input_count == 1);
    assert_false(rota_op_get_example(&op, 1, 0, &example));
    const float values[] = {1, 2, 3, 4};
    float result[4];
    rota_tensor x;
    assert_ok(rota_tensor_create(f->device, "x", ROTA_F32, ROTA_SHAPE(4), values, &x));
    rota_tape *tape;
    assert_ok(rota_tape_create_on(f->device, NULL, &tape));
    rota_op_use use = {.op = &op, .input_count = 1, .output_count = 1, .inputs = {x}, .outputs = {x}};
    rota_tensor y;
    assert_ok(rota_tensor_create(f->device, "y", ROTA_F32, ROTA_SHAPE(4), NULL, &y));
    use.outputs[0] = y;
    assert_ok(rota_op_apply(tape, &use));
    assert_ok(rota_tape_submit(tape, NULL, NULL));
    assert_ok(rota_tensor_read(&y, result, sizeof result));
    for (int i = 0; i < 4; i++) assert_true(result[i] == 3 * values[i]);
    rota_tape_destroy(tape);
    rota_buffer_release(x.buffer);
    rota_buffer_release(y.buffer);
}

/* What the headers' macros make can be made by a call. */
static void values(void **state) {
    (void)state;
    const rota_value plain = rota_value_plain(2.5), constant = rota_value_constant(7),
                     slot = rota_value_slot((rota_slot){4});
    assert_int_equal(plain.kind, ROTA_VALUE_PLAIN);
    assert_true(plain.number == 2.5 && constant.number == 7);
    assert_int_equal(constant.kind, ROTA_VALUE_CONSTANT);
    assert_int_equal(slot.kind, ROTA_VALUE_SLOT);
    assert_int_equal(slot.slot.index, 4);
    assert_int_equal(plain.slot.index, 0);
}

/* ---- What a graph borrows ---- */

static void given_back(void *user) {
    (void)ra_fetch_add_seq_cst((_Atomic uint32_t *)user, 1);
}

static void expect_given_back(_Atomic uint32_t *count, uint32_t expected) {
    const uint64_t deadline = rota_deadline_after(20000000000u);
    while (ra_load_seq_cst(count) < expected && rota_clock_ns() < deadline) test_nap_ms(1);
    assert_int_equal(ra_load_seq_cst(count), expected);
}

static rota_graph *graph_with(_Atomic uint32_t *count, const rota_kernel *kernel, rota_buffer *words) {
    rota_graph *graph;
    rota_recorder *recorder;
    const rota_access access = {words, 0, ROTA_WHOLE, ROTA_READWRITE};
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.release = given_back, .user = count), &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = kernel, .accesses = &access, .access_count = 1), NULL));
    rota_recorder_close(recorder);
    return graph;
}

/* Not while a plan is there, nor while a replay of it runs; then once. */
static void graphs(void **state) {
    runtime_fixture *f = *state;
    _Atomic uint32_t count = 0;
    rota_buffer *words = test_words(f->device, "words", COUNT, 1);
    rota_graph *graph = graph_with(&count, &test_gate, words);
    rota_plan *plan;
    rota_ticket ticket;
    assert_ok(rota_compile(f->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1),
                           &plan));
    rota_graph_release(graph);
    assert_int_equal(ra_load_seq_cst(&count), 0);
    test_gate_open(false);
    assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    test_gates_running(1);
    rota_plan_release(plan);
    test_nap_ms(20);
    assert_int_equal(ra_load_seq_cst(&count), 0);
    test_gate_open(true);
    assert_ok(rota_wait(ticket, 0));
    expect_given_back(&count, 1);
    rota_buffer_release(words);
}

/* Also where it is never compiled, where another holds it, and where there is a buffer of it left. */
static void graphs_alone(void **state) {
    runtime_fixture *f = *state;
    _Atomic uint32_t count = 0;
    rota_buffer *words = test_words(f->device, "words", COUNT, 1), *own;
    rota_graph *graph = graph_with(&count, &test_increment, words);
    rota_graph_retain(graph);
    rota_graph_release(graph);
    assert_int_equal(ra_load_seq_cst(&count), 0);
    rota_graph_release(graph);
    assert_int_equal(ra_load_seq_cst(&count), 1);
    graph = graph_with(&count, &test_increment, words);
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "own", BYTES, &own));
    rota_buffer_retain(own);
    rota_graph_release(graph);
    assert_int_equal(ra_load_seq_cst(&count), 1);
    rota_buffer_release(own);
    assert_int_equal(ra_load_seq_cst(&count), 2);
    rota_buffer_release(words);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels, runtime_setup, runtime_teardown),
        cmocka_unit_test(grids),
        cmocka_unit_test_setup_teardown(ops, runtime_setup, runtime_teardown),
        cmocka_unit_test(values),
        cmocka_unit_test_setup_teardown(graphs, runtime_setup, runtime_teardown),
        cmocka_unit_test_setup_teardown(graphs_alone, runtime_setup, runtime_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
