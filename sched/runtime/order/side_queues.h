/* The queue on which a work holds up nobody: the sequencer's. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_ORDER_SIDE_QUEUES_H
#define ROTA_SCHED_RUNTIME_ORDER_SIDE_QUEUES_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime/order/order.h"
#include "sched/runtime/shared/work.h"

/* What works are going to come after, as far as their place depends on it. Begins with device and queues. */
typedef struct rota_prospect {
    rota_device *device;
    uint32_t queues;      /* bit for each where they would be; 0: they can't wait for other devices there */
    bool crosses;         /* they wait on the device for another one */
    bool is_held;         /* they come after points of the application's, or after what does */
    bool ends_later;      /* what some of them begin ends elsewhere */
    bool comes_later;     /* or they come after something of which that is so */
    bool wants_instance;  /* they wait for their plan's instance, which is not there or has another replay */
    uint32_t waiting_for; /* timelines whose works can't be waited for on the device yet: 0, 1, or 2 */
    uint32_t timeline;    /* the one, as an index over all devices */
    uint64_t value;       /* of it */
    const rota_external_wait *after;       /* points of the application's that are not reached; NULL: none */
    uint64_t wanted[ROTA_EXEC_QUEUES_MAX]; /* of its own device's queues; 0: nothing */
} rota_prospect;
static inline bool rota_prospect_is_late(const rota_prospect *prospect) {
    return prospect->waiting_for != 0 || prospect->after || prospect->ends_later;
}
void rota_prospect_add(rota_prospect *prospect, uint64_t point);
/* The end of the replay that has the instance: what is held for the application, or ends later, counts as if they came
 * after it. */
void rota_prospect_add_instance(rota_prospect *prospect, uint64_t point, bool is_made);
void rota_prospect_add_external(rota_prospect *prospect, const rota_external_wait *after);
/* An access to bytes [begin, end). */
void rota_prospect_access(rota_prospect *prospect, rota_residency *residency, uint64_t begin, uint64_t end,
                          bool writes);
/* Whether the point is with its executor, or gets there without anything being waited for. */
bool rota_side_queue_is_at_hand(rota_sequencer *sequencer, uint64_t point);
/* Whether they would come after a work of one of their queues that waits on the device for another one, and
 * don't otherwise. */
bool rota_side_queue_is_crossed(const rota_prospect *prospect);
/* The logical queue for works that are late, and for one of copies; `is_sidelined`: it is late. `own`: a side queue
 * that has works of the same submission, for those of another queue of its plan, which are there unless enough are
 * idle; ROTA_NONE: none has. */
uint32_t rota_side_queue_choose(const rota_prospect *prospect, uint32_t own);
uint32_t rota_side_queue_for_copies(const rota_prospect *prospect, bool *is_sidelined);
/* Of a work that was noted, and is the newest of its queue: whether its end comes after more than copies. */
bool rota_side_queue_keeps(const rota_work *work);
/* The work has its waits. `ahead` may be NULL unless it is late. */
void rota_side_queue_note(rota_work *work, const rota_prospect *prospect);

#endif
