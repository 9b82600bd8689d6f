/* Streams of the application's: see cuda_stream.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_STREAM_H
#define ROTA_EXEC_CUDA_CUDA_STREAM_H

#include "exec/cuda/cuda_device.h"
#include "exec/exec.h"

extern const rota_exec_streams rota_cuda_streams;
/* What is put on the queue's stream from now on comes after all that was followed. The submit thread's. */
rota_status rota_cuda_stream_come_after(rota_cuda_device *device, rota_cuda_queue *queue);
/* Whether one of so many that were followed first is not there yet. The submit thread's. */
bool rota_cuda_stream_is_awaited(rota_cuda_device *device, uint64_t followed);

#endif
