/* How long a thread that has nothing to do looks for what comes next (base/spin.h) before it sleeps, by how soon that
 * came of late. To be woken takes 5 to 50 us, and whoever waits for the work waits for that as well: so looking is
 * worth as much where it comes by then, and nothing where it does not. What came within ROTA_PATIENCE_NS several times
 * in a row is looked for as long the next time; after one or two that did not, no longer than the least.
 *
 *     const uint64_t since_ns = rota_clock_ns();
 *     rota_spin spin = rota_patience_spin(&patience, rota_patience_ns(&patience, least_ns), asked_ns);
 *     look for as long as that (base/spin.h), rota_patience_note(&patience, &spin), and sleep
 *     rota_patience_learn(&patience, rota_clock_ns() - since_ns);
 *
 * So of pauses that are longer at most two in a row begin with ROTA_PATIENCE_NS in vain, and none where as many are
 * longer as are not. Where the thread has fewer than ROTA_PATIENCE_CPUS it looks for the least alone: who brings the
 * work, or runs it, needs them.
 *
 * Nor does it look for longer where CPUs are crowded: who yields there has the core back when all others had their
 * turn, and who is woken gets it at once. That is known by a yield that took long (spin.is_crowded); then some pauses
 * begin with the least, twice as many each time. And where a yield lost the core to one that computes (spin.has_lost)
 * as many begin without a look: the thread sleeps at once, and is woken.
 *
 * Internal; not installed. */
#ifndef ROTA_BASE_PATIENCE_H
#define ROTA_BASE_PATIENCE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/spin.h"

#define ROTA_PATIENCE_NS 100000u
/* As many threads are on the way of a submission to a device and back: the caller, the sequencer, the device's submit
 * thread and its executor's completion thread. */
#define ROTA_PATIENCE_CPUS 4u
/* So many in a row came soon before it is looked for that long; and what is remembered of more. */
#define ROTA_PATIENCE_SOON 2u
#define ROTA_PATIENCE_SOON_MAX 4u
/* Pauses that begin with the least where CPUs were found to be crowded. */
#define ROTA_PATIENCE_CROWDED 16u
#define ROTA_PATIENCE_CROWDED_MAX 4096u
/* Those without a look: what comes in them pays to wake the thread, where the core is its own again by then. */
#define ROTA_PATIENCE_LOST_MAX 256u

/* One thread's; zeroes at first. */
typedef struct rota_patience {
    uint32_t soon; /* how often it came soon, of late */
    uint32_t cpus; /* that the thread may run on; 0: not asked yet */
    uint32_t left,
        crowded; /* pauses to come that begin with the least; and how many those were the last time */
    uint32_t lost_left, lost; /* the same of those without a look */
} rota_patience;

/* How long to look; no shorter than the least. Wait-free; one call of the thread's makes a system call. */
static inline uint64_t rota_patience_ns(rota_patience *patience, uint64_t least_ns) {
    if (patience->soon < ROTA_PATIENCE_SOON || patience->left || least_ns >= ROTA_PATIENCE_NS)
        return least_ns;
    cpu_set_t own;
    if (patience->cpus == 0) /* it fails where there are more than a set has room for */
        patience->cpus = sched_getaffinity(0, sizeof own, &own) == 0 ? (uint32_t)CPU_COUNT(&own) : UINT32_MAX;
    return patience->cpus >= ROTA_PATIENCE_CPUS ? ROTA_PATIENCE_NS : least_ns;
}

/* To look for so long, as rota_patience_ns may have said; where the core was lost of late, for no longer than the
 * application asked for. Wait-free. */
static inline rota_spin rota_patience_spin(const rota_patience *patience, uint64_t limit_ns,
                                           uint64_t asked_ns) {
    rota_spin spin = rota_spin_begin(patience->lost_left && limit_ns > asked_ns ? asked_ns : limit_ns);
    spin.asked_ns = asked_ns;
    return spin;
}

/* What was looked for came, or a sleep ended without it, so long after the thread had nothing to do. Wait-free. */
static inline void rota_patience_learn(rota_patience *patience, uint64_t waited_ns) {
    if (patience->left) patience->left--;
    if (patience->lost_left) patience->lost_left--;
    if (waited_ns > ROTA_PATIENCE_NS)
        patience->soon /= 2;
    else if (patience->soon < ROTA_PATIENCE_SOON_MAX)
        patience->soon++;
}

/* Twice as many pauses as the last time. */
static inline uint32_t rota_patience_twice(uint32_t last, uint32_t most) {
    const uint32_t next = last ? 2 * last : ROTA_PATIENCE_CROWDED;
    return next < most ? next : most;
}

/* Others had the core for long while the thread looked. Wait-free. */
static inline void rota_patience_is_crowded(rota_patience *patience) {
    patience->left = patience->crowded = rota_patience_twice(patience->crowded, ROTA_PATIENCE_CROWDED_MAX);
}

/* What became of a look. Wait-free. */
static inline void rota_patience_note(rota_patience *patience, const rota_spin *spin) {
    if (spin->is_crowded) rota_patience_is_crowded(patience);
    if (spin->has_lost)
        patience->lost_left = patience->lost = rota_patience_twice(patience->lost, ROTA_PATIENCE_LOST_MAX);
}

#endif
