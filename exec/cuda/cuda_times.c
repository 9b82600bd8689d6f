/* Diagnostics: a kernel of one thread before and one after each command writes the device's timer to pinned
 * memory, where it can be read whatever became of the context: per-command times, and (cuda_running.c) which
 * command a hung or lost device is at. */
#include "exec/cuda/cuda_times.h"
#include "base/clock.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_device.h"
#include <string.h>

#define CALIBRATIONS 8u
/* Between the two looks; half of it is what times may be off by. */
#define CALIBRATION_NS_MAX 2000000ull
/* Until one such is found, without which there are no times. */
#define PATIENCE_NS 1000000000ull

rota_status rota_cuda_timestamps_create(rota_cuda_device *device, rota_cuda_instance *instance) {
    size_t bytes = 16 * (size_t)instance->program->desc->command_count;
    void *host = NULL;
    CUdeviceptr address = 0;
    ROTA_TRY(rota_cuda_check(
        device, device->cu->MemHostAlloc(&host, bytes, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE),
        "cuMemHostAlloc"));
    instance->timestamps = host;
    memset(host, 0, bytes);
    ROTA_TRY(rota_cuda_check(device, device->cu->MemHostGetDevicePointer(&address, host, 0),
                             "cuMemHostGetDevicePointer"));
    instance->timestamps_address = address;
    return ROTA_OK;
}

void rota_cuda_timestamps_destroy(rota_cuda_device *device, rota_cuda_instance *instance) {
    if (instance->timestamps)
        (void)device->cu->MemFreeHost(instance->timestamps); /* fails on a lost device only */
    instance->timestamps = NULL;
}

/* What rota_clock_ns and the device's timer are apart: the best of several timestamps, each written between two
 * looks at the clock. What was found earlier stands where the device, or this thread, does not get to it in time. */
static rota_status calibrate(rota_cuda_device *device) {
    uint64_t best = CALIBRATION_NS_MAX;
    const uint64_t start = rota_clock_ns();
    rota_cuda_piece *piece = &device->own.clock_piece;
    if (!piece->taken)
        ROTA_TRY(rota_cuda_piece_take(device, &device->objects.pinned, sizeof(uint64_t), piece));
    uint64_t *word = (uint64_t *)(void *)piece->host;
    for (uint32_t i = 0;
         i < CALIBRATIONS || (!device->own.clock_is_known && rota_clock_ns() - start < PATIENCE_NS); i++) {
        void *parameters[] = {&piece->address};
        const uint64_t patience = device->own.clock_is_known ? CALIBRATION_NS_MAX : PATIENCE_NS;
        ra_store_relaxed((_Atomic uint64_t *)word, 0);
        uint64_t before = rota_clock_ns(), after = before, timestamp = 0;
        ROTA_TRY(rota_cuda_check(device,
                                 device->cu->LaunchKernel(device->helpers.timestamp, 1, 1, 1, 1, 1, 1, 0,
                                                          device->own.stream, parameters, NULL),
                                 "cuLaunchKernel"));
        while ((timestamp = rota_cuda_timestamp_at(word, 0)) == 0 && after - before < patience)
            after = rota_clock_ns();
        after = rota_clock_ns();
        if (!timestamp) break; /* the timestamp still to come may end a later try early: no more tries */
        if (after - before >= best) continue;
        best = after - before;
        device->own.clock_offset_ns = (int64_t)(before + best / 2 - timestamp);
        device->own.clock_is_known = true;
    }
    if (device->own.clock_is_known) return ROTA_OK;
    return rota_fail(
        ROTA_BUSY,
        "%s: its timer could not be compared with the host's clock within %llu ms, as near as %llu ms",
        device->base.info.id, PATIENCE_NS / 1000000, CALIBRATION_NS_MAX / 1000000);
}

rota_status rota_cuda_times(rota_exec_device *base, rota_exec_instance *handle, rota_exec_time *out) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    const rota_cuda_instance *instance = (const rota_cuda_instance *)handle;
    const rota_exec_program_desc *desc = instance->program->desc;
    memset(out, 0, desc->command_count * sizeof *out);
    if (desc->command_count == 0) return ROTA_OK;
    if (!instance->timestamps)
        return rota_fail(ROTA_UNSUPPORTED, "%s was opened without diagnostics", base->info.id);
    ROTA_TRY(rota_cuda_enter(device));
    pthread_mutex_lock(&device->own.lock);
    rota_status status = calibrate(device);
    int64_t offset = device->own.clock_offset_ns;
    pthread_mutex_unlock(&device->own.lock);
    rota_cuda_leave(device);
    ROTA_TRY(status);
    for (uint32_t c = 0; c < desc->command_count; c++) {
        uint64_t begin = rota_cuda_timestamp_at(instance->timestamps, 2 * (uint64_t)c),
                 end = rota_cuda_timestamp_at(instance->timestamps, 2 * (uint64_t)c + 1);
        if (!begin || !end) continue;
        out[c].begin_ns = begin + (uint64_t)offset;
        out[c].end_ns = end > begin ? end + (uint64_t)offset : out[c].begin_ns;
    }
    return ROTA_OK;
}
