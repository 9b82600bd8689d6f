/* Timelines that works wait for and signal on their streams (cuda_submit.c): of another driver of the GPU, imported by
 * descriptor; or of peers, other GPUs' devices in this process.
 *
 * A peer's is a word in pinned host memory, which every GPU sees. The stream of the device whose queue it is writes the
 * value behind its works, with a fence for the whole system before it; the others' streams wait until it is there. The
 * host ends such a wait by writing the word itself, whatever the device does that was to, and enters no driver for it.
 * Not events: what is recorded again while another device's thread is about to wait for it is another wait, and one of
 * a device that is lost is nobody's to end.
 *
 * The words lie in memory of the GPU's primary context, which they keep, and which goes when nobody has a timeline in
 * them any more: a device that is given up with work in flight keeps what that may wait for. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/cuda/cuda_timeline.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_device.h"

/* Each in a cache line of its own: GPUs look at them again and again. */
typedef struct rota_cuda_word {
    _Alignas(64) _Atomic uint64_t value;
} rota_cuda_word;

struct rota_cuda_words {
    _Atomic uint32_t references; /* timelines, and the device that made them */
    const rota_cuda_api *cu;
    CUdevice gpu;
    CUcontext context; /* the GPU's primary one */
    rota_cuda_word *all;
    uint32_t taken;
};

struct rota_exec_timeline {
    rota_exec_timeline *next; /* of the device's */
    CUexternalSemaphore handle;
    /* Or, of peers: */
    rota_cuda_words *words;
    rota_cuda_word *word;
    CUdeviceptr address; /* the word as this device sees it */
};

static void keep(rota_cuda_device *device, rota_exec_timeline *timeline) {
    pthread_mutex_lock(&device->objects.lock);
    timeline->next = device->timelines.first;
    device->timelines.first = timeline;
    pthread_mutex_unlock(&device->objects.lock);
}

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
    keep(device, timeline);
    *out_timeline = timeline;
    return ROTA_OK;
}

/* ---- Of peers ---- */

bool rota_cuda_has_words(const rota_cuda_api *cu, CUdevice gpu) {
    int has = 0;
    return cu->StreamWaitValue64 && cu->StreamWriteValue64 &&
           cu->DeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, gpu) ==
               CUDA_SUCCESS &&
           has;
}

/* With none of rota's contexts current. */
static void let_go(rota_cuda_words *words) {
    CUcontext ours;
    if (!words || ra_fetch_add_acq_rel(&words->references, (uint32_t)-1) != 1) return; /* pairs with itself */
    if (words->all && words->cu->CtxPushCurrent(words->context) == CUDA_SUCCESS) {
        (void)words->cu->MemFreeHost(words->all);
        (void)words->cu->CtxPopCurrent(&ours);
    }
    if (words->context) (void)words->cu->DevicePrimaryCtxRelease(words->gpu);
    free(words);
}

/* The device's context is current. */
static CUresult allocate_words(rota_cuda_words *words) {
    const rota_cuda_api *cu = words->cu;
    const size_t bytes = ROTA_EXEC_QUEUES_MAX * sizeof(rota_cuda_word);
    CUcontext ours;
    void *host = NULL;
    CUresult result = cu->DevicePrimaryCtxRetain(&words->context, words->gpu);
    if (result != CUDA_SUCCESS) {
        words->context = NULL;
        return result;
    }
    result = cu->CtxPushCurrent(words->context);
    if (result != CUDA_SUCCESS) return result;
    result = cu->MemHostAlloc(&host, bytes, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);
    (void)cu->CtxPopCurrent(&ours);
    if (result != CUDA_SUCCESS) return result;
    words->all = host;
    memset(host, 0, bytes);
    return CUDA_SUCCESS;
}

static rota_status make_words(rota_cuda_device *device) {
    rota_cuda_words *words = calloc(1, sizeof *words);
    if (!words)
        return rota_fail(ROTA_OUT_OF_MEMORY, "%s: no host memory for timelines", device->base.info.id);
    *words = (rota_cuda_words){.references = 1, .cu = device->cu, .gpu = device->handle};
    rota_status status = rota_cuda_enter(device);
    if (status == ROTA_OK) {
        status =
            rota_cuda_check(device, allocate_words(words), "pinned memory of timelines for other devices");
        rota_cuda_leave(device);
    }
    if (status == ROTA_OK)
        device->timelines.words = words;
    else
        let_go(words);
    return status;
}

/* A timeline of the word, as the device sees it; the device's context is current. */
static rota_status make_of_word(rota_cuda_device *device, rota_cuda_words *words, rota_cuda_word *word,
                                rota_exec_timeline **out_timeline) {
    rota_exec_timeline *timeline = calloc(1, sizeof *timeline);
    if (!timeline)
        return rota_fail(ROTA_OUT_OF_MEMORY, "%s: no host memory for a timeline", device->base.info.id);
    const CUresult result = device->cu->MemHostGetDevicePointer(&timeline->address, word, 0);
    if (result != CUDA_SUCCESS) {
        free(timeline);
        return rota_cuda_check(device, result, "cuMemHostGetDevicePointer");
    }
    (void)ra_fetch_add_relaxed(&words->references, 1);
    timeline->words = words;
    timeline->word = word;
    keep(device, timeline);
    *out_timeline = timeline;
    return ROTA_OK;
}

rota_status rota_cuda_timeline_open(rota_exec_device *base, rota_exec_timeline **out_timeline) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    if (!rota_cuda_has_words(device->cu, device->handle))
        return rota_fail(ROTA_UNSUPPORTED, "%s: its streams don't wait for words in memory", base->info.id);
    if (!device->timelines.words) ROTA_TRY(make_words(device));
    rota_cuda_words *words = device->timelines.words;
    if (words->taken == ROTA_EXEC_QUEUES_MAX)
        return rota_fail(ROTA_INTERNAL, "%s: more timelines than queues", base->info.id);
    ROTA_TRY(rota_cuda_enter(device));
    const rota_status status = make_of_word(device, words, &words->all[words->taken], out_timeline);
    if (status == ROTA_OK) words->taken++;
    rota_cuda_leave(device);
    return status;
}

rota_status rota_cuda_timeline_meet(rota_exec_device *base, const rota_exec_timeline *other,
                                    rota_exec_timeline **out_timeline) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    if (!rota_cuda_has_words(device->cu, device->handle))
        return rota_fail(ROTA_UNSUPPORTED, "%s: its streams don't wait for words in memory", base->info.id);
    ROTA_TRY(rota_cuda_enter(device));
    const rota_status status = make_of_word(device, other->words, other->word, out_timeline);
    rota_cuda_leave(device);
    return status;
}

static rota_status wait_for_words(rota_cuda_device *device, CUstream stream,
                                  const rota_exec_timeline_wait *waits, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (waits[i].timeline->words)
            ROTA_TRY(rota_cuda_check(device,
                                     device->cu->StreamWaitValue64(stream, waits[i].timeline->address,
                                                                   waits[i].value, CU_STREAM_WAIT_VALUE_GEQ),
                                     "cuStreamWaitValue64"));
    return ROTA_OK;
}

/* ---- Waits and signals ---- */

rota_status rota_cuda_timelines_wait(rota_cuda_device *device, CUstream stream,
                                     const rota_exec_timeline_wait *waits, uint32_t count) {
    CUexternalSemaphore handles[ROTA_EXEC_TIMELINE_WAITS_MAX];
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS params[ROTA_EXEC_TIMELINE_WAITS_MAX] = {0};
    uint32_t semaphores = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (waits[i].timeline->words) continue;
        handles[semaphores] = waits[i].timeline->handle;
        params[semaphores++].params.fence.value = waits[i].value;
    }
    if (semaphores)
        ROTA_TRY(rota_cuda_check(device,
                                 device->cu->WaitExternalSemaphoresAsync(handles, params, semaphores, stream),
                                 "cuWaitExternalSemaphoresAsync"));
    return semaphores < count ? wait_for_words(device, stream, waits, count) : ROTA_OK;
}

rota_status rota_cuda_timeline_reach(rota_cuda_device *device, CUstream stream, rota_exec_timeline *timeline,
                                     uint64_t value) {
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS params = {.params.fence.value = value};
    if (timeline->words)
        return rota_cuda_check(
            device,
            device->cu->StreamWriteValue64(stream, timeline->address, value, CU_STREAM_WRITE_VALUE_DEFAULT),
            "cuStreamWriteValue64");
    return rota_cuda_check(device,
                           device->cu->SignalExternalSemaphoresAsync(&timeline->handle, &params, 1, stream),
                           "cuSignalExternalSemaphoresAsync");
}

rota_status rota_cuda_timeline_signal(rota_exec_device *base, rota_exec_timeline *timeline, uint64_t value) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    if (timeline->words) {
        /* Release: nothing that a device reads by it; it is in vain that its works go on. */
        if (ra_load_relaxed(&timeline->word->value) < value) ra_store_release(&timeline->word->value, value);
        return ROTA_OK;
    }
    ROTA_TRY(rota_cuda_enter(device));
    rota_status status = rota_cuda_timeline_reach(device, device->timelines.signal_stream, timeline, value);
    rota_cuda_leave(device);
    return status;
}

void rota_cuda_timelines_free(rota_cuda_device *device) {
    /* At most such a signal is on its way there. */
    if (device->timelines.signal_stream) (void)device->cu->StreamSynchronize(device->timelines.signal_stream);
    for (rota_exec_timeline *timeline = device->timelines.first; timeline; timeline = timeline->next)
        if (timeline->handle) (void)device->cu->DestroyExternalSemaphore(timeline->handle);
    if (device->timelines.signal_stream) (void)device->cu->StreamDestroy(device->timelines.signal_stream);
}

void rota_cuda_timelines_forget(rota_cuda_device *device) {
    while (device->timelines.first) {
        rota_exec_timeline *timeline = device->timelines.first;
        device->timelines.first = timeline->next;
        let_go(timeline->words);
        free(timeline);
    }
    let_go(device->timelines.words);
}
