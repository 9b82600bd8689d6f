/* Scratch memory that kernels ask for on their device: the scheduler's own transient, packed and ordered like
 * others. The adversary stands in for a CUDA device, poisons memory outside its lifetime, and runs in any
 * legal order. */
#include "tests/kit/runtime_support.h"

#include <stdlib.h>
#include <string.h>
#include "sched/testing.h"
#include "tests/adversary/adversary.h"

#define WORDS 4096u
#define NODES 24u

static const rota_cuda_target target = {.compute_capability = 90, .multiprocessors = 132, .name = "stand-in"};

static rota_status open_with_target(const rota_exec_driver *driver, uint32_t index,
                                    const rota_exec_open_options *options, rota_exec_device **out_device) {
    (void)driver;
    ROTA_TRY(adversary_driver.open(&adversary_driver, index, options, out_device));
    (*out_device)->cuda = &target;
    return ROTA_OK;
}

/* y = x + 1 through scratch memory: all of the scratch is written first, then read. One item, so that the
 * adversary cannot part the two. */
static rota_status through_scratch(const rota_kernel_call *call) {
    if (call->operand_count != 3)
        return rota_fail(ROTA_INTERNAL, "%u operands, expected a workspace as the third",
                         call->operand_count);
    if (call->operand_bytes[2] != call->operand_bytes[0] * 2)
        return rota_fail(ROTA_INTERNAL, "a workspace of %llu bytes",
                         (unsigned long long)call->operand_bytes[2]);
    const uint32_t *x = call->operands[0];
    uint32_t *y = call->operands[1], *scratch = call->operands[2];
    for (uint32_t i = 0; i < WORDS; i++) scratch[i] = scratch[WORDS + i] = x[i] + 1;
    for (uint32_t i = 0; i < WORDS; i++)
        y[i] = scratch[2 * WORDS - 1 - i] - scratch[WORDS - 1 - i] + scratch[i];
    return ROTA_OK;
}

static uint64_t twice_the_input(const void *params, const uint64_t *operand_bytes,
                                const rota_cuda_target *to) {
    (void)params;
    return to == &target ? operand_bytes[0] * 2 : 0;
}

static const rota_kernel scratch_kernel = {.name = "through_scratch",
                                           .operand_count = 2,
                                           .cpu = {.fn = through_scratch},
                                           .cuda = {.workspace = twice_the_input}};

static const rota_kernel *select_scratch(const void *params, const uint64_t *operand_bytes,
                                         uint32_t slot_mask, const rota_cuda_target *to) {
    (void)params, (void)operand_bytes, (void)to;
    return slot_mask ? NULL : &scratch_kernel;
}
/* Asks for none itself; what stands in for it does. */
static const rota_kernel selecting_kernel = {.name = "selecting",
                                             .operand_count = 2,
                                             .cpu = {.fn = through_scratch},
                                             .cuda = {.select = select_scratch}};

static rota_plan *many_nodes(rota_device *device, rota_buffer *const *from, rota_buffer *const *to,
                             rota_packing packing, uint32_t queues) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "scratch"), &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < NODES; i++)
        assert_ok(rota_record_kernel(
            recorder,
            &ROTA_KERNEL_NODE(.kernel = i % 2 ? &scratch_kernel : &selecting_kernel,
                              .accesses = (rota_access[]){{from[i], 0, ROTA_WHOLE, ROTA_READ},
                                                          {to[i], 0, ROTA_WHOLE, ROTA_WRITE}},
                              .access_count = 2, .placement = {.queue_plus_1 = i % queues + 1}),
            NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(
        rota_device_runtime(device), graph,
        &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .packing = packing, .queues = queues),
        &plan));
    rota_graph_release(graph);
    return plan;
}

static void nodes_get_their_scratch(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 8; round++) {
        bool chain = round & 1;
        rota_packing packing = round & 2 ? ROTA_PACK_CONCURRENT : ROTA_PACK_TIGHT;
        adversary_options options = {.seed = round};
        rota_exec_driver driver = adversary_driver;
        driver.open = open_with_target;
        rota_runtime *runtime;
        rota_device *device;
        assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u, .queues_per_device = 3),
                                    &runtime));
        assert_ok(rota_runtime_add_driver(runtime, &driver, &options));
        assert_ok(rota_device_open(runtime, "adversary", &device));
        rota_buffer *buffers[NODES + 1];
        for (uint32_t i = 0; i <= NODES; i++) buffers[i] = test_words(device, "data", WORDS, 10);
        rota_buffer *from[NODES];
        for (uint32_t i = 0; i < NODES; i++) from[i] = buffers[chain ? i : 0];
        rota_plan *plan = many_nodes(device, from, buffers + 1, packing, round & 4 ? 3 : 1);
        rota_plan_stats stats = ROTA_PLAN_STATS();
        rota_plan_get_stats(plan, &stats);
        uint64_t one = WORDS * 8u;
        assert_true(stats.arena_bytes >= one);
        /* In a chain on one queue one place does for all. */
        if (chain && !(round & 4)) assert_int_equal(stats.arena_bytes, one);
        rota_ticket ticket;
        assert_ok(rota_submit(plan, NULL, &ticket));
        assert_ok(rota_wait(ticket, 0));
        for (uint32_t i = 1; i <= NODES; i++) test_expect_words(buffers[i], WORDS, 10 + (chain ? i : 1));
        rota_plan_release(plan);
        for (uint32_t i = 0; i <= NODES; i++) rota_buffer_release(buffers[i]);
        assert_ok(rota_runtime_close(runtime, 0));
        assert_int_equal(options.violations, 0);
        assert_int_equal(options.live_memories, 0);
    }
}

/* Under a memory limit a workspace counts where its node is, and nowhere else: beside the scratch of 2 units
 * `kept` must go, of one; later two of one live, which is what the limit allows. */
static void scratch_counts_where_it_is(void **state) {
    (void)state;
    const uint64_t unit = UINT64_C(4) * WORDS;
    adversary_options options = {.seed = 3};
    rota_exec_driver driver = adversary_driver;
    driver.open = open_with_target;
    rota_runtime *runtime;
    rota_device *device;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_buffer *kept, *other, *big;
    rota_ticket ticket;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u), &runtime));
    assert_ok(rota_runtime_add_driver(runtime, &driver, &options));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    rota_buffer *x = test_words(device, "x", WORDS, 10), *y = test_words(device, "y", WORDS, 0),
                *out[] = {test_words(device, "out 0", WORDS, 0), test_words(device, "out 1", WORDS, 0),
                          test_words(device, "out 2", WORDS, 0)};
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "scratch"), &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "kept", unit, &kept));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "other", unit, &other));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "big", unit, &big));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_fill(recorder, kept, 0, unit, 7, NULL));
    const rota_access through[] = {{x, 0, ROTA_WHOLE, ROTA_READ}, {y, 0, ROTA_WHOLE, ROTA_WRITE}};
    assert_ok(rota_record_kernel(
        recorder, &ROTA_KERNEL_NODE(.kernel = &scratch_kernel, .accesses = through, .access_count = 2),
        NULL));
    assert_ok(rota_record_copy(recorder, out[0], 0, kept, 0, unit, NULL));
    assert_ok(rota_record_fill(recorder, other, 0, unit, 8, NULL));
    assert_ok(rota_record_fill(recorder, big, 0, unit, 9, NULL));
    assert_ok(rota_record_copy(recorder, out[1], 0, big, 0, unit, NULL));
    assert_ok(rota_record_copy(recorder, out[2], 0, other, 0, unit, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .certify = true,
                                                 .memory_limit_bytes = 2u * unit),
                           &plan));
    assert_ok(rota_plan_get_stats(plan, &stats));
    assert_int_equal(stats.arena_bytes, 2u * unit);
    assert_int_equal(stats.recomputed, 1);
    assert_ok(rota_submit(plan, NULL, &ticket));
    assert_ok(rota_wait(ticket, 0));
    test_expect_words(y, WORDS, 11);
    test_expect_words(out[0], WORDS, 7);
    test_expect_words(out[1], WORDS, 9);
    test_expect_words(out[2], WORDS, 8);
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(x);
    rota_buffer_release(y);
    for (uint32_t i = 0; i < 3; i++) rota_buffer_release(out[i]);
    assert_ok(rota_runtime_close(runtime, 0));
    assert_int_equal(options.violations, 0);
    assert_int_equal(options.live_memories, 0);
}

/* As many operands as a kernel may have, and the workspace after them. */
static rota_status fill_all(const rota_kernel_call *call) {
    if (call->operand_count != ROTA_KERNEL_OPERANDS_MAX + 1)
        return rota_fail(ROTA_INTERNAL, "%u operands", call->operand_count);
    uint32_t *scratch = call->operands[ROTA_KERNEL_OPERANDS_MAX];
    for (uint32_t i = 0; i < WORDS; i++) scratch[i] = i;
    for (uint32_t o = 0; o < ROTA_KERNEL_OPERANDS_MAX; o++)
        for (uint32_t i = 0; i < WORDS; i++) ((uint32_t *)call->operands[o])[i] = scratch[i] - i + o;
    return ROTA_OK;
}

static const rota_kernel full_kernel = {.name = "full",
                                        .operand_count = ROTA_KERNEL_OPERANDS_MAX,
                                        .cpu = {.fn = fill_all},
                                        .cuda = {.workspace = twice_the_input}};

static void a_full_node_gets_its_scratch(void **state) {
    (void)state;
    adversary_options options = {.seed = 3};
    rota_exec_driver driver = adversary_driver;
    driver.open = open_with_target;
    rota_runtime *runtime;
    rota_device *device;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_runtime_open(NULL, &runtime));
    assert_ok(rota_runtime_add_driver(runtime, &driver, &options));
    assert_ok(rota_device_open(runtime, "adversary", &device));
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rota_buffer *buffers[ROTA_KERNEL_OPERANDS_MAX];
    rota_access accesses[ROTA_KERNEL_OPERANDS_MAX];
    for (uint32_t i = 0; i < ROTA_KERNEL_OPERANDS_MAX; i++) {
        buffers[i] = test_words(device, "data", WORDS, 100);
        accesses[i] = (rota_access){buffers[i], 0, ROTA_WHOLE, ROTA_WRITE};
    }
    assert_ok(rota_record_kernel(recorder,
                                 &ROTA_KERNEL_NODE(.kernel = &full_kernel, .accesses = accesses,
                                                   .access_count = ROTA_KERNEL_OPERANDS_MAX),
                                 NULL));
    rota_recorder_close(recorder);
    assert_ok(
        rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    rota_ticket ticket;
    assert_ok(rota_submit(plan, NULL, &ticket));
    assert_ok(rota_wait(ticket, 0));
    for (uint32_t i = 0; i < ROTA_KERNEL_OPERANDS_MAX; i++) {
        test_expect_words(buffers[i], WORDS, i);
        rota_buffer_release(buffers[i]);
    }
    rota_plan_release(plan);
    rota_graph_release(graph);
    assert_ok(rota_runtime_close(runtime, 0));
    assert_int_equal(options.violations, 0);
}

static void other_devices_are_not_asked(void **state) {
    runtime_fixture *f = *state;
    rota_buffer *x = test_words(f->device, "x", WORDS, 1);
    test_node node = {
        &scratch_kernel, "alone", {{x, 0, WORDS * 2, ROTA_READ}, {x, WORDS * 2, WORDS * 2, ROTA_WRITE}}, 2};
    rota_plan *plan = test_plan(f->device, "cpu", &node, 1);
    rota_ticket ticket;
    assert_ok(rota_submit(plan, NULL, &ticket));
    assert_int_equal(rota_wait(ticket, 0), ROTA_NODE_FAILED);
    assert_non_null(strstr(rota_last_error(), "2 operands"));
    rota_plan_release(plan);
    rota_buffer_release(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_get_their_scratch),
        cmocka_unit_test(scratch_counts_where_it_is),
        cmocka_unit_test(a_full_node_gets_its_scratch),
        cmocka_unit_test_setup_teardown(other_devices_are_not_asked, runtime_setup, runtime_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
