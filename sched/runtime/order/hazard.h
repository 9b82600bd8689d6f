/* Who must wait for whom, by range: the sequencer's. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_ORDER_HAZARD_H
#define ROTA_SCHED_RUNTIME_ORDER_HAZARD_H

#include <stdint.h>
#include "sched/runtime.h"
#include "sched/runtime/memory/ranges.h"
#include "sched/runtime/order/order.h"
#include "sched/runtime/order/wanted.h"

/* Adds what an access must wait for to the wanted values; then records the access. */
void rota_hazard_read(rota_sequencer *sequencer, rota_wanted *wanted, rota_residency *residency,
                      uint64_t begin, uint64_t end, uint64_t point);
void rota_hazard_write(rota_sequencer *sequencer, rota_wanted *wanted, rota_residency *residency,
                       uint64_t begin, uint64_t end, uint64_t point, rota_copies valid);
/* Bytes that a move brings and whose writer had not passed when it was sequenced: from then on the move
 * stands for it. */
typedef struct rota_unwritten {
    uint64_t begin, end, writer;
} rota_unwritten;
/* Bytes of the range become valid on one more device. Writes such bytes out, at most one entry a range that
 * there is in [begin, end), and returns how many. */
uint32_t rota_hazard_migration(rota_sequencer *sequencer, rota_wanted *wanted, rota_residency *residency,
                               uint64_t begin, uint64_t end, uint64_t point, const rota_device *to,
                               rota_unwritten *out_unwritten);
/* Before an access of the host's: joins ranges around [begin, end) that differ by nothing but what has
 * passed, which is forgotten. Accesses of plans leave it, since a replay notes what it waits for, passed or
 * not, and the points of a plan that owns the residency move with its replays (replay.c). */
void rota_hazard_fold(rota_residency *residency, uint64_t begin, uint64_t end);

#endif
