/* What every other file of the executor stands on: the device's context made current, results judged, a
 * device that is lost, and streams. */
#include "exec/cuda/cuda_context.h"
#include "base/clock.h"
#include "base/futex.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_halt.h"
#include "exec/cuda/cuda_running.h"
#include <stdio.h>

/* How long a lost device may take to come to rest. */
#define DRAIN_NS (5ull * 1000000000ull)
#define DRAIN_NAP_NS 100000ull

/* ---- Loss ---- */

static void nap(void) {
    rota_nap_until(rota_deadline_after(DRAIN_NAP_NS));
}

static bool is_through(rota_cuda_device *device, CUstream stream, uint64_t deadline) {
    CUresult result = stream ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
    bool in_time = true;
    while (result == CUDA_ERROR_NOT_READY && in_time) {
        result = device->cu->StreamQuery(stream);
        if (result == CUDA_ERROR_NOT_READY) nap();
        in_time = rota_clock_ns() < deadline;
    }
    return in_time && (result == CUDA_SUCCESS || rota_cuda_is_fatal(result));
}

/* What the completion thread launches by itself it launches with this lock, where it finds that the device is lost
 * (cuda_script.c): nothing more once it was taken here. It may be the thread that is here. */
static bool await_scripts(rota_cuda_device *device, uint64_t deadline) {
    while (pthread_mutex_trylock(&device->stops.looks) != 0) {
        if (rota_clock_ns() > deadline) return false;
        nap();
    }
    pthread_mutex_unlock(&device->stops.looks);
    return true;
}

/* Waits until nothing more is put on the queues and all are through; false if they are not in time, or do not
 * tell. */
static bool drain(rota_cuda_device *device) {
    uint64_t deadline = rota_deadline_after(DRAIN_NS);
    /* The submit thread looks at `lost` before each work; it may be the one that is here. */
    while (pthread_mutex_trylock(&device->submit_lock) != 0) {
        if (rota_clock_ns() > deadline) return false;
        nap();
    }
    bool quiet = rota_cuda_push(device) == CUDA_SUCCESS, entered = quiet;
    if (entered) rota_cuda_halt(device);
    quiet = quiet && await_scripts(device, deadline);
    for (uint32_t i = 0; i < device->options.queue_count && quiet; i++)
        quiet = is_through(device, device->queues[i].stream, deadline) &&
                is_through(device, device->queues[i].scripts, deadline);
    if (entered) rota_cuda_leave(device);
    pthread_mutex_unlock(&device->submit_lock);
    return quiet;
}

void rota_cuda_give_up(rota_cuda_device *device, bool is_over, const char *message) {
    /* The exchange makes one thread call back; it releases to the acquire loads of `lost`. */
    if (ra_exchange_acq_rel(&device->lost, 1) != 0) return;
    /* Before anybody hears that the device touches nothing more. Pairs with the loads in the destroy
     * functions. */
    if (!is_over && !drain(device)) ra_store_release(&device->noisy, 1);
    if (device->host.lost) device->host.lost(device->host.user, ROTA_DEVICE_LOST, message);
}

rota_status rota_cuda_lose(rota_cuda_device *device, CUresult result, const char *what) {
    char message[ROTA_ERROR_MESSAGE_MAX];
    /* Where a kernel faulted, it is one that began and did not end. */
    bool faulted = rota_cuda_is_fatal(result);
    const char *node = faulted && !ra_load_acquire(&device->lost) ? rota_cuda_running_node(device) : NULL;
    (void)rota_cuda_fail(device->cu, result, what);
    rota_status status = rota_fail_context(ROTA_DEVICE_LOST, "%s (%s) is lost%s%s%s: ", device->base.info.id,
                                           device->base.info.name, node ? " while node '" : "",
                                           node ? node : "", node ? "' ran" : "");
    snprintf(message, sizeof message, "%s", rota_last_error());
    rota_cuda_give_up(device, faulted, message);
    return rota_fail(status, "%s", message);
}

rota_status rota_cuda_check(rota_cuda_device *device, CUresult result, const char *what) {
    if (result == CUDA_SUCCESS) return ROTA_OK;
    if (rota_cuda_is_fatal(result)) return rota_cuda_lose(device, result, what);
    return rota_fail_context(rota_cuda_fail(device->cu, result, what), "%s: ", device->base.info.id);
}

/* ---- The context ---- */

/* Of the calling thread: how often a context was pushed, and the capture mode that it had before the first.
 */
static _Thread_local uint32_t pushed;
static _Thread_local CUstreamCaptureMode outer_mode;
static _Thread_local bool mode_changed;

CUresult rota_cuda_push(rota_cuda_device *device) {
    CUresult result = device->cu->CtxPushCurrent(device->context);
    if (result != CUDA_SUCCESS || pushed++) return result;
    outer_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    mode_changed = device->cu->ThreadExchangeStreamCaptureMode(&outer_mode) == CUDA_SUCCESS;
    return CUDA_SUCCESS;
}

bool rota_cuda_push_to_free(rota_cuda_device *device, const char *what) {
    CUresult result = rota_cuda_push(device);
    if (result == CUDA_SUCCESS) return true;
    rota_log_write(&device->host.log, ROTA_LOG_WARNING,
                   "%s: %s that was released stays until the device is closed: cuCtxPushCurrent: %s",
                   device->base.info.id, what, rota_cuda_result_name(device->cu, result));
    return false;
}

rota_status rota_cuda_enter(rota_cuda_device *device) {
    if (ra_load_acquire(&device->lost)) /* pairs with rota_cuda_lose */
        return rota_fail(ROTA_DEVICE_LOST, "%s is lost", device->base.info.id);
    return rota_cuda_check(device, rota_cuda_push(device), "cuCtxPushCurrent");
}

void rota_cuda_leave(rota_cuda_device *device) {
    CUcontext popped;
    if (--pushed == 0 && mode_changed) (void)device->cu->ThreadExchangeStreamCaptureMode(&outer_mode);
    (void)device->cu->CtxPopCurrent(&popped); /* what was pushed is there to pop */
}

/* ---- Streams ---- */

rota_status rota_cuda_stream_create(rota_cuda_device *device, CUstream *out_stream) {
    return rota_cuda_check(device, device->cu->StreamCreate(out_stream, CU_STREAM_NON_BLOCKING),
                           "cuStreamCreate");
}

CUresult rota_cuda_settle(rota_cuda_device *device, CUstream stream, uint64_t timeout_ns) {
    uint64_t deadline = rota_deadline_after(timeout_ns);
    CUresult result = device->cu->StreamQuery(stream);
    while (result == CUDA_ERROR_NOT_READY && rota_clock_ns() < deadline) {
        nap();
        result = device->cu->StreamQuery(stream);
    }
    return result;
}
