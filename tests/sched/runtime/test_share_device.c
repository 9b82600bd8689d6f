/* vk:0 and cuda:0 of one GPU: one memory for both, works of both in one plan, and what that costs. Skipped
 * where there is no GPU under both drivers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "exec/smoke_kernel.h"
#include "rota.h"
#include "sched/testing.h"
#include "tests/kit/runtime_support.h"

typedef struct pair {
    rota_runtime *runtime;
    rota_device *devices[2]; /* vk:0, cuda:0 */
    char shared[512];        /* what was said of sharing, ... */
    char ordered[512];       /* ... and of ordering */
} pair;

static void log_line(void *user, rota_log_level level, const char *message) {
    pair *p = user;
    (void)level;
    if (strstr(message, "order"))
        snprintf(p->ordered, sizeof p->ordered, "%s", message);
    else if (strstr(message, "share"))
        snprintf(p->shared, sizeof p->shared, "%s", message);
}

/* False: skipped, said by name. */
static bool open_pair(pair *p, bool apart, bool host_ordered, bool cuda_first, uint64_t spin_ns) {
    static const char *const ids[] = {"vk:0", "cuda:0"};
    memset(p, 0, sizeof *p);
    rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.log = {log_line, p, ROTA_LOG_INFO},
                                                        .timeout_ns = 20000000000u, .spin_ns = spin_ns);
    assert_ok(rota_runtime_open(&options, &p->runtime));
    assert_ok(rota_runtime_set_unshared(p->runtime, apart));
    assert_ok(rota_runtime_set_host_ordered(p->runtime, host_ordered));
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t which = i ^ cuda_first;
        rota_status status = rota_device_open(p->runtime, ids[which], &p->devices[which]);
        bool is_gpu =
            status == ROTA_OK && rota_device_get_info(p->devices[which])->device_class == ROTA_DEVICE_GPU;
        if (is_gpu) continue;
        printf("skipped: '%s' is no GPU that can be used: %s\n", ids[which],
               status == ROTA_OK ? "a software GPU" : rota_last_error());
        assert_ok(rota_runtime_close(p->runtime, 0));
        return false;
    }
    printf("%s; %s; threads look on for %u us\n", p->shared, p->ordered, (unsigned)(spin_ns / 1000));
    return true;
}

static void close_pair(pair *p) {
    assert_ok(rota_runtime_close(p->runtime, 0));
}

/* x += y, count times over: each node on the other device than the one before, through a transient every
 * time. */
static rota_plan *alternating(pair *p, rota_buffer *x, rota_buffer *y, uint32_t elements, uint32_t count) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "alternating"), &graph));
    rota_buffer *between;
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "between", elements * 4ull, &between));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < count; i++) {
        rota_access accesses[] = {{i % 2 ? between : x, 0, ROTA_WHOLE, ROTA_READ},
                                  {y, 0, ROTA_WHOLE, ROTA_READ},
                                  {i % 2 ? x : between, 0, ROTA_WHOLE, ROTA_WRITE}};
        rota_kernel_node node =
            ROTA_KERNEL_NODE(.kernel = &rota_smoke_kernel, .accesses = accesses, .access_count = 3,
                             .params = &elements, .placement = {.device_plus_1 = 1 + i % 2});
        assert_ok(rota_record_kernel(recorder, &node, NULL));
    }
    rota_recorder_close(recorder);
    rota_compile_options options = ROTA_COMPILE_OPTIONS(.devices = p->devices, .device_count = 2);
    assert_ok(rota_compile(p->runtime, graph, &options, &plan));
    rota_graph_release(graph);
    return plan;
}

static rota_buffer *floats(pair *p, rota_device *device, const char *name, uint32_t elements, float value) {
    rota_buffer *buffer = test_buffer(p->runtime, name, elements * 4ull);
    float *data = malloc(elements * 4ull);
    assert_non_null(data);
    for (uint32_t i = 0; i < elements; i++) data[i] = value + (float)(i % 7);
    assert_ok(rota_buffer_write(buffer, device, 0, data, elements * 4ull, NULL));
    free(data);
    return buffer;
}

static void expect(rota_buffer *buffer, uint32_t elements, float base, float factor) {
    float *data = malloc(elements * 4ull);
    assert_non_null(data);
    assert_ok(rota_buffer_read(buffer, 0, data, elements * 4ull));
    for (uint32_t i = 0; i < elements; i++)
        if (data[i] != base + factor * (float)(i % 7))
            fail_msg("element %u is %g, expected %g", i, (double)data[i],
                     (double)(base + factor * (float)(i % 7)));
    free(data);
}

static void run(pair *p, uint32_t elements, uint32_t nodes, uint32_t replays, bool shared) {
    rota_runtime_stats before = ROTA_RUNTIME_STATS(), after = ROTA_RUNTIME_STATS();
    /* x is made by one device, y by the other: each imports one. */
    rota_buffer *x = floats(p, p->devices[0], "x", elements, 0),
                *y = floats(p, p->devices[1], "y", elements, 1);
    rota_plan *plan = alternating(p, x, y, elements, nodes);
    rota_plan_stats stats = ROTA_PLAN_STATS();
    rota_plan_get_stats(plan, &stats);
    if (shared) assert_int_equal(stats.commands, nodes); /* no copies */
    rota_runtime_get_stats(p->runtime, &before);
    uint64_t *times = calloc(replays, sizeof *times);
    assert_non_null(times);
    rota_ticket ticket;
    for (uint32_t i = 0; i < replays; i++) {
        uint64_t begin = rota_clock_ns();
        assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
        assert_ok(rota_wait(ticket, 0));
        times[i] = rota_clock_ns() - begin;
    }
    rota_runtime_get_stats(p->runtime, &after);
    if (shared) assert_int_equal(after.migrations, before.migrations);
    /* x0 + nodes * replays * y */
    float sums = (float)(nodes * replays);
    expect(x, elements, sums, 1.0f + sums);
    for (uint32_t i = 1; i < replays; i++)
        for (uint32_t k = i; k && times[k - 1] > times[k]; k--) {
            uint64_t moved = times[k];
            times[k] = times[k - 1];
            times[k - 1] = moved;
        }
    printf("%s: %u nodes in turn on vk:0 and cuda:0, buffers of %.3f MiB: median %.1f us a replay (min %.1f, "
           "max %.1f; "
           "%u replays)\n",
           shared ? "shared" : "apart", nodes, elements * 4.0 / 1048576.0, (double)times[replays / 2] * 1e-3,
           (double)times[0] * 1e-3, (double)times[replays - 1] * 1e-3, replays);
    /* Many at once, without the host in between. */
    uint64_t begin = rota_clock_ns();
    for (uint32_t i = 0; i < replays; i++) assert_ok(rota_submit_wait(plan, NULL, 0, &ticket));
    assert_ok(rota_wait(ticket, 0));
    printf("   back to back: %.1f us a replay\n", (double)(rota_clock_ns() - begin) * 1e-3 / replays);
    expect(x, elements, 2 * sums, 1.0f + 2 * sums);
    free(times);
    rota_plan_release(plan);
    rota_buffer_release(x);
    rota_buffer_release(y);
}

static void test_one_plan_on_both(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 3; round++) {
        pair p;
        const bool host_ordered = round == 0, cuda_first = round == 2;
        if (!open_pair(&p, false, host_ordered, cuda_first, cuda_first ? 2000000 : 0)) skip();
        if (!strstr(p.shared, "share memory")) {
            printf("skipped: %s\n", p.shared);
            close_pair(&p);
            skip();
        }
        run(&p, 1024, 2, 200, true);
        run(&p, 1024, 8, 200, true);
        run(&p, 100000, 8, 100, true);
        run(&p, 16u << 20, 2, 20, true);
        run(&p, 16u << 20, 8, 20, true);
        close_pair(&p);
    }
}

static void test_apart(void **state) {
    (void)state;
    pair p;
    if (!open_pair(&p, true, false, false, 0)) skip();
    run(&p, 1024, 8, 200, false);
    run(&p, 16u << 20, 2, 10, false);
    run(&p, 16u << 20, 8, 10, false);
    close_pair(&p);
}

/* Plans of one device each, on buffers that belong to both: orders hold across the two with nothing else
 * between. */
static void test_plans_in_turn(void **state) {
    (void)state;
    pair p;
    if (!open_pair(&p, false, false, false, 0)) skip();
    enum { ELEMENTS = 65536, ROUNDS = 500 };
    rota_buffer *x = floats(&p, p.devices[1], "x", ELEMENTS, 0),
                *y = floats(&p, p.devices[0], "y", ELEMENTS, 1);
    rota_plan *plans[2];
    for (uint32_t d = 0; d < 2; d++) {
        rota_graph *graph;
        rota_recorder *recorder;
        assert_ok(rota_graph_create(NULL, &graph));
        assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
        assert_ok(rota_record_fill(recorder, d ? y : x, 0, 4, d ? 0x40000000u : 0x3f800000u, NULL));
        assert_ok(rota_record_copy(recorder, d ? y : x, 4, d ? x : y, 0, (ELEMENTS - 1) * 4ull, NULL));
        rota_recorder_close(recorder);
        rota_compile_options options = ROTA_COMPILE_OPTIONS(.devices = &p.devices[d], .device_count = 1);
        assert_ok(rota_compile(p.runtime, graph, &options, &plans[d]));
        rota_graph_release(graph);
    }
    rota_runtime_stats before = ROTA_RUNTIME_STATS(), after = ROTA_RUNTIME_STATS();
    rota_runtime_get_stats(p.runtime, &before);
    /* Each shifts the other's contents in by one, behind its own mark: after that many rounds marks
     * alternate. */
    rota_ticket ticket;
    for (uint32_t i = 0; i < ROUNDS; i++)
        for (uint32_t d = 0; d < 2; d++) assert_ok(rota_submit_wait(plans[d], NULL, 0, &ticket));
    static float data[ELEMENTS];
    assert_ok(rota_buffer_read(y, 0, data, sizeof data));
    for (uint32_t i = 0; i < 2 * ROUNDS; i++)
        if (data[i] != (i % 2 ? 1.0f : 2.0f)) fail_msg("element %u is %g", i, (double)data[i]);
    rota_runtime_get_stats(p.runtime, &after);
    if (strstr(p.shared, "share memory")) assert_int_equal(after.migrations, before.migrations);
    for (uint32_t d = 0; d < 2; d++) rota_plan_release(plans[d]);
    rota_buffer_release(x);
    rota_buffer_release(y);
    close_pair(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_plan_on_both),
                                       cmocka_unit_test(test_plans_in_turn), cmocka_unit_test(test_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
