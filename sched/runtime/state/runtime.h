/* What a runtime has: the structs that its files share, and whose each part is. Data alone. Internal; not
 * installed.
 *
 * Threads of a runtime and what each owns:
 *
 * - application threads claim a lane (lanes.c), write records into it (submit.c, room.c), read ticket cells
 *   and timelines (tickets.c), push released objects on a stack (mailboxes.c);
 *
 * - the sequencer takes records in order, owns hazard state, clocks and submissions (sequencer.c, hazard.c,
 *   record.c); calls submit of devices that never block, while their thread is idle;
 *
 * - a submit thread per device hands works over, and holds those that wait for other devices until that has
 *   passed, while others pass them (thread.c, held.c, sidings.c);
 *
 * - a maker per device makes instances beyond a plan's first (maker.c): a driver may take seconds for that;
 *
 * - the completer: outputs in their order, eventfds, and the end of waits for a lost device (complete.c); it
 *   enters drivers for nothing else, and nothing of an application's but its log;
 *
 * - the caller calls tickets' callbacks (callbacks.c), which may take any time: only other callbacks wait;
 *
 * - the reclaimer frees what the sequencer found unused (reclaimer.c); a driver may keep it for as long as a
 *   device is busy, so nobody but close waits for it.
 *
 * Executor threads call what events.c has. */
#ifndef ROTA_SCHED_RUNTIME_STATE_RUNTIME_H
#define ROTA_SCHED_RUNTIME_STATE_RUNTIME_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include "base/atomic.h"
#include "base/owner.h"
#include "base/sleep.h"
#include "base/thread_cpus.h"
#include "base/turns.h"
#include "exec/exec.h"
#include "sched/runtime.h"
#include "sched/runtime/order/deliver.h"
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/state/limits.h"
#include "sched/runtime/state/submission.h"

typedef enum rota_runtime_state {
    ROTA_RUNTIME_CLOSED,
    ROTA_RUNTIME_OPEN,
    ROTA_RUNTIME_CLOSING
} rota_runtime_state;

typedef struct rota_driver_entry {
    const rota_exec_driver *driver;
    void *test;
} rota_driver_entry;

struct rota_runtime {
    /* The shell: stays when the runtime is closed, so that tickets can be asked, and is used again by a later
     * open. */
    rota_runtime *next_shell;
    _Atomic uint32_t state;
    _Atomic uint32_t generation; /* opens so far */
    /* Lanes that were given back, a stack through lane_next: see lanes.c. */
    _Atomic uint64_t lanes_free;
    _Atomic(_Atomic uint32_t *) lane_next[ROTA_LANE_BLOCKS];
    /* Ticket sequences at or below the first are nobody's, up to the second of earlier opens. */
    uint64_t sequence_first, sequence_base;
    struct rota_runtime *next_known; /* every shell there is: shell.c */
    uint32_t fork_generation;

    rota_runtime_options options;
    char *cache_dir;           /* the runtime's own copy, which the options name */
    uint32_t queue_count;      /* timelines of a device */
    uint32_t plan_queue_count; /* those that plans know; the rest are sidings */
    bool is_limited;           /* options.memory_limit_bytes is not 0 */
    bool touch;                /* of rota_runtime_set_touch */
    bool apart;                /* of rota_runtime_set_apart */
    bool host_ordered;         /* of rota_runtime_set_host_ordered */
    rota_driver_entry drivers[ROTA_DRIVERS_MAX];
    uint32_t driver_count;
    pthread_mutex_t open_mutex; /* opening of devices, one at a time */
    rota_device *devices[ROTA_DEVICES_MAX];
    _Atomic uint32_t device_count;
    char choice[1400]; /* written once, under open_mutex */
    _Atomic uint32_t is_chosen;

    pthread_mutex_t objects_mutex;
    rota_plan_run *runs;
    rota_residency *residencies;
    _Atomic uint64_t buffer_count, plan_count;
    _Atomic uint64_t memory_bytes, memory_peak_bytes;

    _Alignas(64) _Atomic uint64_t stamp;
    _Alignas(64) _Atomic uint32_t lane_high; /* lanes ever claimed */
    _Atomic uint32_t lanes_ready;            /* lanes that there is memory for */
    _Atomic uint32_t provision_wanted;       /* a caller found no lane, or no chunk */
    rota_lane_block lane_blocks[ROTA_LANE_BLOCKS];
    rota_cell_chunk *free_chunks; /* the sequencer's */
    void *chunk_slabs;            /* lanes.c */
    rota_sleeper sequencer_sleeper, completer_sleeper, reclaimer_sleeper, caller_sleeper;
    _Alignas(64) _Atomic uint32_t sequencer_interest;      /* wants to be woken when any timeline moves */
    _Atomic uint32_t completer_interest, completer_awaits; /* awaits: that tickets are given their points */
    _Atomic uint32_t lost_pending;
    rota_stack_upmc released;         /* of rota_dead, to the sequencer */
    rota_stack_upmc unused;           /* of rota_dead that is to be freed, to the reclaimer */
    rota_stack_upmc jobs;             /* of rota_job, to the completer */
    rota_stack_upmc calls;            /* of rota_job, the callbacks, to their thread */
    rota_stack_upmc ended;            /* of rota_submission that were never handed over, to the sequencer */
    _Atomic uint32_t lent, lent_away; /* rota_runtime_lock_submission */
    _Atomic uint32_t stop, completer_stop, reclaimer_stop, caller_stop;
    rota_wait_table hosted_waiters;

    pthread_t sequencer, completer, reclaimer, caller;
    bool sequencer_started, completer_started, reclaimer_started, caller_started;
    rota_thread_cpus sequencer_cpus;
    /* base/owner.h: the sequencer's functions are those of rota_submit_locked's caller while that has it
     * lent. */
    rota_owner sequencer_owner, completer_owner, reclaimer_owner;
    _Atomic uint32_t completer_ended, reclaimer_ended, caller_ended;
    struct rota_completion *completion; /* complete.c */
    _Atomic uint64_t delivered;         /* deliveries that are over */
    /* How often tickets were ended, or may have, without the completer and for another reason than that their
     * device got on; it is woken afterwards. */
    _Atomic uint64_t ended_apart;
    /* The callback that runs now (callbacks.c): since when, 0: none; which one, and of which submission. */
    _Atomic uint64_t call_since_ns, call_number;
    _Atomic uintptr_t call_fn;
    uint64_t call_named_ns; /* the completer's: the one that it has named */

    /* The sequencer's. */
    uint64_t next_number;
    /* Those that can be used again; those of which the memory that they own was given back; how many the
     * former are, and the fewest that they were since the last look. */
    rota_submission *free_submissions, *bare_submissions;
    uint32_t free_count, free_fewest;
    rota_submission without_memory; /* for one that fails since there was none for its record */
    rota_submission *stranded;      /* lost devices may still have works of them: kept until close */
    /* Reads among such, whose staging memory a lost device may write; and those that were added in this round. */
    rota_submission *stranded_reads, *stranded_new;
    uint64_t quiet;          /* lost devices that touch nothing any more, as bits */
    bool is_unquiet;         /* there are lost ones that do */
    rota_submission *pinned; /* over, but a thread's message is being made of each */
    /* Those that failed before they were handed over and end in the order of deliveries; and the tickets of
     * those for whose place in that there was no memory, which end when all that came before is over. Both
     * oldest first. */
    rota_submission *undelivered_first, *undelivered_last;
    rota_cell *unordered_first, *unordered_last;
    rota_deliveries deliveries;
    rota_dead *dead;
    rota_dead *held;  /* buffers that are dead but for the lost devices `held_by`, which still have works */
    uint64_t held_by; /* bit per device */
    uint64_t losses_noted;    /* lost devices that were seen, as bits */
    bool losses_past;         /* all has passed that others had by then */
    uint64_t parked;          /* submissions of plans that were to wait and have not ended */
    bool stranding;           /* a lost device's submission waits for other devices to be through with it */
    rota_wanted wanted;       /* empty between records; who needs it is given it */
    struct rota_merge *merge; /* sequencer.c */
    uint64_t rounds, idle_looked_ns;
    _Atomic uint64_t reap_requested, reap_done;
    _Atomic uint64_t staging_dying; /* blocks before the reclaimer */
    _Atomic uint64_t staging_bytes; /* of memory_bytes: those of blocks */
    _Atomic uint64_t staging_promised;
    rota_turns promise_turns;

    pthread_mutex_t poison_mutex; /* what failed: marks and failure runs */
    rota_mark *poisons;           /* failed ranges */
    /* Marks for when there is no memory: the first so many of the array were used, those given back are a
     * list. */
    rota_mark *poison_spare, poison_reserve[ROTA_POISON_RESERVE];
    uint32_t poison_reserve_used;
    /* Beyond those: what submissions after this one read has failed. */
    rota_reason poison_lost; /* cause NULL: none */
    uint64_t poison_lost_number;
    _Atomic uint32_t poison_active;
    pthread_mutex_t times_mutex;

    _Atomic(rota_cause *) causes[ROTA_CAUSE_BUCKETS];
    _Atomic uint32_t cause_count;

    _Atomic uint64_t stat_submissions, stat_completed, stat_failed, stat_driver_submits, stat_waits_dropped,
        stat_device_waits, stat_migrations, stat_migrated_bytes, stat_reclaim_pending, stat_abandoned;
    _Atomic uint64_t spin_ns; /* of the sequencer and the submit threads */
    _Atomic uint64_t ended_cpu_ns;
};

static inline rota_timeline *rota_runtime_timeline(rota_runtime *runtime, uint64_t point) {
    return &runtime->devices[rota_point_device(point)]->timelines[rota_point_queue(point)];
}

#endif
