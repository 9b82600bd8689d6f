/* An ordered map from disjoint byte ranges to what last happened there: a skip list of segments.
 *
 * Used for hazards (ranges of a buffer: last writer, readers since) and for memory (ranges of an arena: last
 * tenant). Only touched ranges have segments. Internal; one thread. */
#ifndef ROTA_SCHED_PLAN_INTERVAL_H
#define ROTA_SCHED_PLAN_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"

#define ROTA_INTERVAL_LEVELS 14 /* with one in four promoted: good for 4^14 segments */

/* What happened to a range. Operation numbers are stored plus 1, so that 0 is none. Lists are immutable cons
 * lists, so that the two halves of a split segment share them. */
typedef struct rota_range_state {
    uint32_t writer;       /* last exclusive writer; for an arena: the tenant */
    uint32_t readers;      /* list: readers since */
    uint32_t accumulators; /* list: commuting accumulates since the writer */
    uint32_t base;         /* list: what every accumulate of the present group comes after */
} rota_range_state;

typedef struct rota_interval {
    uint64_t low, high; /* [low, high) */
    rota_range_state state;
    uint32_t height;
    struct rota_interval *next[]; /* height pointers */
} rota_interval;

typedef struct rota_interval_map {
    rota_arena *arena;
    rota_interval *head[ROTA_INTERVAL_LEVELS];
    rota_interval *free[ROTA_INTERVAL_LEVELS + 1]; /* removed segments by height, for reuse */
    uint32_t random;
    uint64_t credit; /* its user's: segments that may be gone over before some are merged */
} rota_interval_map;

void rota_interval_map_init(rota_interval_map *map, rota_arena *arena);

/* As rota_interval_map_init leaves it, but for the segments that it had, which it uses again. O(segments). */
void rota_interval_map_clear(rota_interval_map *map);

/* Cuts segments at low and high and fills the gaps of [low, high) with segments of zeroed state, so that the
 * range is exactly covered; returns the first of them (NULL: out of memory). The rest follow by next[0] until
 * low >= high. O(log n + segments covered). */
rota_interval *rota_interval_map_cover(rota_interval_map *map, uint64_t low, uint64_t high);

/* The first segment with high > low, or NULL. O(log n). */
rota_interval *rota_interval_map_find(const rota_interval_map *map, uint64_t low);

/* Makes one segment of all segments of [low, high), which is exactly covered, and gives it that state. */
void rota_interval_map_merge(rota_interval_map *map, uint64_t low, uint64_t high, rota_range_state state);

#endif
