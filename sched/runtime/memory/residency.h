/* A persistent buffer's memory on each device. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_MEMORY_RESIDENCY_H
#define ROTA_SCHED_RUNTIME_MEMORY_RESIDENCY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include "base/atomic.h"
#include "base/turns.h"
#include "graph/buffer_internal.h"
#include "sched/runtime.h"
#include "sched/runtime/memory/ranges.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/limits.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/released.h"

typedef struct rota_replay rota_replay; /* replay.c */

typedef struct rota_adopted rota_adopted; /* adopt.h */

/* Of the memory on each device, as bits. Imported: it is that of another device of its domain. Unshared: it is not,
 * though another has memory, since that one was lost when this was made, or since this was adopted. Unopened: it is not
 * open to all of the device's peers that have some, too (peers.c). All are set before the memory is. */
typedef struct rota_residency_memory_is {
    _Atomic uint64_t imported, unshared, unopened;
} rota_residency_memory_is;

typedef struct rota_residency rota_residency;
struct rota_residency {
    rota_last_release_fn last_release; /* first: see rota_buffer.residency */
    rota_released released;
    rota_residency *next, *previous; /* objects.residencies, under objects.mutex */
    rota_runtime *runtime;
    rota_buffer *buffer;
    bool closed;                  /* the runtime is gone: only the struct is left */
    pthread_mutex_t memory_mutex; /* creation of memory */
    _Atomic(rota_exec_memory *) memory[ROTA_DEVICES_MAX];
    rota_adopted *adopted; /* whose memory on one of them is the application's; NULL: none */
    rota_residency_memory_is memory_is;
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
    rota_residency *next_owned, *previous_owned; /* in the owner's list */
    /* The sequencer's, and read by who submits: the host's reads and writes that are *kept*, since their end
     * comes after more than copies, and have not been recycled; and the bytes of such writes in the pool. */
    _Atomic uint32_t kept;
    _Atomic uint64_t kept_bytes;
    _Atomic(rota_turns *) turns; /* of callers for which too much is kept; NULL: there were none yet */
};

static inline rota_residency *rota_residency_of_released(const rota_released *released) {
    return (rota_residency *)((uintptr_t)released - offsetof(rota_residency, released));
}

/* The bit of rota_range.valid that stands for the residency's memory on a device: the same for devices that
 * share it. */
static inline rota_copies rota_residency_bit(const rota_residency *residency, const rota_device *device) {
    bool unshared = ra_load_relaxed(&residency->memory_is.unshared) >> device->index & 1u;
    return (rota_copies)1 << (unshared ? ROTA_DEVICES_MAX + device->index : device->domain);
}

/* A buffer with one reference and no memory, known to nobody; then it is among the runtime's. */
rota_status rota_residency_create(rota_runtime *runtime, const char *name, uint64_t size_bytes,
                                  rota_residency **out_residency);
void rota_residency_show(rota_residency *residency);
rota_status rota_residency_prepare(rota_residency *residency, rota_device *device);
void rota_residency_destroy(rota_residency *residency, bool keep_struct);

#endif
