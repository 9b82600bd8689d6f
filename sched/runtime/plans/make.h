/* A plan out of a graph, for the runtime's devices. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_PLANS_MAKE_H
#define ROTA_SCHED_RUNTIME_PLANS_MAKE_H

#include "sched/plan.h"

/* As rota_compile, which opens the host's device where that is needed: here it is given, or NULL. ROTA_OK with
 * *out_plan NULL: the plan needs it, and it was not given. */
rota_status rota_plan_make(rota_runtime *runtime, rota_graph *graph, const rota_compile_options *options,
                           rota_device *host, rota_plan **out_plan);

#endif
