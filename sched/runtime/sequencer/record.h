/* One record in order. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SEQUENCER_RECORD_H
#define ROTA_SCHED_RUNTIME_SEQUENCER_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime.h"
#include "sched/runtime/order/order.h"

typedef struct rota_lane rota_lane;
typedef struct rota_record rota_record;

/* What came of a record: so many works; and whether its ticket, or that of a record before, may be over already,
 * although the next flush is still to come. */
typedef struct rota_sequenced {
    uint32_t work_count;
    bool may_be_over;
} rota_sequenced;

rota_sequenced rota_sequence_record(rota_sequencer *sequencer, rota_lane *lane, uint32_t lane_index,
                                    const rota_record *record);

#endif
