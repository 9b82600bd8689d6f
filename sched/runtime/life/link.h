/* Devices of one GPU that wait for each other on the GPU: linked. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_LIFE_LINK_H
#define ROTA_SCHED_RUNTIME_LIFE_LINK_H

#include <stdbool.h>
#include "sched/runtime.h"

/* Whether two devices that share memory could order their works on the GPU. */
bool rota_devices_may_link(const rota_device *a, const rota_device *b);
/* From here on they do / no longer. */
rota_status rota_devices_link(rota_device *a, rota_device *b);
void rota_devices_unlink(rota_device *a, rota_device *b);

#endif
