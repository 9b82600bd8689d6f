/* Devices that wait for each other without the host: linked; and peers. Internal; not installed. Who opens devices, one
 * thread at a time, calls these. */
#ifndef ROTA_SCHED_RUNTIME_LIFE_LINK_H
#define ROTA_SCHED_RUNTIME_LIFE_LINK_H

#include <stdbool.h>
#include "sched/runtime.h"

/* Whether two devices that share memory could order their works on the GPU. */
bool rota_devices_may_link(const rota_device *a, const rota_device *b);
/* From here on they do / no longer. */
rota_status rota_devices_link(rota_device *a, rota_device *b);
void rota_devices_unlink(rota_device *a, rota_device *b);

/* Whether two devices, the first of which is seen, could be peers: of different GPUs, under one executor. */
bool rota_devices_may_meet(const rota_device *a, const rota_device *b);
/* From here on their copies read each other's memory / no longer. UNSUPPORTED: why they can't. */
rota_status rota_devices_meet(rota_device *a, rota_device *b);
void rota_devices_part(rota_device *a, rota_device *b);
/* Whether two peers could order their works; from here on they do, until they are unlinked. */
bool rota_peers_may_link(const rota_device *a, const rota_device *b);
rota_status rota_peers_link(rota_device *a, rota_device *b);

#endif
