/* Diagnostics: see cuda_times.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_TIMES_H
#define ROTA_EXEC_CUDA_CUDA_TIMES_H

#include "base/atomic.h"
#include "exec/cuda/cuda_instance.h"

/* A timestamp, which the device may write meanwhile: what is read is judged by itself. */
static inline uint64_t rota_cuda_timestamp_at(const uint64_t *timestamps, uint64_t index) {
    return ra_load_relaxed((const _Atomic uint64_t *)&timestamps[index]);
}

/* Pinned memory for the timestamps of an instance. */
rota_status rota_cuda_timestamps_create(rota_cuda_device *device, rota_cuda_instance *instance);
void rota_cuda_timestamps_destroy(rota_cuda_device *device, rota_cuda_instance *instance);
rota_status rota_cuda_times(rota_exec_device *device, rota_exec_instance *handle, rota_exec_time *out);

#endif
