/* The records of a lane, one after the other. Internal; not installed. */
#ifndef ROTA_FILE_RECORDS_H
#define ROTA_FILE_RECORDS_H

#include "graph/graph_internal.h"

typedef struct rota_file_records {
    const rota_lane_chunk *chunk;
    const uint8_t *next;
} rota_file_records;

/* Of a lane that is closed. */
static inline rota_file_records rota_file_records_of(const rota_recorder *lane) {
    const rota_lane_chunk *chunk = lane->first_chunk;
    return (rota_file_records){chunk, (const uint8_t *)(chunk ? chunk + 1 : NULL)};
}

/* NULL past the last. */
static inline const rota_node_record *rota_file_take_record(rota_file_records *records) {
    while (records->chunk && records->next == records->chunk->end) {
        records->chunk = records->chunk->next;
        records->next = (const uint8_t *)(records->chunk ? records->chunk + 1 : NULL);
    }
    if (!records->chunk) return NULL;
    const rota_node_record *record = (const rota_node_record *)records->next;
    records->next += record->record_bytes;
    return record;
}

#endif
