/* Vector clocks over chains of operations. Internal; not installed. */
#ifndef ROTA_SCHED_PLAN_CLOCK_H
#define ROTA_SCHED_PLAN_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* How many other chains an operation's clock remembers. Forgetting one only means that an implied edge may be
 * kept. */
enum { ROTA_CLOCK_ENTRIES = 6 };

/* A vector clock over chains: operations of one chain are totally ordered by kept edges. `latest[i]` is the
 * last operation of chain[i] known to come before, the highest first; the operation's own chain is implied up to
 * itself. One cache line: an operation's predecessors may be anywhere. */
typedef struct rota_clock {
    _Alignas(64) uint32_t own_chain;
    uint32_t count;
    uint32_t chain[ROTA_CLOCK_ENTRIES];
    uint32_t latest[ROTA_CLOCK_ENTRIES];
    uint32_t level;           /* one more than the highest of its predecessors', where all is on one queue */
    uint32_t candidate_epoch; /* of edges: the last operation that has this one as candidate, plus 1 */
} rota_clock;
_Static_assert(sizeof(rota_clock) == 64, "a clock is a cache line");

/* True if the clocks prove that operation a completes before b starts (a < b). */
bool rota_clock_before(const rota_clock *clocks, uint32_t a, uint32_t b);

#endif
