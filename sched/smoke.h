/* The smoke test that every device passes before it is used. Internal; not installed. */
#ifndef ROTA_SCHED_SMOKE_H
#define ROTA_SCHED_SMOKE_H

#include "sched/runtime.h"

/* a = fill(65536, 1), b = fill(65536, 2), c = a + b after two back-to-back uploads; REFUSED names the first
 * element of c that is not 3. `idle_ns` idles between the steps. */
rota_status rota_smoke_run(rota_device *device, uint64_t idle_ns);

#endif
