/* What a runtime has: what its threads share, and where what each owns is found. Data alone. Internal; not
 * installed.
 *
 * Threads of a runtime and what each owns; a struct that is one thread's has its name (rota_sequencer, rota_submitter,
 * rota_completer), and what ends in _shared is what threads share, each field atomic or under the mutex beside it:
 *
 * - application threads claim a lane (lanes.c), write records into it (submit.c, room.c), read ticket cells
 *   and timelines (tickets.c), push released objects on a stack (mailboxes.c);
 *
 * - the sequencer takes records in order, owns hazard state, clocks and submissions (sequencer.c, hazard.c,
 *   record.c); calls submit of devices that never block, while their thread is idle;
 *
 * - a submit thread per device hands works over, and holds those that wait for other devices until that has
 *   passed, while others pass them (thread.c, blocked.c, side_queues.c);
 *
 * - a builder per device makes instances beyond a plan's first (builder.c): a driver may take seconds for that;
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
#ifndef ROTA_SCHED_RUNTIME_SHARED_RUNTIME_H
#define ROTA_SCHED_RUNTIME_SHARED_RUNTIME_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include "base/atomic.h"
#include "base/owner.h"
#include "base/sleep.h"
#include "base/stack_upmc.h"
#include "base/thread_cpus.h"
#include "base/turns.h"
#include "exec/exec.h"
#include "sched/runtime.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/hooks.h"
#include "sched/runtime/shared/lanes.h"
#include "sched/runtime/shared/limits.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/submission.h"

typedef struct rota_executable rota_executable;
typedef struct rota_residency rota_residency;
typedef struct rota_sequencer rota_sequencer; /* order.h */
typedef struct rota_completer rota_completer; /* completer.h */
typedef struct rota_trials rota_trials;       /* device_open.h */

typedef enum rota_runtime_state {
    ROTA_RUNTIME_CLOSED,
    ROTA_RUNTIME_OPEN,
    ROTA_RUNTIME_CLOSING
} rota_runtime_state;

typedef struct rota_driver_entry {
    const rota_exec_driver *driver;
    void *test;
} rota_driver_entry;

/* What stays when the runtime is closed, so that tickets can be asked, and is used again by a later open. */
typedef struct rota_handle_shared {
    rota_runtime *next;       /* of those that are free: handle.c */
    rota_runtime *next_known; /* every handle there is: handle.c */
    _Atomic uint32_t fork_generation;
    _Atomic uint32_t generation; /* opens so far */
    /* Lanes that were given back, a stack through lane_next: see lanes.c. */
    _Atomic uint64_t lanes_free;
    _Atomic(_Atomic uint32_t *) lane_next[ROTA_LANE_BLOCKS];
    /* Ticket sequences at or below the first are nobody's, up to the second of earlier opens. */
    uint64_t sequence_first, sequence_base;
    /* By device: of its submit thread. Here, since a timeline of the application's may be moved at any time. */
    rota_sleeper submitters[ROTA_DEVICES_MAX];
} rota_handle_shared;

/* Where devices come from: under the mutex, by which they are opened one at a time. */
typedef struct rota_opening_shared {
    pthread_mutex_t mutex;
    rota_driver_entry drivers[ROTA_DRIVERS_MAX];
    uint32_t driver_count;
    const rota_trials *trials; /* by the first call that opens a device, and then for good */
    char choice[1400];         /* written once */
    _Atomic uint32_t is_chosen;
    _Atomic uint32_t has_peers; /* some devices are, or were tried */
} rota_opening_shared;

/* The plans and buffers that there are; lists under the mutex. */
typedef struct rota_objects_shared {
    pthread_mutex_t mutex;
    rota_executable *executables;
    rota_residency *residencies;
    struct rota_adopted *unreturned; /* what lost devices may still touch (adopt.c) */
    _Atomic uint64_t buffer_count, plan_count;
    pthread_mutex_t times_mutex;   /* rota_executable.times */
    uint64_t last_replay_ended_ns; /* under it; with diagnostics */
} rota_objects_shared;

/* Memory of devices, under options.memory_limit_bytes where that is not 0. */
typedef struct rota_budget_shared {
    _Atomic uint64_t memory_bytes, memory_peak_bytes;
    _Atomic uint64_t staging_bytes; /* of memory_bytes: those of blocks */
    _Atomic uint64_t staging_promised;
    _Atomic uint64_t staging_dying; /* blocks before the reclaimer */
    rota_turns promise_turns;
} rota_budget_shared;

/* By which the sequencer is told, and asked. */
typedef struct rota_sequencing_shared {
    rota_owner owner; /* base/owner.h: the caller's of rota_submit_locked while that has the sequencer lent */
    rota_sleeper sleeper;
    /* Wants to be woken when any timeline moves: read whenever one does. */
    _Alignas(64) _Atomic uint32_t interest;
    _Alignas(64) _Atomic uint32_t lost_pending; /* from here on written with each round */
    rota_stack_upmc released;                   /* of rota_released */
    rota_stack_upmc ended;                      /* of rota_submission that were never handed over */
    _Atomic uint64_t reap_requested, reap_done;
    rota_thread_cpus cpus;
    pthread_t thread;
    bool thread_started;
} rota_sequencing_shared;

/* By which the completer is told, and what is known of it. */
typedef struct rota_completing_shared {
    rota_owner owner;
    rota_sleeper sleeper;
    _Atomic uint32_t interest, awaits; /* awaits: that tickets are given their points */
    rota_stack_upmc completions;       /* of rota_completion */
    _Atomic uint64_t delivered;        /* deliveries that are over */
    /* How often tickets were ended, or may have, without the completer and for another reason than that their
     * device got on; it is woken afterwards. */
    _Atomic uint64_t ended_directly;
    rota_wait_table delivery_waiters;
    _Atomic uint32_t stop, thread_ended;
    pthread_t thread;
    bool thread_started;
} rota_completing_shared;

/* The thread that calls tickets' callbacks (callbacks.c). */
typedef struct rota_callbacks_shared {
    rota_sleeper sleeper;
    rota_stack_upmc calls; /* of rota_completion */
    /* The callback that runs now: since when, 0: none; which one, and of which submission. */
    _Atomic uint64_t since_ns, number;
    _Atomic uintptr_t fn;
    _Atomic uint32_t stop, thread_ended;
    pthread_t thread;
    bool thread_started;
} rota_callbacks_shared;

/* By which the reclaimer is told. */
typedef struct rota_reclaiming_shared {
    rota_owner owner;
    rota_sleeper sleeper;
    rota_stack_upmc unused; /* of rota_released that is to be freed */
    _Atomic uint32_t stop, thread_ended;
    pthread_t thread;
    bool thread_started;
} rota_reclaiming_shared;

/* What failed: marks and failure runs, under the mutex. */
typedef struct rota_failed_shared {
    pthread_mutex_t mutex;
    rota_mark *marks; /* failed ranges */
    /* Marks for when there is no memory: the first so many of the array were used, those given back are a
     * list. */
    rota_mark *spare, reserve[ROTA_POISON_RESERVE];
    uint32_t reserve_used;
    /* Beyond those: what submissions after this one read has failed. */
    rota_reason lost; /* cause NULL: none */
    uint64_t lost_number;
    _Atomic uint32_t active;
} rota_failed_shared;

/* Timelines of the application's: whether one was made, and whether the runtime closes over what waits for them. */
typedef struct rota_external_shared {
    _Atomic uint32_t is_used, is_over;
} rota_external_shared;

typedef struct rota_causes_shared {
    _Atomic(rota_cause *) buckets[ROTA_CAUSE_BUCKETS];
    _Atomic uint32_t count;
} rota_causes_shared;

typedef struct rota_stats_shared {
    _Atomic uint64_t submissions, completed, failed, driver_submits, waits_dropped, device_waits, migrations,
        migrated_bytes, peer_bytes, reclaim_pending, abandoned;
    _Atomic uint64_t spin_ns; /* of the sequencer and the submit threads */
    _Atomic uint64_t ended_cpu_ns;
} rota_stats_shared;

/* What is neither atomic nor a part of its own is settled when the runtime is opened. */
struct rota_runtime {
    /* Outlives a close: up to here. */
    rota_handle_shared handle;
    _Atomic uint32_t state;

    rota_runtime_options options;
    char *cache_dir;           /* the runtime's own copy, which the options name */
    uint32_t queue_count;      /* timelines of a device */
    uint32_t plan_queue_count; /* those that plans know; the rest are side queues */
    rota_device *devices[ROTA_DEVICES_MAX];
    _Atomic uint32_t device_count; /* with release, once the device is there: opening.mutex */
    _Atomic uint32_t stop;         /* the sequencer, submit threads and builders are to end */
    _Atomic uint64_t lost_ns;      /* when a device was lost last, before its life says so */
    rota_sequencer *sequencer;
    rota_completer *completer;

    rota_opening_shared opening;
    rota_objects_shared objects;
    rota_budget_shared budget;
    rota_lanes_shared lanes;
    rota_sequencing_shared sequencing;
    rota_completing_shared completing;
    rota_callbacks_shared callbacks;
    rota_reclaiming_shared reclaiming;
    rota_failed_shared failed;
    rota_external_shared external;
    rota_causes_shared causes;
    rota_stats_shared stats;
    rota_hooks_shared hooks;
};

static inline rota_timeline *rota_runtime_timeline(rota_runtime *runtime, uint64_t point) {
    return &runtime->devices[rota_point_device(point)]->timelines[rota_point_queue(point)];
}

static inline bool rota_runtime_is_limited(const rota_runtime *runtime) {
    return runtime->options.memory_limit_bytes != 0;
}

#endif
