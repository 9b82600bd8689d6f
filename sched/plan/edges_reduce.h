/* Which candidates for edges others imply. Internal to edges*.c. */
#ifndef ROTA_SCHED_PLAN_EDGES_REDUCE_H
#define ROTA_SCHED_PLAN_EDGES_REDUCE_H

#include "sched/plan/edges_parts.h"

/* Keeps the candidates that no other one implies, the latest first; returns how many. */
uint64_t rota_edges_reduce(hazards *h, candidate *list, uint64_t count);
/* Fills a clock whose own chain is set: of what comes after the candidates that the last reduction kept. */
void rota_edges_clock_reduced(const hazards *h, rota_clock *clock);
/* The same of what comes after one operation or join. */
void rota_edges_clock_after(rota_clock *restrict clock, const rota_clock *restrict other, uint32_t from);

#endif
