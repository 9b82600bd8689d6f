/* Vector clocks over chains of operations. Internal; not installed. */
#ifndef ROTA_SCHED_PLAN_CLOCK_H
#define ROTA_SCHED_PLAN_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* How many other chains an operation's clock remembers. Forgetting one only means that an implied edge may be
 * kept. */
enum { ROTA_CLOCK_ENTRIES = 6 };

/* A vector clock over chains: operations of one chain are totally ordered by kept edges. `latest` has the last
 * operations of other chains that are known to come before, one a chain, the highest first, and ROTA_NONE behind the
 * last where there are fewer; which chains these are is the operations' own to say. The operation's own chain is
 * implied up to itself. Two to a cache line: an operation's predecessors may be anywhere. */
typedef struct rota_clock {
    _Alignas(
        32) uint32_t level;   /* one more than the highest of its predecessors', where all is on one queue */
    uint32_t candidate_epoch; /* of edges: the last operation that has this one as candidate, plus 1 */
    uint32_t latest[ROTA_CLOCK_ENTRIES];
} rota_clock;
_Static_assert(sizeof(rota_clock) == 32, "there is one for each operation");

/* Of all operations. */
typedef struct rota_clocks {
    rota_clock *clock;
    uint32_t *chain; /* the one that it is on: apart, since those of all that a clock knows are asked for */
} rota_clocks;

/* True if the clocks prove that operation a completes before b starts (a < b). */
bool rota_clock_before(const rota_clocks *clocks, uint32_t a, uint32_t b);

#endif
