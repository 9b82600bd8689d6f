/* Inside of the runtime: what its files share. Internal; not installed.
 *
 * Threads of a runtime and what each owns:
 *
 * - application threads claim a lane (lanes.c), write records into it (submit.c, hostio.c), read ticket cells
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
#ifndef ROTA_SCHED_RUNTIME_INTERNAL_H
#define ROTA_SCHED_RUNTIME_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include "base/atomic.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/owner.h"
#include "base/sleep.h"
#include "base/thread_cpus.h"
#include "base/turns.h"
#include "exec/exec.h"
#include "graph/buffer_internal.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/order/chain.h"
#include "sched/runtime/order/clocks.h"
#include "sched/runtime/order/deliver.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/failures.h"
#include "sched/runtime/plans/handle.h"
#include "sched/runtime/order/hazard.h"
#include "sched/runtime/memory/import.h"
#include "sched/runtime/plans/instances.h"
#include "sched/runtime/order/linked.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/mailboxes.h"
#include "sched/runtime/plans/maker.h"
#include "sched/runtime/shared/marks.h"
#include "sched/plan/compiled.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/progress.h"
#include "sched/runtime/memory/ranges.h"
#include "sched/runtime/shared/released.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime.h"
#include "sched/runtime/shared/text.h"
#include "sched/runtime/shared/ticket_state.h"
#include "sched/runtime/shared/timeline.h"
#include "sched/runtime/plans/times.h"
#include "sched/runtime/order/wanted.h"

#define ROTA_DRIVERS_MAX 8
/* Lanes are made in blocks: the first of so many, each later one of as many as there are before it. */
#define ROTA_LANES_FIRST 1024
#define ROTA_LANE_BLOCKS 8
#define ROTA_LANE_BITS 17
#define ROTA_LANES_MAX (1u << ROTA_LANE_BITS)
_Static_assert(ROTA_LANES_FIRST << (ROTA_LANE_BLOCKS - 1) == ROTA_LANES_MAX, "the blocks are all the lanes");
#define ROTA_LANE_RECORDS 256
#define ROTA_LANE_WORDS 32768
#define ROTA_PAYLOAD_WORDS_MAX (ROTA_LANE_WORDS / 2)
/* Works that a queue of a device may have unfinished before callers are told BUSY; and submissions of a plan
 * that wait on sidings. */
#define ROTA_DEVICE_BACKLOG 4096
/* Tickets of a lane are made in chunks, as many of which may be in use at once. */
#define ROTA_CHUNK_CELLS 512
#define ROTA_LANE_CHUNKS 1024
_Static_assert(ROTA_CHUNK_CELLS > ROTA_LANE_RECORDS, "see rota_lane_provide");
#define ROTA_PARKED_MAX 4096
/* And the host's reads and writes of a buffer that wait for more than copies. */
#define ROTA_KEPT_MAX 4096
/* Logical queues of a device beyond those that plans know (sidings.c). */
#define ROTA_SIDINGS (ROTA_EXEC_QUEUES_MAX - ROTA_PLAN_QUEUES_MAX)
#define ROTA_SETTLED_MAX 8
#define ROTA_CLOCK_HISTORY 8
#define ROTA_SPIN_NS 50000u

/* ---- Failed tickets ---- */

#define ROTA_POISON_RESERVE 16

/* Tickets of a lane, one after the other, that failed with the same cause; `number` is the first one's. */
typedef struct rota_failure_run {
    _Atomic uint64_t first, last; /* sequences; first 0: none */
    _Atomic(const rota_cause *) cause;
    _Atomic uint64_t number;
    _Atomic uint32_t status;
} rota_failure_run;
#define ROTA_FAILURE_RUNS 256

/* ---- Lanes ---- */

typedef enum rota_record_kind { ROTA_RECORD_PLAN, ROTA_RECORD_WRITE, ROTA_RECORD_READ } rota_record_kind;

typedef struct rota_record {
    uint64_t stamp;
    uint64_t sequence; /* of the lane's tickets */
    void *object;      /* rota_plan, or rota_host_write / rota_host_read */
    rota_args *args;
    uint32_t kind, payload_words;
    uint64_t payload_begin; /* position in the lane's word ring */
    uint64_t words_end;     /* where the ring is free again once the record is taken */
    uint64_t submitted_ns;  /* diagnostics only */
} rota_record;

typedef enum rota_cell_state {
    ROTA_CELL_HOSTED = 1u << 0, /* complete only when DONE is set, not when the timeline has passed */
    ROTA_CELL_DONE = 1u << 1,
    ROTA_CELL_FAILED = 1u << 2, /* the fields below say why */
    ROTA_CELL_TAKEN = 1u << 3,  /* inputs taken */
    ROTA_CELL_SPREAD = 1u << 4  /* over several devices: a loss ends it when the others are through with it */
} rota_cell_state;

typedef struct rota_submission rota_submission;

/* What is known of a ticket. The submitter resets it (id first, the rest with release, so that whoever reads
 * a new field and then id sees the new id); the sequencer fills it. */
typedef struct rota_cell {
    _Alignas(64) _Atomic uint64_t id;
    _Atomic uint64_t number;
    _Atomic uint64_t point;
    _Atomic uint32_t state;
    _Atomic uint32_t failed_with;          /* rota_status; this and the next two only with FAILED */
    _Atomic(rota_submission *) submission; /* for deadline messages */
    _Atomic(const rota_cause *) cause;
    _Atomic uint64_t cause_number;
    struct rota_cell *later; /* the sequencer's: runtime->unordered_first */
} rota_cell;

/* Cells of tickets side by side in their lane's sequence. Given to a lane by the sequencer, which takes it
 * away once every ticket in it has ended and is beyond ROTA_TICKET_HISTORY, for this lane or another one;
 * never freed before close, so that a reader who comes late reads a cell, of whatever ticket. */
typedef struct rota_cell_chunk {
    /* The sequencer's. */
    struct rota_cell_chunk *next_free;
    uint32_t unsequenced,
        unfinished; /* of its tickets; the latter counts submissions that are not recycled */
    rota_cell cells[ROTA_CHUNK_CELLS];
} rota_cell_chunk;

/* A lane's large parts, whose pages come as they are touched. */
typedef struct rota_lane_store {
    rota_record records[ROTA_LANE_RECORDS];
    uint64_t words[ROTA_LANE_WORDS];
    /* Those in use, at their number (a sequence / ROTA_CHUNK_CELLS) % ROTA_LANE_CHUNKS. */
    _Atomic(rota_cell_chunk *) chunks[ROTA_LANE_CHUNKS];
    rota_failure_run failure_runs[ROTA_FAILURE_RUNS];
    rota_cell_chunk first;
} rota_lane_store;

typedef struct rota_lane {
    /* The producer's. */
    _Alignas(64) _Atomic uint64_t tail;
    uint64_t head_seen, words_tail, words_head_seen;
    _Atomic uint64_t sequence; /* of the newest ticket */
    rota_cell_chunk *chunk;    /* of that */
    rota_lane_store *store;    /* from the first claim on; published by `tail` or `sequence` */
    /* The sequencer's. */
    _Alignas(64) _Atomic uint64_t head;
    _Atomic uint64_t words_head;
    uint64_t taken;       /* sequence of the newest ticket that was */
    uint64_t first_chunk; /* numbers of the chunks that the lane may have */
    _Atomic uint64_t chunk_end;
    /* Sleepers until the sequencer took something from the lane. */
    _Alignas(64) _Atomic uint32_t sleepers;
    _Atomic uint32_t taken_word;
    /* Between which failed tickets (sequences; 0: none) those lie that are in no run any more: failures.c. */
    _Atomic uint64_t forgotten_first, forgotten_last;
    uint32_t newest_run; /* under poison_mutex */
} rota_lane;

/* Lanes and their large parts. */
typedef struct rota_lane_block {
    rota_lane *lanes;
    rota_lane_store *stores;
} rota_lane_block;

/* ---- Timelines and devices ---- */

/* A submit thread that is at handing works over may be in the driver for ever, where its device is lost:
 * another one may then look through what it holds. */
typedef enum rota_hands_over { ROTA_HANDS_NOTHING, ROTA_HANDS_OVER, ROTA_HANDS_LOOKED } rota_hands_over;

typedef struct rota_clock_entry {
    uint64_t from_value; /* the clock below holds for this value and later ones */
    uint64_t *clock;
} rota_clock_entry;

typedef struct rota_stamps rota_stamps; /* end_times.c */

typedef struct rota_timeline {
    _Alignas(64) _Atomic uint64_t completed; /* written by `advanced` */
    _Atomic uint64_t progress_ns;            /* when, stored before it */
    _Atomic uint64_t holders;                /* bit per device whose submit thread sleeps for a value of it */
    rota_stamps *stamps;                     /* when values were published; NULL without diagnostics */
    rota_wait_table waiters;
    _Alignas(64) _Atomic uint64_t issued; /* newest value given out; written by the sequencer */
    _Atomic uint64_t handed_over;         /* newest value that the executor was given */
    _Atomic uint64_t dropped; /* newest value that was to be given to it, and was not, since it is lost */
    /* The sequencer's: what every later work of this queue is known to come after, by timeline; how that was;
     * and submissions whose last work is here, oldest first. */
    uint64_t *clock;
    rota_chain *chain; /* which others read, too */
    rota_clock_entry history[ROTA_CLOCK_HISTORY];
    uint32_t history_next;
    rota_submission *oldest, *newest;
    uint64_t issued_at_loss;       /* how many there were when a device was seen to be lost (last_use.c) */
    rota_submission *strand_after; /* of a lost device, the one that was looked at last; NULL: none of it */
    /* The sequencer's, for sidings.c: the newest value whose work was to wait here, and what that is late
     * for; the newest of a work that is no copy, or whose end depends on several such; and the newest of a
     * copy whose end depends on those of one queue of its device, up to a value. */
    uint64_t parked, late_value;
    uint32_t late_for_plus_1; /* that one timeline, as an index over all devices; 0: several, or none */
    uint32_t behind_queue;
    uint64_t risky, behind, behind_value;
    /* The newest value whose work waits on the device for another one, or may come after one that does; the
     * sequencer's. */
    uint64_t crosses;
    /* The newest value whose work was to wait for an instance, the sequencer's; and who makes such, by
     * device, for works that have not passed. */
    uint64_t made_for;
    _Atomic uint64_t makers;
    /* Where devices of one GPU wait for each other without the host (device_wait.c): the timeline as each of them
     * names it, before `linked` says so; whether one had to wait for it, so that works signal it from now on;
     * and the newest value whose signal the driver has. */
    rota_exec_timeline *shared[ROTA_DEVICES_MAX];
    _Atomic uint32_t awaited;
    _Atomic uint64_t signalled;
    /* Under the gate's mutex (gate.c): what the executor reported; how many of the queue's works are in the
     * gate; and, while there are, up to where that is believed: to the one before the first of them. */
    uint64_t reported, gated, believed;
    uint64_t through; /* a lost device's newest value there that waits for nothing more (rota_gate_is_through) */
    _Atomic uint64_t held_for[ROTA_DEVICES_MAX]; /* by device of `holders`: from which value on to wake it */
} rota_timeline;

/* ---- Staging (staging.c) ---- */

/* Blocks are of 4 KiB << class. */
#define ROTA_STAGING_CLASSES 13
#define ROTA_STAGING_CHUNK 64
#define ROTA_STAGING_CHUNKS 1024

/* A block of mapped memory; what one transfer needs is a span, a list of them. It lies in its device's pool
 * until that is closed, with memory or without. */
typedef struct rota_staging rota_staging;
struct rota_staging {
    rota_dead dead;
    rota_device *device;
    rota_exec_memory *memory; /* NULL: a blank */
    uint32_t number;          /* in the pool, from 1 */
    uint8_t use, size_class;  /* its shelf */
    _Atomic uint32_t next;    /* number of what lies under it; 0: nothing */
    _Atomic uint32_t busy;
    rota_staging *more; /* the span's next block */
    uint64_t used;      /* bytes of the span in this block */
    /* Of a span's first block: the copies of a work to or from it. */
    rota_exec_copy *copies;
    uint32_t copy_capacity;
    /* Of an upload's first block, the sequencer's: the point after which it is free, and the upload after it.
     */
    uint64_t point, bytes, uploading; /* uploading: of the pool's, what is given back with it */
    rota_staging *later;
};

/* Idle blocks of one size. The stack's head is a block's number, and in the upper half how often it was
 * changed. */
typedef struct rota_staging_shelf {
    _Atomic uint64_t head;
    _Atomic uint32_t count,
        fewest; /* blocks; and their lowest number since the sequencer looked: not needed */
} rota_staging_shelf;

typedef struct rota_staging_pool {
    _Atomic(rota_staging *) chunks[ROTA_STAGING_CHUNKS];
    _Atomic uint32_t count; /* of blocks, blanks among them */
    _Atomic uint64_t blanks;
    rota_staging_shelf shelves[2][ROTA_STAGING_CLASSES]; /* for the host to write, and to read */
    /* Bytes of writes that are under way, but for kept ones (rota_residency.kept). */
    _Atomic int64_t uploading;
    /* The sequencer's: those writes, by queue, since one that is held on a siding ends after later ones. */
    rota_staging *oldest[ROTA_EXEC_QUEUES_MAX], *newest[ROTA_EXEC_QUEUES_MAX];
    rota_turns turns, slot_turns; /* of callers that wait for `uploading`, and for a slot */
    _Atomic uint32_t next_slot; /* of the ring, where the next claim begins to look */
} rota_staging_pool;

/* Memory under the limit that is on its way back, and is waited for: so many bytes, since so many were there.
 */
typedef struct rota_trim {
    uint64_t size_bytes, before;
    uint64_t least, fewest; /* that were held since then; blocks that the reclaimer had */
    uint64_t deadline_ns, last_ns;
} rota_trim;

typedef enum rota_trim_state { ROTA_TRIM_ROOM, ROTA_TRIM_WAIT, ROTA_TRIM_NONE } rota_trim_state;
/* What was given back others may take: so often it is tried again. */
#define ROTA_TRIMS_MAX 16

typedef struct rota_upload_slot {
    _Atomic uint64_t state; /* 0: free; 1: claimed; else the point after which it is free, with: */
} rota_upload_slot;
#define ROTA_SLOT_KEPT ((uint64_t)1 << 63) /* that point comes after more than copies */

typedef enum rota_slot_state {
    ROTA_SLOT_CLAIMED,
    ROTA_SLOT_IS_FREE,
    ROTA_SLOTS_ARE_TAKEN, /* some of them for a moment */
    ROTA_SLOTS_ARE_KEPT   /* all of them */
} rota_slot_state;

#define ROTA_HANDOVER_RING 8192
#define ROTA_HANDOVER_BATCH 64

typedef struct rota_work rota_work;
typedef struct rota_run_instance rota_run_instance;

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
    rota_timeline *timelines; /* runtime->queue_count */
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
    _Atomic uint64_t handed_ns; /* when works were handed over last, where there are other devices */
    pthread_t thread;
    rota_thread_cpus thread_cpus; /* the submit thread's */
    bool thread_started;
    _Atomic uint32_t thread_ended;
    /* Makes instances of the plans whose first part is on this device (maker.c). */
    _Atomic(rota_run_instance *) asked; /* stack; the maker takes all */
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

/* ---- Work for the completer ---- */

typedef enum rota_job_kind { ROTA_JOB_OUTPUTS, ROTA_JOB_CALLBACK, ROTA_JOB_EVENTFD } rota_job_kind;

typedef struct rota_job {
    struct rota_job *next;
    uint32_t kind;
    /* The completer's: by value of the timeline that is waited for, and then by arrival; a heap. */
    uint64_t value, arrival;
    struct rota_job *child, *sibling;
    union {
        rota_submission *submission;
        struct {
            rota_ticket ticket;
            rota_ticket_fn fn;
            void *user;
            int eventfd;
            /* Once it has ended; the message is the job's, NULL: none. */
            rota_status status;
            char *message;
        } watch;
    } u;
} rota_job;

/* ---- Persistent buffers ---- */

typedef struct rota_replay rota_replay; /* replay.c */

typedef struct rota_residency rota_residency;
struct rota_residency {
    rota_last_release_fn last_release; /* first: see rota_buffer.residency */
    rota_dead dead;
    rota_residency *next, *previous; /* runtime->residencies, under objects_mutex */
    rota_runtime *runtime;
    rota_buffer *buffer;
    bool closed;                  /* the runtime is gone: only the struct is left */
    pthread_mutex_t memory_mutex; /* creation of memory */
    _Atomic(rota_exec_memory *) memory[ROTA_DEVICES_MAX];
    /* Bit per device. Imported: the memory is that of another device of its domain. Apart: it is not, though
     * another has memory, since that one was lost when this was made. Both are set before the memory is. */
    _Atomic uint64_t imported, apart;
    _Atomic uint32_t home_plus_1; /* a device with valid bytes, for writes with no device named */
    /* The sequencer's: gapless, covering the buffer. */
    rota_range first;              /* of the list */
    rota_range *root;              /* of the tree */
    uint32_t range_count, fold_at; /* the count at which all are folded */
    /* Writers that have passed and that no range names any more, one a timeline: whatever touches the buffer
     * comes after them. */
    uint64_t settled[ROTA_SETTLED_MAX];
    uint32_t settled_count;
    rota_replay *owner; /* the plan whose replays alone touched it since they were last resolved */
    /* The sequencer's, and read by who submits: the host's reads and writes that are *kept*, since their end
     * comes after more than copies, and have not been recycled; and the bytes of such writes in the pool. */
    _Atomic uint32_t kept;
    _Atomic uint64_t kept_bytes;
    _Atomic(rota_turns *) turns; /* of callers for which too much is kept; NULL: there were none yet */
};

static inline rota_residency *rota_residency_of_dead(const rota_dead *dead) {
    return (rota_residency *)((uintptr_t)dead - offsetof(rota_residency, dead));
}

/* ---- Plans ---- */

typedef struct rota_run_part {
    rota_exec_program *program;
    rota_device *device;
    const rota_exec_command **by_node; /* commands sorted by node, made on first need under poison_mutex */
    uint64_t made_ns;                  /* what its part of the first instance took */
} rota_run_part;

typedef enum rota_making {
    ROTA_MAKING_NONE,
    ROTA_MAKING_ASKED, /* the maker has it, or will */
    ROTA_MAKING_FAILED /* may be asked again */
} rota_making;

struct rota_run_instance {
    rota_plan_run *run;
    rota_run_instance *next_asked;
    uint32_t arena;
    _Atomic uint32_t created;
    _Atomic uint32_t making; /* rota_making */
    /* Why it was last that it could not be made: from then on, though it is asked for again. */
    _Atomic(const rota_cause *) failure;
    rota_exec_instance **parts;      /* part_count */
    rota_exec_memory ***memories;    /* [part][memory] */
    uint8_t **owned;                 /* [part][memory]: how it is let go (instances.c) */
    uint64_t last_point;             /* the sequencer's */
    uint64_t outputs_issued;         /* the sequencer's: replays whose outputs are in its staging memory */
    _Atomic uint64_t outputs_copied; /* and how many of them the completer is through with */
};

/* Host times of the last completed replay, as rota_plan_replay has them. */
typedef struct rota_plan_replay_times {
    uint64_t submitted_ns, sequenced_ns, handed_over_ns, completed_ns, number;
} rota_plan_replay_times;

struct rota_plan_run {
    rota_dead dead;
    rota_plan_run *next, *previous; /* runtime->runs */
    rota_plan *plan;
    bool closed;    /* the runtime is gone: only this struct is left */
    bool abandoned; /* a device that did not stop may touch the plan for ever */
    bool has_staging, has_arena, rotates, checks_external;
    bool stages_inputs; /* every input goes through staging memory */
    uint32_t
        payload_words; /* of a record: block, host pointers, and two words for each bound buffer: its root,
                          which its residency keeps, and its offset there (a view may be gone by then) */
    uint8_t *needed;   /* by payload word: must be set before a submission; what no node uses need not */
    uint32_t needed_count;
    uint64_t *no_arguments;     /* the payload of a submission without arguments, where none are needed */
    uint32_t slot_buffer_count; /* those that nodes use */
    uint32_t *slot_buffers;     /* plan buffer of each bound-buffer entry */
    uint32_t *slot_of_buffer;   /* plan buffer to entry, ROTA_NONE */
    uint32_t *direct; /* OUTPUT transfers that the device writes where the caller has them, by segment */
    uint32_t direct_count;
    uint64_t device_mask; /* bit per device */
    /* Submissions that were to wait and are not recycled yet; the sequencer's, and read by who submits: hence
     * here, apart from what changes with every replay. */
    _Atomic uint32_t parked;
    rota_run_part *parts;
    rota_run_instance *instances;
    uint32_t instance_capacity;
    uint32_t arena_count;
    rota_exec_memory ***arenas; /* [arena][part * max + memory], flattened per part */
    uint32_t *arena_base;       /* first index of each part in an arena's array */
    uint32_t arena_memories;
    /* The sequencer's. */
    uint32_t instance_count, next_instance;
    uint64_t *arena_points; /* last use of each arena: own_points, or those of the plan that lends it */
    uint64_t *own_points;
    uint64_t last_point;
    rota_replay *replay;
    uint64_t unreaped;            /* submissions not recycled yet */
    rota_plan_replay_times times; /* under times_mutex */
    uint32_t times_instance;
};

/* ---- Submissions, the sequencer's records of what is in flight ---- */

typedef enum rota_work_kind {
    ROTA_WORK_SEGMENT,
    ROTA_WORK_WRITE,       /* upload ring to buffer */
    ROTA_WORK_READ,        /* buffer to read-back staging */
    ROTA_WORK_MIGRATE_OUT, /* buffer to read-back staging of its device */
    ROTA_WORK_MIGRATE_IN   /* into the buffer on the other device */
} rota_work_kind;

/* Bytes of a buffer. */
typedef struct rota_extent {
    uint64_t offset, size;
    uint32_t device; /* a read's: that they come from */
} rota_extent;

/* One move of bytes between devices. */
typedef struct rota_transfer {
    rota_residency *residency;
    uint64_t offset, size;
    uint32_t from, to; /* devices */
    uint32_t first_unwritten, unwritten_count; /* of the submission's */
    rota_staging *down, *up;
} rota_transfer;

struct rota_work {
    rota_submission *submission;
    rota_work *next; /* overflow, held */
    rota_device *device;
    uint8_t kind;
    bool parks; /* it was to wait when it was sequenced */
    bool skipped;
    bool comes_last;  /* of all that its device was given before: it was to wait for one that is lost */
    uint32_t segment; /* of plan->segments; else index of the transfer, or of the read's part */
    uint32_t queue;
    uint64_t value;
    uint64_t ordinal;  /* of those that went to the submit thread */
    uint64_t since_ns; /* it is the first of its queue to wait */
    uint32_t first_wait, wait_count, first_hold, hold_count;
    bool acquires; /* comes after works of other devices, one of which shares memory with this one */
    bool dropped;  /* taken when its device was lost, which won't have it */
    bool gated;    /* was behind the gate when it was handed over, which judges it: judge.c */
    bool by_host;  /* the host may put its bytes in place when it is handed over: its device waits for nothing */
    /* Failed as a whole, and what it was to write is marked. Release; with the acquires in judge.c. */
    _Atomic uint32_t failed;
    _Atomic uint32_t in_vain; /* it was to come after one that was lost, and won't run */
    uint32_t step;            /* in the order of its submission's segments, from 1; 0: it is a copy */
    rota_exec_copy copy;
};

typedef struct rota_host_write {
    rota_buffer *buffer;
    rota_residency *residency;
    rota_device *device;
    uint64_t offset, size;
    rota_staging *staging; /* NULL: it is in the upload ring's slot */
    uint32_t slot;
} rota_host_write;

/* What a read takes from one device: a work. */
typedef struct rota_read_part {
    rota_device *device;
    uint32_t first_extent, extent_count;
    uint64_t size;
    rota_staging *down; /* the bytes of its extents, one after the other */
} rota_read_part;

/* Shared by the reading thread, where it waits, and the sequencer; whoever lets go last frees it. */
typedef struct rota_host_read {
    _Atomic uint32_t references;
    rota_runtime *runtime;
    rota_residency *residency;
    uint64_t offset, size;
    uint8_t *data;    /* where the completer brings the bytes; NULL: the reading thread takes them */
    bool is_returned; /* the memory that was promised */
    rota_extent *extents;
    rota_read_part *parts;
    uint32_t part_count;
    rota_extent one_extent; /* storage of the common case */
    rota_read_part one_part;
} rota_host_read;

/* What the completer did with a submission that has outputs. */
typedef enum rota_hosted_done {
    ROTA_HOSTED_PENDING,
    ROTA_HOSTED_COPIED,
    ROTA_HOSTED_LOST /* nothing: the device was lost before */
} rota_hosted_done;

/* A submission's struct lies in memory that stays a submission's until the runtime closes. What every replay
 * touches comes first, in as few cache lines as it takes: with many in flight each is a miss. */
struct rota_submission {
    rota_submission *next; /* of its final timeline, or free */
    uint64_t final_point;
    _Atomic uint64_t pins; /* pins.c */
    uint64_t number;
    rota_plan *plan;
    rota_args *args;
    rota_cell *cell;
    rota_cell_chunk *chunk; /* the cell's */
    rota_work *works;
    rota_exec_wait *waits;
    uint64_t *holds;
    uint64_t *payload;
    uint64_t *segment_points; /* payload-like scratch: value of each segment's work */
    rota_host_read *read;
    uint64_t ticket_id;
    uint64_t submitted_ns;
    uint32_t work_count, wait_count, hold_count, transfer_count;
    uint32_t work_capacity, wait_capacity, hold_capacity, payload_capacity, segment_capacity,
        transfer_capacity, unwritten_capacity;
    uint32_t instance;
    uint8_t kind; /* rota_record_kind */
    bool hosted;  /* over when the completer has delivered it */
    bool parked;  /* counted in the plan's `parked` */
    /* The completer's: whether the end was reached, if only by the loss of the device. */
    bool is_reached, is_lost;
    _Atomic uint32_t hosted_done; /* rota_hosted_done, by the completer */
    uint64_t outputs_before;      /* that the instance's staging memory must be free of first */
    _Atomic(const rota_cause *) cause; /* the first that it failed with */
    _Atomic uint32_t inputs_left;
    uint32_t bounce_count, bounce_capacity;
    uint8_t *bounce; /* OUTPUTs that are written here first */
    rota_delivery delivery;
    uint64_t bounce_bytes;
    rota_bounce *bounces; /* and where to */
    uint8_t *aside; /* the completer's: of the instance's staging memory, what is not to be delivered yet */
    uint64_t sequenced_ns;
    _Atomic uint64_t handed_over_ns;
    struct rota_job *job_storage;
    rota_transfer *transfers;
    rota_unwritten *unwritten;
    /* Under poison_mutex, for rota_poison_undone: bit per lost device, and up to which of the works those that
     * it left are marked. */
    uint64_t undone;
    uint32_t undone_to;
    rota_host_write write;
    /* Of the host's accesses: counted in its `kept`, and so much in its `kept_bytes`; NULL: not. */
    rota_residency *kept_in;
    uint64_t kept_bytes;
    rota_submission *undelivered_before, *undelivered_after; /* runtime->undelivered_first */
    char name[64]; /* of the buffer that is read or written, which may go before the struct is read */
};

/* ---- The runtime ---- */

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
    char *cache_dir; /* the runtime's own copy, which the options name */
    uint32_t queue_count;      /* timelines of a device */
    uint32_t plan_queue_count; /* those that plans know; the rest are sidings */
    bool is_limited;   /* options.memory_limit_bytes is not 0 */
    bool touch;        /* of rota_runtime_set_touch */
    bool apart;        /* of rota_runtime_set_apart */
    bool host_ordered; /* of rota_runtime_set_host_ordered */
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
    _Alignas(64) _Atomic uint32_t sequencer_interest; /* wants to be woken when any timeline moves */
    _Atomic uint32_t completer_interest, completer_awaits; /* awaits: that tickets are given their points */
    _Atomic uint32_t lost_pending;
    _Atomic(rota_dead *) released;    /* stack; the sequencer takes all */
    _Atomic(rota_dead *) unused;      /* stack, of what is to be freed; the reclaimer takes all */
    _Atomic(rota_job *) jobs;         /* stack; the completer takes all */
    _Atomic(rota_job *) calls;        /* stack, of callbacks; their thread takes all */
    _Atomic(rota_submission *)
        ended; /* stack, of those that were never handed over; the sequencer takes all */
    _Atomic uint32_t lent, lent_away; /* rota_runtime_lock_submission */
    _Atomic uint32_t stop, completer_stop, reclaimer_stop, caller_stop;
    rota_wait_table hosted_waiters;

    pthread_t sequencer, completer, reclaimer, caller;
    bool sequencer_started, completer_started, reclaimer_started, caller_started;
    rota_thread_cpus sequencer_cpus;
    /* base/owner.h: the sequencer's functions are those of rota_submit_locked's caller while that has it lent. */
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
    rota_submission *stranded; /* lost devices may still have works of them: kept until close */
    rota_submission *pinned;   /* over, but a thread's message is being made of each */
    /* Those that failed before they were handed over and end in the order of deliveries; and the tickets of
     * those for whose place in that there was no memory, which end when all that came before is over. Both
     * oldest first. */
    rota_submission *undelivered_first, *undelivered_last;
    rota_cell *unordered_first, *unordered_last;
    rota_deliveries deliveries;
    rota_dead *dead;
    rota_dead *held;  /* buffers that are dead but for the lost devices `held_by`, which still have works */
    uint64_t held_by; /* bit per device */
    uint64_t losses_noted; /* lost devices that were seen, as bits */
    bool losses_past;      /* all has passed that others had by then */
    uint64_t parked;  /* submissions of plans that were to wait and have not ended */
    bool stranding;   /* a lost device's submission waits for other devices to be through with it */
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

/* shell.c */
/* ROTA_OK, or WRONG_STATE with a sentence, in a closed runtime or a forked child. Wait-free. */
rota_status rota_runtime_check(const rota_runtime *runtime);
/* Logical queues per device that plans know. */
uint32_t rota_runtime_queue_count(const rota_runtime *runtime);
/* Whether a pointer that a caller made up or kept is a runtime, open or closed, without looking at what it
 * points to. Wait-free; O(runtimes) for one that the thread has not asked about before. */
bool rota_runtime_is_known(const rota_runtime *runtime);

/* A thread of the runtime adds its CPU time before it ends. */
void rota_runtime_thread_ends(rota_runtime *runtime);

/* lanes.c */
static inline uint64_t rota_ticket_id(uint64_t sequence, uint32_t lane) {
    return sequence << ROTA_LANE_BITS | lane;
}
static inline uint32_t rota_ticket_lane(uint64_t id) {
    return (uint32_t)id & (ROTA_LANES_MAX - 1);
}
static inline uint64_t rota_ticket_sequence(uint64_t id) {
    return id >> ROTA_LANE_BITS;
}
/* Of a lane that was ever ready. */
static inline rota_lane *rota_lane_at(const rota_runtime *runtime, uint32_t index) {
    const uint32_t block = index < ROTA_LANES_FIRST ? 0 : 22u - (uint32_t)__builtin_clz(index);
    return &runtime->lane_blocks[block].lanes[block ? index - (ROTA_LANES_FIRST / 2u << block) : index];
}
_Static_assert(ROTA_LANES_FIRST == 1024, "the 22 in rota_lane_at is for this one");
rota_lane *rota_lane_of_thread(rota_runtime *runtime, uint32_t *out_index);
/* NULL: the ticket's chunk has gone on to later tickets. Of a sequence that the lane has reached. */
rota_cell *rota_lane_cell(const rota_lane *lane, uint64_t sequence);
/* The sequencer's: the record of this ticket is being taken: its chunk, and the lane gets the one after. */
rota_cell_chunk *rota_lane_take(rota_runtime *runtime, rota_lane *lane, uint64_t sequence);
/* The sequencer's: the submission of a ticket in the chunk is recycled, or its ticket ended without one. */
static inline void rota_chunk_ended(rota_cell_chunk *chunk) {
    chunk->unfinished--;
}
/* The sequencer's: what callers said is short, if they did: lanes, before they are needed, or a chunk. */
void rota_lanes_provide(rota_runtime *runtime);
/* Publishes one record: NULL args allowed. BUSY when there is no room. */
rota_status rota_lane_publish(rota_runtime *runtime, rota_record_kind kind, void *object, rota_args *args,
                              const uint64_t *payload, uint32_t payload_words, rota_ticket *out_ticket);
rota_status rota_lanes_create(rota_runtime *runtime);
void rota_lanes_destroy(rota_runtime *runtime);

/* The bit of rota_range.valid that stands for the residency's memory on a device: the same for devices that
 * share it. */
static inline rota_places rota_residency_bit(const rota_residency *residency, const rota_device *device) {
    bool apart = ra_load_relaxed(&residency->apart) >> device->index & 1u;
    return (rota_places)1 << (apart ? ROTA_DEVICES_MAX + device->index : device->domain);
}

/* across.c */
/* Whether two devices that share memory could order their works on the GPU. */
bool rota_across_may_link(const rota_device *a, const rota_device *b);
/* From here on they do / no longer. */
rota_status rota_across_link(rota_device *a, rota_device *b);
void rota_across_unlink(rota_device *a, rota_device *b);
/* Whether the device can be given the work as far as this hold goes: it has passed, or the device can wait
 * for it. */
bool rota_across_is_ready(rota_runtime *runtime, uint64_t hold);
/* What is left for the device to wait for, at most ROTA_EXEC_TIMELINE_WAITS_MAX. */
uint32_t rota_across_waits(rota_work *work, rota_exec_timeline_wait *out_waits);
/* What other devices wait for on the work's queue; NULL: nothing. */
rota_exec_timeline *rota_across_signal(const rota_work *work);
/* The driver has been given the signal. */
void rota_across_signalled(rota_device *device, uint32_t queue, uint64_t value);

/* gate.c */
void rota_gate_lock(rota_device *device);
/* With the lock: the work, which waits on the device or not, is about to be handed over; sets work->gated.
 * Returns why it would wait in vain, NULL: it does not. */
const rota_cause *rota_gate_push(rota_work *work, bool waits);
void rota_gate_unlock(rota_device *device);
/* The submit thread's: whether the work may be handed over. One that would be in the gate needs room there,
 * and while something has failed it waits for those before it: nothing should run on bytes that are known to
 * be bad. False: the thread is woken when some have left. */
bool rota_gate_takes(const rota_work *work);
/* A call of the executor's `advanced`. */
void rota_gate_report(rota_device *device, uint32_t queue, uint64_t value);
/* A timeline of the device moved, or it is lost: what others wait for may be decided now. */
void rota_gate_spread(rota_device *device);
/* Whether what works of a lost device up to the value of the queue, as far as they were handed over or given
 * up, waited for on the device is over: it has passed, or is the other's of the two and that is lost too, which
 * then waits for nothing else. */
bool rota_gate_is_through(rota_device *lost, uint32_t queue, uint64_t value);
/* The sequencer's: a device that lets others wait beyond the deadline is lost. `at_once`: whatever the time.
 */
void rota_gate_watch(rota_runtime *runtime, bool at_once);

/* memory.c */
/* Within the runtime's limit, or OUT_OF_MEMORY and *out_is_limited. */
rota_status rota_device_memory_try(rota_device *device, uint64_t size_bytes, uint32_t flags, const char *name,
                                   bool *out_is_limited, rota_exec_memory **out_memory);
void rota_device_memory_destroy(rota_device *device, rota_exec_memory *memory);

/* device_start.c */
void rota_device_free(rota_device *device);
/* end_times.c */
#define ROTA_STAMPS 1024               /* that a timeline keeps */
rota_stamps *rota_stamps_create(void); /* NULL: no host memory */
void rota_stamps_destroy(rota_stamps *stamps);
/* The value is about to be published. */
void rota_stamps_add(rota_stamps *stamps, uint64_t value);
/* The sequencer's: when a value was published that it has seen published; values ascend from call to call.
 * Where that stamp is lost, that of the oldest later value that is kept. */
uint64_t rota_stamps_take(rota_stamps *stamps, uint64_t value);
/* staging.c: lock-free, but where memory is made or given back */
/* Memory of the device; where the limit is in the way, idle staging memory is given back. */
rota_status rota_device_memory_create(rota_device *device, uint64_t size_bytes, uint32_t flags,
                                      const char *name, rota_exec_memory **out_memory);
/* A span for so many bytes, to be read or written by the host as `flags` (rota_exec_memory_flags) say. */
rota_status rota_staging_acquire(rota_device *device, uint64_t size_bytes, uint32_t flags,
                                 rota_staging **out_span);
/* The same without waiting for memory under the limit; *out_is_limited: that is what keeps it. */
rota_status rota_staging_try(rota_device *device, uint64_t size_bytes, uint32_t flags, bool *out_is_limited,
                             rota_staging **out_span);
/* Only of what lies idle; NULL: that is not enough. Lock-free. */
rota_staging *rota_staging_take(rota_device *device, uint64_t size_bytes, uint32_t flags);
void rota_staging_release(rota_staging *span);
/* Under a memory limit: whether so many bytes fit beside what is promised to others; alone they always do,
 * and may then not be had. To be returned when the span is released. */
bool rota_staging_promise(rota_runtime *runtime, uint64_t size_bytes);
bool rota_staging_may_promise(const rota_runtime *runtime, uint64_t size_bytes); /* whether it would */
void rota_staging_return(rota_runtime *runtime, uint64_t size_bytes);
/* The copies of a work that fills the span with the extents of `source`, one after the other; or that brings
 * the span's bytes to an extent of `destination`. They are the span's. */
rota_status rota_staging_copies_in(rota_staging *span, rota_exec_memory *source, const rota_extent *extents,
                                   uint32_t extent_count, rota_exec_work *out);
rota_status rota_staging_copies_out(rota_staging *span, rota_exec_memory *destination, uint64_t offset,
                                    rota_exec_work *out);
/* Claims a slot of the upload ring: a free one, or one whose last copy has passed; or only looks for one. */
rota_slot_state rota_staging_claim_slot(rota_device *device, bool may_claim, uint32_t *out_slot);
/* Bytes that a write of that size counts for in the pool's `uploading` or its buffer's `kept_bytes`. */
uint64_t rota_staging_charge(const rota_runtime *runtime, uint64_t size_bytes);
/* The sequencer's: the upload's span is free once the point has passed, and with it so much of `uploading`.
 */
void rota_staging_retire(rota_staging *span, uint64_t bytes, uint64_t uploading, uint64_t point);
/* The sequencer's: gives back what uploads no longer need; and the memory of what nobody needed since the
 * last call of the second. */
void rota_staging_sweep(rota_runtime *runtime);
void rota_staging_sweep_idle(rota_runtime *runtime);
/* Whether there is idle memory that a later sweep may give back. */
bool rota_staging_is_held(const rota_runtime *runtime);
/* Gives all idle memory back, since so many bytes are needed, and waits until there is room for them under the
 * memory limit; false: there will be none. */
bool rota_staging_trim(rota_runtime *runtime, uint64_t size_bytes);
/* The same in steps: gives it back; and looks what has come of that. Span: what it takes as blocks. */
void rota_trim_begin(rota_runtime *runtime, uint64_t size_bytes, rota_trim *out_trim);
void rota_trim_begin_for_span(rota_runtime *runtime, uint64_t size_bytes, rota_trim *out_trim);
rota_trim_state rota_trim_look(rota_runtime *runtime, rota_trim *trim);
void rota_staging_free_memory(rota_staging *block); /* the reclaimer's */
bool rota_staging_is_busy(const rota_device *device);
/* Closing: the memory of all blocks, idle or not; and the blocks. */
void rota_staging_close(rota_device *device);
void rota_staging_free(rota_device *device);

/* sidings.c (the sequencer's) */
/* What works are going to come after, as far as their place depends on it. Begins with device and queues. */
typedef struct rota_ahead {
    rota_device *device;
    uint32_t queues;   /* bit for each where they would be; 0: they can't wait for other devices there */
    bool crosses;      /* they wait on the device for another one */
    uint32_t late;     /* timelines whose works can't be waited for on the device yet: 0, 1, or 2 */
    uint32_t timeline; /* the one, as an index over all devices */
    uint64_t value;    /* of it */
    uint64_t wanted[ROTA_EXEC_QUEUES_MAX]; /* of its own device's queues; 0: nothing */
} rota_ahead;
void rota_ahead_add(rota_ahead *ahead, uint64_t point);
/* An access to bytes [begin, end). */
void rota_ahead_access(rota_ahead *ahead, rota_residency *residency, uint64_t begin, uint64_t end,
                       bool writes);
/* Whether the point is with its executor, or gets there without anything being waited for. */
bool rota_siding_is_at_hand(rota_runtime *runtime, uint64_t point);
/* Whether they would come after a work of one of their queues that waits on the device for another one, and
 * don't otherwise. */
bool rota_siding_is_crossed(const rota_ahead *ahead);
/* The logical queue for works that are late, and for one of copies; `parks`: it is late. */
uint32_t rota_siding_choose(const rota_ahead *ahead);
uint32_t rota_siding_for_copies(const rota_ahead *ahead, bool *parks);
/* Of a work that was noted, and is the newest of its queue: whether its end comes after more than copies. */
bool rota_siding_keeps(const rota_work *work);
/* The work has its waits. `ahead` may be NULL unless it is late. */
void rota_siding_note(rota_work *work, const rota_ahead *ahead);

/* replay.c (the sequencer's) */
/* Someone but the owner is about to look at the residency's ranges: brings their points up to date. */
void rota_replay_disown(rota_residency *residency);
/* The plan is going: nothing is owned by it any more. */
void rota_replay_release(rota_plan_run *run);
/* A replay: `known` (asked before) means that its waits on the one before are noted. `base`, of
 * ROTA_DEVICES_MAX * ROTA_EXEC_QUEUES_MAX entries, carries the issued values from begin to end; begin returns
 * how many it set. */
bool rota_replay_is_known(const rota_plan_run *run);
/* The next replay goes by other queues than the one before: it is resolved, and so is the one after it. */
void rota_replay_forget(rota_plan_run *run);
uint32_t rota_replay_begin(rota_runtime *runtime, rota_plan_run *run, uint64_t *out_base);
/* Known: adds the noted waits of a segment to the wanted values. */
void rota_replay_want(rota_runtime *runtime, rota_wanted *wanted, const rota_plan_run *run,
                      const uint64_t *base, uint32_t segment);
/* Not known: whether this replay follows its like, so that what its segments want can be noted; and notes it,
 * with nothing but external accesses in the wanted values. *notes becomes false without memory. */
bool rota_replay_notes(const rota_plan_run *run);
void rota_replay_note(rota_runtime *runtime, rota_wanted *wanted, rota_plan_run *run, const uint64_t *base,
                      uint32_t segment, bool *notes);
void rota_replay_end(rota_runtime *runtime, rota_plan_run *run, const uint64_t *base, uint32_t timelines,
                     bool known, bool noted, bool moves);

/* pins.c */
/* The sequencer's: from now on the submission may be pinned. */
void rota_submission_publish(rota_submission *submission);
/* Keeps what `submission` points to, and the plan, as they are for the submission of that number, though it
 * ends; NULL: the struct is not that one's any more. `submission` may be of any earlier submission, or NULL.
 * Lock-free. */
rota_submission *rota_submission_pin(rota_submission *submission, uint64_t number);
void rota_submission_unpin(rota_runtime *runtime, rota_submission *submission);
/* The sequencer's: ends that, unless a thread has it pinned. */
bool rota_submission_unpublish(rota_submission *submission);

/* sequencer.c */
void *rota_sequencer_main(void *runtime);
rota_status rota_sequencer_create(rota_runtime *runtime);
/* Sequences what lies in the lanes, once, and ends what is over. False: there was nothing to do. */
bool rota_sequencer_round(rota_runtime *runtime);
void rota_sequencer_free(rota_runtime *runtime);

/* complete.c */
rota_status rota_completer_create(rota_runtime *runtime);
void rota_completer_free(rota_runtime *runtime);
void *rota_completer_main(void *runtime);

/* callbacks.c */
/* The completer's, now and then: names one that takes long. True: there is one, or may be soon. */
bool rota_callbacks_watch(rota_runtime *runtime);
void *rota_callbacks_main(void *runtime);

/* reclaim.c */
void rota_reclaim_free(rota_dead *dead); /* with all uses passed; may block in drivers */
/* The sequencer's: `dead` joins what waits for its last use; what has passed goes to the reclaimer. */
void rota_reclaim_sweep(rota_runtime *runtime, rota_dead *fresh);
void *rota_reclaimer_main(void *runtime);
void rota_residency_destroy(rota_residency *residency, bool keep_struct);
void rota_args_destroy(rota_args *args);

/* residency.c */
rota_status rota_residency_prepare(rota_residency *residency, rota_device *device);

/* args.c: what rota_submit needs of an argument set. */
rota_status rota_args_payload(rota_plan *plan, rota_args *args, const uint64_t **out_payload);
void rota_args_submitted(rota_args *args, rota_ticket ticket);
/* Whether submissions made now read memory of the set's, and so hold it: copies of inputs. */
bool rota_args_copies(const rota_args *args);
/* The sequencer's: one of those submissions reads it no more. */
void rota_args_ended(rota_args *args);

/* rescue.c */
/* The completer's: works of a lost device will signal nothing more; who waits for them goes on. */
void rota_across_rescue(rota_runtime *runtime);

#endif
