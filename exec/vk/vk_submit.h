/* Queues, real and logical, and submission: see vk_device.h and vk_submit.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_SUBMIT_H
#define ROTA_EXEC_VK_VK_SUBMIT_H

#include <stdbool.h>
#include "base/atomic.h"
#include "exec/exec.h"
#include "exec/vk/vk_loader.h"
#include "exec/vk/vk_run.h"

typedef struct rota_vk_device rota_vk_device;
typedef struct rota_vk_recorded rota_vk_recorded;

#define ROTA_VK_REALS_MAX 2
/* Works of one logical queue whose sequence is remembered; also the bound on works in flight. */
#define ROTA_VK_HISTORY 2048u
/* Most works merged under one signal: bounds how long the first of them waits to be reported. */
#define ROTA_VK_MERGE_MAX 64u
/* While fewer signals than this are awaited, each work has its own: two long works handed over at once, as by
 * a trainer that keeps one step ahead, are else reported together, and the device has nothing to do until
 * their caller has been woken and has sent the next. */
#define ROTA_VK_UNMERGED_MAX 4u
/* Bounds of one vkQueueSubmit2 call. */
#define ROTA_VK_INFOS_MAX 64u
#define ROTA_VK_BUFFERS_MAX 512u
/* Of one info: a wait for each real queue, and for other devices; the signal of its own real queue, and one
 * for each logical queue. */
#define ROTA_VK_INFO_WAITS_MAX (ROTA_VK_REALS_MAX + ROTA_EXEC_TIMELINE_WAITS_MAX)
#define ROTA_VK_WAITS_MAX (ROTA_VK_INFOS_MAX * ROTA_VK_REALS_MAX + ROTA_VK_INFO_WAITS_MAX)
#define ROTA_VK_INFO_SIGNALS_MAX (1u + ROTA_EXEC_QUEUES_MAX)
#define ROTA_VK_SIGNALS_MAX (2u * ROTA_VK_INFOS_MAX + ROTA_VK_INFO_SIGNALS_MAX)
/* Works with copies of their own in flight on one real queue. */
#define ROTA_VK_COPIES_MAX 128u
/* Driver submissions in flight when the options give no bound; below the depth at which drivers block. */
#define ROTA_VK_IN_FLIGHT_DEFAULT 64u
#define ROTA_VK_IN_FLIGHT_MAX 256u
/* A full device that completes nothing for this long is given up: submit must end (P2), and a kernel is not
 * expected to run for minutes. */
#define ROTA_VK_STALL_NS (120ull * 1000000000ull)

#define ROTA_VK_GOES_ON UINT64_MAX

typedef struct rota_vk_point {
    uint64_t value; /* of the logical queue */
    _Atomic uint64_t
        sequence; /* ROTA_VK_GOES_ON: it is gone on with, and the last is not submitted yet (vk_run.c) */
    uint64_t last[ROTA_VK_REALS_MAX]; /* of the queue's works so far, on each real queue */
    uint32_t real;
    /* Of a work of which a command may fail by itself, which is looked at when it is complete; else NULL. */
    uint32_t segment;
    rota_vk_recorded *may_fail;
    void *cookie;
} rota_vk_point;

typedef struct rota_vk_logical {
    bool split;                                /* works may go to either real queue */
    uint64_t last_value;                       /* submit thread */
    uint64_t last_sequence[ROTA_VK_REALS_MAX]; /* submit thread; 0: no work of it there yet */
    /* Split only, submit thread: largest value waited for, of each logical queue. */
    uint64_t last_wait[ROTA_EXEC_QUEUES_MAX];
    uint64_t head;              /* submit thread: points ever written */
    _Atomic uint64_t published; /* head as the completion thread may see it */
    _Atomic uint64_t tail;      /* points reported by the completion thread */
    rota_vk_point *points;      /* ROTA_VK_HISTORY of them, at index % ROTA_VK_HISTORY */
    rota_vk_going going;
} rota_vk_logical;

/* Command buffers for works with copies of their own, recorded anew for each, in turn. */
typedef struct rota_vk_copies {
    VkCommandBuffer buffers[ROTA_VK_COPIES_MAX];
    uint64_t sequence[ROTA_VK_COPIES_MAX]; /* last work that used each; 0: none */
    uint32_t next;
} rota_vk_copies;

/* Works being gathered for one vkQueueSubmit2. */
typedef struct rota_vk_gather {
    bool is_open; /* infos[info_count] is being filled */
    uint32_t open_works;
    uint32_t info_count, buffer_count, wait_count, signal_count;
    VkSubmitInfo2 infos[ROTA_VK_INFOS_MAX];
    VkSemaphoreSubmitInfo signals[ROTA_VK_SIGNALS_MAX];
    VkSemaphoreSubmitInfo waits[ROTA_VK_WAITS_MAX];
    /* Of the info that is open: logical queues whose timeline other devices have, as such, and the values. */
    uint32_t shared_mask;
    rota_exec_timeline *shared[ROTA_EXEC_QUEUES_MAX];
    uint64_t shared_value[ROTA_EXEC_QUEUES_MAX];
    VkCommandBufferSubmitInfo buffers[ROTA_VK_BUFFERS_MAX];
} rota_vk_gather;

/* The submit thread's part of a real queue. */
typedef struct rota_vk_real_submit {
    uint64_t sequence; /* last work added */
    uint64_t flushed;  /* last work handed to the driver */
    /* Works of each real queue that later works here are to come after by waits so far. For its own works a
     * barrier for a kind is placed when the first work of that kind follows: covered_for says up to where
     * that was done (index: 0 dispatch, 1 transfer), pending what kinds ran since. */
    uint64_t covered[ROTA_VK_REALS_MAX];
    uint64_t covered_for[2];
    uint32_t pending[2];
    bool acquire; /* a barrier stands before the next work: another device wrote memory that both have */
    uint64_t end_head, end_tail; /* of the driver submissions in flight */
    rota_vk_copies copies;
    rota_vk_gather gather;
} rota_vk_real_submit;

/* What became of the fence behind all that a shared queue was given. */
typedef enum rota_vk_queue_end {
    ROTA_VK_QUEUE_OPEN, /* the submit thread has not ended */
    ROTA_VK_QUEUE_ENDS, /* it is on its way */
    ROTA_VK_QUEUE_GONE, /* the device is, which touches nothing */
    ROTA_VK_QUEUE_FAILED
} rota_vk_queue_end;

/* What the submit thread and the completion thread tell each other of it. */
typedef struct rota_vk_real_shared {
    _Atomic uint64_t submitted; /* flushed, for the completion thread */
    _Atomic uint64_t completed; /* by the completion thread */
    /* The signal values (sequences) of the driver submissions in flight: for the bound on them, and for the
     * completion thread, which waits for exactly these. */
    uint64_t ends[ROTA_VK_IN_FLIGHT_MAX];
    _Atomic uint64_t end_published; /* end_head as the completion thread may see it */
    _Atomic uint64_t room_sequence; /* the work whose completion submit sleeps for; 0: none */
    _Atomic uint32_t is_used;       /* the submit thread was or is about to submit */
    _Atomic uint32_t end;           /* rota_vk_queue_end, by the submit thread */
} rota_vk_real_shared;

/* The completion thread's part. */
typedef struct rota_vk_real_watch {
    uint64_t end_cursor; /* the first end that is not complete */
    uint64_t each_ns;    /* what a submission takes, of late */
    uint32_t end_skip;   /* how many ends beyond the first to wait for */
} rota_vk_real_watch;

typedef struct rota_vk_real {
    VkQueue queue;
    rota_vulkan_queue given; /* of an application's device: with its lock, or none */
    VkFence settled;         /* where there is a lock */
    uint32_t family;
    VkSemaphore timeline;
    VkCommandPool pool;
    /* Barriers between works, recorded once, by the kinds before and after; VK_NULL_HANDLE for kinds that the
     * queue does not run. */
    VkCommandBuffer barriers[4][4];
    rota_vk_real_submit submit;
    rota_vk_real_shared shared;
    rota_vk_real_watch watch;
} rota_vk_real;

rota_status rota_vk_submit(rota_exec_device *device, const rota_exec_work *works, uint32_t count);

/* ---- For vk_run.c: the submit thread's ---- */

/* A submission of its own on real queue 0, behind all that came before; the buffers order it themselves. */
rota_status rota_vk_submit_buffers(rota_vk_device *device, const VkCommandBuffer *buffers, uint32_t count,
                                   uint64_t *out_sequence);
rota_status rota_vk_submit_flush(rota_vk_device *device);
/* Of real queue 0. */
bool rota_vk_has_completed(rota_vk_device *device, uint64_t sequence);

/* ---- For tests ---- */

/* Driver calls and VkSubmitInfo2 structures so far. */
void rota_vk_submit_counts(rota_exec_device *device, uint64_t *out_calls, uint64_t *out_infos);

#endif
