/* A runtime ends. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_LIFE_CLOSE_H
#define ROTA_SCHED_RUNTIME_LIFE_CLOSE_H

#include "sched/runtime.h"

/* Ends the threads and frees everything of a runtime with no devices (a failed open). */
void rota_runtime_dismantle(rota_runtime *runtime);

#endif
