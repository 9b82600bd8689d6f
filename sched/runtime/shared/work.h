/* What a submission gives to one queue at once, and what reads, writes and moves are. Data alone. Internal;
 * not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_WORK_H
#define ROTA_SCHED_RUNTIME_SHARED_WORK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include "exec/exec.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/point.h"

typedef struct rota_submission rota_submission;
typedef struct rota_residency rota_residency;
typedef struct rota_staging rota_staging;

typedef enum rota_work_kind {
    ROTA_WORK_SEGMENT,
    ROTA_WORK_LOOPS,       /* a segment with nodes that have iterations, which the gate does not judge */
    ROTA_WORK_WRITE,       /* upload ring to buffer */
    ROTA_WORK_READ,        /* buffer to read-back staging */
    ROTA_WORK_MIGRATE_OUT, /* buffer to read-back staging of its device */
    ROTA_WORK_MIGRATE_IN,  /* into the buffer on the other device */
    ROTA_WORK_MIGRATE_OVER /* out of a peer's memory, which the device reads itself */
} rota_work_kind;

/* Bytes of a buffer. */
typedef struct rota_extent {
    uint64_t offset, size;
    uint32_t device; /* a read's: that they come from */
} rota_extent;

/* One move of bytes between devices. */
typedef struct rota_migration {
    rota_residency *residency;
    uint64_t offset, size;
    uint32_t from, to;                         /* devices */
    uint32_t first_unwritten, unwritten_count; /* of the submission's */
    rota_staging *down, *up;
    bool is_lent; /* rota_buffer.is_lent, when it was sequenced */
} rota_migration;

/* What every work needs is one cache line, the first: with many in flight each line is a miss. */
struct rota_work {
    _Alignas(64) rota_submission *submission;
    rota_device *device;
    uint64_t value;
    /* Failed as a whole, and what it was to write is marked. Release; with the acquires in judge.c. */
    _Atomic uint32_t failed;
    _Atomic uint32_t in_vain; /* it was to come after one that was lost, and won't run */
    uint32_t segment;         /* of plan->segments; else index of the transfer, or of the read's part */
    uint32_t step;            /* in the order of its submission's segments, from 1; 0: it is a copy */
    uint32_t first_wait, first_foreign_wait;
    uint16_t wait_count, foreign_wait_count;
    uint8_t kind, queue;
    bool is_sidelined : 1; /* it was to wait when it was sequenced */
    bool has_after : 1;    /* as its submission has it */
    /* Comes after works of other devices, one of which shares memory with this one, or after what the application's
     * did. */
    bool acquires : 1;
    bool skipped;
    bool comes_last; /* of all that its device was given before: it was to wait for one that is lost */
    bool dropped;    /* taken when its device was lost, which won't have it */
    bool gated;      /* was behind the gate when it was handed over, which judges it: judge.c */
    bool
        by_host; /* the host may put its bytes in place when it is handed over: its device waits for nothing */
    /* Set by who uses them: of what is not handed over at once, and of copies. */
    rota_work *next;   /* overflow, blocked */
    uint64_t ordinal;  /* of those that went to the submit thread */
    uint64_t since_ns; /* it is the first of its queue to wait */
    rota_exec_copy copy;
};
_Static_assert(offsetof(rota_work, next) == 64, "what every work needs is one cache line");
_Static_assert(ROTA_TIMELINES_MAX < UINT16_MAX && ROTA_EXEC_QUEUES_MAX <= UINT8_MAX + 1,
               "a work counts its waits in 16 bits, and names its queue in 8");

typedef struct rota_host_write {
    rota_buffer *buffer;
    rota_residency *residency;
    rota_device *device;
    uint64_t offset, size;
    rota_staging *staging; /* NULL: it is in the upload ring's slot */
    uint32_t slot;
} rota_host_write;

/* What a read takes from one device: a work. */
typedef struct rota_read_piece {
    rota_device *device;
    uint32_t first_extent, extent_count;
    uint64_t size;
    rota_staging *down; /* the bytes of its extents, one after the other */
} rota_read_piece;

/* Shared by the reading thread, where it waits, and the sequencer; whoever lets go last frees it. */
typedef struct rota_host_read {
    _Atomic uint32_t references;
    rota_runtime *runtime;
    rota_residency *residency;
    uint64_t offset, size;
    uint8_t *data;    /* where the completer brings the bytes; NULL: the reading thread takes them */
    bool is_returned; /* the memory that was promised */
    rota_extent *extents;
    rota_read_piece *pieces;
    uint32_t piece_count;
    rota_extent one_extent; /* storage of the common case */
    rota_read_piece one_piece;
} rota_host_read;

/* The value of its timeline at which the work has ended. */
static inline uint64_t rota_work_point(const rota_work *work) {
    return rota_point(work->device->index, work->queue, work->value);
}

#endif
