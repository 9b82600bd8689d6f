/* Whether two devices have one memory for a buffer. Internal; not installed. */
#ifndef ROTA_SCHED_TRIALS_SHARING_H
#define ROTA_SCHED_TRIALS_SHARING_H

#include <stdint.h>
#include "sched/runtime.h"

/* What `from` wrote is read by `to`, in sizes below and above the granularity at which executors allocate. REFUSED
 * names the word that is not. A wait for a device ends after `patience_ns` (0: the runtime's default deadline). May
 * block as the calls may that it makes. */
rota_status rota_trial_sharing(rota_device *from, rota_device *to, uint64_t patience_ns);

#endif
