/* The reclaimer's thread. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_RECLAIMER_RECLAIMER_H
#define ROTA_SCHED_RUNTIME_RECLAIMER_RECLAIMER_H

void *rota_reclaimer_main(void *runtime);

#endif
