/* The reclaimer's thread. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_RECLAIMER_RECLAIMER_H
#define ROTA_SCHED_RUNTIME_RECLAIMER_RECLAIMER_H

#include "sched/runtime.h"
#include "sched/runtime/shared/released.h"

void rota_reclaim_free(rota_released *released); /* with all uses passed; may block in drivers */
void *rota_reclaimer_main(void *runtime);

#endif
