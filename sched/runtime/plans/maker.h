/* The thread that makes a plan's further instances, one a device. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_PLANS_MAKER_H
#define ROTA_SCHED_RUNTIME_PLANS_MAKER_H

#include "sched/runtime.h"

rota_status rota_makers_start(rota_device *device);

#endif
