/* Waits on the GPU for a lost device are ended. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_COMPLETER_RESCUE_H
#define ROTA_SCHED_RUNTIME_COMPLETER_RESCUE_H

#include "sched/runtime.h"

typedef struct rota_completer rota_completer; /* completer.h */

/* The completer's: works of a lost device will signal nothing more; who waits for them goes on. */
void rota_linked_rescue(rota_completer *completer);

#endif
