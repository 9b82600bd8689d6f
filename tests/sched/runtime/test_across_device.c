/* vk:0 and cuda:0 of one GPU waiting for each other on the GPU while one of them is lost: each case in a
 * process of its own, since a driver may not give the GPU back to one in which a kernel faulted. Skipped
 * where there is no GPU under both drivers. */
#include <stdio.h>
#ifndef ROTA_HAVE_CUDA
int main(void) {
    puts("skipped: this build was made without cuda.h");
    return 0;
}
#else
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "rota.h"
#include "tests/exec/cuda/exec_cuda_kit.h"
#include "tests/kernels/kernels.h"
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

enum { VK, CUDA, DEVICES };
enum { WORDS = 4096, LONG = 16u << 20, CHAIN = 64, BUFFERS = 7 };
enum { CHILD_GOOD = 0, CHILD_BAD = 1, CHILD_SKIPPED = 77 };
#define WANT(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, rota_last_error());                   \
            return CHILD_BAD;                                                                                \
        }                                                                                                    \
    } while (0)

static const rota_kernel spin = {
    .name = "spin",
    .operand_count = 1,
    .param_bytes = 4,
    .cuda = {TEST_IMAGE, .entry = "test_spin"},
};

/* How the first device ends: with a kernel that never does, that faults, or only later than the deadline. */
typedef enum way { ENDLESS, FAULTING, SLOW } way;
static const char *const way_names[] = {"endless", "faulting", "slow"};

typedef struct scene {
    rota_runtime *runtime;
    rota_device *devices[DEVICES];
    uint32_t first, second; /* devices */
    rota_buffer *words, *x, *y, *z, *w, *v, *flag;
    rota_plan *step, *bad, *copy, *next, *alone;
    uint64_t each_ns; /* of one slow node on the first device */
} scene;

static void log_line(void *user, rota_log_level level, const char *message) {
    (void)user;
    (void)level;
    printf("   log: %s\n", message);
}

typedef struct recorded {
    const rota_kernel *kernel;
    const void *params;
    rota_access accesses[2];
    uint32_t access_count;
} recorded;

static rota_status compile(rota_device *device, const char *name, const recorded *nodes, uint32_t count,
                           rota_plan **out_plan) {
    rota_graph *graph;
    rota_recorder *recorder;
    ROTA_TRY(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = name), &graph));
    ROTA_TRY(rota_recorder_open(graph, 0, NULL, &recorder));
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < count && status == ROTA_OK; i++) {
        rota_kernel_node node =
            ROTA_KERNEL_NODE(.kernel = nodes[i].kernel, .params = nodes[i].params,
                             .accesses = nodes[i].accesses, .access_count = nodes[i].access_count);
        status = rota_record_kernel(recorder, &node, NULL);
    }
    rota_recorder_close(recorder);
    rota_compile_options options = ROTA_COMPILE_OPTIONS(.name = name, .devices = &device, .device_count = 1);
    if (status == ROTA_OK) status = rota_compile(rota_device_runtime(device), graph, &options, out_plan);
    rota_graph_release(graph);
    return status;
}

static const test_params small = {.n = WORDS, .m = WORDS, .p = 1};
static const test_params slow = {.n = WORDS, .m = LONG, .p = 1};
static const test_params outside = {.n = UINT32_MAX - 63, .m = WORDS};
static const uint32_t nothing;

/* The kernel with nothing to bind: its parameters are constants here. */
static const rota_kernel *plain(uint32_t kernel) {
    static rota_kernel kernels[TEST_KERNEL_COUNT];
    kernels[kernel] = test_kernels[kernel].kernel;
    kernels[kernel].bindable_count = 0;
    return &kernels[kernel];
}

static recorded with(uint32_t kernel, const test_params *params, rota_buffer *a, rota_access_mode how_a,
                     rota_buffer *b, rota_access_mode how_b) {
    return (recorded){plain(kernel), params, {{a, 0, ROTA_WHOLE, how_a}, {b, 0, ROTA_WHOLE, how_b}}, 2};
}

static rota_status compile_good(scene *s) {
    rota_device *first = s->devices[s->first], *second = s->devices[s->second];
    recorded step = with(TEST_KERNEL_update, &small, s->x, ROTA_READWRITE, s->w, ROTA_READ),
             copy = with(TEST_KERNEL_map, &small, s->x, ROTA_READ, s->y, ROTA_WRITE),
             next = with(TEST_KERNEL_map, &small, s->y, ROTA_READ, s->z, ROTA_WRITE),
             alone = with(TEST_KERNEL_map, &small, s->w, ROTA_READ, s->v, ROTA_WRITE);
    ROTA_TRY(compile(first, "step", &step, 1, &s->step));
    ROTA_TRY(compile(second, "copy", &copy, 1, &s->copy));
    ROTA_TRY(compile(second, "next", &next, 1, &s->next));
    return compile(second, "alone", &alone, 1, &s->alone);
}

/* Slow nodes one after the other, or few before the one that faults; or one that does not end. */
static rota_status compile_bad(scene *s, way how) {
    recorded bad[CHAIN + 1], wait = with(TEST_KERNEL_sum, &slow, s->words, ROTA_READ, s->x, ROTA_WRITE);
    uint64_t wanted_ns = how == SLOW ? 4000000000u : 300000000u;
    uint32_t count = 0;
    for (uint64_t ns = 0; count < CHAIN && how != ENDLESS && ns < wanted_ns; ns += s->each_ns)
        bad[count++] = wait;
    if (how == FAULTING)
        bad[count++] = with(TEST_KERNEL_update, &outside, s->x, ROTA_READWRITE, s->w, ROTA_READ);
    if (how == ENDLESS) {
        bad[count++] = (recorded){&spin, &nothing, {{s->flag, 0, ROTA_WHOLE, ROTA_READWRITE}}, 1};
        bad[count++] = with(TEST_KERNEL_map, &small, s->flag, ROTA_READ, s->x, ROTA_WRITE);
    }
    return compile(s->devices[s->first], "bad", bad, count, &s->bad);
}

static rota_status measure(scene *s) {
    recorded one = with(TEST_KERNEL_sum, &slow, s->words, ROTA_READ, s->x, ROTA_WRITE);
    rota_plan *plan;
    rota_ticket ticket;
    ROTA_TRY(compile(s->devices[s->first], "one", &one, 1, &plan));
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < 2 && status == ROTA_OK; i++) {
        uint64_t begin = rota_clock_ns();
        status = rota_submit_wait(plan, NULL, 0, &ticket);
        if (status == ROTA_OK) status = rota_wait(ticket, 20000000000u);
        s->each_ns = rota_clock_ns() - begin;
    }
    rota_plan_release(plan);
    printf("   a slow node takes %.1f ms\n", (double)s->each_ns * 1e-6);
    return status;
}

static int child(way how, uint32_t first) {
    static scene s;
    static const char *const ids[] = {"vk:0", "cuda:0"};
    s.first = first;
    s.second = !first;
    rota_runtime_options options =
        ROTA_RUNTIME_OPTIONS(.log = {log_line, NULL, ROTA_LOG_WARNING}, .timeout_ns = 400000000u);
    if (rota_runtime_open(&options, &s.runtime) != ROTA_OK) return CHILD_BAD;
    for (uint32_t d = 0; d < DEVICES; d++)
        if (rota_device_open(s.runtime, ids[d], &s.devices[d]) != ROTA_OK ||
            rota_device_get_info(s.devices[d])->device_class != ROTA_DEVICE_GPU)
            return CHILD_SKIPPED;
    const uint64_t patience = 20000000000u;
    rota_buffer **buffers[BUFFERS] = {&s.words, &s.x, &s.y, &s.z, &s.w, &s.v, &s.flag};
    static uint32_t zeros[LONG];
    for (uint32_t i = 0; i < BUFFERS; i++) {
        const uint64_t bytes = (i ? WORDS : LONG) * sizeof zeros[0];
        WANT(rota_buffer_create_in(s.runtime, "words", bytes, buffers[i]) == ROTA_OK);
        WANT(rota_buffer_write(*buffers[i], s.devices[s.first], 0, zeros, bytes, NULL) == ROTA_OK);
    }
    WANT(compile_good(&s) == ROTA_OK && measure(&s) == ROTA_OK && compile_bad(&s, how) == ROTA_OK);
    rota_ticket copied, followed, alone, ticket;
    rota_runtime_stats before = ROTA_RUNTIME_STATS(), after = ROTA_RUNTIME_STATS();
    for (uint32_t i = 0; i < 20; i++) {
        WANT(rota_submit_wait(s.step, NULL, 0, NULL) == ROTA_OK);
        WANT(rota_submit_wait(s.copy, NULL, 0, &copied) == ROTA_OK);
        WANT(rota_submit_wait(s.next, NULL, 0, &ticket) == ROTA_OK);
        WANT(rota_submit_wait(s.alone, NULL, 0, &ticket) == ROTA_OK);
    }
    WANT(rota_wait(ticket, patience) == ROTA_OK);
    rota_runtime_get_stats(s.runtime, &before);
    if (!before.device_waits) {
        printf("   skipped: the two do not wait for each other on the GPU\n");
        return CHILD_SKIPPED;
    }
    uint64_t begin = rota_clock_ns();
    WANT(rota_submit_wait(s.bad, NULL, 0, &ticket) == ROTA_OK);
    WANT(rota_submit_wait(s.copy, NULL, 0, &copied) == ROTA_OK);
    WANT(rota_submit_wait(s.next, NULL, 0, &followed) == ROTA_OK);
    WANT(rota_submit_wait(s.alone, NULL, 0, &alone) == ROTA_OK);
    test_nap_ms(30);
    rota_runtime_get_stats(s.runtime, &after);
    printf("   %llu works wait on the GPU\n", (unsigned long long)(after.device_waits - before.device_waits));
    WANT(after.device_waits > before.device_waits);
    if (how == ENDLESS) { /* named by a caller's own deadline too */
        WANT(rota_wait(ticket, 100000000u) == ROTA_TIMEOUT);
        printf("   %s\n", rota_last_error());
        WANT(strstr(rota_last_error(), "plan 'bad'") && strstr(rota_last_error(), "from node 'spin'"));
    }
    rota_status status = ROTA_TIMEOUT;
    while (status == ROTA_TIMEOUT && rota_clock_ns() - begin < 15000000000u)
        status = rota_wait(copied, patience / 8);
    printf("   after %.0f ms: %s: %s\n", (double)(rota_clock_ns() - begin) * 1e-6, rota_status_name(status),
           rota_last_error());
    WANT(status == ROTA_DEVICE_LOST && strstr(rota_last_error(), ids[first]));
    WANT(rota_wait(followed, patience) == ROTA_DEVICE_LOST);
    /* The other one lives on: what was before it, and what comes. */
    WANT(rota_wait(alone, patience) == ROTA_OK);
    WANT(rota_buffer_write(s.y, s.devices[s.second], 0, zeros, WORDS * 4, NULL) == ROTA_OK);
    WANT(rota_submit_wait(s.next, NULL, 0, &ticket) == ROTA_OK && rota_wait(ticket, patience) == ROTA_OK);
    static uint32_t result[WORDS];
    /* The GPU may first be at a node of the lost one's, for longer than the runtime's deadline. */
    WANT(rota_buffer_read_async(s.z, 0, result, sizeof result, &ticket) == ROTA_OK &&
         rota_wait(ticket, patience) == ROTA_OK);
    for (uint32_t i = 0; i < WORDS; i++) WANT(result[i] == test_mix(1, i));
    printf("   after %.0f ms the other device has gone on\n", (double)(rota_clock_ns() - begin) * 1e-6);
    rota_plan *plans[] = {s.step, s.bad, s.copy, s.next, s.alone};
    for (uint32_t i = 0; i < 5; i++) rota_plan_release(plans[i]);
    for (uint32_t i = 0; i < BUFFERS; i++) rota_buffer_release(*buffers[i]);
    begin = rota_clock_ns();
    status = rota_runtime_close(s.runtime, how == SLOW ? 20000000000u : 500000000u);
    printf("   closed after %.0f ms: %s: %s\n", (double)(rota_clock_ns() - begin) * 1e-6,
           rota_status_name(status), status == ROTA_OK ? "" : rota_last_error());
    WANT(status == ROTA_OK || !strstr(rota_last_error(), ids[s.second]));
    return CHILD_GOOD;
}

typedef struct one_case {
    way how;
    uint32_t first;
} one_case;
static const one_case cases[] = {{ENDLESS, CUDA}, {FAULTING, CUDA}, {SLOW, CUDA}, {SLOW, VK}};
static int results[4];

static void expect(uint32_t i) {
    if (results[i] == CHILD_SKIPPED) skip();
    assert_int_equal(results[i], CHILD_GOOD);
}
static void test_endless_cuda(void **state) {
    (void)state;
    expect(0);
}
static void test_faulting_cuda(void **state) {
    (void)state;
    expect(1);
}
static void test_slow_cuda(void **state) {
    (void)state;
    expect(2);
}
static void test_slow_vk(void **state) {
    (void)state;
    expect(3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_endless_cuda),
                                       cmocka_unit_test(test_faulting_cuda), cmocka_unit_test(test_slow_cuda),
                                       cmocka_unit_test(test_slow_vk)};
    for (uint32_t i = 0; i < 4; i++) {
        printf("%s kernel on %s:\n", way_names[cases[i].how], cases[i].first == VK ? "vk:0" : "cuda:0");
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            int result = child(cases[i].how, cases[i].first);
            fflush(stdout);
            _exit(result);
        }
        int status = 0;
        if (pid < 0 || waitpid(pid, &status, 0) != pid) return 1;
        results[i] = WIFEXITED(status) ? WEXITSTATUS(status) : CHILD_BAD;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
