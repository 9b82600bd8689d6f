/* What has ended is recycled. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SEQUENCER_REAP_H
#define ROTA_SCHED_RUNTIME_SEQUENCER_REAP_H

#include <stdbool.h>
#include "sched/runtime.h"
#include "sched/runtime/order/order.h"

/* `all`: looks at all that lost devices left, and not only at some of it. */
void rota_sequence_reap(rota_sequencer *sequencer, bool all);

#endif
