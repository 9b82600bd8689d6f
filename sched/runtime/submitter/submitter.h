/* What a device's submit thread alone has. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SUBMITTER_SUBMITTER_H
#define ROTA_SCHED_RUNTIME_SUBMITTER_SUBMITTER_H

#include <stdbool.h>
#include <stdint.h>
#include "base/owner.h"
#include "base/thread_cpus.h"
#include "exec/exec.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/shared/devices.h"

/* The work of a queue, by value, that is held for staging memory, or was last. */
typedef struct rota_starving {
    uint64_t value;
    uint32_t rounds;
    rota_trim trim;
} rota_starving;

struct rota_submitter {
    rota_device *device;
    rota_owner owner;
    rota_thread_cpus cpus;
    /* Works that wait, by queue, oldest first; and the newest value of each queue that was handed over. */
    rota_work *held_first[ROTA_EXEC_QUEUES_MAX], *held_last[ROTA_EXEC_QUEUES_MAX];
    uint64_t given[ROTA_EXEC_QUEUES_MAX];
    rota_starving starving[ROTA_EXEC_QUEUES_MAX];
    bool starves;         /* one of the first was found to be held for that */
    uint64_t losses_seen; /* devices, as bits */
    uint64_t looked_at;   /* with handover.hands_over: works that others dropped, not yet in `consumed` */
};

#endif
