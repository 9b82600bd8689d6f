/* The smoke test. Internal; not installed. */
#ifndef ROTA_SCHED_TRIALS_SMOKE_H
#define ROTA_SCHED_TRIALS_SMOKE_H

#include <stdint.h>
#include "sched/runtime.h"

/* a = fill(65536, 1), b = fill(65536, 2), c = a + b after two back-to-back uploads; REFUSED names the first
 * element of c that is not 3. `idle_ns` idles between the steps. A wait for the device ends after `patience_ns`
 * (0: the runtime's default deadline). May block as the calls may that it makes. */
rota_status rota_trial_smoke(rota_device *device, uint64_t idle_ns, uint64_t patience_ns);

#endif
