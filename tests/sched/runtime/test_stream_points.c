/* A submission comes after what the application has put on a stream of its own (rota_stream_signal), and that stream
 * after a submission (rota_stream_wait), over the stand-in for the CUDA driver. */
#include "tests/kit/runtime_support.h"

#include <pthread.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "exec/cuda/cuda_device.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/external_timeline.h"
#include "sched/runtime/shared/loss.h"
#include "tests/kit/nap.h"
#include "tests/sched/runtime/stream_kit.h"

#ifdef ROTA_HAVE_CUDA
/* A stream of the application's on the first device, and a plan that copies that one's memory to rota's. */
typedef struct scene {
    application_stream own;
    rota_runtime *runtime;
    rota_device *device;
    rota_buffer *source, *copy;
    rota_plan *plan;
    rota_external_timeline *timeline;
} scene;

static void open_scene(scene *s) {
    *s = (scene){0};
    cuda_stub_start(5, 2);
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.timeout_ns = STREAM_PATIENCE_NS), &s->runtime));
    assert_ok(rota_device_open(s->runtime, "cuda:0", &s->device));
    stream_open(&s->own);
    assert_ok(rota_buffer_adopt(s->device,
                                &ROTA_ADOPT_OPTIONS(.name = "theirs", .kind = ROTA_MEMORY_DEVICE,
                                                    .memory = (void *)(uintptr_t)s->own.theirs,
                                                    .size_bytes = STREAM_BYTES),
                                &s->source));
    s->copy = test_buffer(s->runtime, "copy", STREAM_BYTES);
    s->plan = test_plan_copy_node(s->device, s->source, s->copy, STREAM_BYTES);
    assert_ok(rota_external_timeline_create(s->runtime, "stream", &s->timeline));
}

static void release_ours(scene *s) {
    rota_plan_release(s->plan);
    rota_buffer_release(s->source);
    rota_buffer_release(s->copy);
    rota_external_timeline_release(s->timeline);
}

static void drop_ours(scene *s) {
    stream_leave(&s->own);
    release_ours(s);
    assert_ok(rota_runtime_close(s->runtime, 0));
    stream_enter(&s->own);
}

/* Where the context has failed. */
static void close_failed(scene *s) {
    stream_leave(&s->own);
    release_ours(s);
    (void)rota_runtime_close(s->runtime, 0);
    (void)s->own.cu->CtxPushCurrent(s->own.context);
    stream_close_failed(&s->own);
}

/* The stream writes `value`, and then reaches the point. */
static void write_on_stream(scene *s, uint32_t value, uint64_t point) {
    stream_fill(&s->own, value);
    stream_copy(&s->own);
    assert_ok(rota_stream_signal(s->device, s->own.stream, s->timeline, point));
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
        if (round == 1) test_nap_ns(STREAM_MOMENT_NS);
        assert_status(rota_poll(ticket), ROTA_BUSY);
        cuda_stub_pause(false);
        assert_ok(rota_wait(ticket, 0));
        test_expect_words(s.copy, STREAM_WORDS, 100 + round);
    }
    drop_ours(&s);
    stream_close(&s.own, true);
}

/* The stream's copy of what a plan makes comes after that, and nobody waits for it meanwhile. */
static void before_a_stream(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    uint32_t *theirs = (uint32_t *)(uintptr_t)s.own.theirs, *read = (uint32_t *)(uintptr_t)s.own.from;
    uint64_t copy;
    assert_ok(rota_buffer_prepare(s.copy, s.device));
    assert_ok(rota_buffer_address(s.copy, s.device, &copy));
    for (uint32_t round = 1; round <= 100; round++) { /* more than there are fences */
        for (uint32_t i = 0; i < STREAM_WORDS; i++) theirs[i] = round;
        const bool is_paused = round % 10 == 1;
        if (is_paused) cuda_stub_pause(true);
        rota_ticket ticket;
        assert_ok(rota_submit(s.plan, NULL, &ticket));
        if (is_paused) stream_expect_given(ticket);
        assert_ok(rota_stream_wait(s.device, s.own.stream, ticket, 0));
        assert_int_equal(s.own.cu->MemcpyAsync(s.own.from, copy, STREAM_BYTES, s.own.stream), CUDA_SUCCESS);
        if (is_paused) {
            assert_status(rota_poll(ticket), ROTA_BUSY);
            cuda_stub_pause(false);
        }
        assert_int_equal(s.own.cu->StreamSynchronize(s.own.stream), CUDA_SUCCESS);
        for (uint32_t i = 0; i < STREAM_WORDS; i++) assert_int_equal(read[i], round);
        assert_ok(rota_wait(ticket, 0));
        assert_ok(rota_stream_wait(s.device, s.own.stream, ticket, 0)); /* it is over */
    }
    drop_ours(&s);
    stream_close(&s.own, true);
}

/* What the driver is not given is waited for, to its deadline. */
static void before_a_stream_at_last(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    const rota_ticket held = submit_after(&s, 1);
    assert_status(rota_stream_wait(s.device, s.own.stream, held, STREAM_MOMENT_NS), ROTA_TIMEOUT);
    assert_ok(rota_external_timeline_signal(s.timeline, 1));
    assert_ok(rota_stream_wait(s.device, s.own.stream, held, 0));
    assert_ok(rota_wait(held, 0));
    drop_ours(&s);
    stream_close(&s.own, true);
}

/* Works come after what the device follows, on whatever queue, and the stream after them: nobody waits in between. */
static void follows_a_stream(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    for (uint32_t round = 1; round <= 200; round++) { /* more than there are events */
        cuda_stub_pause(true);
        stream_fill(&s.own, round);
        stream_copy(&s.own);
        assert_ok(rota_stream_follow(s.device, s.own.stream));
        rota_ticket ticket;
        assert_ok(rota_submit(s.plan, NULL, &ticket));
        stream_expect_given(ticket);
        assert_ok(rota_stream_wait(s.device, s.own.stream, ticket, 0)); /* it waits in the driver */
        assert_status(rota_poll(ticket), ROTA_BUSY);
        cuda_stub_pause(false);
        assert_ok(rota_wait(ticket, 0));
        test_expect_words(s.copy, STREAM_WORDS, round);
    }
    drop_ours(&s);
    stream_close(&s.own, true);
}

typedef struct follower {
    scene *s;
    _Atomic uint32_t is_done;
} follower;

static void *follow_once_more(void *user) {
    follower *f = user;
    assert_ok(rota_stream_follow(f->s->device, f->s->own.stream));
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
        stream_copy(&s.own);
        assert_ok(rota_stream_follow(s.device, s.own.stream));
    }
    follower f = {.s = &s};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, follow_once_more, &f), 0);
    test_nap_ns(STREAM_MOMENT_NS);
    assert_false(ra_load_acquire(&f.is_done));
    rota_ticket ticket;
    assert_ok(rota_submit(s.plan, NULL, &ticket));
    cuda_stub_pause(false);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(ra_load_acquire(&f.is_done));
    assert_ok(rota_wait(ticket, 0));
    drop_ours(&s);
    stream_close(&s.own, true);
}

static _Atomic uint32_t may_go;

enum { SUBMITTED = 100 }; /* more than may be in flight on a queue */
#define STALL_NS 100000000u

/* The stream goes on, and its end does not excuse the device any more, whose works have as long as they need. Under the
 * stand-in's lock, which the submit thread has had when it finds that the stream is there, and only then looks at how
 * long that may be. */
static bool goes(void *user) {
    rota_cuda_device *exec = user;
    if (!ra_load_acquire(&may_go)) return false;
    exec->bounds.stall_ns = STREAM_PATIENCE_NS;
    return true;
}

static rota_cuda_device *exec_of(const scene *s) {
    return (rota_cuda_device *)s->device->exec;
}

/* Of all the device's queues. */
static uint64_t fences_published(const scene *s) {
    uint64_t sum = 0;
    for (uint32_t q = 0; q < exec_of(s)->options.queue_count; q++)
        sum += ra_load_acquire(&exec_of(s)->queues[q].published);
    return sum;
}

/* Each once the driver was given the one before: what is handed over together shares fences, and so many works had not
 * too many of them. */
static void *submit_many(void *user) {
    scene *s = user;
    rota_ticket ticket;
    const uint64_t until = rota_deadline_after(STREAM_PATIENCE_NS);
    for (uint32_t i = 0; i < SUBMITTED; i++) {
        const uint64_t published = fences_published(s);
        if (rota_submit_with(s->plan, &ROTA_SUBMIT_OPTIONS(.timeout_ns = STREAM_PATIENCE_NS), &ticket) !=
            ROTA_OK)
            break;
        while (fences_published(s) == published && !rota_device_is_lost(s->device) && rota_clock_ns() < until)
            test_nap();
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
        rota_cuda_device *exec = exec_of(&s);
        exec->bounds.stall_ns = STALL_NS;
        ra_store_release(&may_go, 0);
        if (hangs) {
            cuda_stub_pause(true);
            assert_ok(rota_submit(s.plan, NULL, &ticket));
            stream_expect_given(ticket);
            assert_ok(rota_stream_wait(s.device, s.own.stream, ticket, 0));
        } else {
            cuda_stub_hold(s.own.stream, goes, exec);
        }
        assert_ok(rota_stream_follow(s.device, s.own.stream));
        assert_int_equal(pthread_create(&thread, NULL, submit_many, &s), 0);
        /* The submit thread has no fence for the next one: it is that thread who finds out. */
        const uint64_t full_until = rota_deadline_after(STREAM_PATIENCE_NS);
        while (!ra_load_acquire(&exec->waits.room_wanted) && !ra_load_acquire(&exec->lost) &&
               rota_clock_ns() < full_until)
            test_nap();
        assert_true(ra_load_acquire(&exec->waits.room_wanted) || ra_load_acquire(&exec->lost));
        const uint64_t until = rota_deadline_after(hangs ? STREAM_PATIENCE_NS : UINT64_C(6) * STALL_NS);
        while (!rota_device_is_lost(s.device) && rota_clock_ns() < until) test_nap();
        assert_int_equal(rota_device_is_lost(s.device), hangs);
        ra_store_release(&may_go, 1);
        if (hangs) cuda_stub_pause(false);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (hangs) {
            assert_status(rota_wait(ticket, 0), ROTA_DEVICE_LOST);
            expect_said("no work completed");
            close_failed(&s);
            continue;
        }
        assert_ok(rota_submit(s.plan, NULL, &ticket));
        assert_ok(rota_wait(ticket, 0));
        drop_ours(&s);
        stream_close(&s.own, true);
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
    stream_copy(&s.own);
    assert_ok(rota_stream_signal(s.device, s.own.stream, timeline, 3));
    drop_ours(&s);
    assert_ok(rota_external_timeline_value(timeline, &value));
    assert_int_equal(value, 0);
    cuda_stub_pause(false);
    for (const uint64_t until = rota_deadline_after(STREAM_PATIENCE_NS);
         value != 3 && rota_clock_ns() < until;)
        assert_ok(rota_external_timeline_value(timeline, &value));
    assert_int_equal(value, 3);
    rota_external_timeline_release(timeline);
    stream_close(&s.own, true);
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
        stream_copy(&s.own);
        assert_ok(rota_stream_signal(s.device, s.own.stream, timeline, point));
    }
    assert_int_equal(ra_load_acquire(&timeline->references), 4);
    cuda_stub_fail("MemcpyAsync", 0, CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(s.own.cu->MemcpyAsync(s.own.theirs, s.own.from, STREAM_BYTES, s.own.stream),
                     CUDA_ERROR_ILLEGAL_ADDRESS);
    cuda_stub_pause(false);
    for (const uint64_t until = rota_deadline_after(STREAM_PATIENCE_NS);
         ra_load_acquire(&timeline->references) != 1 && rota_clock_ns() < until;)
        test_nap();
    assert_int_equal(ra_load_acquire(&timeline->references), 1);
    assert_ok(rota_external_timeline_value(timeline, &value));
    assert_int_equal(value, 0);
    assert_status(rota_stream_signal(s.device, s.own.stream, timeline, 4), ROTA_DEVICE_LOST);
    rota_external_timeline_release(timeline);
    close_failed(&s);
}

/* A stream of a context that the application has destroyed: that is not the device's. */
static void of_a_destroyed_context(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    cuda_stub_fail("StreamGetCtx", 0, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_status(rota_stream_signal(s.device, s.own.stream, s.timeline, 1), ROTA_INVALID_ARGUMENT);
    expect_said("of a context that was destroyed");
    close_failed(&s); /* as the stand-in takes that for one of its own */
}

static void refused(void **state) {
    (void)state;
    scene s;
    open_scene(&s);
    CUcontext others, before;
    CUstream other;
    CUgraph graph;
    rota_device *cpu;
    uint64_t value;
    assert_status(rota_stream_signal(s.device, NULL, s.timeline, 1), ROTA_INVALID_ARGUMENT);
    assert_int_equal(s.own.cu->DevicePrimaryCtxRetain(&others, 1), CUDA_SUCCESS);
    assert_int_equal(s.own.cu->CtxPushCurrent(others), CUDA_SUCCESS);
    assert_int_equal(s.own.cu->StreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_status(rota_stream_signal(s.device, other, s.timeline, 1), ROTA_INVALID_ARGUMENT);
    expect_said("is of another context");
    rota_ticket ticket;
    cuda_stub_pause(true); /* one that is over needs no stream */
    assert_ok(rota_submit(s.plan, NULL, &ticket));
    assert_status(rota_stream_wait(s.device, other, ticket, 0), ROTA_INVALID_ARGUMENT);
    expect_said("is of another context");
    assert_status(rota_stream_wait(s.device, NULL, ticket, 0), ROTA_INVALID_ARGUMENT);
    assert_status(rota_stream_wait(s.device, s.own.stream, (rota_ticket){0}, 0), ROTA_INVALID_ARGUMENT);
    cuda_stub_pause(false);
    assert_ok(rota_wait(ticket, 0));
    assert_int_equal(s.own.cu->StreamDestroy(other), CUDA_SUCCESS);
    assert_int_equal(s.own.cu->CtxPopCurrent(&before), CUDA_SUCCESS);
    assert_int_equal(s.own.cu->DevicePrimaryCtxRelease(1), CUDA_SUCCESS);
    assert_int_equal(s.own.cu->StreamBeginCapture(s.own.stream, CU_STREAM_CAPTURE_MODE_RELAXED),
                     CUDA_SUCCESS);
    assert_status(rota_stream_signal(s.device, s.own.stream, s.timeline, 1), ROTA_WRONG_STATE);
    expect_said("is being captured");
    assert_status(rota_stream_follow(s.device, s.own.stream), ROTA_WRONG_STATE);
    expect_said("is being captured");
    assert_int_equal(s.own.cu->StreamEndCapture(s.own.stream, &graph), CUDA_SUCCESS);
    assert_int_equal(s.own.cu->GraphDestroy(graph), CUDA_SUCCESS);
    cuda_stub_fail("StreamAddCallback", 0, CUDA_ERROR_OUT_OF_MEMORY);
    assert_status(rota_stream_signal(s.device, s.own.stream, s.timeline, 1), ROTA_OUT_OF_MEMORY);
    assert_ok(rota_device_open(s.runtime, "cpu", &cpu));
    assert_status(rota_stream_signal(cpu, s.own.stream, s.timeline, 1), ROTA_UNSUPPORTED);
    expect_said("device 'cpu' has no streams");
    assert_status(rota_stream_follow(cpu, s.own.stream), ROTA_UNSUPPORTED);
    expect_said("device 'cpu' has no streams");
    assert_status(rota_stream_follow(s.device, NULL), ROTA_INVALID_ARGUMENT);
    cuda_stub_fail("EventRecord", 0, CUDA_ERROR_OUT_OF_MEMORY);
    assert_status(rota_stream_follow(s.device, s.own.stream), ROTA_OUT_OF_MEMORY);
    assert_status(rota_stream_wait(cpu, s.own.stream, ticket, 0), ROTA_UNSUPPORTED);
    rota_runtime *runtime;
    rota_external_timeline *theirs;
    assert_ok(rota_runtime_open(NULL, &runtime));
    assert_ok(rota_external_timeline_create(runtime, NULL, &theirs));
    assert_status(rota_stream_signal(s.device, s.own.stream, theirs, 1), ROTA_INVALID_ARGUMENT);
    expect_said("of another runtime");
    rota_external_timeline_release(theirs);
    assert_ok(rota_runtime_close(runtime, 0));
    assert_ok(rota_external_timeline_value(s.timeline, &value));
    assert_int_equal(value, 0);
    drop_ours(&s);
    stream_close(&s.own, true);
}
#endif

int main(void) {
#ifdef ROTA_HAVE_CUDA
    if (!cuda_stub_has_images()) return 77;
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
