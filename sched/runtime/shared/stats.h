/* What the runtime counts. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_STATS_H
#define ROTA_SCHED_RUNTIME_SHARED_STATS_H

#include <stdint.h>
#include "base/atomic.h"

/* Of a count that only the sequencer writes. */
static inline void rota_stat_count(_Atomic uint64_t *count) {
    ra_store_relaxed(count, ra_load_relaxed(count) + 1);
}

#endif
