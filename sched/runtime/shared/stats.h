/* What the runtime counts. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_STATS_H
#define ROTA_SCHED_RUNTIME_SHARED_STATS_H

#include <stdint.h>
#include "base/atomic.h"

/* Of counts that only the sequencer writes. */
static inline void rota_stat_add(_Atomic uint64_t *count, uint64_t more) {
    ra_store_relaxed(count, ra_load_relaxed(count) + more);
}
static inline void rota_stat_count(_Atomic uint64_t *count) {
    rota_stat_add(count, 1);
}

#endif
