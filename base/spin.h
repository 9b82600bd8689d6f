/* Looking again and again for what is about to come, for so long at most, before going to sleep until it does:
 *
 *     rota_spin spin = rota_spin_begin(limit_ns);
 *     while (!found && rota_spin_yields(&spin)) found = ...;
 *     if (!found) sleep (base/sleep.h)
 *
 * Internal; not installed. */
#ifndef ROTA_BASE_SPIN_H
#define ROTA_BASE_SPIN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/clock.h"

typedef struct rota_spin {
    uint64_t begin_ns, limit_ns;
} rota_spin;

static inline rota_spin rota_spin_begin(uint64_t limit_ns) {
    return (rota_spin){rota_clock_ns(), limit_ns};
}

/* How long it has looked. */
static inline uint64_t rota_spin_ns(const rota_spin *spin) {
    return rota_clock_ns() - spin->begin_ns;
}

/* False: it is over. Else whoever may need this core, to bring it about, has had it. */
static inline bool rota_spin_yields(const rota_spin *spin) {
    if (rota_spin_ns(spin) >= spin->limit_ns) return false;
    (void)sched_yield();
    return true;
}

/* The same where a device brings it about, which needs no core. */
static inline bool rota_spin_pauses(const rota_spin *spin) {
    if (rota_spin_ns(spin) >= spin->limit_ns) return false;
    ra_pause();
    return true;
}

#endif
