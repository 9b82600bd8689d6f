/* The completer's thread. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_COMPLETER_COMPLETE_H
#define ROTA_SCHED_RUNTIME_COMPLETER_COMPLETE_H

#include "sched/runtime.h"

rota_status rota_completer_create(rota_runtime *runtime);
void rota_completer_free(rota_runtime *runtime);
void *rota_completer_main(void *runtime);

#endif
