/* The thread that makes a plan's further instances, one a device. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_PLANS_BUILDER_H
#define ROTA_SCHED_RUNTIME_PLANS_BUILDER_H

#include "sched/runtime.h"

rota_status rota_builders_start(rota_device *device);

#endif
