/* What every other file of the executor stands on: see cuda_context.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_CONTEXT_H
#define ROTA_EXEC_CUDA_CUDA_CONTEXT_H

#include <stdbool.h>
#include "base/status.h"
#include "exec/cuda/cuda_api.h"

typedef struct rota_cuda_device rota_cuda_device;

/* OK, or the failure as a sentence; a result that ends the context marks the device lost. */
rota_status rota_cuda_check(rota_cuda_device *device, CUresult result, const char *what);
/* Marks the device lost and returns DEVICE_LOST with the sentence. Once, it waits until the device touches
 * nothing more, and calls host.lost: at once where the result ends the context, else when what is in flight
 * is through. Where it is not within DRAIN_NS, what it may still touch is never freed (`noisy`). */
rota_status rota_cuda_lose(rota_cuda_device *device, CUresult result, const char *what);
/* Marks the device lost with that sentence and, once, lets it come to rest and calls host.lost, as above.
 * `is_over`: its context has ended, and nothing is at work any more. */
void rota_cuda_give_up(rota_cuda_device *device, bool is_over, const char *message);
/* Makes the device's context current, until rota_cuda_leave. DEVICE_LOST if it is gone. Until then the
 * thread's capture mode is relaxed: a capture of the application's in the default mode, on any thread, would
 * else make the driver refuse rota's queries and allocations, and break off that capture. */
rota_status rota_cuda_enter(rota_cuda_device *device);
/* The same, also on a lost device. */
CUresult rota_cuda_push(rota_cuda_device *device);
/* For what ends an object: false where the driver does not make the context current now (it is short of
 * memory itself). What was to go stays on its list for close then, as the log says: a driver's call without
 * the context would fail, or act on another one that the thread has. */
bool rota_cuda_push_to_free(rota_cuda_device *device, const char *what);
void rota_cuda_leave(rota_cuda_device *device);

/* A stream that waits for no default stream. */
rota_status rota_cuda_stream_create(rota_cuda_device *device, CUstream *out_stream);
/* Where nothing else tells: looks until the stream is through, for so long at most. What the last look said: NOT_READY
 * where it is not. */
CUresult rota_cuda_settle(rota_cuda_device *device, CUstream stream, uint64_t timeout_ns);

#endif
