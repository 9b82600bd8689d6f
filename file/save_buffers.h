/* The buffers of a graph that is saved, by number. Internal; not installed. */
#ifndef ROTA_FILE_SAVE_BUFFERS_H
#define ROTA_FILE_SAVE_BUFFERS_H

#include <stdio.h>
#include "base/arena.h"
#include "base/set.h"
#include "base/status.h"
#include "base/vector.h"
#include "graph/graph_internal.h"

/* The graph, or a body of a node that decides, as it was when saving began: recorders are closed, and what is added
 * later is none of it. */
typedef struct rota_saved_part {
    rota_graph *graph;
    const rota_recorder **lanes;
    rota_buffer **own_buffers; /* of the graph's own list */
    uint32_t lane_count, own_count;
    bool fuses;     /* rota_graph_fuse was called for it */
    uint32_t outer; /* the part that it is a body in; of the graph 0 */
    uint32_t
        first_body; /* the part that is the first of its bodies, which follow in the order of its nodes */
    uint32_t first_lane;    /* the number of its first lane in the file */
    uint32_t *first_buffer; /* by lane, 0 the graph's own list: the number of its first buffer */
} rota_saved_part;

/* Parts: the graph, then its bodies, then theirs, and so on, so that each stands behind what it is within. In the file
 * lanes stand the other way around, so that a body is complete when its node is read. */
typedef struct rota_saved_graph {
    rota_graph *graph;
    rota_arena arena;
    rota_vector parts; /* of rota_saved_part */
    uint32_t lane_count, slot_count;
} rota_saved_graph;

static inline rota_saved_part *rota_saved_graph_part(const rota_saved_graph *graph, uint64_t part) {
    return (rota_saved_part *)graph->parts.data + part;
}

typedef struct rota_saved_buffers {
    const rota_saved_graph *graph;
    rota_arena arena;
    uint32_t graph_count;    /* numbers of the graph's own and its bodies'; PERSISTENT ones follow */
    rota_set persistent;     /* of rota_saved_buffer */
    rota_vector persistents; /* pointers to those, in order */
} rota_saved_buffers;

typedef struct rota_saved_buffer {
    rota_buffer *buffer; /* a root */
    uint32_t index;
} rota_saved_buffer;

/* WRONG_STATE: a recorder is open. OUT_OF_RANGE: more bodies than a file has. OUT_OF_MEMORY. Ended by
 * rota_saved_graph_end either way. */
rota_status rota_saved_graph_begin(rota_graph *graph, rota_saved_graph *out_graph);
void rota_saved_graph_end(rota_saved_graph *graph);

/* OUT_OF_MEMORY, OUT_OF_RANGE: more than 2^32 - 1. Ended by rota_saved_buffers_end either way. */
rota_status rota_saved_buffers_begin(const rota_saved_graph *graph, rota_saved_buffers *out_buffers);
void rota_saved_buffers_end(rota_saved_buffers *buffers);

/* A PERSISTENT root; one that is there already stays. OUT_OF_MEMORY. */
rota_status rota_saved_buffers_add(rota_saved_buffers *buffers, rota_buffer *root);
/* By what an access of the part's says of it; a PERSISTENT one was added. */
uint32_t rota_saved_buffers_index(rota_saved_buffers *buffers, uint32_t part, uint64_t key);
/* By itself or a view of it: its number, and where it begins there. INVALID_ARGUMENT: it is of another graph. */
rota_status rota_saved_buffers_find(rota_saved_buffers *buffers, const rota_buffer *buffer,
                                    uint32_t *out_index, uint64_t *out_offset_bytes);

/* A key of the file's map: "buffers". */
void rota_saved_buffers_write(const rota_saved_buffers *buffers, FILE *file);

#endif
