/* Arrows of a trace: from who writes to who waits for it. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_PLANS_TRACE_FLOWS_H
#define ROTA_SCHED_RUNTIME_PLANS_TRACE_FLOWS_H

#include "base/status.h"
#include "sched/runtime/plans/trace_parts.h"

/* A flow for each edge of the plan whose two operations ran; for one behind a join, from what ended last of all that
 * it stands for. Linear in edges. OUT_OF_MEMORY. */
rota_status rota_trace_write_flows(rota_trace *trace);

#endif
