/* Staging memory, under the limit. Lock-free, but where memory is made or given back. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_MEMORY_STAGING_H
#define ROTA_SCHED_RUNTIME_MEMORY_STAGING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/turns.h"
#include "exec/exec.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/released.h"
#include "sched/runtime/shared/work.h"

/* Blocks are of 4 KiB << class. */
#define ROTA_STAGING_CLASSES 13
#define ROTA_STAGING_CHUNK 64
#define ROTA_STAGING_CHUNKS 1024

/* A block of mapped memory; what one transfer needs is a span, a list of them. It lies in its device's pool
 * until that is closed, with memory or without. */
typedef struct rota_staging rota_staging;
struct rota_staging {
    rota_released released;
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

/* A device's blocks. */
typedef struct rota_staging_shared {
    _Atomic(rota_staging *) chunks[ROTA_STAGING_CHUNKS];
    _Atomic uint32_t count; /* of blocks, blanks among them */
    _Atomic uint64_t blanks;
    rota_staging_shelf shelves[2][ROTA_STAGING_CLASSES]; /* for the host to write, and to read */
    /* Bytes of writes that are under way, but for kept ones (rota_residency.kept). */
    _Atomic int64_t uploading;
    /* The sequencer's: those writes, by queue, since one that is blocked on a side queue ends after later ones. */
    rota_staging *oldest[ROTA_EXEC_QUEUES_MAX], *newest[ROTA_EXEC_QUEUES_MAX];
    rota_turns turns, slot_turns; /* of callers that wait for `uploading`, and for a slot */
    _Atomic uint32_t next_slot;   /* of the ring, where the next claim begins to look */
} rota_staging_shared;

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

typedef enum rota_slot_state {
    ROTA_SLOT_CLAIMED,
    ROTA_SLOT_IS_FREE,
    ROTA_SLOTS_ARE_TAKEN, /* some of them for a moment */
    ROTA_SLOTS_ARE_KEPT   /* all of them */
} rota_slot_state;
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
/* The sequencer's: gives back what uploads no longer need, none on `quiet` devices (bits); and the memory of what
 * nobody needed since the last call of the second. */
void rota_staging_sweep(rota_runtime *runtime, uint64_t quiet);
void rota_staging_sweep_idle(rota_runtime *runtime);
/* Whether there is idle memory that a later sweep may give back. */
bool rota_staging_has_idle(const rota_runtime *runtime);
/* Gives all idle memory back, since so many bytes are needed, and waits until there is room for them under the
 * memory limit; false: there will be none. */
bool rota_staging_trim(rota_runtime *runtime, uint64_t size_bytes);
/* The same in steps: gives it back; and looks what has come of that. Span: what it takes as blocks. */
void rota_trim_begin(rota_runtime *runtime, uint64_t size_bytes, rota_trim *out_trim);
void rota_trim_begin_for_span(rota_runtime *runtime, uint64_t size_bytes, rota_trim *out_trim);
rota_trim_state rota_trim_look(rota_runtime *runtime, rota_trim *trim);
void rota_staging_free_memory(rota_staging *block); /* the reclaimer's */
bool rota_staging_is_busy(const rota_device *device);
/* The pool of a device that is being made. OUT_OF_MEMORY. */
rota_status rota_staging_create(rota_device *device);
/* Closing: the memory of all blocks, idle or not; and the blocks. */
void rota_staging_close(rota_device *device);
void rota_staging_free(rota_device *device);

#endif
