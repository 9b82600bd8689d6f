/* A device. Data alone. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_STATE_DEVICE_H
#define ROTA_SCHED_RUNTIME_STATE_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include "base/sleep.h"
#include "base/stack_upmc.h"
#include "base/thread_cpus.h"
#include "base/turns.h"
#include "exec/exec.h"
#include "sched/runtime.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/state/limits.h"
#include "sched/runtime/state/staging.h"
#include "sched/runtime/state/timeline.h"

#define ROTA_HANDOVER_RING 8192
#define ROTA_HANDOVER_BATCH 64

typedef struct rota_work rota_work;
typedef struct rota_run_instance rota_run_instance;

/* A submit thread that is at handing works over may be in the driver for ever, where its device is lost:
 * another one may then look through what it holds. */
typedef enum rota_hands_over { ROTA_HANDS_NOTHING, ROTA_HANDS_OVER, ROTA_HANDS_LOOKED } rota_hands_over;

/* The work of a queue, by value, that is held for staging memory, or was last. */
typedef struct rota_starving {
    uint64_t value;
    uint32_t rounds;
    rota_trim trim;
} rota_starving;

/* Works of a device of which some wait on the device for another one: gate.c. */
#define ROTA_GATE_WORKS 8192
typedef struct rota_gate {
    pthread_mutex_t mutex;
    rota_work **works; /* ROTA_GATE_WORKS, at index % ROTA_GATE_WORKS; NULL until the device is linked */
    uint64_t head, tail;
    uint64_t since_ns; /* the work at the head is the oldest since then */
    uint64_t through;  /* of a lost device: those before it wait for nothing more */
    bool is_wanted;    /* the submit thread holds a work until others have left */
    _Atomic uint32_t pending;
} rota_gate;

struct rota_device {
    rota_runtime *runtime;
    uint32_t index;
    uint32_t domain; /* the lowest index of the open devices that share memory with this one, or its own
                        (import.c) */
    _Atomic uint32_t is_shared; /* another device is in its domain */
    _Atomic uint64_t linked;    /* bit per device whose works this one's can wait for without the host */
    rota_gate gate;
    rota_exec_device *exec;
    rota_device_info info;
    bool asks_poison; /* the executor calls must_skip; otherwise hand-over decides */
    char id[16];
    uint32_t transfer_queue, io_queue;
    rota_timeline *timelines;     /* runtime->queue_count */
    _Atomic uint32_t queues_used; /* the sequencer's: one more than the highest that had a work */
    _Atomic uint32_t lost;
    _Atomic(const rota_cause *) lost_cause;
    _Atomic uint32_t visible; /* opened and smoke-tested */
    _Atomic uint32_t gone;    /* the executor itself said that it is lost: it touches nothing any more */
    _Atomic uint32_t closed;  /* calls of its executor are ignored */

    /* Hand-over. The sequencer publishes; whoever is allowed to (the thread, or the sequencer while that has
     * nothing) consumes. */
    rota_work **ring;
    _Alignas(64) _Atomic uint64_t ring_published;
    _Alignas(64) _Atomic uint64_t ring_taken; /* out of the ring */
    _Atomic uint64_t ring_consumed;           /* and how many of those were handed over */
    rota_turns turns;                         /* of callers, for room for submissions (submit.c) */
    rota_sleeper sleeper;
    rota_work *overflow_first, *overflow_last; /* the sequencer's, when the ring is full */
    rota_work *direct[ROTA_HANDOVER_BATCH];    /* the sequencer's, waiting for one direct submit */
    uint32_t direct_count;
    /* The submit thread's: works that wait, by queue, oldest first; and the newest value of each queue that
     * was handed over. */
    rota_work *held_first[ROTA_EXEC_QUEUES_MAX], *held_last[ROTA_EXEC_QUEUES_MAX];
    uint64_t given[ROTA_EXEC_QUEUES_MAX];
    rota_starving starving[ROTA_EXEC_QUEUES_MAX];
    bool starves; /* one of the first was found to be held for that */
    _Atomic uint32_t held_count;
    uint64_t losses_seen;        /* the submit thread's: devices, as bits */
    _Atomic uint32_t hands_over; /* rota_hands_over: who has what the submit thread holds */
    uint64_t looked_at;          /* with that: works that others dropped, not yet in ring_consumed */
    _Atomic uint64_t handed_ns;  /* when works were handed over last, where there are other devices */
    pthread_t thread;
    rota_thread_cpus thread_cpus; /* the submit thread's */
    bool thread_started;
    _Atomic uint32_t thread_ended;
    /* Makes instances of the plans whose first part is on this device (maker.c). */
    rota_stack_upmc asked; /* instances that the maker is to make */
    rota_sleeper maker_sleeper;
    pthread_t maker;
    bool maker_started;
    _Atomic uint32_t maker_ended;
    _Atomic uint64_t makings_asked, makings_done; /* the sequencer's, and the maker's: how many so far */
    /* When the maker last began with what takes a driver's time, and until when that may well take. */
    _Atomic uint64_t making_ns, making_until_ns;
    _Atomic uint64_t
        filling; /* number of the submission whose inputs are being taken for this device, or 0 */

    /* Upload ring for rota_buffer_write. */
    rota_exec_memory *upload_memory;
    rota_upload_slot *upload_slots;
    uint32_t upload_slot_count;
    rota_staging_pool staging;
};

#endif
