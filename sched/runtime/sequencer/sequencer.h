/* The sequencer's thread. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SEQUENCER_SEQUENCER_H
#define ROTA_SCHED_RUNTIME_SEQUENCER_SEQUENCER_H

#include <stdbool.h>
#include "sched/runtime.h"
#include "sched/runtime/order/order.h"

void *rota_sequencer_main(void *runtime);
rota_status rota_sequencer_create(rota_runtime *runtime);
/* Sequences what lies in the lanes, once, and ends what is over. False: there was nothing to do. */
bool rota_sequencer_round(rota_sequencer *sequencer);
void rota_sequencer_free(rota_runtime *runtime);

#endif
