/* A buffer's ranges: last writer, readers since, and where the bytes are. The sequencer's. Internal; not
 * installed. */
#ifndef ROTA_SCHED_RUNTIME_MEMORY_RANGES_H
#define ROTA_SCHED_RUNTIME_MEMORY_RANGES_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime/shared/marks.h"

#define ROTA_READERS_MAX 6
/* Shorter lists are not folded as a whole. */
#define ROTA_RANGES_FOLD_AT_LEAST 32u

typedef struct rota_residency rota_residency;
typedef struct rota_range rota_range;
struct rota_range {
    uint64_t begin, end;
    uint64_t writer; /* point; NONE: never written, or as the residency's settled ones say */
    uint64_t readers[ROTA_READERS_MAX]; /* since the last write; at most one a timeline */
    uint32_t reader_count;
    rota_copies valid; /* where the bytes are (rota_residency_bit); 0: never written */
    bool is_joint;     /* some of the readers stand for others */
    uint32_t priority; /* of the residency's tree by `begin`, a treap; so are the next two */
    rota_range *left, *right;
    rota_range *next; /* the bytes after it */
};

void rota_ranges_start(rota_residency *residency); /* one range, never written */
void rota_ranges_end(rota_residency *residency);
/* The one that has that byte. */
rota_range *rota_ranges_find(rota_residency *residency, uint64_t offset);
/* Makes ranges begin at both ends; returns the first that has bytes of [begin, end). */
rota_range *rota_ranges_cut(rota_residency *residency, uint64_t begin, uint64_t end);
/* Joins what has the same history around [begin, end), so that the list stays as long as the history is
 * varied; and, where what has passed is forgotten, no longer than what is unfinished makes it. */
void rota_ranges_join(rota_residency *residency, uint64_t begin, uint64_t end, bool forgets);
/* Where [begin, end) of the range is. Of a range that could not be cut the other bytes are where
 * they were: what not all of them have counts as nobody's, so that a reader is told and gets no stale bytes.
 */
static inline void rota_range_set_valid(rota_range *range, uint64_t begin, uint64_t end, rota_copies valid) {
    bool whole = range->begin >= begin && range->end <= end;
    range->valid = whole ? valid : range->valid & valid;
}
/* Says where the range's bytes are, without touching its history. `valid`: as rota_range.valid. */
void rota_ranges_assign(rota_residency *residency, uint64_t begin, uint64_t end, rota_copies valid);

#endif
