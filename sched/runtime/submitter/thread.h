/* A device's submit thread. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SUBMITTER_THREAD_H
#define ROTA_SCHED_RUNTIME_SUBMITTER_THREAD_H

#include "sched/runtime.h"

/* Makes the ring and the thread. OUT_OF_MEMORY, SYSTEM. */
rota_status rota_handover_start(rota_device *device);

#endif
