/* What an executor is given when a device is opened: whom it calls back, and how it is to behave (exec.h).
 * Internal; not installed. */
#ifndef ROTA_EXEC_EXEC_HOST_H
#define ROTA_EXEC_EXEC_HOST_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/log.h"
#include "base/status.h"
#include "exec/application.h"

/* What an executor calls back. All may be called from any executor thread. None waits for a device or for an
 * application thread; `advanced` takes no lock but such as are held for moments, where devices wait for each
 * other and with diagnostics. */
typedef struct rota_exec_host {
    void *user;
    rota_log log;
    /* The timeline of `queue` has reached `value`. Called in ascending order per queue; may skip values. */
    void (*advanced)(void *user, uint32_t queue, uint64_t value);
    /* A command of the work failed (before the work's value is reached). `message` is copied. */
    void (*failed)(void *user, void *cookie, const void *owner, uint32_t node, rota_status status,
                   const char *message);
    /* The device is lost: submit fails, no timeline moves any more, and the host frees what only this device
     * used. So it is called when nothing of the device's touches memory any more; an executor that cannot
     * know (the driver gave up, or a deadline did) keeps all memory that it may still touch, whatever is
     * destroyed, until close. Where it takes a while until nothing is touched, submit may take works in vain
     * meanwhile. */
    void (*lost)(void *user, rota_status status, const char *message);
    /* Failed ranges (P9). `poison_active` is nonzero while any range known to this device's runtime is
     * failed, or a submission is cancelled; an executor that can (the CPU's) then asks before each command
     * whether it must be skipped, and reports success after it. When a command failed it calls `failed`, which
     * marks the ranges. A work of copies is asked for and reported as a whole, with owner NULL and node 0;
     * skipped copies move no bytes. */
    const _Atomic uint32_t *poison_active;
    bool (*must_skip)(void *user, void *cookie, const void *owner, uint32_t node);
    void (*succeeded)(void *user, void *cookie, const void *owner, uint32_t node);
    /* Of a device with go_on: the thread that calls submit is to call that soon. From any thread, that one
     * included. */
    void (*goes_on)(void *user);
    /* The device's interrupts keep these CPUs busy: threads that serve it do better on others. NULL: nobody
     * cares. */
    void (*interrupted)(void *user, const cpu_set_t *cpus);
    /* The name of a node, for messages; static for the life of the program. */
    const char *(*node_name)(const void *owner, uint32_t node);
} rota_exec_host;

typedef struct rota_exec_open_options {
    rota_exec_host host;
    uint32_t queue_count;    /* logical queues, 1 to ROTA_EXEC_QUEUES_MAX */
    uint32_t transfer_queue; /* logical queue meant for uploads and read-backs; queue_count or above: none */
    uint32_t
        segment_queues; /* 0, or: the queues from this one on are those of no segment and take works of any */
    uint32_t worker_threads; /* CPU executor; 0: one per core of the process's affinity */
    bool diagnostics;        /* per-node markers and times */
    bool touch;              /* exec/vk: the touch mode of the tests */
    bool few_turns;          /* exec/vk: for tests: a turn of each loop is recorded (vk_turns.h) */
    const char *cache_dir;   /* pipeline caches; NULL: $XDG_CACHE_HOME/rota, else ~/.cache/rota; "": none */
    uint64_t
        spin_ns; /* exec/vk, exec/cuda: how long the completion thread looks before it naps; 0: its default */
    uint32_t max_in_flight; /* bound on driver submissions not yet complete; 0: the executor's default */
    bool validation;        /* exec/vk: enable the Khronos validation layer; messages count as errors */
    bool debug_names;       /* exec/vk, exec/cuda: names of plans and nodes for tools */
    const char *id;         /* of a device of the application's; NULL: by index */
    const rota_vulkan_device
        *vulkan; /* exec/vk: the application's, in place of one by index; read by open only */
    const rota_cuda_context *cuda; /* exec/cuda: likewise */
    void *test;                    /* test executors' own options */
} rota_exec_open_options;

#endif
