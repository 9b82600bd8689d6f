/* What the sequencer's thread alone has. Functions that take it are that thread's; before it is started and after
 * it has ended, who opens or closes. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_ORDER_ORDER_H
#define ROTA_SCHED_RUNTIME_ORDER_ORDER_H

#include <stdbool.h>
#include <stdint.h>
#include "base/patience.h"
#include "sched/runtime/order/deliver.h"
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/shared/runtime.h"

typedef struct rota_submission_pool rota_submission_pool; /* submission_pool.h */
typedef struct rota_last_uses rota_last_uses;             /* last_use.h */

/* What was cancelled, and deadlines: sequencer/cancels.c. */
typedef struct rota_cancels {
    uint64_t up_to; /* no submission of a higher number is cancelled; 0: none that has not ended */
    rota_submission *deadlines; /* the one that has the first, of a heap */
} rota_cancels;

struct rota_sequencer {
    rota_runtime *runtime;
    uint64_t next_number;
    uint64_t sidelined; /* submissions of plans that were to wait and have not ended */
    rota_wanted wanted; /* empty between records; who needs it is given it */
    rota_deliveries deliveries;
    struct rota_merge *merge; /* sequencer.c */
    bool knows_past;          /* rota_timeline_order.past is of all that was sequenced (clocks.c) */
    uint64_t rounds, idle_looked_ns;
    rota_submission_pool *pool;
    rota_last_uses *last_uses;
    rota_submission *orphaned; /* lost devices may still have works of them: kept until close */
    /* Reads among such, whose staging memory a lost device may write; and those that were added in this round. */
    rota_submission *orphaned_reads, *orphaned_new;
    uint64_t quiet;  /* lost devices that touch nothing any more, as bits */
    bool is_unquiet; /* there are lost ones that do */
    bool orphaning;  /* a lost device's submission waits for other devices to be through with it */
    /* Those that failed before they were handed over and end in the order of deliveries; and the tickets of
     * those for whose place in that there was no memory, which end when all that came before is over. Both
     * oldest first. */
    rota_submission *undelivered_first, *undelivered_last;
    rota_cell *unordered_first, *unordered_last;
    rota_cancels cancels;
    rota_patience patience; /* with records, and what else wakes it */
};

/* A call from another thread than the sequencer's. */
#define rota_assert_sequencer(sequencer) rota_assert_owner(&(sequencer)->runtime->sequencing.owner)

#endif
