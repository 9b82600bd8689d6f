/* The queue on which a work holds up nobody: the sequencer's. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_ORDER_SIDINGS_H
#define ROTA_SCHED_RUNTIME_ORDER_SIDINGS_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime/order/order.h"
#include "sched/runtime/shared/work.h"

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
bool rota_siding_is_at_hand(rota_sequencer *sequencer, uint64_t point);
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

#endif
