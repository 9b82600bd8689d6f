/* The sequencer's side of a hand-over. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SUBMITTER_RING_H
#define ROTA_SCHED_RUNTIME_SUBMITTER_RING_H

#include "sched/runtime.h"

typedef struct rota_work rota_work;

/* The work, the newest of its queue, goes to the device's submit thread or, at the next flush at the latest,
 * to the driver. */
void rota_handover_push(rota_device *device, rota_work *work);
/* After a batch: what was pushed is under way. */
void rota_handover_flush(rota_device *device);

#endif
