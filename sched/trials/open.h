/* A device that was started is let in. Internal; not installed. */
#ifndef ROTA_SCHED_TRIALS_OPEN_H
#define ROTA_SCHED_TRIALS_OPEN_H

#include "sched/runtime.h"

/* Lets the device be seen, if it computes what it should. One that does not stays where it is, invisible: the
 * next try is of the same one, unless something of this one's is still in flight: then it is lost. With opening.mutex
 * held. REFUSED. */
rota_status rota_trial_admit(rota_device *device, rota_device **out_device);

#endif
