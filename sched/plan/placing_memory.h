/* How much memory a placement takes on each device, in record order. Internal; not installed. */
#ifndef ROTA_SCHED_PLAN_PLACING_MEMORY_H
#define ROTA_SCHED_PLAN_PLACING_MEMORY_H

#include "sched/plan/placing_clock.h"

/* Of the nodes that were begun. A device has all of a buffer from the first node there that touches it on: for good, or
 * to the last node of any device that does. */
typedef struct rota_placing_memory {
    const rota_placing *placing;             /* NULL: nothing is limited */
    uint32_t *on;                            /* by buffer: devices that have it, as bits */
    uint64_t kept[ROTA_PLACING_DEVICES_MAX]; /* of buffers that stay */
    uint64_t live[ROTA_PLACING_DEVICES_MAX],
        peak[ROTA_PLACING_DEVICES_MAX]; /* of the others, now and at most */
    uint64_t peaks;                     /* of all devices */
} rota_placing_memory;

/* False: out of memory. */
bool rota_placing_memory_init(rota_placing_memory *memory, const rota_placing *placing, rota_arena *arena);
/* No node has begun. */
void rota_placing_memory_reset(rota_placing_memory *memory);
/* Whether node `n` keeps the limits if it comes next, on `device`. */
bool rota_placing_memory_fits(const rota_placing_memory *memory, uint32_t n, uint32_t device);
/* It does come there. */
void rota_placing_memory_begin(rota_placing_memory *memory, uint32_t n, uint32_t device);
/* Whether all nodes keep the limits so. False also where there is no host memory. Linear in nodes and touches. */
bool rota_placing_memory_fits_all(const rota_placing *placing, const uint8_t *devices);

#endif
