/* Which nodes of a graph touch a buffer, in record order. Internal; not installed. */
#ifndef ROTA_OPS_FUSE_INDEX_H
#define ROTA_OPS_FUSE_INDEX_H

#include "sched/rewrite.h"

/* One access of a node. */
typedef struct rota_fuse_touch {
    rota_access access;
    uint64_t node;
    bool kernel;   /* of a kernel node that no rota_node_after names */
    uint32_t next; /* the buffer's next one, from 1; 0: there is none */
} rota_fuse_touch;

typedef struct rota_fuse_index {
    rota_fuse_touch *touches;
    uint64_t count, capacity;
    struct rota_fuse_chain {
        const rota_buffer *buffer;
        uint32_t first, last; /* touches, from 1 */
    } * chains;               /* open addressing; a power of two */
    uint64_t chain_count, chain_capacity;
} rota_fuse_index;

/* Of accesses of one graph. */
static inline bool rota_fuse_same_range(const rota_access *a, const rota_access *b) {
    return a->buffer == b->buffer && a->offset_bytes == b->offset_bytes && a->size_bytes == b->size_bytes;
}
static inline bool rota_fuse_overlap(const rota_access *a, const rota_access *b) {
    return a->buffer == b->buffer && a->offset_bytes < b->offset_bytes + b->size_bytes &&
           b->offset_bytes < a->offset_bytes + a->size_bytes;
}

/* Looks at all nodes: linear in their accesses. OUT_OF_MEMORY; either way rota_fuse_index_free takes it. */
rota_status rota_fuse_index_make(rota_rewriter *rewriter, rota_fuse_index *out_index);
void rota_fuse_index_free(rota_fuse_index *index);

/* The buffer's first access; NULL: there is none. */
const rota_fuse_touch *rota_fuse_index_first(const rota_fuse_index *index, const rota_buffer *buffer);
/* Node n's own access of the buffer, by a search among all accesses; NULL: it has none. */
const rota_fuse_touch *rota_fuse_index_of(const rota_fuse_index *index, const rota_buffer *buffer,
                                          uint64_t n);
const rota_fuse_touch *rota_fuse_index_next(const rota_fuse_index *index, const rota_fuse_touch *touch);

/* ---- Questions of patterns. Each looks at no more than 64 accesses of a buffer, and says false beyond that ---- */

/* The one node that reads what node `from` writes, of which nobody else knows; false: there is none. */
bool rota_fuse_only_reader(const rota_rewriter *rewriter, const rota_fuse_index *index,
                           const rota_access *access, uint64_t from, uint64_t *out_reader);
/* The first node that touches the result's buffer, which is the graph's own, is `node`: it may as well be written
 * before. */
bool rota_fuse_begins_with(const rota_rewriter *rewriter, const rota_fuse_index *index,
                           const rota_access *result, uint64_t node);
/* Nobody writes the range from one node to the other, those two included. */
bool rota_fuse_stays(const rota_fuse_index *index, const rota_access *access, uint64_t from, uint64_t to);

#endif
