/* The records of a closed lane, one after the other. Internal; not installed. */
#ifndef ROTA_GRAPH_LANE_RECORDS_H
#define ROTA_GRAPH_LANE_RECORDS_H

#include "graph/graph_internal.h"

/* Where somebody is who goes over the records of a closed lane, in their order. */
typedef struct rota_record_cursor {
    const rota_lane_chunk *chunk;
    const uint8_t *next; /* the record; NULL: past the last */
} rota_record_cursor;

static inline rota_record_cursor rota_chunk_records(const rota_lane_chunk *chunk) {
    while (chunk && (const uint8_t *)(chunk + 1) == chunk->end) chunk = chunk->next;
    return (rota_record_cursor){chunk, chunk ? (const uint8_t *)(chunk + 1) : NULL};
}
static inline rota_record_cursor rota_lane_records(const struct rota_recorder *lane) {
    return rota_chunk_records(lane->first_chunk);
}
/* NULL: there are no more. */
static inline const rota_node_record *rota_record_take(rota_record_cursor *cursor) {
    const rota_node_record *record = (const rota_node_record *)cursor->next;
    if (!record) return NULL;
    cursor->next += rota_record_bytes(record);
    if (cursor->next == cursor->chunk->end) *cursor = rota_chunk_records(cursor->chunk->next);
    return record;
}

#endif
