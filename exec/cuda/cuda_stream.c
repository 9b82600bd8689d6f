/* Streams of the application's, which are the only ones here that rota did not make: a function is called once what it
 * has put on one is done, and what it puts there comes after rota's works. */
#include "exec/cuda/cuda_stream.h"

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
rota_status rota_cuda_stream_call(rota_exec_device *base, void *stream, rota_exec_stream_call *call) {
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
rota_status rota_cuda_stream_wait(rota_exec_device *base, void *stream, uint32_t queue, uint64_t value) {
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
