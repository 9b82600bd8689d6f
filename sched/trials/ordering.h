/* Whether two devices wait for each other without the host. Internal; not installed. */
#ifndef ROTA_SCHED_TRIALS_ORDERING_H
#define ROTA_SCHED_TRIALS_ORDERING_H

#include <stdint.h>
#include "sched/runtime.h"

/* A sum goes to and fro between two buffers, by a plan on each device. REFUSED names the element that is wrong. A wait
 * for a device ends after `patience_ns` (0: the runtime's default deadline). May block as the calls may that it makes.
 */
rota_status rota_trial_ordering(rota_device *a, rota_device *b, uint64_t patience_ns);

#endif
