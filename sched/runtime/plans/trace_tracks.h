/* Slices of a trace on tracks: those of one track may lie in one another, and these don't even touch. Internal; not
 * installed. */
#ifndef ROTA_SCHED_RUNTIME_PLANS_TRACE_TRACKS_H
#define ROTA_SCHED_RUNTIME_PLANS_TRACE_TRACKS_H

#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"

typedef struct rota_trace_slice {
    uint64_t begin_ns, end_ns;
    uint32_t index; /* the caller's */
    uint32_t track; /* from 0 */
} rota_trace_slice;

/* Sorts the slices by their beginnings and gives each a track that is free then: no more tracks than overlap at once.
 * False: no memory. O(n log n). */
bool rota_trace_spread(rota_arena *arena, rota_trace_slice *slices, uint32_t count, uint32_t *out_tracks);

#endif
