/* Replays of one plan in a row, whose hazards are resolved once: the order between one replay and the next
 * holds also where nodes of a replay only add up, whose order the plan leaves open. */
#include "tests/runtime_support.h"

#include "tests/adversary.h"

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
                                 &(rota_kernel_node){.kernel = kernel,
                                                     .accesses = accesses,
                                                     .access_count = kernel->operand_count,
                                                     .placement = {.queue_plus_1 = queue + 1}},
                                 NULL));
}

static void sums_stay_in_their_replay(void **state) {
    (void)state;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        adversary_options options = {.seed = round};
        rota_runtime *runtime;
        rota_device *device;
        assert_ok(rota_runtime_open(
            &(rota_runtime_options){.timeout_ns = 20000000000u, .queues_per_device = 4}, &runtime));
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
            &(rota_compile_options){.devices = &device, .device_count = 1, .queues = 4, .instances = 8},
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_stay_in_their_replay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
