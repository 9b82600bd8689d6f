/* Works that are gone on with: see vk_run.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_RUN_H
#define ROTA_EXEC_VK_VK_RUN_H

#include <pthread.h>
#include <stdbool.h>
#include "base/atomic.h"
#include "exec/exec.h"
#include "exec/vk/vk_loader.h"

typedef struct rota_vk_device rota_vk_device;
typedef struct rota_vk_recorded rota_vk_recorded;

/* Submissions of one work that the device has at a time, of its runs. */
#define ROTA_VK_RUNS_MAX 2u

/* The work of a logical queue that is gone on with: the submit thread's. */
typedef struct rota_vk_going {
    bool is_open;
    rota_vk_recorded *recorded; /* looked at with the lock, while the device is not lost */
    uint32_t segment, piece;
    VkCommandBuffer run;             /* of the piece */
    uint32_t runs[ROTA_VK_RUNS_MAX]; /* of each submission that the device has, the oldest first */
    uint64_t sequence[ROTA_VK_RUNS_MAX];
    uint32_t count;
    uint64_t ended;             /* runs of the piece */
    uint64_t left;              /* that may be wanted and were not submitted yet; UINT64_MAX: nobody knows */
    uint64_t since_ns, each_ns; /* when it last saw one end, and what each took by then */
    uint64_t last;              /* sequence of the newest submission */
    uint64_t point;             /* of logical.points: which is the work's */
    void *cookie;
} rota_vk_going;

typedef struct rota_vk_going_shared {
    pthread_mutex_t lock;    /* around what looks into instances; with rota_vk_instance_destroy */
    uint32_t open;           /* logical queues whose work is gone on with: the submit thread's */
    _Atomic uint64_t wanted; /* sequence of real queue 0 after which it goes on next; 0: none */
    _Atomic uint32_t ended;  /* works that have ended: what the completion thread looks at once more */
} rota_vk_going_shared;

/* ---- The submit thread's ---- */

/* INTERNAL: the work comes after one that is gone on with, which its host was to hand over later. */
rota_status rota_vk_going_check(const rota_vk_device *device, const rota_exec_work *work);
/* The work's point is written, and its first run, of that sequence, is gathered: another one goes behind it. */
rota_status rota_vk_going_begin(rota_vk_device *device, const rota_exec_work *work, uint64_t first_sequence);
/* Goes on with whatever can be; never waits for what is gone on with. DEVICE_LOST. */
rota_status rota_vk_go_on(rota_exec_device *device, bool *out_moved);

/* ---- The completion thread's ---- */

/* Real queue 0 has completed `value`: stored before. */
void rota_vk_going_completed(rota_vk_device *device, uint64_t value);
/* Whether the submit thread is to ask whether a work that is gone on with is to end. */
void rota_vk_going_look(rota_vk_device *device, uint64_t now_ns);
bool rota_vk_is_going(rota_vk_device *device);

/* ---- Any thread's ---- */

/* Where the instance is, if it is gone on with. Wait-free. */
bool rota_vk_going_where(const rota_vk_recorded *recorded, rota_exec_stuck *out_stuck);

#endif
