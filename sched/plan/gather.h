/* From lanes to operations: record order, resolved accesses, uploads and read-backs, placement. Internal. */
#ifndef ROTA_SCHED_PLAN_GATHER_H
#define ROTA_SCHED_PLAN_GATHER_H

#include "sched/plan/compiler.h"

rota_status rota_compile_gather(rota_compiler *compiler);

#endif
