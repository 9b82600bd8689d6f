/* Looking again and again for what is about to come, for so long at most, before going to sleep until it does:
 *
 *     rota_spin spin = rota_spin_begin(limit_ns);
 *     while (!found && rota_spin_yields(&spin)) found = ...;
 *     if (!found) sleep (base/sleep.h)
 *
 * How long is worth it stands in base/patience.h. It is over sooner where one that computes wants the core: who yields
 * has it back after that one's slices of time (3 to 10 ms with Linux 6.18, which takes the rest of its own slice from
 * who yields), and meanwhile neither looks nor is asleep, to be woken. Who sleeps is woken by what it waits for, and
 * has the core before those that compute. Threads that look and yield by turns have it back within microseconds.
 *
 * Internal; not installed. */
#ifndef ROTA_BASE_SPIN_H
#define ROTA_BASE_SPIN_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/clock.h"

/* A yield enters the kernel, which takes as long as several looks, and what is looked for comes meanwhile: where nobody
 * else wanted the core, which had it back within ROTA_SPIN_ALONE_NS, one look of so many yields. Who comes to need it
 * has it within a microsecond. Else each does, since what brings it about may be one of those that want it. */
#define ROTA_SPIN_LOOKS 8u
#define ROTA_SPIN_ALONE_NS 2000u
/* A yield is as long only where others have the core for whole slices of time. */
#define ROTA_SPIN_CROWDED_NS 50000u
/* And as that where one that computes has the core: for its slice of time, or several. */
#define ROTA_SPIN_LOST_NS 1000000u

typedef struct rota_spin {
    uint64_t begin_ns, limit_ns;
    uint64_t asked_ns;  /* for so long it looks whoever wants the core, as the application asked for */
    uint64_t others_ns; /* for which it did not have the core */
    uint32_t looks;     /* to come without a yield */
    bool is_crowded;    /* a yield took long */
    bool has_lost;      /* the core, to one that computes: it is over */
} rota_spin;

static inline rota_spin rota_spin_begin(uint64_t limit_ns) {
    return (rota_spin){.begin_ns = rota_clock_ns(), .limit_ns = limit_ns};
}

/* How long it has looked. */
static inline uint64_t rota_spin_ns(const rota_spin *spin) {
    return rota_clock_ns() - spin->begin_ns;
}

/* How much of that it took of the core itself, for who counts what threads cost without their looking. */
static inline uint64_t rota_spin_own_ns(const rota_spin *spin) {
    return rota_spin_ns(spin) - spin->others_ns;
}

/* Others had the core for so long, while the thread yielded. */
static inline void rota_spin_note_others(rota_spin *spin, uint64_t away_ns) {
    spin->others_ns += away_ns;
    spin->is_crowded = spin->is_crowded || away_ns > ROTA_SPIN_CROWDED_NS;
    spin->has_lost = spin->has_lost || away_ns > ROTA_SPIN_LOST_NS;
}

/* False: it is over. Else it is to look; whoever may need this core, to bring it about, has it now and then. */
static inline bool rota_spin_yields(rota_spin *spin) {
    if (spin->looks != 0) {
        spin->looks--;
        ra_pause();
        return true;
    }
    const uint64_t before_ns = rota_spin_ns(spin);
    if (before_ns >= spin->limit_ns) return false;
    if (spin->has_lost && before_ns >= spin->asked_ns) return false;
    (void)sched_yield();
    const uint64_t away_ns = rota_spin_ns(spin) - before_ns;
    if (away_ns < ROTA_SPIN_ALONE_NS)
        spin->looks = ROTA_SPIN_LOOKS - 1;
    else
        rota_spin_note_others(spin, away_ns);
    return true;
}

/* The same for a short while in which the core is kept: who yields where others want it does not have it back soon. */
static inline bool rota_spin_pauses(const rota_spin *spin) {
    if (rota_spin_ns(spin) >= spin->limit_ns) return false;
    ra_pause();
    return true;
}

#endif
