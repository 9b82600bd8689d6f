/* What devices are tried with before they are believed: programs over the calls that users have. Internal;
 * not installed. May block as those calls may; a wait for the device ends after `patience_ns` (0: the
 * runtime's default deadline). */
#ifndef ROTA_SCHED_TRIALS_TRIALS_H
#define ROTA_SCHED_TRIALS_TRIALS_H

#include "sched/runtime.h"

/* a = fill(65536, 1), b = fill(65536, 2), c = a + b after two back-to-back uploads; REFUSED names the first
 * element of c that is not 3. `idle_ns` idles between the steps. */
rota_status rota_trial_smoke(rota_device *device, uint64_t idle_ns, uint64_t patience_ns);

/* Of two devices that are to have one memory for a buffer: what `from` wrote is read by `to`, in sizes below
 * and above the granularity at which executors allocate. REFUSED names the word that is not. */
rota_status rota_trial_sharing(rota_device *from, rota_device *to, uint64_t patience_ns);

/* Of two devices that are to wait for each other without the host: a sum that goes to and fro between two
 * buffers, by a plan on each. REFUSED names the element that is wrong. */
rota_status rota_trial_ordering(rota_device *a, rota_device *b, uint64_t patience_ns);

#endif
