/* What a device can wait for itself, without the host: the sequencer's. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_ORDER_LINKED_H
#define ROTA_SCHED_RUNTIME_ORDER_LINKED_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime.h"

typedef struct rota_work rota_work;

/* Settling: what the hold is for the work, which waits for `queue` of another device. */
uint64_t rota_linked_foreign_wait(const rota_work *work, uint64_t point, uint32_t *count);
/* Whether works of these queues (bits, at least one) can wait for the point's timeline on the device. */
bool rota_linked_can_wait(const rota_device *device, uint32_t queues, uint64_t point);

#endif
