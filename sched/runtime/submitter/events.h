/* What executors call back. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SUBMITTER_EVENTS_H
#define ROTA_SCHED_RUNTIME_SUBMITTER_EVENTS_H

#include "exec/exec.h"
#include "sched/runtime.h"

/* For the executor of the device. The cookies of works are theirs (rota_work). */
rota_exec_host rota_events_for(rota_device *device);

#endif
