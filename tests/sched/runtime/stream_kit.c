/* An application's stream on the stand-in for the CUDA driver, whose memory is the host's. */
#include "tests/sched/runtime/stream_kit.h"

#ifdef ROTA_HAVE_CUDA
#include <string.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/runtime.h"
#include "tests/kit/nap.h"
#include "tests/kit/sequenced.h"

void stream_open(application_stream *a) {
    *a = (application_stream){.cu = cuda_stub_api()};
    assert_int_equal(a->cu->DevicePrimaryCtxRetain(&a->context, 0), CUDA_SUCCESS);
    stream_enter(a);
    assert_int_equal(a->cu->MemAlloc(&a->theirs, STREAM_BYTES), CUDA_SUCCESS);
    assert_int_equal(a->cu->MemAlloc(&a->from, STREAM_BYTES), CUDA_SUCCESS);
    assert_int_equal(a->cu->StreamCreate(&a->stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    memset((void *)(uintptr_t)a->theirs, 0, STREAM_BYTES);
}

void stream_leave(const application_stream *a) {
    CUcontext before;
    assert_int_equal(a->cu->CtxPopCurrent(&before), CUDA_SUCCESS);
}

void stream_enter(const application_stream *a) {
    assert_int_equal(a->cu->CtxPushCurrent(a->context), CUDA_SUCCESS);
}

void stream_close(application_stream *a, bool clean) {
    assert_int_equal(a->cu->StreamSynchronize(a->stream), CUDA_SUCCESS);
    assert_int_equal(a->cu->StreamDestroy(a->stream), CUDA_SUCCESS);
    assert_int_equal(a->cu->MemFree(a->theirs), CUDA_SUCCESS);
    assert_int_equal(a->cu->MemFree(a->from), CUDA_SUCCESS);
    stream_leave(a);
    assert_int_equal(a->cu->DevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    if (clean)
        cuda_stub_end_clean();
    else
        cuda_stub_end();
}

void stream_close_failed(application_stream *a) {
    CUcontext before;
    (void)a->cu->StreamSynchronize(a->stream); /* where only rota's device was given up it is yet to get on */
    (void)a->cu->StreamDestroy(a->stream);
    (void)a->cu->MemFree(a->theirs);
    (void)a->cu->MemFree(a->from);
    (void)a->cu->CtxPopCurrent(&before);
    (void)a->cu->DevicePrimaryCtxRelease(0);
    cuda_stub_end();
}

void stream_expect_given(rota_ticket ticket) {
    const rota_runtime *runtime = ticket.runtime;
    const uint64_t until = rota_deadline_after(STREAM_PATIENCE_NS);
    test_sequenced(ticket);
    for (uint32_t d = 0; d < ra_load_acquire(&runtime->device_count); d++) {
        const rota_device *device = runtime->devices[d];
        const rota_exec_streams *streams = device->exec->vtable->streams;
        for (uint32_t q = 0; streams && q < runtime->queue_count; q++) {
            const uint64_t value = ra_load_acquire(&device->timelines[q].issued);
            while ((ra_load_acquire(&device->timelines[q].handed_over) < value ||
                    !streams->is_given(device->exec, q, value)) &&
                   rota_clock_ns() < until)
                test_nap();
            assert_true(rota_clock_ns() < until);
        }
    }
}

void stream_fill(const application_stream *a, uint32_t value) {
    uint32_t *words = (uint32_t *)(uintptr_t)a->from;
    for (uint32_t i = 0; i < STREAM_WORDS; i++) words[i] = value;
}

void stream_copy(const application_stream *a) {
    assert_int_equal(a->cu->MemcpyAsync(a->theirs, a->from, STREAM_BYTES, a->stream), CUDA_SUCCESS);
}

uint32_t stream_word(const application_stream *a) {
    return __atomic_load_n((const uint32_t *)(uintptr_t)a->theirs, __ATOMIC_ACQUIRE);
}

void stream_expect(const application_stream *a, uint32_t value) {
    assert_int_equal(a->cu->StreamSynchronize(a->stream), CUDA_SUCCESS);
    const uint32_t *words = (const uint32_t *)(uintptr_t)a->theirs;
    for (uint32_t i = 0; i < STREAM_WORDS; i++) assert_int_equal(words[i], value);
}
#endif
