/* Streams of the application's, which are the only ones here that rota did not make: a function is called once what it
 * has put on one is done, what it puts there comes after rota's works, and rota's works come after what it has put
 * there. */
#include "exec/cuda/cuda_stream.h"

#include "base/clock.h"
#include "base/futex.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_device.h"

/* Of the device's context, and taking works now, not into a graph, which might run them any number of times. */
static rota_status check_stream(rota_cuda_device *device, CUstream stream) {
    const char *id = device->base.info.id;
    CUcontext context = NULL;
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult result = device->cu->StreamGetCtx(stream, &context);
    if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED) /* the stream's, not the device's, which was entered */
        return rota_fail(ROTA_INVALID_ARGUMENT, "%s: stream %p is of a context that was destroyed", id,
                         (void *)stream);
    ROTA_TRY(rota_cuda_check(device, result, "cuStreamGetCtx"));
    if (context != device->context)
        return rota_fail(ROTA_INVALID_ARGUMENT, "%s: stream %p is of another context than the device's", id,
                         (void *)stream);
    ROTA_TRY(rota_cuda_check(device, device->cu->StreamIsCapturing(stream, &capture), "cuStreamIsCapturing"));
    if (capture != CU_STREAM_CAPTURE_STATUS_NONE)
        return rota_fail(ROTA_WRONG_STATE, "%s: stream %p is being captured", id, (void *)stream);
    return ROTA_OK;
}

static void CUDA_CB answer(CUstream stream, CUresult result, void *user) {
    rota_exec_stream_call *call = user;
    (void)stream;
    call->fn(call, result == CUDA_SUCCESS);
}

/* By a callback, not by cuLaunchHostFunc, whose function is not called where the context fails before. */
static rota_status call_behind(rota_exec_device *base, void *stream, rota_exec_stream_call *call) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    ROTA_TRY(rota_cuda_enter(device));
    rota_status status = check_stream(device, stream);
    if (status == ROTA_OK)
        status = rota_cuda_check(device, device->cu->StreamAddCallback(stream, answer, call, 0),
                                 "cuStreamAddCallback");
    rota_cuda_leave(device);
    return status;
}

/* No lock of the submit thread's is taken, which a stopped caller would keep from it. The newest fence that was
 * published covers the value: its event was recorded before the value was stored, and its place in the ring has the
 * same event ever after. Where the place is taken again meanwhile, the event is that of a later fence of the queue,
 * which is behind the value, too, and was given to the driver before: so nothing that the stream will hold waits for
 * it. */
static rota_status come_after(rota_exec_device *base, void *stream, uint32_t queue, uint64_t value) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    rota_cuda_queue *from = &device->queues[queue];
    if (ra_load_acquire(&from->published_value) < value) return ROTA_BUSY; /* pairs with set_fence */
    /* Nor is it covered while a script is in flight, as no event is behind what that launches; released with the value.
     * The tail pairs with report: what a script has launched is complete. */
    if (ra_load_acquire(&from->scripted_head) > ra_load_acquire(&from->tail)) return ROTA_BUSY;
    const uint64_t head = ra_load_acquire(&from->published);
    ROTA_TRY(rota_cuda_enter(device));
    rota_status status = check_stream(device, stream);
    if (status == ROTA_OK)
        status = rota_cuda_check(
            device, device->cu->StreamWaitEvent(stream, from->fences[(head - 1) % ROTA_CUDA_FENCES].event, 0),
            "cuStreamWaitEvent");
    rota_cuda_leave(device);
    return status;
}

/* The two loads as in come_after. */
static bool is_given(rota_exec_device *base, uint32_t queue, uint64_t value) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    const rota_cuda_queue *from = &device->queues[queue];
    if (ra_load_acquire(&device->lost)) return true; /* pairs with rota_cuda_lose */
    if (ra_load_acquire(&from->published_value) < value) return false;
    return ra_load_acquire(&from->scripted_head) <= ra_load_acquire(&from->tail);
}

static rota_status latch(rota_exec_device *base, void *stream, rota_exec_stream_latch **out_latch) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    ROTA_TRY(rota_cuda_enter(device));
    rota_status status = check_stream(device, stream);
    if (status == ROTA_OK) status = rota_cuda_latch_close(device, stream, out_latch);
    rota_cuda_leave(device);
    return status;
}

/* ---- Works after streams ---- */

#define ROOM_NAP_NS 50000u

/* Until the event that was recorded as long ago as there are events is over: queues that have not waited for it need
 * not any more. With the lock, in the context. */
static rota_status wait_for_event(rota_cuda_device *device, CUevent event, uint64_t timeout_ns) {
    const uint64_t until = rota_deadline_after(timeout_ns);
    CUresult result;
    while ((result = device->cu->EventQuery(event)) == CUDA_ERROR_NOT_READY) {
        if (ra_load_acquire(&device->lost)) /* pairs with rota_cuda_lose */
            return rota_fail(ROTA_DEVICE_LOST, "%s is lost", device->base.info.id);
        if (rota_clock_ns() >= until)
            return rota_fail(
                ROTA_TIMEOUT,
                "%s: the streams that works come after have not got on for %.3f s, and there is no room "
                "for more than %d of their points",
                device->base.info.id, (double)timeout_ns * 1e-9, ROTA_CUDA_FOLLOWED);
        rota_nap_until(rota_deadline_after(ROOM_NAP_NS));
    }
    return rota_cuda_check(device, result, "cuEventQuery");
}

static rota_status record_followed(rota_cuda_device *device, CUstream stream, uint64_t timeout_ns) {
    const uint64_t count = ra_load_relaxed(&device->timelines.followed.count);
    CUevent *event = &device->timelines.followed.events[count % ROTA_CUDA_FOLLOWED];
    if (*event)
        ROTA_TRY(wait_for_event(device, *event, timeout_ns));
    else
        ROTA_TRY(rota_cuda_check(device, device->cu->EventCreate(event, CU_EVENT_DISABLE_TIMING),
                                 "cuEventCreate"));
    ROTA_TRY(rota_cuda_check(device, device->cu->EventRecord(*event, stream), "cuEventRecord"));
    ra_store_release(&device->timelines.followed.count,
                     count + 1); /* releases the event to the submit thread */
    return ROTA_OK;
}

static rota_status follow(rota_exec_device *base, void *stream, uint64_t timeout_ns) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    ROTA_TRY(rota_cuda_enter(device));
    rota_status status = check_stream(device, stream);
    if (status == ROTA_OK) {
        pthread_mutex_lock(&device->timelines.followed.lock);
        status = record_followed(device, stream, timeout_ns);
        pthread_mutex_unlock(&device->timelines.followed.lock);
    }
    rota_cuda_leave(device);
    return status;
}

/* No circle: what a stream has when it is followed waits for no work that the driver is given later, as
 * come_after refuses those, and so not for the queue's next one. That holds too where a caller records an
 * event again meanwhile: then its first wait was over, and the queue waits for a stream more than it must. */
rota_status rota_cuda_stream_come_after(rota_cuda_device *device, rota_cuda_queue *queue) {
    const uint64_t count =
        ra_load_acquire(&device->timelines.followed.count); /* pairs with record_followed */
    if (count - queue->followed > ROTA_CUDA_FOLLOWED) queue->followed = count - ROTA_CUDA_FOLLOWED;
    for (; queue->followed < count; queue->followed++)
        ROTA_TRY(rota_cuda_check(
            device,
            device->cu->StreamWaitEvent(
                queue->stream, device->timelines.followed.events[queue->followed % ROTA_CUDA_FOLLOWED], 0),
            "cuStreamWaitEvent"));
    return ROTA_OK;
}

/* An event that was recorded again was over before. While that is done just now, this may be told of the later one: it
 * asks again. */
bool rota_cuda_stream_is_awaited(rota_cuda_device *device, uint64_t followed) {
    const uint64_t count =
        ra_load_acquire(&device->timelines.followed.count); /* pairs with record_followed */
    for (uint64_t i = count > ROTA_CUDA_FOLLOWED ? count - ROTA_CUDA_FOLLOWED : 0; i < followed; i++)
        if (device->cu->EventQuery(device->timelines.followed.events[i % ROTA_CUDA_FOLLOWED]) ==
            CUDA_ERROR_NOT_READY)
            return true;
    return false;
}

const rota_exec_streams rota_cuda_streams = {.call = call_behind,
                                             .wait = come_after,
                                             .follow = follow,
                                             .is_given = is_given,
                                             .latch = latch,
                                             .open_latch = rota_cuda_latch_open,
                                             .open_latches = rota_cuda_latches_open};
