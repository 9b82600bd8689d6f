/* Counted nodes on Vulkan and CUDA devices, also over the stand-in for the CUDA driver, where a node fails when its
 * work is done: whose ticket that is, what fails with it, and what becomes of those that wait to be told, when the
 * device is lost. Random graphs: rota-fuzz --counted. */
#include "tests/kit/runtime_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "exec/vk/vk_device.h"
#include "sched/runtime/shared/devices.h"
#include "tests/kernels/kernels.h"
#include "tests/random/decide.h"
#include "tests/sched/runtime/gpu_kit.h"

enum { WIDE = 4096, MAX = 1000, OLD = 9 };

static int setup(void **state) {
    runtime_fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    gpu_open(*state, f);
    *state = f;
    return 0;
}
static int teardown(void **state) {
    gpu_close(*state);
    free(*state);
    return 0;
}
static runtime_fixture *need_device(void **state) {
    runtime_fixture *f = *state;
    if (!f->device) skip();
    return f;
}

/* y[i] of the first as many as `count` says are made of x[i]. */
static void record_map(rota_recorder *lane, rota_buffer *y, rota_buffer *x, rota_buffer *count) {
    static const test_params params = {.n = WIDE};
    const rota_param_binding seed = {TEST_BIND_SEED, ROTA_SLOT_CONSTANT};
    const rota_access accesses[] = {{x, 0, ROTA_WHOLE, ROTA_READ}, {y, 0, ROTA_WHOLE, ROTA_WRITE}};
    assert_ok(rota_record_counted_kernel(
        lane,
        &ROTA_KERNEL_NODE(.kernel = &test_kernels[TEST_KERNEL_map].kernel, .name = "use",
                          .accesses = accesses, .access_count = 2, .params = &params, .bindings = &seed,
                          .binding_count = 1),
        &ROTA_COUNT(.buffer = count, .max = MAX, .items_per_group = TEST_ITEMS_PER_GROUP,
                    .bindable_plus_1 = TEST_BIND_COUNT + 1),
        NULL));
}

/* `condition` NULL, or: in an if by that. */
static rota_plan *map_plan_in(const runtime_fixture *f, rota_buffer *condition, rota_buffer *y,
                              rota_buffer *x, rota_buffer *count) {
    rota_graph *graph, *body;
    rota_recorder *lane, *inner;
    rota_plan *plan = NULL;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "counted"), &graph));
    assert_ok(rota_recorder_open(graph, 0, "main", &lane));
    if (condition) {
        assert_ok(rota_graph_create_body(graph, "body", &body));
        assert_ok(rota_recorder_open(body, 0, "inner", &inner));
        record_map(inner, y, x, count);
        rota_recorder_close(inner);
        assert_ok(
            rota_record_if(lane, &ROTA_IF_NODE(.name = "use", .condition = condition, .body = body), NULL));
    } else {
        record_map(lane, y, x, count);
    }
    rota_recorder_close(lane);
    assert_ok(rota_compile(f->runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1, .certify = true),
                           &plan));
    rota_graph_release(graph);
    return plan;
}

static rota_plan *map_plan(const runtime_fixture *f, rota_buffer *y, rota_buffer *x, rota_buffer *count) {
    return map_plan_in(f, NULL, y, x, count);
}

/* Many replays are under way at once, each with a count of its own: as many fail as should, and no other. */
static void test_in_flight(void **state) {
    enum { REPLAYS = 201, AHEAD = 50 };
    static rota_ticket tickets[REPLAYS];
    static uint32_t counts[REPLAYS], words[WIDE];
    const runtime_fixture *f = need_device(state);
    rota_buffer *x = test_words(f->device, "x", WIDE, 5), *y = test_words(f->device, "y", WIDE, OLD),
                *count = test_words(f->device, "count", 1, 0);
    rota_plan *plan = map_plan(f, y, x, count);
    for (uint32_t i = 0; i < REPLAYS; i++) {
        counts[i] = i % 3 == 1 ? MAX + 1 + i : i;
        assert_ok(rota_buffer_write(count, f->device, 0, &counts[i], 4, NULL));
        /* What failed before is written over. */
        assert_ok(rota_buffer_write(y, f->device, 0, words, sizeof words, NULL));
        assert_ok(rota_submit(plan, NULL, &tickets[i]));
        if (i >= AHEAD) (void)rota_wait(tickets[i - AHEAD], 0); /* a thread has room for so many at a time */
    }
    for (uint32_t i = 0; i < REPLAYS; i++) {
        char said[64];
        (void)snprintf(said, sizeof said, "its count is %u, the most", counts[i]);
        const rota_status status = rota_wait(tickets[i], 0);
        assert_status(status, counts[i] > MAX ? ROTA_NODE_FAILED : ROTA_OK);
        if (status != ROTA_OK && !strstr(rota_last_error(), said))
            fail_msg("no '%s' in: %s", said, rota_last_error());
    }
    uint32_t got[WIDE];
    assert_ok(rota_buffer_read(y, 0, got, sizeof got));
    for (uint32_t i = 0; i < WIDE; i++)
        assert_int_equal(got[i], i < counts[REPLAYS - 1] ? test_mix(5, i) : 0);
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(count);
}

/* What reads of what failed fails with it, in the same plan and later ones; what does not is well. */
static void dependents(const runtime_fixture *f, rota_buffer *condition) {
    rota_buffer *x = test_words(f->device, "x", WIDE, 5), *y = test_words(f->device, "y", WIDE, OLD),
                *z = test_words(f->device, "z", WIDE, OLD),
                *apart = test_words(f->device, "apart", WIDE, OLD),
                *count = test_words(f->device, "count", 1, MAX + 1);
    rota_plan *plan = map_plan_in(f, condition, y, x, count);
    rota_graph *graph;
    rota_recorder *lane;
    rota_plan *after[2] = {NULL, NULL};
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "after"), &graph));
        assert_ok(rota_recorder_open(graph, 0, "main", &lane));
        assert_ok(rota_record_copy(lane, i ? apart : z, 0, i ? x : y, 0, (uint64_t)WIDE * 4, NULL));
        rota_recorder_close(lane);
        assert_ok(rota_compile(f->runtime, graph,
                               &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1), &after[i]));
        rota_graph_release(graph);
    }
    for (uint32_t round = 0; round < 3; round++) {
        rota_ticket tickets[3];
        assert_ok(rota_submit(plan, NULL, &tickets[0]));
        assert_ok(rota_submit(after[0], NULL, &tickets[1]));
        assert_ok(rota_submit(after[1], NULL, &tickets[2]));
        assert_status(rota_wait(tickets[2], 0), ROTA_OK);
        assert_status(rota_wait(tickets[1], 0), ROTA_NODE_FAILED);
        assert_non_null(strstr(rota_last_error(), "node 'use' failed"));
        assert_status(rota_wait(tickets[0], 0), ROTA_NODE_FAILED);
    }
    test_expect_words(apart, WIDE, 5);
    for (uint32_t i = 0; i < 2; i++) rota_plan_release(after[i]);
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(z);
    rota_buffer_release(apart);
    rota_buffer_release(count);
}

static void test_dependents(void **state) {
    const runtime_fixture *f = need_device(state);
    rota_buffer *condition = test_words(f->device, "condition", 1, 1);
    dependents(f, NULL);
    dependents(f, condition);
    rota_buffer_release(condition);
}

/* A count that nobody wrote, since who was to write it failed: who was to use it fails for that, and not for what
 * stands there, whether it was handed over before that was known or is left out. */
static void test_cause(void **state) {
    static uint32_t words[WIDE];
    const uint32_t high = MAX + 1;
    const runtime_fixture *f = need_device(state);
    rota_buffer *x = test_words(f->device, "x", WIDE, 5), *y = test_words(f->device, "y", WIDE, OLD),
                *z = test_words(f->device, "z", WIDE, OLD), *count = test_words(f->device, "count", 1, 0);
    rota_plan *first = map_plan(f, y, x, count), *second = map_plan(f, z, x, y);
    memset(words, 0xFF, sizeof words);
    assert_ok(rota_buffer_write(count, f->device, 0, &high, 4, NULL));
    for (uint32_t waits = 0; waits < 2; waits++) {
        rota_ticket tickets[2];
        assert_ok(rota_buffer_write(y, f->device, 0, words, sizeof words, NULL));
        assert_ok(rota_submit(first, NULL, &tickets[0]));
        if (waits) assert_status(rota_wait(tickets[0], 0), ROTA_NODE_FAILED);
        assert_ok(rota_submit(second, NULL, &tickets[1]));
        assert_status(rota_wait(tickets[1], 0), ROTA_NODE_FAILED);
        if (!strstr(rota_last_error(), "its count is 1001, the most"))
            fail_msg("for another count: %s", rota_last_error());
    }
    rota_plan_release(first);
    rota_plan_release(second);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(z);
    rota_buffer_release(count);
}

/* ---- Loops behind what failed ---- */

enum { LONG = 1 << 21, LONG_NODES = 16 };

typedef struct loop_words {
    rota_buffer *x, *y, *zero, *high, *other, *down, *condition;
} loop_words;

/* Some time's work; then the condition becomes 0, of a count that is too high. */
static void record_failing(rota_recorder *lane, const loop_words *w) {
    static const test_params params = {.n = LONG};
    const rota_param_binding seed = {TEST_BIND_SEED, ROTA_SLOT_CONSTANT};
    const rota_access accesses[] = {{w->x, 0, ROTA_WHOLE, ROTA_READ}, {w->y, 0, ROTA_WHOLE, ROTA_WRITE}};
    for (uint32_t n = 0; n < LONG_NODES; n++)
        assert_ok(rota_record_kernel(
            lane,
            &ROTA_KERNEL_NODE(.kernel = &test_kernels[TEST_KERNEL_map].kernel, .accesses = accesses,
                              .access_count = 2, .params = &params, .bindings = &seed, .binding_count = 1),
            NULL));
    assert_ok(rota_record_counted_copy(lane, w->condition, 0, w->zero, 0,
                                       &ROTA_COUNT(.buffer = w->high, .max = 1, .unit_bytes = 4), NULL));
}

/* A loop as long as the condition is not 0, in which nothing makes it so. */
static void record_loop(rota_graph *graph, rota_recorder *lane, const loop_words *w) {
    const rota_access word = {w->down, 0, ROTA_WHOLE, ROTA_READWRITE};
    rota_graph *body;
    rota_recorder *inner;
    assert_ok(rota_graph_create_body(graph, "body", &body));
    assert_ok(rota_recorder_open(body, 0, NULL, &inner));
    assert_ok(rota_record_kernel(
        inner, &ROTA_KERNEL_NODE(.kernel = &decide_count_down, .accesses = &word, .access_count = 1), NULL));
    rota_recorder_close(inner);
    assert_ok(rota_record_while(
        lane, &ROTA_WHILE_NODE(.condition = w->condition, .body = body, .iterations_max = UINT64_MAX), NULL));
}

static rota_plan *loop_plan(const runtime_fixture *f, const loop_words *w, bool fails, bool has_loop) {
    rota_graph *graph;
    rota_recorder *lane;
    rota_plan *plan = NULL;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "counted"), &graph));
    assert_ok(rota_recorder_open(graph, 0, "main", &lane));
    if (fails)
        record_failing(lane, w);
    else
        assert_ok(rota_record_counted_copy(lane, w->other, 0, w->zero, 0,
                                           &ROTA_COUNT(.buffer = w->zero, .max = 1, .unit_bytes = 4), NULL));
    if (has_loop) record_loop(graph, lane, w);
    rota_recorder_close(lane);
    assert_ok(rota_compile(f->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &f->device, .device_count = 1),
                           &plan));
    rota_graph_release(graph);
    return plan;
}

/* A loop that has no end where its condition was not written ends with the node that was to: in the same plan, and in a
 * later one, with something counted itself, that was handed over before that was known. */
static void test_loop_behind(void **state) {
    const runtime_fixture *f = need_device(state);
    const loop_words w = {.x = test_words(f->device, "x", LONG, 5),
                          .y = test_words(f->device, "y", LONG, OLD),
                          .zero = test_words(f->device, "zero", 1, 0),
                          .high = test_words(f->device, "high", 1, 2),
                          .other = test_words(f->device, "other", 1, 0),
                          .down = test_words(f->device, "down", 1, 0),
                          .condition = test_words(f->device, "condition", 1, 7)};
    for (uint32_t plan_count = 1; plan_count <= 2; plan_count++) {
        const uint32_t seven = 7;
        rota_ticket tickets[2];
        rota_plan *plans[2] = {loop_plan(f, &w, true, plan_count == 1), NULL};
        if (plan_count == 2) plans[1] = loop_plan(f, &w, false, true);
        for (uint32_t i = 0; i < plan_count; i++) assert_ok(rota_submit(plans[i], NULL, &tickets[i]));
        for (uint32_t i = 0; i < plan_count; i++) {
            assert_status(rota_wait(tickets[i], 30000000000u), ROTA_NODE_FAILED);
            assert_non_null(strstr(rota_last_error(), "its count is 2, the most"));
            rota_plan_release(plans[i]);
        }
        assert_ok(rota_buffer_write(w.condition, f->device, 0, &seven, 4, NULL));
    }
    rota_buffer *const buffers[] = {w.x, w.y, w.zero, w.high, w.other, w.down, w.condition};
    for (uint32_t i = 0; i < 7; i++) rota_buffer_release(buffers[i]);
}

/* ---- Loss ---- */

static VKAPI_ATTR VkResult VKAPI_CALL submit_lost(VkQueue queue, uint32_t count, const VkSubmitInfo2 *infos,
                                                  VkFence fence) {
    (void)queue, (void)count, (void)infos, (void)fence;
    return VK_ERROR_DEVICE_LOST;
}

/* The device is lost while works wait to be told of failures: all tickets end, none of them stays there, and the
 * runtime closes. */
static void test_loss(void **state) {
    enum { REPLAYS = 64 };
    rota_ticket tickets[REPLAYS];
    runtime_fixture *f = need_device(state);
    rota_buffer *x = test_words(f->device, "x", WIDE, 5), *y = test_words(f->device, "y", WIDE, OLD),
                *count = test_words(f->device, "count", 1, 3);
    rota_plan *plan = map_plan(f, y, x, count);
    for (uint32_t i = 0; i < REPLAYS; i++) {
        if (i == REPLAYS / 2) {
            assert_status(rota_wait(tickets[i - 1], 0), ROTA_OK);
            ((rota_vk_device *)rota_device_exec(f->device))->vk.QueueSubmit2 = submit_lost;
        }
        if (rota_submit(plan, NULL, &tickets[i]) != ROTA_OK) tickets[i] = (rota_ticket){0};
    }
    for (uint32_t i = 0; i < REPLAYS; i++) {
        if (!tickets[i].id) continue;
        const rota_status status = rota_wait(tickets[i], 0);
        if (status != ROTA_OK && status != ROTA_DEVICE_LOST) fail_msg("ticket %u: %s", i, rota_last_error());
    }
    const uint64_t deadline_ns = rota_deadline_after(20000000000u);
    while (ra_load_acquire(&f->device->gate.pending)) assert_true(rota_clock_ns() < deadline_ns);
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(y);
    rota_buffer_release(count);
}

#define ON(device, test) cmocka_unit_test_prestate_setup_teardown(test, setup, teardown, device)
#define ON_ALL(test) ON("vk:0", test), ON("cuda:0", test), ON(GPU_STAND_IN, test)

int main(void) {
    const struct CMUnitTest tests[] = {ON_ALL(test_in_flight),
                                       ON_ALL(test_dependents),
                                       ON_ALL(test_cause),
                                       ON("cuda:0", test_loop_behind),
                                       ON(GPU_STAND_IN, test_loop_behind),
                                       ON("vk:0", test_loss)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
