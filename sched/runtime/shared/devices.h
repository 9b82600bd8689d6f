/* Devices: what each is, and what threads share of it. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_DEVICES_H
#define ROTA_SCHED_RUNTIME_SHARED_DEVICES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include "base/ring_spsc.h"
#include "base/sleep.h"
#include "base/stack_upmc.h"
#include "base/turns.h"
#include "exec/exec.h"
#include "sched/runtime.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/limits.h"
#include "sched/runtime/shared/timeline.h"

#define ROTA_HANDOVER_CELLS 8192
#define ROTA_HANDOVER_BATCH 64

typedef struct rota_work rota_work;
typedef struct rota_submitter rota_submitter;           /* submitter.h */
typedef struct rota_outbox rota_outbox;                 /* ring.h */
typedef struct rota_staging_shared rota_staging_shared; /* staging.h */

/* Works of a device of which some wait on the device for another one, or may fail by themselves: gate.c. All but
 * `pending` and `is_open` under the mutex. */
#define ROTA_GATE_WORKS 8192
typedef struct rota_gate_entry {
    rota_work *work;
    const rota_cause
        *failure; /* a node of it failed by itself: counts, where what it read turns out to be well */
} rota_gate_entry;
typedef struct rota_gate_shared {
    pthread_mutex_t mutex;
    rota_gate_entry *works; /* ROTA_GATE_WORKS, at index % ROTA_GATE_WORKS; NULL until is_open */
    uint64_t head, tail;
    uint64_t since_ns; /* the work at the head is the oldest since then */
    uint64_t through;  /* of a lost device: those before it wait for nothing more */
    bool is_wanted;    /* the submit thread holds a work until others have left */
    _Atomic uint32_t pending;
    _Atomic uint32_t is_open; /* for good: works come by here before they are handed over */
} rota_gate_shared;

/* What a submit thread is at. In the driver it may stay for ever, where its device is lost: another one may then look
 * through what it holds, from all but the first of these. */
typedef enum rota_hands_over {
    ROTA_HANDS_NOTHING, /* it takes works, or rests: never in a driver */
    ROTA_HANDS_MEMORY, /* makes staging memory for what it took, which goes back to what is blocked where one looks */
    ROTA_HANDS_AWAY,  /* that went back, and the thread has not come back */
    ROTA_HANDS_OVER,  /* what it took is its own: it may be copying, and then hands it over */
    ROTA_HANDS_LOOKED /* another one looks */
} rota_hands_over;

/* Works on their way to the driver. The sequencer puts them into the ring; whoever has what the submit thread holds
 * takes them (hands_over). The positions tell when all is handed over that was ever put there, which the ring's own, of
 * 32 bits, do not: last uses are told by them (last_use.c). */
typedef struct rota_handover_shared {
    rota_ring_spsc ring;                     /* ROTA_HANDOVER_CELLS */
    _Alignas(64) _Atomic uint64_t published; /* works that were put there, which the sequencer alone counts */
    _Alignas(64) _Atomic uint64_t consumed;  /* and how many of those were handed over */
    rota_sleeper *sleeper;                   /* the submit thread's, which the runtime's handle keeps */
    _Atomic uint32_t blocked_count;          /* works that it holds */
    _Atomic uint32_t hands_over;             /* rota_hands_over: who has what it holds */
    _Atomic uint32_t goes_on;                /* the executor wants its go_on called */
    _Atomic uint64_t handed_ns; /* when works were handed over last, where there are other devices */
    _Atomic uint64_t went_on_ns; /* when the executor's go_on was called last; stored before `hands_over` */
    pthread_t thread;
    bool thread_started;
    _Atomic uint32_t thread_ended;
} rota_handover_shared;

/* Makes instances of the plans whose first part is on the device (builder.c). */
typedef struct rota_building_shared {
    rota_stack_upmc asked; /* instances that the builder is to make */
    rota_sleeper sleeper;
    _Atomic uint64_t asked_count, done_count; /* the sequencer's, and the builder's: how many so far */
    /* When the builder last began with what takes a driver's time, and until when that may well take. */
    _Atomic uint64_t began_ns, until_ns;
    pthread_t thread;
    bool thread_started;
    _Atomic uint32_t thread_ended;
} rota_building_shared;

typedef struct rota_upload_slot {
    _Atomic uint64_t state; /* 0: free; 1: claimed; else the point after which it is free, with: */
} rota_upload_slot;
#define ROTA_UPLOAD_KEPT ((uint64_t)1 << 63) /* that point comes after more than copies */

/* The upload ring for rota_buffer_write: settled, but for what the slots say. */
typedef struct rota_uploads_shared {
    rota_exec_memory *memory;
    rota_upload_slot *slots;
    uint32_t slot_count;
} rota_uploads_shared;

/* Other devices, as bits. Whose works this one's can wait for without the host (link.c); and its peers, on other GPUs,
 * whose memory its copies read, and whose copies read its memory (peers.c). Release, by who opens a device; with the
 * acquires of who reads. */
typedef struct rota_device_others {
    _Atomic uint64_t linked, peers;
} rota_device_others;

/* What is neither atomic nor a part of its own is settled before the device is seen (device_count). */
struct rota_device {
    rota_runtime *runtime;
    uint32_t index;
    uint32_t domain; /* the lowest index of the open devices that share memory with this one, or its own
                        (import.c) */
    _Atomic uint32_t is_shared; /* another device is in its domain */
    rota_device_others others;
    rota_exec_device *exec;
    rota_device_info info;
    bool asks_poison; /* the executor calls must_skip; otherwise hand-over decides */
    char id[16];
    uint32_t transfer_queue, io_queue;
    rota_timeline *timelines;               /* runtime->queue_count */
    _Atomic uint32_t queues_used;           /* the sequencer's: one more than the highest that had a work */
    _Atomic uint32_t life;                  /* rota_life, by rota_device_move */
    _Atomic(const rota_cause *) lost_cause; /* stored before it is LOST or QUIET, and then for good */
    _Atomic uint32_t is_seen; /* it passed its trials, if it was not lost since: found by its id */
    _Atomic uint64_t
        filling;      /* number of the submission whose inputs are being taken for this device, or 0 */
    rota_turns turns; /* of callers, for room for submissions (submit.c) */
    rota_outbox *outbox;
    rota_submitter *submitter;
    rota_handover_shared handover;
    rota_gate_shared gate;
    rota_building_shared building;
    rota_uploads_shared uploads;
    rota_staging_shared *staging;
};

/* Before works can come that wait on the device for another one, or may fail by themselves (gate.c). Any thread;
 * OUT_OF_MEMORY. */
rota_status rota_device_open_gate(rota_device *device);
rota_exec_device *rota_device_exec(const rota_device *device);
/* "'cpu', 'vk:0'": the runtime's open devices, for messages; cut to the capacity. */
void rota_runtime_name_devices(const rota_runtime *runtime, char *text, size_t capacity);

#endif
