/* rota_compile: a plan, and the host's device for it where it needs that. */
#include "base/given.h"
#include "sched/runtime/plans/make.h"

rota_status rota_compile(rota_runtime *runtime, rota_graph *graph, const rota_compile_options *options,
                         rota_plan **out_plan) {
    ROTA_GIVEN(graph);
    ROTA_GIVEN(out_plan);
    ROTA_TRY(rota_plan_make(runtime, graph, options, NULL, out_plan));
    if (*out_plan) return ROTA_OK;
    rota_device *host;
    ROTA_TRY(rota_device_open(runtime, "cpu", &host));
    return rota_plan_make(runtime, graph, options, host, out_plan);
}
