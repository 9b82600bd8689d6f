/* Graphs of rota's own, compiled without telling the application of them. Internal; not installed. */
#ifndef ROTA_SCHED_COMPILE_OWN_H
#define ROTA_SCHED_COMPILE_OWN_H

#include "sched/plan.h"

/* As rota_compile, but rota_runtime_options.compiled is not called. */
rota_status rota_compile_own(rota_runtime *runtime, rota_graph *graph, const rota_compile_options *options,
                             rota_plan **out_plan);

#endif
