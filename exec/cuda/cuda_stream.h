/* Streams of the application's: see cuda_stream.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_STREAM_H
#define ROTA_EXEC_CUDA_CUDA_STREAM_H

#include "exec/exec.h"

/* BUSY without a sentence. */
rota_status rota_cuda_stream_wait(rota_exec_device *device, void *stream, uint32_t queue, uint64_t value);
rota_status rota_cuda_stream_call(rota_exec_device *device, void *stream, rota_exec_stream_call *call);

#endif
