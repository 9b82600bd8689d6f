/* Timelines of other drivers: see cuda_timeline.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_TIMELINE_H
#define ROTA_EXEC_CUDA_CUDA_TIMELINE_H

#include "exec/cuda/cuda_api.h"
#include "exec/exec.h"

typedef struct rota_cuda_device rota_cuda_device;

/* Streams of the application's that works come after (cuda_stream.c): a ring of events on them. */
#define ROTA_CUDA_FOLLOWED 64
typedef struct rota_cuda_followed_shared {
    pthread_mutex_t lock; /* among callers: the submit thread takes it never (P4) */
    CUevent events[ROTA_CUDA_FOLLOWED];
    _Atomic uint64_t count; /* that were recorded, ever */
} rota_cuda_followed_shared;

/* What was taken over, and followed. */
typedef struct rota_cuda_timelines_shared {
    rota_exec_timeline *first; /* under the objects' lock */
    CUstream signal_stream;    /* on which a lost device's timelines are signalled in its place */
    rota_cuda_followed_shared followed;
} rota_cuda_timelines_shared;

rota_status rota_cuda_timeline_create(rota_exec_device *device, int fd, rota_exec_timeline **out_timeline);
rota_status rota_cuda_timeline_signal(rota_exec_device *device, rota_exec_timeline *timeline, uint64_t value);
/* On a stream, with the context current: all that follows waits; and, behind all that is there, the value. */
rota_status rota_cuda_timelines_wait(rota_cuda_device *device, CUstream stream,
                                     const rota_exec_timeline_wait *waits, uint32_t count);
rota_status rota_cuda_timeline_reach(rota_cuda_device *device, CUstream stream, rota_exec_timeline *timeline,
                                     uint64_t value);
void rota_cuda_timelines_free(rota_cuda_device *device);

#endif
