/* Timelines of another driver of the GPU, imported by descriptor; works wait for them and signal them on
 * their streams (cuda_submit.c). */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "exec/cuda/cuda_timeline.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_device.h"

struct rota_exec_timeline {
    rota_exec_timeline *next; /* of the device's */
    CUexternalSemaphore handle;
};

/* The context is current. */
static rota_status import(rota_cuda_device *device, int fd, rota_exec_timeline *timeline) {
    if (!device->timelines.signal_stream)
        ROTA_TRY(rota_cuda_stream_create(device, &device->timelines.signal_stream));
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC from = {.type =
                                                    CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD,
                                                .handle.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)};
    if (from.handle.fd < 0)
        return rota_fail(ROTA_SYSTEM, "%s: no file descriptor for a timeline", device->base.info.id);
    CUresult result = device->cu->ImportExternalSemaphore(&timeline->handle, &from);
    if (result != CUDA_SUCCESS) (void)close(from.handle.fd); /* else it is the driver's */
    return rota_cuda_check(device, result, "cuImportExternalSemaphore");
}

rota_status rota_cuda_timeline_create(rota_exec_device *base, int fd, rota_exec_timeline **out_timeline) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    if (fd < 0) return rota_fail(ROTA_UNSUPPORTED, "%s takes timelines over and makes none", base->info.id);
    rota_exec_timeline *timeline = calloc(1, sizeof *timeline);
    if (!timeline) return rota_fail(ROTA_OUT_OF_MEMORY, "%s: no host memory for a timeline", base->info.id);
    rota_status status = rota_cuda_enter(device);
    if (status == ROTA_OK) {
        status = import(device, fd, timeline);
        rota_cuda_leave(device);
    }
    if (status != ROTA_OK) {
        free(timeline);
        return status;
    }
    pthread_mutex_lock(&device->objects.lock);
    timeline->next = device->timelines.first;
    device->timelines.first = timeline;
    pthread_mutex_unlock(&device->objects.lock);
    *out_timeline = timeline;
    return ROTA_OK;
}

rota_status rota_cuda_timelines_wait(rota_cuda_device *device, CUstream stream,
                                     const rota_exec_timeline_wait *waits, uint32_t count) {
    CUexternalSemaphore handles[ROTA_EXEC_TIMELINE_WAITS_MAX];
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS params[ROTA_EXEC_TIMELINE_WAITS_MAX] = {0};
    for (uint32_t i = 0; i < count; i++) {
        handles[i] = waits[i].timeline->handle;
        params[i].params.fence.value = waits[i].value;
    }
    return rota_cuda_check(device, device->cu->WaitExternalSemaphoresAsync(handles, params, count, stream),
                           "cuWaitExternalSemaphoresAsync");
}

rota_status rota_cuda_timeline_reach(rota_cuda_device *device, CUstream stream, rota_exec_timeline *timeline,
                                     uint64_t value) {
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS params = {.params.fence.value = value};
    return rota_cuda_check(device,
                           device->cu->SignalExternalSemaphoresAsync(&timeline->handle, &params, 1, stream),
                           "cuSignalExternalSemaphoresAsync");
}

rota_status rota_cuda_timeline_signal(rota_exec_device *base, rota_exec_timeline *timeline, uint64_t value) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    ROTA_TRY(rota_cuda_enter(device));
    rota_status status = rota_cuda_timeline_reach(device, device->timelines.signal_stream, timeline, value);
    rota_cuda_leave(device);
    return status;
}

void rota_cuda_timelines_free(rota_cuda_device *device) {
    /* At most such a signal is on its way there. */
    if (device->timelines.signal_stream) (void)device->cu->StreamSynchronize(device->timelines.signal_stream);
    while (device->timelines.first) {
        rota_exec_timeline *timeline = device->timelines.first;
        device->timelines.first = timeline->next;
        (void)device->cu->DestroyExternalSemaphore(timeline->handle);
        free(timeline);
    }
    if (device->timelines.signal_stream) (void)device->cu->StreamDestroy(device->timelines.signal_stream);
}
