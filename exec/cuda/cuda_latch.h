/* Latches on streams of the application's: see cuda_latch.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_LATCH_H
#define ROTA_EXEC_CUDA_CUDA_LATCH_H

#include <pthread.h>
#include "base/stack_upmc.h"
#include "exec/cuda/cuda_api.h"
#include "exec/exec.h"

typedef struct rota_cuda_device rota_cuda_device;
typedef struct rota_cuda_latch rota_cuda_latch;
typedef struct rota_cuda_latch_page rota_cuda_latch_page;

typedef struct rota_cuda_latches_shared {
    pthread_mutex_t lock; /* among callers: who opens a latch takes it never (P4) */
    _Atomic(rota_cuda_latch_page *) pages;
    rota_cuda_latch *oldest, *newest; /* under the lock: that were open when they came here */
    rota_stack_upmc opened;           /* since: by whoever opens them */
    _Atomic uint32_t is_over;         /* the device closes: none is left closed */
} rota_cuda_latches_shared;

/* The context is current, and the stream one of its own that takes works. */
rota_status rota_cuda_latch_close(rota_cuda_device *device, CUstream stream,
                                  rota_exec_stream_latch **out_latch);
/* As the contract has it. */
void rota_cuda_latch_open(rota_exec_device *device, rota_exec_stream_latch *latch);
/* As the contract has it; also while the device closes. */
void rota_cuda_latches_open(rota_exec_device *device);
/* And, with the context current, what there is for them goes; a page that a stream may still look at stays. */
void rota_cuda_latches_free(rota_cuda_device *device);

#endif
