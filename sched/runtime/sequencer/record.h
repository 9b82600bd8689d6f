/* One record in order. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SEQUENCER_RECORD_H
#define ROTA_SCHED_RUNTIME_SEQUENCER_RECORD_H

#include <stdint.h>
#include "sched/runtime.h"
#include "sched/runtime/order/order.h"

typedef struct rota_lane rota_lane;
typedef struct rota_record rota_record;

void rota_sequence_record(rota_sequencer *sequencer, rota_lane *lane, uint32_t lane_index,
                          const rota_record *record);

#endif
