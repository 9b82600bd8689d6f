/* What a plan says of where and when its operations run. Internal to certify*.c. */
#ifndef ROTA_SCHED_PLAN_CERTIFY_SHAPE_H
#define ROTA_SCHED_PLAN_CERTIFY_SHAPE_H

#include "sched/plan/certify_parts.h"

/* Which operation is which command of which batch, what is complete when a segment starts. */
rota_status rota_certify_read_shape(certifier *c);
/* The edges of each segment, turned round, and its nodes in topological order. */
rota_status rota_certify_turn_edges(certifier *c);
rota_status rota_certify_sort_nodes(certifier *c);

#endif
