/* The sequencer's side of a hand-over. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SUBMITTER_RING_H
#define ROTA_SCHED_RUNTIME_SUBMITTER_RING_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime/shared/devices.h"

/* The sequencer's: works that are not in the ring yet. */
struct rota_outbox {
    rota_work *overflow_first, *overflow_last; /* the ring is full */
    rota_work *direct[ROTA_HANDOVER_BATCH];    /* they wait for one direct submit */
    uint32_t direct_count;
};

/* The work, the newest of its queue, goes to the device's submit thread or, at the next flush at the latest,
 * to the driver. Whether it, or one that was pushed before, may be there already: the thread, where it is awake, takes
 * what is in the ring at any time, and ROTA_HANDOVER_BATCH that go directly do not wait for a flush. */
bool rota_handover_push(rota_device *device, rota_work *work);
/* After a batch: what was pushed is under way. */
void rota_handover_flush(rota_device *device);

#endif
