/* Staging memory of a device. Data alone. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_STATE_STAGING_H
#define ROTA_SCHED_RUNTIME_STATE_STAGING_H

#include <stdatomic.h>
#include <stdint.h>
#include "base/turns.h"
#include "exec/exec.h"
#include "sched/runtime.h"
#include "sched/runtime/shared/released.h"

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
    _Atomic uint32_t next_slot;   /* of the ring, where the next claim begins to look */
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

#endif
