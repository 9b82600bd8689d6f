/* What is derived of a plan's operations from the rest of the plan, which does not have it. Internal; not installed. */
#ifndef ROTA_SCHED_PLAN_DERIVED_H
#define ROTA_SCHED_PLAN_DERIVED_H

#include "sched/plan/operations.h"

/* The physical of an access of an operation; ROTA_NONE: memory of the host's, or of the application's, that no other
 * operation touches. O(1), of workspaces O(log of those). */
uint32_t rota_access_physical(const rota_plan *plan, const rota_operation *operation, uint32_t number);
/* Which of plan->segments an operation is in: O(1). */
uint32_t rota_operation_segment(const rota_plan *plan, const rota_operation *operation);
/* Which batch of it: O(log batches). */
uint32_t rota_operation_batch(const rota_plan *plan, const rota_operation *operation);

#endif
