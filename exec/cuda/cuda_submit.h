/* Queues, fences and submission: see cuda_device.h and cuda_submit.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_SUBMIT_H
#define ROTA_EXEC_CUDA_CUDA_SUBMIT_H

#include <stdbool.h>
#include "base/atomic.h"
#include "exec/cuda/cuda_api.h"
#include "exec/cuda/cuda_script.h"
#include "exec/exec.h"

/* For how long a device may complete nothing (rota_cuda_bounds.stall_ns). */
#define ROTA_CUDA_STALL_NS (120ull * 1000000000ull)
/* Works behind which a fence is set at the latest: bounds how long the first of them waits to be reported. */
#define ROTA_CUDA_MERGE_MAX 16u
/* While fewer fences than this are in flight, each work has its own: two long works handed over at once, as by
 * a trainer that keeps one step ahead, are else reported together, and the device has nothing to do until
 * their caller has been woken and has sent the next. */
#define ROTA_CUDA_UNMERGED_MAX 4u
/* Fences of a queue in flight when the options give no bound. With MERGE_MAX works each this stays below the
 * depth (about 1 000 launches) at which a stream blocks the caller. */
#define ROTA_CUDA_IN_FLIGHT_DEFAULT 32u
#define ROTA_CUDA_FENCES 64u /* the most */
/* Segments whose usual times a queue remembers: a power of two. */
#define ROTA_CUDA_USUALS 64u

typedef struct rota_cuda_loops rota_cuda_loops;

typedef struct rota_cuda_fence {
    uint64_t value;        /* of the queue */
    uint64_t submitted_ns; /* when it was recorded */
    CUevent event;
    rota_cuda_loops *loops; /* of its last work, which has loops; NULL: it has none */
    uint64_t launch;        /* which one of theirs, from 1 */
    void *cookie;           /* of that work */
    /* Of its last work, which the host runs: the event is behind what that waits for, and the completion thread knows
     * when it is complete. NULL: the event stands for all. */
    rota_cuda_script *script;
    uint64_t script_launch; /* which one of its segment's, from 1 */
    bool is_awaited;        /* of its works one is (rota_exec_work) */
    uint64_t followed;      /* of the application's streams, how many its works come after */
    /* A rota_cuda_segment, of its only work. An identity: who is reported to has perhaps freed it. NULL: it stands for
     * several works, or for a copy. */
    const void *segment;
} rota_cuda_fence;

/* What a segment takes from its fence's turn to the fence, of late. */
typedef struct rota_cuda_usual {
    const void *segment; /* as above; NULL: nothing is remembered here */
    uint64_t each_ns;
} rota_cuda_usual;

typedef struct rota_cuda_queue {
    CUstream stream;
    uint64_t last_value;      /* submit thread: of the last work */
    uint32_t unfenced;        /* submit thread: works behind the last fence */
    rota_cuda_loops *loops;   /* submit thread: of the last work, which has no fence yet; NULL: none */
    void *cookie;             /* submit thread: of that work */
    const void *segment;      /* submit thread: of the last work; NULL: it is a copy */
    rota_cuda_script *script; /* submit thread: likewise */
    uint64_t scripted_value;  /* submit thread: of the newest work with a script */
    /* `head` behind that work's fence, stored before `published_value`: the script is complete once `tail` is there. */
    _Atomic uint64_t scripted_head;
    CUstream scripts; /* where caps.hosts_decisions, as is the next: the completion thread launches there */
    CUevent scripted;
    rota_cuda_script_state script_state;    /* completion thread */
    bool is_awaited;                        /* submit thread: of the works that have no fence yet one is */
    uint64_t covered[ROTA_EXEC_QUEUES_MAX]; /* submit thread: up to where the stream waits for each queue */
    uint64_t followed;            /* submit thread: of the application's streams, those that it waits for */
    uint64_t fenced_value;        /* submit thread: of the last fence */
    rota_exec_timeline *timeline; /* submit thread: signalled with the next fence, and nobody's after it */
    uint64_t head;                /* submit thread: fences ever recorded */
    _Atomic uint64_t published;   /* head as the completion thread may see it */
    _Atomic uint64_t published_value;         /* of the newest of those; stored after it */
    _Atomic uint64_t tail;                    /* fences seen complete by the completion thread */
    rota_cuda_fence fences[ROTA_CUDA_FENCES]; /* at index % ROTA_CUDA_FENCES */
    uint64_t completed_ns;                    /* completion thread: when the last fence was seen complete */
    uint64_t each_ns;                         /* completion thread: what a fence takes, of late */
    rota_cuda_usual usuals[ROTA_CUDA_USUALS]; /* completion thread: where their identities fall */
} rota_cuda_queue;

rota_status rota_cuda_submit(rota_exec_device *device, const rota_exec_work *works, uint32_t count);

#endif
