/* Long lists: operations that come after a join of many. Internal to edges*.c. */
#ifndef ROTA_SCHED_PLAN_EDGES_JOIN_H
#define ROTA_SCHED_PLAN_EDGES_JOIN_H

#include "sched/plan/edges_parts.h"

/* A join of what stands in h->joined from `base` on, or what that comes to: one operation, INCOMING if none.
 * ROTA_NONE: out of memory. */
uint32_t rota_edges_make_join(hazards *h, uint64_t base, rota_edge_kind kind);
/* Longer than JOIN_AT. */
bool rota_edges_is_long(const hazards *h, uint32_t list);
/* Makes all of a list candidates, or joins of it. */
void rota_edges_add_list(hazards *h, uint32_t list, rota_edge_kind kind);
/* The list `list` with all of `more` before it. */
uint32_t rota_edges_concatenate(hazards *h, uint32_t list, uint32_t more, rota_edge_kind kind);
/* What a list adds to the join that is being made. */
void rota_edges_join_list(hazards *h, uint32_t list, rota_edge_kind kind);

#endif
