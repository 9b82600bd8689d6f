/* The history of a device's times, of whatever runtime has it open. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_PLANS_LEARN_H
#define ROTA_SCHED_RUNTIME_PLANS_LEARN_H

#include "sched/plan/placing_history.h"
#include "sched/runtime.h"

/* In the runtime's cache folder. NULL: no memory. May block. */
rota_history *rota_device_history(const rota_device *device);

#endif
