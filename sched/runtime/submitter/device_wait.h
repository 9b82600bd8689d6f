/* Waits on the GPU for another device. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SUBMITTER_DEVICE_WAIT_H
#define ROTA_SCHED_RUNTIME_SUBMITTER_DEVICE_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include "exec/exec.h"
#include "sched/runtime.h"

typedef struct rota_work rota_work;

/* Whether the device can be given the work as far as this hold goes: it has passed, or the device can wait
 * for it. */
bool rota_linked_is_ready(rota_runtime *runtime, uint64_t foreign);
/* What is left for the device to wait for, at most ROTA_EXEC_LINKED_WAITS_MAX. */
uint32_t rota_linked_waits(rota_work *work, rota_exec_timeline_wait *out_waits);
/* What other devices wait for on the work's queue; NULL: nothing. */
rota_exec_timeline *rota_linked_signal(const rota_work *work);
/* The driver has been given the signal. */
void rota_linked_signalled(rota_device *device, uint32_t queue, uint64_t value);

#endif
