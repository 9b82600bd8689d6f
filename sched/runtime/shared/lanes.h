/* Lanes: claimed, published into, and cells for their next tickets. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_LANES_H
#define ROTA_SCHED_RUNTIME_SHARED_LANES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/limits.h"

/* Tickets of a lane, one after the other, that failed with the same cause; `number` is the first one's. */
typedef struct rota_failure_span {
    _Atomic uint64_t first, last; /* sequences; first 0: none */
    _Atomic(const rota_cause *) cause;
    _Atomic uint64_t number;
    _Atomic uint32_t status;
} rota_failure_span;

typedef enum rota_record_kind {
    ROTA_RECORD_PLAN,
    ROTA_RECORD_WRITE,
    ROTA_RECORD_READ,
    ROTA_RECORD_PLAN_AFTER
} rota_record_kind;

typedef struct rota_record {
    uint64_t order_number;
    uint64_t sequence; /* of the lane's tickets */
    void *object;      /* rota_plan, or rota_host_write / rota_host_read */
    rota_args *args;
    uint32_t kind, payload_words;
    uint64_t payload_begin; /* position in the lane's word ring */
    uint64_t words_end;     /* where the ring is free again once the record is taken */
    uint64_t submitted_ns;  /* diagnostics only */
} rota_record;

typedef enum rota_cell_state {
    ROTA_CELL_BY_DELIVERY = 1u << 0, /* complete only when DONE is set, not when the timeline has passed */
    ROTA_CELL_DONE = 1u << 1,
    ROTA_CELL_FAILED = 1u << 2, /* the fields below say why */
    ROTA_CELL_TAKEN = 1u << 3,  /* inputs taken */
    ROTA_CELL_SPREAD = 1u << 4  /* over several devices: a loss ends it when the others are through with it */
} rota_cell_state;

typedef struct rota_submission rota_submission;

/* What is known of a ticket. The submitter resets it (id first, the rest with release, so that whoever reads
 * a new field and then id sees the new id); the sequencer fills it. */
typedef struct rota_cell {
    _Alignas(64) _Atomic uint64_t id;
    _Atomic uint64_t number;
    _Atomic uint64_t point;
    _Atomic uint32_t state;
    _Atomic uint32_t failed_with;          /* rota_status; this and the next two only with FAILED */
    _Atomic(rota_submission *) submission; /* for deadline messages */
    _Atomic(const rota_cause *) cause;
    _Atomic uint64_t cause_number;
    struct rota_cell *later; /* the sequencer's: unordered_first */
} rota_cell;

/* Cells of tickets side by side in their lane's sequence. Given to a lane by the sequencer, which takes it
 * away once every ticket in it has ended and is beyond ROTA_TICKET_HISTORY, for this lane or another one;
 * never freed before close, so that a reader who comes late reads a cell, of whatever ticket. */
typedef struct rota_cell_chunk {
    /* The sequencer's. */
    struct rota_cell_chunk *next_free;
    uint32_t unsequenced,
        unfinished; /* of its tickets; the latter counts submissions that are not recycled */
    /* By cell: the id of the ticket that callers asked last to be cancelled, of this or an earlier ticket of it. */
    _Atomic uint64_t cancels[ROTA_CHUNK_CELLS];
    rota_cell cells[ROTA_CHUNK_CELLS];
} rota_cell_chunk;

/* A lane's large parts, whose pages come as they are touched. */
typedef struct rota_lane_store {
    rota_record records[ROTA_LANE_RECORDS];
    uint64_t words[ROTA_LANE_WORDS];
    /* Those in use, at their number (a sequence / ROTA_CHUNK_CELLS) % ROTA_LANE_CHUNKS. */
    _Atomic(rota_cell_chunk *) chunks[ROTA_LANE_CHUNKS];
    rota_failure_span failure_spans[ROTA_FAILURE_SPANS];
    rota_cell_chunk first;
} rota_lane_store;

typedef struct rota_lane {
    /* The producer's. */
    _Alignas(64) _Atomic uint64_t tail;
    uint64_t head_seen, words_tail, words_head_seen;
    _Atomic uint64_t sequence; /* of the newest ticket */
    rota_cell_chunk *chunk;    /* of that */
    rota_lane_store *store;    /* from the first claim on; published by `tail` or `sequence` */
    /* The sequencer's. */
    _Alignas(64) _Atomic uint64_t head;
    _Atomic uint64_t words_head;
    uint64_t taken;       /* sequence of the newest ticket that was */
    uint64_t untold;      /* of the oldest of those that sleepers were not told of; 0: none */
    uint64_t first_chunk; /* numbers of the chunks that the lane may have */
    _Atomic uint64_t chunk_end;
    /* Sleepers until the sequencer took something from the lane. */
    _Alignas(64) _Atomic uint32_t sleepers;
    _Atomic uint32_t taken_word;
    /* Between which failed tickets (sequences; 0: none) those lie that are in no run any more: failures.c. */
    _Atomic uint64_t forgotten_first, forgotten_last;
    uint32_t newest_span; /* under failed.mutex */
} rota_lane;

/* Lanes and their large parts. */
typedef struct rota_lane_block {
    rota_lane *lanes;
    rota_lane_store *stores;
} rota_lane_block;

/* Cells that no lane has, and the memory that they are of: the sequencer's. */
typedef struct rota_chunk_store {
    rota_cell_chunk *free_chunks;
    struct rota_chunk_slab *slabs; /* lanes.c */
} rota_chunk_store;

/* A runtime's lanes. */
typedef struct rota_lanes_shared {
    _Alignas(64) _Atomic uint64_t order_number;
    _Alignas(64) _Atomic uint32_t high; /* lanes ever claimed */
    _Atomic uint32_t ready;             /* lanes that there is memory for */
    _Atomic uint32_t provision_wanted;  /* a caller found no lane, or no chunk */
    _Atomic uint64_t cancels_asked;     /* how often a ticket was asked to be cancelled */
    rota_lane_block blocks[ROTA_LANE_BLOCKS];
    rota_chunk_store chunks;
} rota_lanes_shared;

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
static inline rota_lane *rota_lane_at(const rota_lanes_shared *lanes, uint32_t index) {
    const uint32_t block = index < ROTA_LANES_FIRST ? 0 : 22u - (uint32_t)__builtin_clz(index);
    return &lanes->blocks[block].lanes[block ? index - (ROTA_LANES_FIRST / 2u << block) : index];
}
_Static_assert(ROTA_LANES_FIRST == 1024, "the 22 in rota_lane_at is for this one");
rota_lane *rota_lane_of_thread(rota_runtime *runtime, uint32_t *out_index);
/* NULL: the ticket's chunk has gone on to later tickets. Of a sequence that the lane has reached. */
rota_cell *rota_lane_cell(const rota_lane *lane, uint64_t sequence);
rota_cell_chunk *rota_lane_cells(const rota_lane *lane, uint64_t sequence);
/* Notes that the ticket, of a sequence that the lane has reached, is to be cancelled, and so does not begin where the
 * sequencer has not taken its record. False: its cell has gone on, it has ended. Lock-free. */
bool rota_lane_ask_cancel(rota_runtime *runtime, rota_lane *lane, uint64_t ticket_id);
/* Whether that was asked of the ticket that has the cell. */
bool rota_cell_is_to_cancel(const rota_cell_chunk *chunk, uint64_t sequence);
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
