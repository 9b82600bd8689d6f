/* Devices are opened: started, tried, and then seen. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_LIFE_DEVICE_OPEN_H
#define ROTA_SCHED_RUNTIME_LIFE_DEVICE_OPEN_H

#include <stdint.h>
#include "sched/runtime.h"

/* What a device goes through before anybody gets it: programs over the calls that users have (sched/trials), which
 * the room above gives. A wait for the device ends after `patience_ns` (0: the runtime's default deadline). REFUSED
 * says what the device got wrong; any other error is that of the call that failed. */
typedef struct rota_trials {
    /* Whether it computes; idles for `idle_ns` between the steps. */
    rota_status (*smoke)(rota_device *device, uint64_t idle_ns, uint64_t patience_ns);
    /* Whether what `from` writes is what `to` reads, in one memory for both. */
    rota_status (*sharing)(rota_device *from, rota_device *to, uint64_t patience_ns);
    /* Whether the two wait for each other without the host. */
    rota_status (*ordering)(rota_device *a, rota_device *b, uint64_t patience_ns);
} rota_trials;

/* The trials of the runtime's devices, the same at each call. With opening.mutex held. */
void rota_device_take_trials(rota_runtime *runtime, const rota_trials *trials);
/* Lets a device that was started be seen, if it computes what it should. One that does not stays where it is,
 * invisible: the next try is of the same one, unless something of this one's is still in flight: then it is lost. With
 * opening.mutex held. REFUSED. */
rota_status rota_device_admit(rota_device *device, rota_device **out_device);

/* As rota_device_open. `trials` live as long as the runtime, and are the same at each call. */
rota_status rota_device_open_tried(rota_runtime *runtime, const char *id, const rota_trials *trials,
                                   rota_device **out_device);

#endif
