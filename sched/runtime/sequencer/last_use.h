/* Released objects until their last use has passed: the sequencer's. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SEQUENCER_LAST_USE_H
#define ROTA_SCHED_RUNTIME_SEQUENCER_LAST_USE_H

#include <stdbool.h>
#include "sched/runtime.h"
#include "sched/runtime/shared/released.h"

/* The sequencer's: `dead` joins what waits for its last use; what has passed goes to the reclaimer. */
void rota_reclaim_sweep(rota_runtime *runtime, rota_dead *fresh);
/* The sequencer's: the device is lost, and touches nothing any more, nor do works of it. */
bool rota_device_is_quiet(const rota_device *device);

#endif
