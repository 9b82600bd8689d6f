/* A submission comes after what the application has put on a stream of its own (rota_stream_signal), and that stream
 * after a submission (rota_stream_wait), over the stand-in for the CUDA driver. */
#include "tests/kit/runtime_support.h"

#include <pthread.h>
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "exec/cuda/cuda_device.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/external_timeline.h"
#include "sched/runtime/shared/loss.h"
#include "tests/exec/cuda/cuda_stub.h"
#include "tests/kit/nap.h"

#ifdef ROTA_HAVE_CUDA
enum { WORDS = 256, BYTES = 4 * WORDS };
#define PATIENCE_NS 20000000000u
#define MOMENT_NS 20000000u

/* Memory and a stream of the application's on the first device, and a plan that copies the one to rota's. */
typedef struct scene {
    const rota_cuda_api *cu;
    rota_runtime *runtime;
    rota_device *device;
    CUcontext contexts[2];
    CUstream stream;
    CUdeviceptr theirs, from; /* what is put into theirs */
    rota_buffer *source, *copy;
    rota_plan *plan;
    rota_external_timeline *timeline;
} scene;

static void open_scene(scene *s) {
    *s = (scene){0};
    cuda_stub_start(5, 2);
    s->cu = cuda_stub_api();
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = PATIENCE_NS), &s->runtime));
    assert_ok(rota_device_open(s->runtime, "cuda:0", &s->device));
    for (int i = 0; i < 2; i++)
        assert_int_equal(s->cu->DevicePrimaryCtxRetain(&s->contexts[i], i), CUDA_SUCCESS);
    assert_int_equal(s->cu->CtxPushCurrent(s->contexts[0]), CUDA_SUCCESS);
    assert_int_equal(s->cu->MemAlloc(&s->theirs, BYTES), CUDA_SUCCESS);
    assert_int_equal(s->cu->MemAlloc(&s->from, BYTES), CUDA_SUCCESS);
    assert_int_equal(s->cu->StreamCreate(&s->stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    memset((void *)(uintptr_t)s->theirs, 0, BYTES); /* the stand-in's memory is the host's */
    assert_ok(
        rota_buffer_adopt(s->device,
                          &ROTA_ADOPT_OPTIONS(.name = "theirs", .kind = ROTA_MEMORY_DEVICE,
                                              .memory = (void *)(uintptr_t)s->theirs, .size_bytes = BYTES),
                          &s->source));
    s->copy = test_buffer(s->runtime, "copy", BYTES);
    rota_graph *graph;
    rota_recorder *recorder;
    assert_ok(rota_graph_create(NULL, &graph));
    assert_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    assert_ok(rota_record_copy(recorder, s->copy, 0, s->source, 0, BYTES, NULL));
    rota_recorder_close(recorder);
    assert_ok(rota_compile(s->runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &s->device, .device_count = 1),
                           &s->plan));
    rota_graph_release(graph);
    assert_ok(rota_external_timeline_create(s->runtime, "stream", &s->timeline));
}

static void drop_ours(scene *s) {
    CUcontext before; /* in nobody's context: the stand-in would take that for rota's */
    assert_int_equal(s->cu->CtxPopCurrent(&before), CUDA_SUCCESS);
    rota_plan_release(s->plan);
    rota_buffer_release(s->source);
    rota_buffer_release(s->copy);
    rota_external_timeline_release(s->timeline);
    assert_ok(rota_runtime_close(s->runtime, 0));
    assert_int_equal(s->cu->CtxPushCurrent(s->contexts[0]), CUDA_SUCCESS);
}

static void close_scene(scene *s) {
    CUcontext before;
    assert_int_equal(s->cu->StreamSynchronize(s->stream), CUDA_SUCCESS);
    assert_int_equal(s->cu->StreamDestroy(s->stream), CUDA_SUCCESS);
    assert_int_equal(s->cu->MemFree(s->theirs), CUDA_SUCCESS);
    assert_int_equal(s->cu->MemFree(s->from), CUDA_SUCCESS);
    assert_int_equal(s->cu->CtxPopCurrent(&before), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) assert_int_equal(s->cu->DevicePrimaryCtxRelease(i), CUDA_SUCCESS);
    char text[256];
    if (cuda_stub_violations(text, sizeof text)) fail_msg("violated: %s", text);
    if (cuda_stub_alive(text, sizeof text)) fail_msg("left in the driver: %s", text);
    cuda_stub_stop();
}

/* Where the context has failed. */
static void close_failed(scene *s) {
    CUcontext before;
    assert_int_equal(s->cu->CtxPopCurrent(&before), CUDA_SUCCESS);
    rota_plan_release(s->plan);
    rota_buffer_release(s->source);
    rota_buffer_release(s->copy);
    rota_external_timeline_release(s->timeline);
    (void)rota_runtime_close(s->runtime, 0);
    (void)s->cu->CtxPushCurrent(s->contexts[0]);
    (void)s->cu->StreamDestroy(s->stream);
    (void)s->cu->MemFree(s->theirs);
    (void)s->cu->MemFree(s->from);
    (void)s->cu->CtxPopCurrent(&before);
    for (int i = 0; i < 2; i++) (void)s->cu->DevicePrimaryCtxRelease(i);
    char text[256];
    if (cuda_stub_violations(text, sizeof text)) fail_msg("violated: %s", text);
    cuda_stub_stop();
}

/* The stream writes `value`, and then reaches the point. */
static void write_on_stream(scene *s, uint32_t value, uint64_t point) {
    uint32_t *words = (uint32_t *)(uintptr_t)s->from;
    for (uint32_t i = 0; i < WORDS; i++) words[i] = value;
    assert_int_equal(s->cu->MemcpyAsync(s->theirs, s->from, BYTES, s->stream), CUDA_SUCCESS);
    assert_ok(rota_stream_signal(s->device, s->stream, s->timeline, point));
}

static rota_ticket submit_after(scene *s, uint64_t value) {
    const rota_external_point point = {s->timeline, value};
    rota_ticket ticket;
    assert_ok(rota_submit_with(s->plan, &ROTA_SUBMIT_OPTIONS(.after = &point, .after_count = 1), &ticket));
    return ticket;
}

static void after_a_stream(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    for (uint32_t round = 1; round <= 20; round++) {
        cuda_stub_pause(true);
        write_on_stream(&s, 100 + round, round);
        const rota_ticket ticket = submit_after(&s, round);
        if (round == 1) test_nap_ns(MOMENT_NS);
        assert_status(rota_poll(ticket), ROTA_BUSY);
        cuda_stub_pause(false);
        assert_ok(rota_wait(ticket, 0));
        test_expect_words(s.copy, WORDS, 100 + round);
    }
    drop_ours(&s);
    close_scene(&s);
}

/* The stream's copy of what a plan makes comes after that, and nobody waits for it meanwhile. */
static void before_a_stream(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    uint32_t *theirs = (uint32_t *)(uintptr_t)s.theirs, *read = (uint32_t *)(uintptr_t)s.from;
    uint64_t copy;
    assert_ok(rota_buffer_prepare(s.copy, s.device));
    assert_ok(rota_buffer_address(s.copy, s.device, &copy));
    for (uint32_t round = 1; round <= 100; round++) { /* more than there are fences */
        for (uint32_t i = 0; i < WORDS; i++) theirs[i] = round;
        const bool is_paused = round % 10 == 1;
        if (is_paused) cuda_stub_pause(true);
        rota_ticket ticket;
        assert_ok(rota_submit(s.plan, NULL, &ticket));
        assert_ok(rota_stream_wait(s.device, s.stream, ticket, 0));
        assert_int_equal(s.cu->MemcpyAsync(s.from, copy, BYTES, s.stream), CUDA_SUCCESS);
        if (is_paused) {
            assert_status(rota_poll(ticket), ROTA_BUSY);
            cuda_stub_pause(false);
        }
        assert_int_equal(s.cu->StreamSynchronize(s.stream), CUDA_SUCCESS);
        for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(read[i], round);
        assert_ok(rota_wait(ticket, 0));
        assert_ok(rota_stream_wait(s.device, s.stream, ticket, 0)); /* it is over */
    }
    drop_ours(&s);
    close_scene(&s);
}

/* What the driver is not given is waited for, to its deadline. */
static void before_a_stream_at_last(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    const rota_ticket held = submit_after(&s, 1);
    assert_status(rota_stream_wait(s.device, s.stream, held, MOMENT_NS), ROTA_TIMEOUT);
    assert_ok(rota_external_timeline_signal(s.timeline, 1));
    assert_ok(rota_stream_wait(s.device, s.stream, held, 0));
    assert_ok(rota_wait(held, 0));
    drop_ours(&s);
    close_scene(&s);
}

/* Works come after what the device follows, on whatever queue, and the stream after them: nobody waits in between. */
static void follows_a_stream(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    for (uint32_t round = 1; round <= 200; round++) { /* more than there are events */
        uint32_t *words = (uint32_t *)(uintptr_t)s.from;
        cuda_stub_pause(true);
        for (uint32_t i = 0; i < WORDS; i++) words[i] = round;
        assert_int_equal(s.cu->MemcpyAsync(s.theirs, s.from, BYTES, s.stream), CUDA_SUCCESS);
        assert_ok(rota_stream_follow(s.device, s.stream));
        rota_ticket ticket;
        assert_ok(rota_submit(s.plan, NULL, &ticket));
        assert_ok(
            rota_stream_wait(s.device, s.stream, ticket, 0)); /* the driver has it, and it waits there */
        assert_status(rota_poll(ticket), ROTA_BUSY);
        cuda_stub_pause(false);
        assert_ok(rota_wait(ticket, 0));
        test_expect_words(s.copy, WORDS, round);
    }
    drop_ours(&s);
    close_scene(&s);
}

typedef struct follower {
    scene *s;
    _Atomic uint32_t is_done;
} follower;

static void *follow_once_more(void *user) {
    follower *f = user;
    assert_ok(rota_stream_follow(f->s->device, f->s->stream));
    ra_store_release(&f->is_done, 1);
    return NULL;
}

/* There is room for so many that are not over; a caller waits for more, and no work does for the caller. */
static void follows_no_more_than_there_is_room_for(void **state) {
    (void)state;
    enum { ROOM = 64 };
    scene s;
    open_scene(&s);
    cuda_stub_pause(true);
    for (uint32_t i = 0; i < ROOM; i++) {
        assert_int_equal(s.cu->MemcpyAsync(s.theirs, s.from, BYTES, s.stream), CUDA_SUCCESS);
        assert_ok(rota_stream_follow(s.device, s.stream));
    }
    follower f = {.s = &s};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, follow_once_more, &f), 0);
    test_nap_ns(MOMENT_NS);
    assert_false(ra_load_acquire(&f.is_done));
    rota_ticket ticket;
    assert_ok(rota_submit(s.plan, NULL, &ticket));
    cuda_stub_pause(false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(ra_load_acquire(&f.is_done));
    assert_ok(rota_wait(ticket, 0));
    drop_ours(&s);
    close_scene(&s);
}

static _Atomic uint32_t may_go;

static bool goes(void *user) {
    (void)user;
    return ra_load_acquire(&may_go);
}

enum { SUBMITTED = 100 }; /* more than may be in flight on a queue */
#define STALL_NS 100000000u
#define APART_NS 1000000u

/* Apart from one another, so that each has a fence of its own while there are any. */
static void *submit_many(void *user) {
    scene *s = user;
    rota_ticket ticket;
    for (uint32_t i = 0; i < SUBMITTED; i++) {
        if (rota_submit_with(s->plan, &ROTA_SUBMIT_OPTIONS(.timeout_ns = PATIENCE_NS), &ticket) != ROTA_OK)
            break;
        test_nap_ns(APART_NS);
    }
    return NULL;
}

/* A stream that stands for longer than a device that does nothing may is no fault of the device's; one that waits for a
 * work of the device's that hangs does not excuse that. */
static void stands_as_long_as_a_stream_does(void **state) {
    (void)state;
    for (int hangs = 0; hangs < 2; hangs++) {
        scene s;
        pthread_t thread;
        rota_ticket ticket;
        open_scene(&s);
        ((rota_cuda_device *)s.device->exec)->bounds.stall_ns = STALL_NS;
        ra_store_release(&may_go, 0);
        if (hangs) {
            cuda_stub_pause(true);
            assert_ok(rota_submit(s.plan, NULL, &ticket));
            assert_ok(rota_stream_wait(s.device, s.stream, ticket, 0));
        } else {
            cuda_stub_hold(s.stream, goes, NULL);
        }
        assert_ok(rota_stream_follow(s.device, s.stream));
        assert_int_equal(pthread_create(&thread, NULL, submit_many, &s), 0);
        const uint64_t until = rota_deadline_after(hangs ? PATIENCE_NS : UINT64_C(6) * STALL_NS);
        while (!rota_device_is_lost(s.device) && rota_clock_ns() < until) test_nap();
        assert_int_equal(rota_device_is_lost(s.device), hangs);
        ra_store_release(&may_go, 1);
        if (hangs) cuda_stub_pause(false);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (hangs) {
            close_failed(&s);
            continue;
        }
        assert_ok(rota_submit(s.plan, NULL, &ticket));
        assert_ok(rota_wait(ticket, 0));
        drop_ours(&s);
        close_scene(&s);
    }
}

/* The driver calls when rota is gone already: only the timeline is left. */
static void after_close(void **state) {
    (void)state;
    scene s;
    uint64_t value = 0;
    open_scene(&s);
    rota_external_timeline *timeline;
    assert_ok(rota_external_timeline_create(s.runtime, "later", &timeline));
    cuda_stub_pause(true);
    assert_int_equal(s.cu->MemcpyAsync(s.theirs, s.from, BYTES, s.stream), CUDA_SUCCESS);
    assert_ok(rota_stream_signal(s.device, s.stream, timeline, 3));
    drop_ours(&s);
    assert_ok(rota_external_timeline_value(timeline, &value));
    assert_int_equal(value, 0);
    cuda_stub_pause(false);
    for (const uint64_t until = rota_deadline_after(PATIENCE_NS); value != 3 && rota_clock_ns() < until;)
        assert_ok(rota_external_timeline_value(timeline, &value));
    assert_int_equal(value, 3);
    rota_external_timeline_release(timeline);
    close_scene(&s);
}

/* The context fails before the stream is there: the point is not reached, and nobody holds the timeline for it. */
static void after_a_fault(void **state) {
    (void)state;
    scene s;
    uint64_t value;
    open_scene(&s);
    rota_external_timeline *timeline;
    assert_ok(rota_external_timeline_create(s.runtime, "never", &timeline));
    cuda_stub_pause(true);
    for (uint64_t point = 1; point <= 3; point++) {
        assert_int_equal(s.cu->MemcpyAsync(s.theirs, s.from, BYTES, s.stream), CUDA_SUCCESS);
        assert_ok(rota_stream_signal(s.device, s.stream, timeline, point));
    }
    assert_int_equal(ra_load_acquire(&timeline->references), 4);
    cuda_stub_fail("MemcpyAsync", 0, CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(s.cu->MemcpyAsync(s.theirs, s.from, BYTES, s.stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    cuda_stub_pause(false);
    for (const uint64_t until = rota_deadline_after(PATIENCE_NS);
         ra_load_acquire(&timeline->references) != 1 && rota_clock_ns() < until;)
        test_nap();
    assert_int_equal(ra_load_acquire(&timeline->references), 1);
    assert_ok(rota_external_timeline_value(timeline, &value));
    assert_int_equal(value, 0);
    assert_status(rota_stream_signal(s.device, s.stream, timeline, 4), ROTA_DEVICE_LOST);
    rota_external_timeline_release(timeline);
    close_failed(&s);
}

/* A stream of a context that the application has destroyed: that is not the device's. */
static void of_a_destroyed_context(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    cuda_stub_fail("StreamGetCtx", 0, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_status(rota_stream_signal(s.device, s.stream, s.timeline, 1), ROTA_INVALID_ARGUMENT);
    expect_said("of a context that was destroyed");
    close_failed(&s); /* as the stand-in takes that for one of its own */
}

static void refused(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    CUcontext before;
    CUstream other;
    CUgraph graph;
    rota_device *cpu;
    uint64_t value;
    assert_status(rota_stream_signal(s.device, NULL, s.timeline, 1), ROTA_INVALID_ARGUMENT);
    assert_int_equal(s.cu->CtxPushCurrent(s.contexts[1]), CUDA_SUCCESS);
    assert_int_equal(s.cu->StreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_status(rota_stream_signal(s.device, other, s.timeline, 1), ROTA_INVALID_ARGUMENT);
    expect_said("is of another context");
    rota_ticket ticket;
    cuda_stub_pause(true); /* one that is over needs no stream */
    assert_ok(rota_submit(s.plan, NULL, &ticket));
    assert_status(rota_stream_wait(s.device, other, ticket, 0), ROTA_INVALID_ARGUMENT);
    expect_said("is of another context");
    assert_status(rota_stream_wait(s.device, NULL, ticket, 0), ROTA_INVALID_ARGUMENT);
    assert_status(rota_stream_wait(s.device, s.stream, (rota_ticket){0}, 0), ROTA_INVALID_ARGUMENT);
    cuda_stub_pause(false);
    assert_ok(rota_wait(ticket, 0));
    assert_int_equal(s.cu->StreamDestroy(other), CUDA_SUCCESS);
    assert_int_equal(s.cu->CtxPopCurrent(&before), CUDA_SUCCESS);
    assert_int_equal(s.cu->StreamBeginCapture(s.stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    assert_status(rota_stream_signal(s.device, s.stream, s.timeline, 1), ROTA_WRONG_STATE);
    expect_said("is being captured");
    assert_status(rota_stream_follow(s.device, s.stream), ROTA_WRONG_STATE);
    expect_said("is being captured");
    assert_int_equal(s.cu->StreamEndCapture(s.stream, &graph), CUDA_SUCCESS);
    assert_int_equal(s.cu->GraphDestroy(graph), CUDA_SUCCESS);
    cuda_stub_fail("StreamAddCallback", 0, CUDA_ERROR_OUT_OF_MEMORY);
    assert_status(rota_stream_signal(s.device, s.stream, s.timeline, 1), ROTA_OUT_OF_MEMORY);
    assert_ok(rota_device_open(s.runtime, "cpu", &cpu));
    assert_status(rota_stream_signal(cpu, s.stream, s.timeline, 1), ROTA_UNSUPPORTED);
    expect_said("device 'cpu' has no streams");
    assert_status(rota_stream_follow(cpu, s.stream), ROTA_UNSUPPORTED);
    expect_said("device 'cpu' has no streams");
    assert_status(rota_stream_follow(s.device, NULL), ROTA_INVALID_ARGUMENT);
    cuda_stub_fail("EventRecord", 0, CUDA_ERROR_OUT_OF_MEMORY);
    assert_status(rota_stream_follow(s.device, s.stream), ROTA_OUT_OF_MEMORY);
    assert_status(rota_stream_wait(cpu, s.stream, ticket, 0), ROTA_UNSUPPORTED);
    rota_runtime *runtime;
    rota_external_timeline *theirs;
    assert_ok(rota_runtime_open(NULL, &runtime));
    assert_ok(rota_external_timeline_create(runtime, NULL, &theirs));
    assert_status(rota_stream_signal(s.device, s.stream, theirs, 1), ROTA_INVALID_ARGUMENT);
    expect_said("of another runtime");
    rota_external_timeline_release(theirs);
    assert_ok(rota_runtime_close(runtime, 0));
    assert_ok(rota_external_timeline_value(s.timeline, &value));
    assert_int_equal(value, 0);
    drop_ours(&s);
    close_scene(&s);
}
#endif

int main(void) {
#ifdef ROTA_HAVE_CUDA
    const struct CMUnitTest tests[] = {cmocka_unit_test(after_a_stream),
                                       cmocka_unit_test(before_a_stream),
                                       cmocka_unit_test(before_a_stream_at_last),
                                       cmocka_unit_test(follows_a_stream),
                                       cmocka_unit_test(follows_no_more_than_there_is_room_for),
                                       cmocka_unit_test(stands_as_long_as_a_stream_does),
                                       cmocka_unit_test(after_close),
                                       cmocka_unit_test(refused),
                                       cmocka_unit_test(after_a_fault),
                                       cmocka_unit_test(of_a_destroyed_context)};
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    return 77;
#endif
}
