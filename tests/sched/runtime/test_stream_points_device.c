/* A submission comes after what the application has put on streams of its own (rota_stream_signal), and those after
 * submissions that end elsewhere (rota_stream_wait), on a CUDA device. Skipped where there is none. */
#include <stdio.h>
#include <stdlib.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "exec/smoke_kernel.h"
#include "sched/runtime/shared/external_timeline.h"
#include "tests/kit/nap.h"
#include "tests/kit/runtime_support.h"

#ifdef ROTA_HAVE_CUDA
#include "exec/cuda/cuda_api.h"

enum { WORDS = 1 << 24, COPIES = 40, ROUNDS = 8 }; /* 64 MiB, copied for some milliseconds */
#define BYTES (4ull * WORDS)

typedef struct scene {
    const rota_cuda_api *cu;
    runtime_fixture own;
    CUcontext context;
    CUdeviceptr theirs, from;
    uint32_t *host; /* pinned */
    rota_buffer *source, *copy;
    rota_plan *plan;
    rota_external_timeline *timeline;
} scene;

static bool open_scene(scene *s) {
    *s = (scene){0};
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = 20000000000u), &s->own.runtime));
    if (rota_device_open(s->own.runtime, "cuda:0", &s->own.device) != ROTA_OK) {
        printf("skipped: %s\n", rota_last_error());
        assert_ok(rota_runtime_close(s->own.runtime, 0));
        return false;
    }
    assert_ok(rota_cuda_api_get(&s->cu));
    assert_int_equal(s->cu->DevicePrimaryCtxRetain(&s->context, 0), CUDA_SUCCESS);
    assert_int_equal(s->cu->CtxPushCurrent(s->context), CUDA_SUCCESS);
    assert_int_equal(s->cu->MemAlloc(&s->theirs, BYTES), CUDA_SUCCESS);
    assert_int_equal(s->cu->MemAlloc(&s->from, BYTES), CUDA_SUCCESS);
    assert_int_equal(s->cu->MemHostAlloc((void **)&s->host, BYTES, 0), CUDA_SUCCESS);
    assert_ok(
        rota_buffer_adopt(s->own.device,
                          &ROTA_ADOPT_OPTIONS(.name = "theirs", .kind = ROTA_MEMORY_DEVICE,
                                              .memory = (void *)(uintptr_t)s->theirs, .size_bytes = BYTES),
                          &s->source));
    s->copy = test_buffer(s->own.runtime, "copy", BYTES);
    s->plan = test_plan_copy_node(s->own.device, s->source, s->copy, BYTES);
    assert_ok(rota_external_timeline_create(s->own.runtime, "stream", &s->timeline));
    return true;
}

static void close_scene(scene *s) {
    CUcontext before;
    rota_plan_release(s->plan);
    rota_buffer_release(s->source);
    rota_buffer_release(s->copy);
    rota_external_timeline_release(s->timeline);
    assert_ok(rota_runtime_close(s->own.runtime, 0));
    assert_int_equal(s->cu->MemFree(s->theirs), CUDA_SUCCESS);
    assert_int_equal(s->cu->MemFree(s->from), CUDA_SUCCESS);
    assert_int_equal(s->cu->MemFreeHost(s->host), CUDA_SUCCESS);
    assert_int_equal(s->cu->CtxPopCurrent(&before), CUDA_SUCCESS);
    assert_int_equal(s->cu->DevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

/* Long copies, the last of which brings `value`; then the point. */
static rota_ticket round_on(scene *s, CUstream stream, uint32_t value, uint64_t point) {
    for (uint32_t i = 0; i < WORDS; i += 4096) s->host[i] = value;
    s->host[WORDS - 1] = value;
    for (uint32_t i = 0; i < COPIES; i++)
        assert_int_equal(s->cu->MemcpyAsync(s->from, (CUdeviceptr)(uintptr_t)s->host, BYTES, stream),
                         CUDA_SUCCESS);
    assert_int_equal(s->cu->MemcpyAsync(s->theirs, s->from, BYTES, stream), CUDA_SUCCESS);
    assert_ok(rota_stream_signal(s->own.device, stream, s->timeline, point));
    const rota_external_point after = {s->timeline, point};
    rota_ticket ticket;
    assert_ok(rota_submit_with(s->plan, &ROTA_SUBMIT_OPTIONS(.after = &after, .after_count = 1), &ticket));
    return ticket;
}

static void rounds_on(scene *s, CUstream stream, const char *what, uint64_t *point) {
    uint32_t busy = 0, first, last;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t value = (uint32_t)++ * point;
        const rota_ticket ticket = round_on(s, stream, value, *point);
        busy += rota_poll(ticket) == ROTA_BUSY;
        assert_ok(rota_wait(ticket, 0));
        assert_ok(rota_buffer_read(s->copy, 0, &first, 4));
        assert_ok(rota_buffer_read(s->copy, BYTES - 4, &last, 4));
        assert_int_equal(first, value);
        assert_int_equal(last, value);
    }
    printf("%s: %u of %u submissions were held when they were looked at\n", what, busy, ROUNDS);
    assert_true(busy != 0);
}

static void after_streams(void **state) {
    (void)state;
    scene s;
    if (!open_scene(&s)) skip();
    CUstream stream;
    uint64_t point = 0;
    assert_int_equal(s.cu->StreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    rounds_on(&s, stream, "a stream", &point);
    rounds_on(&s, CU_STREAM_LEGACY, "the legacy default stream", &point);
    rounds_on(&s, CU_STREAM_PER_THREAD, "the thread's default stream", &point);
    CUgraph graph;
    assert_int_equal(s.cu->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    assert_status(rota_stream_signal(s.own.device, stream, s.timeline, 1000), ROTA_WRONG_STATE);
    assert_int_equal(s.cu->StreamEndCapture(stream, &graph), CUDA_SUCCESS);
    assert_int_equal(s.cu->GraphDestroy(graph), CUDA_SUCCESS);
    assert_int_equal(s.cu->StreamDestroy(stream), CUDA_SUCCESS);
    close_scene(&s);
}

enum { PART = 1 << 20 }; /* bytes that go to the host */

/* Copies that take some milliseconds, and then, on `last`, the copy and zeroes added to what goes to the host. */
static rota_plan *bringing(scene *s, rota_device *last, rota_buffer *zeroes, rota_buffer **out_output) {
    rota_device *devices[2] = {s->own.device, last};
    const bool is_alone = last == s->own.device;
    const uint32_t count = PART / 4;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_plan *plan;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_graph_buffer(graph, ROTA_BUFFER_OUTPUT, "out", PART, out_output));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    for (uint32_t i = 0; i < COPIES; i++) {
        assert_ok(rota_record_copy(recorder, s->copy, 0, s->source, 0, BYTES, NULL));
        assert_ok(rota_record_copy(recorder, s->source, 0, s->copy, 0, BYTES, NULL));
    }
    const rota_access accesses[] = {{s->copy, 0, PART, ROTA_READ},
                                    {zeroes, 0, ROTA_WHOLE, ROTA_READ},
                                    {*out_output, 0, ROTA_WHOLE, ROTA_WRITE}};
    assert_ok(rota_record_kernel(recorder,
                                 &ROTA_KERNEL_NODE(.kernel = &rota_smoke_kernel, .accesses = accesses,
                                                   .access_count = 3, .params = &count,
                                                   .placement = {.device_plus_1 = is_alone ? 1 : 2}),
                                 NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(s->own.runtime, graph,
                           &ROTA_COMPILE_OPTIONS(.devices = devices, .device_count = is_alone ? 1 : 2),
                           &plan));
    rota_graph_release(graph);
    return plan;
}

static int by_time(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The stream has what the ticket brings to the host, and the caller does not wait for it. */
static void brings(scene *s, CUstream stream, rota_device *last, const char *what) {
    enum { ROUNDS_HERE = 20 };
    rota_buffer *output, *zeroes = test_words(last, "zeroes", PART / 4, 0);
    rota_args *args;
    rota_plan *plan = bringing(s, last, zeroes, &output);
    uint64_t took[ROUNDS_HERE];
    double whole = 0;
    uint32_t busy = 0;
    assert_ok(rota_args_create(plan, &args));
    assert_ok(rota_args_set_output(args, output, s->host, PART));
    for (uint32_t round = 0; round < ROUNDS_HERE; round++) {
        rota_ticket ticket;
        float *words = (float *)(void *)(s->host + PART / 4);
        const float value = (float)(1000 + round);
        for (uint32_t i = 0; i < PART / 4; i++) words[i] = value;
        assert_int_equal(s->cu->MemcpyAsync(s->theirs, (CUdeviceptr)(uintptr_t)words, PART, stream),
                         CUDA_SUCCESS);
        assert_int_equal(s->cu->StreamSynchronize(stream), CUDA_SUCCESS);
        const uint64_t begin = rota_clock_ns();
        assert_ok(rota_submit_wait(plan, args, 0, &ticket));
        assert_ok(rota_stream_wait(s->own.device, stream, ticket, 0));
        took[round] = rota_clock_ns() - begin;
        busy += rota_poll(ticket) == ROTA_BUSY;
        assert_int_equal(s->cu->MemcpyAsync(s->from, (CUdeviceptr)(uintptr_t)s->host, PART, stream),
                         CUDA_SUCCESS);
        assert_int_equal(s->cu->MemcpyAsync((CUdeviceptr)(uintptr_t)words, s->from, PART, stream),
                         CUDA_SUCCESS);
        assert_int_equal(s->cu->StreamSynchronize(stream), CUDA_SUCCESS);
        whole += (double)(rota_clock_ns() - begin);
        for (uint32_t i = 0; i < PART / 4; i++) assert_true(words[i] >= value && words[i] <= value);
        assert_ok(rota_wait(ticket, 0));
    }
    qsort(took, ROUNDS_HERE, sizeof *took, by_time);
    const uint64_t median = took[ROUNDS_HERE / 2];
    printf("%s: a call after %.3f ms (%.3f to %.3f), all of it after %.3f; %u of %u not over then\n", what,
           (double)median * 1e-6, (double)took[0] * 1e-6, (double)took[ROUNDS_HERE - 1] * 1e-6,
           whole / ROUNDS_HERE * 1e-6, busy, ROUNDS_HERE);
    rota_args_release(args);
    rota_plan_release(plan);
    rota_buffer_release(zeroes);
    assert_true(busy > ROUNDS_HERE / 2 || last != s->own.device);
}

static void before_streams(void **state) {
    (void)state;
    scene s;
    if (!open_scene(&s)) skip();
    CUstream stream;
    rota_device *cpu, *second;
    assert_ok(rota_device_open(s.own.runtime, "cpu", &cpu));
    assert_int_equal(s.cu->StreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    brings(&s, stream, s.own.device, "a ticket with bytes to the host");
    brings(&s, stream, cpu, "a ticket of the GPU and the CPU");
    if (rota_device_open(s.own.runtime, "cuda:1", &second) == ROTA_OK)
        brings(&s, stream, second, "a ticket of two GPUs");
    assert_int_equal(s.cu->StreamDestroy(stream), CUDA_SUCCESS);
    close_scene(&s);
}

static const char faulting[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry fault()\n{\n\ttrap;\n}\n";

/* The context fails before the stream is there: the driver calls, the points are not reached, and what comes after them
 * has its deadline. The last case, since the process has no device afterwards. */
static void after_a_fault(void **state) {
    (void)state;
    enum { POINTS = 3 };
    scene s;
    if (!open_scene(&s)) skip();
    CUstream stream;
    CUmodule module;
    CUfunction fault;
    uint64_t value = 1;
    assert_int_equal(s.cu->StreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(s.cu->ModuleLoadDataEx(&module, faulting, 0, NULL, NULL), CUDA_SUCCESS);
    assert_int_equal(s.cu->ModuleGetFunction(&fault, module, "fault"), CUDA_SUCCESS);
    for (uint32_t i = 0; i < COPIES; i++)
        assert_int_equal(s.cu->MemcpyAsync(s.from, (CUdeviceptr)(uintptr_t)s.host, BYTES, stream),
                         CUDA_SUCCESS);
    assert_int_equal(s.cu->LaunchKernel(fault, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL), CUDA_SUCCESS);
    for (uint64_t point = 1; point <= POINTS; point++)
        assert_ok(rota_stream_signal(s.own.device, stream, s.timeline, point));
    const uint32_t before = ra_load_acquire(&s.timeline->references);
    const rota_external_point after = {s.timeline, POINTS};
    rota_ticket ticket;
    assert_ok(rota_submit_with(
        s.plan, &ROTA_SUBMIT_OPTIONS(.after = &after, .after_count = 1, .after_timeout_ns = 500000000),
        &ticket));
    assert_int_not_equal(rota_wait(ticket, 20000000000u), ROTA_OK);
    printf("after a fault: %s\n", rota_last_error());
    for (const uint64_t until = rota_deadline_after(20000000000u);
         ra_load_acquire(&s.timeline->references) > 2 && rota_clock_ns() < until;)
        test_nap();
    assert_ok(rota_external_timeline_value(s.timeline, &value));
    printf("%u references before, %u now; at %llu\n", before, ra_load_acquire(&s.timeline->references),
           (unsigned long long)value);
    assert_true(ra_load_acquire(&s.timeline->references) <= 2); /* this one, and the submission's */
    assert_int_equal(value, 0);
    rota_plan_release(s.plan);
    rota_buffer_release(s.source);
    rota_buffer_release(s.copy);
    rota_external_timeline_release(s.timeline);
    (void)rota_runtime_close(s.own.runtime, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(after_streams), cmocka_unit_test(before_streams),
                                       cmocka_unit_test(after_a_fault)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
    printf("skipped: built without CUDA\n");
    return 77;
}
#endif
