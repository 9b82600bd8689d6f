/* The nodes that run again, and those that read what they make. Internal to recompute*.c. */
#ifndef ROTA_SCHED_PLAN_RECOMPUTE_WRITE_H
#define ROTA_SCHED_PLAN_RECOMPUTE_WRITE_H

#include "sched/plan/recompute_state.h"

/* Writes the records of what was given up: clones in `out`, and changed copies of the nodes that read what those make.
 * OUT_OF_MEMORY. */
rota_status rota_recompute_write(state *s, rota_recomputed *out);

#endif
