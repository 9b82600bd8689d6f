/* What an access comes after, by range. Internal to edges*.c. */
#ifndef ROTA_SCHED_PLAN_EDGES_RANGES_H
#define ROTA_SCHED_PLAN_EDGES_RANGES_H

#include "sched/plan/edges_parts.h"

/* Adds what the accesses of the operation at hand come after, and notes them for those to come. */
rota_status rota_edges_visit(hazards *h, const rota_operation *operation);
/* Notes for externals.c what was gathered by physical, once all accesses were visited: where all is one segment. */
rota_status rota_edges_note_externals(rota_compiler *c);

#endif
