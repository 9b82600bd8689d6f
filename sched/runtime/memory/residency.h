/* A persistent buffer's memory on each device. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_MEMORY_RESIDENCY_H
#define ROTA_SCHED_RUNTIME_MEMORY_RESIDENCY_H

#include <stdbool.h>
#include "sched/runtime/state/residency.h"

rota_status rota_residency_prepare(rota_residency *residency, rota_device *device);
void rota_residency_destroy(rota_residency *residency, bool keep_struct);

#endif
