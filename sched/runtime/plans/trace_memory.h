/* Memory in a trace: how much of the arenas is in use. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_PLANS_TRACE_MEMORY_H
#define ROTA_SCHED_RUNTIME_PLANS_TRACE_MEMORY_H

#include "base/status.h"
#include "sched/runtime/plans/trace_parts.h"

/* A counter for each device with an arena: bytes of it that are in use, from the beginning of the first operation that
 * touches a buffer to the end of the last. O(n log n) in buffers, linear in accesses. OUT_OF_MEMORY. */
rota_status rota_trace_write_memory(rota_trace *trace);

#endif
