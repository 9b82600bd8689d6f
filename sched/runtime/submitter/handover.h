/* Works are handed over to a driver. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SUBMITTER_HANDOVER_H
#define ROTA_SCHED_RUNTIME_SUBMITTER_HANDOVER_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/marks.h"

typedef struct rota_batch_memory rota_batch_memory; /* batch_memory.h */
typedef struct rota_work rota_work;

/* The next `count` works of the device, at most ROTA_HANDOVER_BATCH, in this order; by whoever is allowed to: its
 * submit thread, or the sequencer while that has nothing. They have the memory that they need, or `memory` says why
 * not; NULL: they have it. A lost device is not given them. */
void rota_hand_over(rota_device *device, rota_work **works, uint32_t count, const rota_batch_memory *memory);
/* They are not handed over, since the device is lost, and what they were to come after on other devices is
 * over, or the gate's business: so it is for who comes after them. */
void rota_handover_drop(rota_device *device, rota_work *const *works, uint32_t count);
/* Before works are seen as handed over, or as blocked no longer, and before the thread is seen to be at that; and when
 * it has made memory for one of them. */
void rota_handover_note(rota_device *device);
/* The work won't run. */
void rota_work_skip(rota_work *work, rota_reason reason, bool first);

#endif
