/* Lanes: a thread's way into a runtime, and the cells of its tickets. Data alone. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_STATE_LANE_H
#define ROTA_SCHED_RUNTIME_STATE_LANE_H

#include <stdatomic.h>
#include <stdint.h>
#include "sched/runtime.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/limits.h"

/* Tickets of a lane, one after the other, that failed with the same cause; `number` is the first one's. */
typedef struct rota_failure_run {
    _Atomic uint64_t first, last; /* sequences; first 0: none */
    _Atomic(const rota_cause *) cause;
    _Atomic uint64_t number;
    _Atomic uint32_t status;
} rota_failure_run;

typedef enum rota_record_kind { ROTA_RECORD_PLAN, ROTA_RECORD_WRITE, ROTA_RECORD_READ } rota_record_kind;

typedef struct rota_record {
    uint64_t stamp;
    uint64_t sequence; /* of the lane's tickets */
    void *object;      /* rota_plan, or rota_host_write / rota_host_read */
    rota_args *args;
    uint32_t kind, payload_words;
    uint64_t payload_begin; /* position in the lane's word ring */
    uint64_t words_end;     /* where the ring is free again once the record is taken */
    uint64_t submitted_ns;  /* diagnostics only */
} rota_record;

typedef enum rota_cell_state {
    ROTA_CELL_HOSTED = 1u << 0, /* complete only when DONE is set, not when the timeline has passed */
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
    struct rota_cell *later; /* the sequencer's: runtime->unordered_first */
} rota_cell;

/* Cells of tickets side by side in their lane's sequence. Given to a lane by the sequencer, which takes it
 * away once every ticket in it has ended and is beyond ROTA_TICKET_HISTORY, for this lane or another one;
 * never freed before close, so that a reader who comes late reads a cell, of whatever ticket. */
typedef struct rota_cell_chunk {
    /* The sequencer's. */
    struct rota_cell_chunk *next_free;
    uint32_t unsequenced,
        unfinished; /* of its tickets; the latter counts submissions that are not recycled */
    rota_cell cells[ROTA_CHUNK_CELLS];
} rota_cell_chunk;

/* A lane's large parts, whose pages come as they are touched. */
typedef struct rota_lane_store {
    rota_record records[ROTA_LANE_RECORDS];
    uint64_t words[ROTA_LANE_WORDS];
    /* Those in use, at their number (a sequence / ROTA_CHUNK_CELLS) % ROTA_LANE_CHUNKS. */
    _Atomic(rota_cell_chunk *) chunks[ROTA_LANE_CHUNKS];
    rota_failure_run failure_runs[ROTA_FAILURE_RUNS];
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
    uint64_t first_chunk; /* numbers of the chunks that the lane may have */
    _Atomic uint64_t chunk_end;
    /* Sleepers until the sequencer took something from the lane. */
    _Alignas(64) _Atomic uint32_t sleepers;
    _Atomic uint32_t taken_word;
    /* Between which failed tickets (sequences; 0: none) those lie that are in no run any more: failures.c. */
    _Atomic uint64_t forgotten_first, forgotten_last;
    uint32_t newest_run; /* under poison_mutex */
} rota_lane;

/* Lanes and their large parts. */
typedef struct rota_lane_block {
    rota_lane *lanes;
    rota_lane_store *stores;
} rota_lane_block;

#endif
