/* Released objects until their last use has passed: the sequencer's. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SEQUENCER_LAST_USE_H
#define ROTA_SCHED_RUNTIME_SEQUENCER_LAST_USE_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime/order/order.h"
#include "sched/runtime/shared/released.h"

struct rota_last_uses {
    rota_released *released;
    rota_released
        *retained; /* buffers that are dead but for the lost devices `retained_by`, which still have works */
    uint64_t retained_by;  /* bit per device */
    uint64_t losses_noted; /* lost devices that were seen, as bits */
    bool losses_past;      /* all has passed that others had by then */
};

/* The sequencer's: `fresh` joins what waits for its last use; what has passed goes to the reclaimer. */
void rota_reclaim_sweep(rota_sequencer *sequencer, rota_released *fresh);
/* The sequencer's: the device is lost, and touches nothing any more, nor do works of it. */
bool rota_device_is_quiet(const rota_device *device);

#endif
