/* What a work waits for of all that it is to come after: the sequencer's. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_ORDER_CLOCKS_H
#define ROTA_SCHED_RUNTIME_ORDER_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime.h"
#include "sched/runtime/order/order.h"
#include "sched/runtime/order/wanted.h"
#include "sched/runtime/shared/timeline.h"

typedef struct rota_work rota_work;

/* Turns the wanted values into waits and holds of the work, dropping what the clocks prove; updates the
 * clocks. */
void rota_hazard_settle(rota_sequencer *sequencer, rota_wanted *wanted, rota_work *work);
/* The same for one that comes after nothing but a value of its own queue; 0: not even that. */
void rota_hazard_settle_own(rota_sequencer *sequencer, rota_work *work, uint64_t value);
/* What a work knows that waited for `value` of the timeline; NULL: nothing beyond the value. */
const uint64_t *rota_hazard_clock(const rota_timeline *timeline, uint64_t value);
/* What a work of that value came after, other devices' values and what those came after included, if nothing is lost;
 * NULL: nothing, or, with *out_is_known false, nobody knows any more. Kept once there are peers. */
const uint64_t *rota_hazard_past(const rota_timeline *timeline, uint64_t value, bool *out_is_known);

#endif
