/* The CUDA executor's device, and how its contexts, queues and instances work. Internal to exec/cuda.
 *
 * Context. A device is the primary context of a GPU, retained while the device is open, or one of the application's. It
 * is pushed at the start of each call and popped at its end (rota_cuda_enter, rota_cuda_leave), so that whatever
 * context the calling thread had is current again. Every stream is non-blocking and rota's own; the default streams are
 * never named.
 *
 * Queues. Each logical queue is a stream. Works go to it in order, so waits for works of the same queue hold
 * by themselves. A *fence* is an event recorded behind works in a row: all of them are complete when it is.
 * One is set at the end of each submit call on the queues that it used; behind each work while few fences are
 * in flight, else at the latest behind ROTA_CUDA_MERGE_MAX works; and where a work of another queue waits for
 * a value that no fence covers yet. A wait for (queue, value) is a wait for the first fence at or above the
 * value; it is left out when that is complete or an earlier wait of the same stream implies it. The
 * completion thread looks at the oldest fences of the queues and reports their values.
 *
 * Instances. Each segment that has commands is one executable graph (cuda_graph.c), with parameters as fixed
 * values. Only what is in slots is read from the argument block: the submission's words are written to pinned
 * memory, and the graph's first node copies them to a block in device memory, one for each segment. */
#ifndef ROTA_EXEC_CUDA_CUDA_DEVICE_H
#define ROTA_EXEC_CUDA_CUDA_DEVICE_H

#include <pthread.h>
#include "base/atomic.h"
#include "exec/common/completer.h"
#include "exec/common/link.h"
#include "exec/cuda/cuda_api.h"
#include "exec/cuda/cuda_application.h"
#include "exec/cuda/cuda_library.h"
#include "exec/cuda/cuda_module.h"
#include "exec/cuda/cuda_pool.h"
#include "exec/cuda/cuda_submit.h"
#include "exec/cuda/cuda_timeline.h"
#include "exec/exec.h"

typedef struct rota_cuda_device rota_cuda_device;

/* What the host has made and not destroyed, and pools of small memory; under the lock. */
typedef struct rota_cuda_objects_shared {
    pthread_mutex_t lock;
    rota_cuda_pool pinned, blocks, shared;
    rota_link memories, instances;
    _Atomic uint64_t memory_bytes;
} rota_cuda_objects_shared;

/* Where graphs are brought to the device; the lock is held for two calls, never while waiting. */
typedef struct rota_cuda_upload_shared {
    pthread_mutex_t lock;
    CUstream stream;
} rota_cuda_upload_shared;

/* On which the states of loops and counts are written, also while they run (cuda_loops.c); the lock is held for a
 * call. */
typedef struct rota_cuda_stops_shared {
    pthread_mutex_t lock;
    CUstream stream;
    /* Recursive. Held while the completion thread looks at loops, which end with their instance: on a lost device that
     * may be before it hears of the loss. */
    pthread_mutex_t looks;
    rota_cuda_piece halt,
        halting; /* device memory; pinned, 1 once it is on its way there. Made with the first loop */
    bool is_halted;
    bool has_switches; /* since open: the driver has conditional nodes of more than one body */
} rota_cuda_stops_shared;

/* Of exec_helpers.cu; `decide` of exec_decide.cu, unless caps.hosts_decisions. */
typedef struct rota_cuda_helpers {
    CUfunction upload, timestamp, fill, count, answer, decide;
    CUfunction count_grid; /* of exec_decide.cu, too; NULL: no grid is set by the device */
} rota_cuda_helpers;

typedef struct rota_cuda_bounds {
    uint64_t granularity; /* of memory that can be exported; 0: the driver has none */
    uint32_t in_flight_max;
    uint32_t
        grid_min; /* the device sets the grids of counted commands that are so large at the most, in groups */
    uint64_t
        stall_ns; /* a full device that completes nothing for so long is given up; so is an allocator's stream */
} rota_cuda_bounds;

/* What the submit thread and the completion thread sleep for. */
typedef struct rota_cuda_waits_shared {
    _Atomic uint64_t nap_until_ns; /* of the completion thread; 0: awake */
    _Atomic uint32_t room_wanted;  /* by the submit thread */
} rota_cuda_waits_shared;

/* What kernels are chosen by. */
typedef struct rota_cuda_targets {
    rota_cuda_target measured, by_table; /* of plans that are deterministic */
} rota_cuda_targets;

struct rota_cuda_device {
    rota_exec_device base; /* first: the contract's part */
    rota_exec_host host;
    rota_exec_open_options options;
    const rota_cuda_api *cu;
    rota_cuda_targets targets;
    char *cache_dir; /* NULL: none */
    void *names;     /* for tools (cuda_names.h); NULL: none */
    CUdevice handle;
    CUcontext context;
    rota_cuda_application application;
    rota_cuda_bounds bounds;
    rota_cuda_helpers helpers;
    rota_cuda_modules_shared modules;
    rota_cuda_objects_shared objects;
    rota_cuda_private_shared own;
    /* As the private stream, for the submit thread, which waits for no lock that a caller may hold (P4). */
    CUstream submit_stream;
    rota_cuda_upload_shared upload;
    rota_cuda_stops_shared stops;
    rota_cuda_timelines_shared timelines;
    /* Recursive; held while works are put on streams, and while a loss waits for them. */
    pthread_mutex_t submit_lock;
    rota_cuda_queue queues[ROTA_EXEC_QUEUES_MAX];
    rota_completer_shared completer;
    rota_cuda_waits_shared waits;
    _Atomic uint32_t lost;
    _Atomic uint32_t noisy; /* lost, and still at work */
};

/* What the kernels of a program are chosen by. */
static inline const rota_cuda_target *rota_cuda_target_of(const rota_cuda_device *device,
                                                          const rota_exec_program_desc *desc) {
    return desc->by_table ? &device->targets.by_table : &device->targets.measured;
}

#endif
