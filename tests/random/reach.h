/* True reachability of a compiled plan, recomputed from what executors receive, against every pair of
 * accesses that must not meet. */
#ifndef ROTA_TESTS_REACH_H
#define ROTA_TESTS_REACH_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/plan.h"

/* Which description of a segment orders its commands. */
typedef enum reach_mode { REACH_BATCHES, REACH_EDGES } reach_mode;

/* Something taken away, to see the checker notice: counted from 1 over the plan; 0: nothing. */
typedef struct reach_breaks {
    uint32_t edge;    /* in the order of the parts' CSR arrays */
    uint32_t barrier; /* between two batches */
    uint32_t wait;    /* between two segments */
} reach_breaks;

/* True if every two conflicting accesses of the plan's commands are ordered, in record order where they are
 * of one buffer, and one buffer wholly before the other where they share memory. Else false with a sentence
 * in `message`. */
bool reach_check(const rota_plan *plan, reach_mode mode, const reach_breaks *breaks, char *message,
                 uint32_t capacity);

/* How many edges, barriers and waits there are to take away. */
reach_breaks reach_counts(const rota_plan *plan);

#endif
