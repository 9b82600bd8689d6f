/* The Vulkan executor's device, and how its queues work. Internal to exec/vk.
 *
 * Queues. A *real* queue is a VkQueue: the compute queue, and where the device has a family that only copies,
 * a transfer queue. Each real queue has one timeline semaphore. The works of a real queue are numbered
 * (sequence), in the order in which they were handed over; the semaphore's value is the sequence up to which
 * all of them completed, so works in a row merged into one VkSubmitInfo2 needs one signal. The timeline of a
 * *logical* queue is a history of (value, real queue, sequence); a wait for (logical queue, value) becomes a
 * wait for a sequence of each real queue that had works of it, and `advanced` is called when the completion
 * thread sees those sequences reached.
 *
 * Every logical queue runs on the compute queue, except the one named transfer_queue where there is a real
 * transfer queue: of its works, those whose segment holds nothing but copies and fills at fixed addresses
 * (and those without commands) go to the transfer queue, the others to the compute queue. Which one is fixed
 * per program segment. Its history keeps the values of both in order, and its waits hold for later works on
 * either.
 *
 * A work of which a loop is gone on with has several sequences, and its point gets the last one when that is known
 * (vk_run.c); nothing that waits for it is handed over before.
 *
 * A wait for works on the same real queue of the same logical queue is a barrier between command buffers. One
 * for another logical queue is a semaphore wait even on the same real queue, so that a device with one queue
 * exercises them. A wait that an earlier wait or barrier on that real queue implies is dropped. */
#ifndef ROTA_EXEC_VK_VK_DEVICE_H
#define ROTA_EXEC_VK_VK_DEVICE_H

#include <pthread.h>
#include <stdbool.h>
#include "base/atomic.h"
#include "exec/common/completer.h"
#include "exec/common/link.h"
#include "exec/common/cell_pages.h"
#include "exec/exec.h"
#include "exec/vk/vk_application.h"
#include "exec/vk/vk_complete.h"
#include "exec/vk/vk_instance.h"
#include "exec/vk/vk_loader.h"
#include "exec/vk/vk_physical.h"
#include "exec/vk/vk_pipeline.h"
#include "exec/vk/vk_run.h"
#include "exec/vk/vk_submit.h"
#include "exec/vk/vk_touch.h"

typedef struct rota_vk_device rota_vk_device;

/* What tests look at. */
typedef struct rota_vk_counts {
    int64_t skip_barrier;
    _Atomic uint32_t barriers_recorded;
    uint64_t submit_calls, submit_infos; /* submit thread */
} rota_vk_counts;

/* What the host has made and not destroyed, and pages of argument blocks; under the lock. */
typedef struct rota_vk_objects_shared {
    pthread_mutex_t lock;
    rota_cell_pages pages; /* rota_vk_block_page */
    rota_link memories, instances;
    rota_exec_timeline *timelines;
    rota_exec_semaphore *semaphores; /* the application's; taken out by the completion thread alone */
    _Atomic uint32_t has_semaphores; /* now */
    _Atomic uint32_t look;           /* more of them is wanted: vk_semaphore.c */
    _Atomic uint64_t memory_bytes;
} rota_vk_objects_shared;

typedef struct rota_vk_bounds {
    uint32_t in_flight_max;
    uint32_t push_bytes; /* of a kernel */
    uint64_t stall_ns;   /* a full device that completes nothing for so long is given up */
} rota_vk_bounds;

struct rota_vk_device {
    rota_exec_device base; /* first: the contract's part */
    rota_exec_host host;
    rota_exec_open_options options;
    rota_vk_instance instance;
    rota_vk_physical physical;
    rota_vk_application application;
    VkDevice handle;
    rota_vk_table vk;
    VkPipelineLayout layout; /* one for all kernels: push constants only */
    rota_cuda_target target; /* with ROTA_FEATURE_CUDA_IMAGES */
    rota_vk_bounds bounds;
    uint32_t real_count;
    rota_vk_real *reals;
    rota_vk_logical logical[ROTA_EXEC_QUEUES_MAX];
    rota_vk_compiled_shared compiled;
    rota_vk_objects_shared objects;
    rota_completer_shared completer;
    rota_vk_going_shared going;
    rota_vk_watch watch;
    _Atomic uint32_t moves; /* times that the completion thread found something complete */
    _Atomic uint32_t lost;
    _Atomic uint32_t noisy; /* lost, but may still touch its memory */
    rota_vk_messages_shared messages;
    rota_vk_touch touch;
    rota_vk_counts counts;
};

/* ---- For tests ---- */

/* What rota_exec_open_options.test may point to; read by open only. */
typedef struct rota_vk_test_options {
    /* Gives the transfer queue a timeline of its own also where the device has one VkQueue for both, so that
     * everything about two real queues but their hardware is exercised. */
    bool split_transfer;
    uint64_t stall_ns; /* in place of ROTA_VK_STALL_NS; 0: that */
} rota_vk_test_options;

#endif
