/* Timelines of other drivers: see cuda_timeline.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_TIMELINE_H
#define ROTA_EXEC_CUDA_CUDA_TIMELINE_H

#include <stdbool.h>
#include "exec/cuda/cuda_api.h"
#include "exec/cuda/cuda_latch.h"
#include "exec/exec.h"

typedef struct rota_cuda_device rota_cuda_device;

/* Streams of the application's that works come after (cuda_stream.c): a ring of events on them. */
#define ROTA_CUDA_FOLLOWED 64
typedef struct rota_cuda_followed_shared {
    pthread_mutex_t lock; /* among callers: the submit thread takes it never (P4) */
    CUevent events[ROTA_CUDA_FOLLOWED];
    _Atomic uint64_t count; /* that were recorded, ever */
} rota_cuda_followed_shared;

typedef struct rota_cuda_words rota_cuda_words; /* of the timelines that a device's works signal for peers */

/* What was taken over, made for peers, and followed. */
typedef struct rota_cuda_timelines_shared {
    rota_exec_timeline *first; /* under the objects' lock, as is: */
    rota_cuda_words *words;    /* NULL: none yet */
    CUstream signal_stream;    /* on which a lost device's timelines are signalled in its place */
    rota_cuda_followed_shared followed;
    rota_cuda_latches_shared latches; /* cuda_latch.c */
} rota_cuda_timelines_shared;

rota_status rota_cuda_timeline_create(rota_exec_device *device, int fd, rota_exec_timeline **out_timeline);
rota_status rota_cuda_timeline_signal(rota_exec_device *device, rota_exec_timeline *timeline, uint64_t value);
/* Whether streams of the GPU wait for words in memory, and write them. */
bool rota_cuda_has_words(const rota_cuda_api *cu, CUdevice gpu);
/* Of peers: as the contract has them. UNSUPPORTED where there are no such words. */
rota_status rota_cuda_timeline_open(rota_exec_device *device, rota_exec_timeline **out_timeline);
rota_status rota_cuda_timeline_meet(rota_exec_device *device, const rota_exec_timeline *other,
                                    rota_exec_timeline **out_timeline);
/* On a stream, with the context current: all that follows waits; and, behind all that is there, the value. */
rota_status rota_cuda_timelines_wait(rota_cuda_device *device, CUstream stream,
                                     const rota_exec_timeline_wait *waits, uint32_t count);
rota_status rota_cuda_timeline_reach(rota_cuda_device *device, CUstream stream, rota_exec_timeline *timeline,
                                     uint64_t value);
/* At the end: what the driver has for them, with the context current; and then what is left, with none current. */
void rota_cuda_timelines_free(rota_cuda_device *device);
void rota_cuda_timelines_forget(rota_cuda_device *device);

#endif
