/* What a device's submit thread alone has. Functions that take it are that thread's, or another submit thread's while
 * it looks through what a lost device's thread holds (handover.hands_over). Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SUBMITTER_SUBMITTER_H
#define ROTA_SCHED_RUNTIME_SUBMITTER_SUBMITTER_H

#include <stdbool.h>
#include <stdint.h>
#include "base/owner.h"
#include "base/patience.h"
#include "base/thread_cpus.h"
#include "exec/exec.h"
#include "sched/runtime/memory/staging.h"
#include "sched/runtime/shared/devices.h"

/* The work of a queue, by value, that is blocked for staging memory, or was last. */
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
    rota_work *blocked_first[ROTA_EXEC_QUEUES_MAX], *blocked_last[ROTA_EXEC_QUEUES_MAX];
    uint64_t given[ROTA_EXEC_QUEUES_MAX];
    /* Where the device does not ask about nodes (asks_poison): the newest of each queue with iterations, which may
     * fail, and of which it tells as the work ends; and queues, as bits, where that may be under way. */
    uint64_t late[ROTA_EXEC_QUEUES_MAX];
    uint32_t late_queues;
    rota_work *batch[ROTA_HANDOVER_BATCH]; /* what it took last; with handover.hands_over */
    uint32_t batch_count;
    rota_starving starving[ROTA_EXEC_QUEUES_MAX];
    bool starves;           /* one of the first was found to be blocked for that */
    uint64_t losses_seen;   /* devices, as bits */
    uint64_t keepers_ns;    /* when it last looked whether to give up on who keeps what it holds */
    uint64_t looked_at;     /* with handover.hands_over: works that others dropped, not yet in `consumed` */
    rota_patience patience; /* with works */
};

/* Relaxed, as in base/owner.h: who looks has taken `hands_over`. */
static inline bool rota_submitter_may(const rota_submitter *submitter) {
    return rota_owner_may(&submitter->owner) ||
           atomic_load_explicit(&submitter->device->handover.hands_over, memory_order_relaxed) ==
               ROTA_HANDS_LOOKED;
}

#define rota_assert_submitter(submitter) rota_assert(rota_submitter_may(submitter))

#endif
