/* Which candidates for edges others imply. Internal to edges*.c. */
#ifndef ROTA_SCHED_PLAN_EDGES_REDUCE_H
#define ROTA_SCHED_PLAN_EDGES_REDUCE_H

#include "sched/plan/edges_parts.h"

/* Keeps the candidates that no other one implies, the latest first; returns how many. */
uint64_t rota_edges_reduce(hazards *h, candidate *list, uint64_t count);
/* Fills a clock of an operation on chain `own`, ROTA_NONE for a join: of what comes after the candidates that the last
 * reduction kept. */
void rota_edges_clock_reduced(const hazards *h, rota_clock *clock, uint32_t own);
/* The same of what comes after one operation or join. */
void rota_edges_clock_after(const hazards *h, rota_clock *clock, uint32_t own, uint32_t from);

#endif
