/* Lanes: claimed, published into, and cells for their next tickets. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_LANES_H
#define ROTA_SCHED_RUNTIME_SHARED_LANES_H

#include <stdint.h>
#include "sched/runtime/state/runtime.h"

static inline uint64_t rota_ticket_id(uint64_t sequence, uint32_t lane) {
    return sequence << ROTA_LANE_BITS | lane;
}
static inline uint32_t rota_ticket_lane(uint64_t id) {
    return (uint32_t)id & (ROTA_LANES_MAX - 1);
}
static inline uint64_t rota_ticket_sequence(uint64_t id) {
    return id >> ROTA_LANE_BITS;
}
/* Of a lane that was ever ready. */
static inline rota_lane *rota_lane_at(const rota_runtime *runtime, uint32_t index) {
    const uint32_t block = index < ROTA_LANES_FIRST ? 0 : 22u - (uint32_t)__builtin_clz(index);
    return &runtime->lane_blocks[block].lanes[block ? index - (ROTA_LANES_FIRST / 2u << block) : index];
}
_Static_assert(ROTA_LANES_FIRST == 1024, "the 22 in rota_lane_at is for this one");
rota_lane *rota_lane_of_thread(rota_runtime *runtime, uint32_t *out_index);
/* NULL: the ticket's chunk has gone on to later tickets. Of a sequence that the lane has reached. */
rota_cell *rota_lane_cell(const rota_lane *lane, uint64_t sequence);
/* The sequencer's: the record of this ticket is being taken: its chunk, and the lane gets the one after. */
rota_cell_chunk *rota_lane_take(rota_runtime *runtime, rota_lane *lane, uint64_t sequence);
/* The sequencer's: the submission of a ticket in the chunk is recycled, or its ticket ended without one. */
static inline void rota_chunk_ended(rota_cell_chunk *chunk) {
    chunk->unfinished--;
}
/* The sequencer's: what callers said is short, if they did: lanes, before they are needed, or a chunk. */
void rota_lanes_provide(rota_runtime *runtime);
/* Publishes one record: NULL args allowed. BUSY when there is no room. */
rota_status rota_lane_publish(rota_runtime *runtime, rota_record_kind kind, void *object, rota_args *args,
                              const uint64_t *payload, uint32_t payload_words, rota_ticket *out_ticket);
rota_status rota_lanes_create(rota_runtime *runtime);
void rota_lanes_destroy(rota_runtime *runtime);

#endif
