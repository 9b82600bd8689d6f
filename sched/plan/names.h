/* What operations are called, in messages and pictures. Internal. */
#ifndef ROTA_SCHED_PLAN_NAMES_H
#define ROTA_SCHED_PLAN_NAMES_H

#include "sched/plan/compiled.h"
#include "sched/plan/operations.h"

/* "node 'x' (lane 'y', node 3)" of an operation, in storage of the calling thread until its next call. */
const char *rota_operation_describe(const rota_plan *plan, uint32_t operation);
const char *rota_operation_name(const rota_plan *plan, uint32_t operation);

/* Where an access begins in its own buffer: what packing added is taken off again. */
uint64_t rota_access_buffer_offset(const rota_plan *plan, const rota_operation *operation, uint32_t number);

/* Of a counted one: ends text[0..capacity) with "count in buffer 'x', bytes [4, 8), at most 9", and is true. */
bool rota_operation_count_text(const rota_plan *plan, uint32_t operation, char *text, size_t capacity);

const char *rota_edge_name(rota_edge_kind kind);
/* The operation that does a node's work. NOT_FOUND: no such node in the plan, or one that a rewrite removed. */
rota_status rota_plan_operation_of(const rota_plan *plan, rota_node node, uint32_t *out_operation);

#endif
