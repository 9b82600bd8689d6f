/* What a point comes after, noted as works are sequenced: the sequencer's. See progress.h. Internal; not
 * installed. */
#ifndef ROTA_SCHED_RUNTIME_ORDER_CHAIN_H
#define ROTA_SCHED_RUNTIME_ORDER_CHAIN_H

#include <stdint.h>
#include "sched/runtime.h"
#include "sched/runtime/order/order.h"
#include "sched/runtime/order/wanted.h"

struct rota_work;

/* The sequencer's: adds a point and its chain, as far as that has not passed, to the wanted values. */
void rota_chain_want(rota_sequencer *sequencer, rota_wanted *wanted, uint64_t point);
/* The sequencer's: the work, whose waits and holds are settled, is the newest of its timeline. Uses the
 * wanted values, and leaves them empty. */
void rota_chain_note(rota_sequencer *sequencer, rota_wanted *wanted, const struct rota_work *work);
/* The sequencer's: the work waits for an instance, for which this device's builder was asked. */
void rota_chain_note_building(const struct rota_work *work, const struct rota_device *builder);

#endif
