/* rota_compile: a plan, and the host's device for it where it needs that. */
#include "base/given.h"
#include "sched/compile_own.h"
#include "sched/runtime/life/device_open.h"
#include "sched/runtime/plans/executable.h"
#include "sched/runtime/plans/make.h"
#include "sched/runtime/shared/runtime.h" /* IWYU pragma: keep */

rota_status rota_compile_own(rota_runtime *runtime, rota_graph *graph, const rota_compile_options *options,
                             rota_plan **out_plan) {
    ROTA_TRY(rota_plan_make(runtime, graph, options, NULL, out_plan));
    if (*out_plan) return ROTA_OK;
    /* It is for a device of this runtime's, which was opened before: by then the trials were settled. A trial's own
     * plan has no host node, and so does not come here, where it would wait for the mutex that it was opened under. */
    rota_device *host;
    ROTA_TRY(rota_device_open_tried(runtime, "cpu", runtime->opening.trials, &host));
    return rota_plan_make(runtime, graph, options, host, out_plan);
}

rota_status rota_compile(rota_runtime *runtime, rota_graph *graph, const rota_compile_options *options,
                         rota_plan **out_plan) {
    ROTA_GIVEN(graph);
    ROTA_GIVEN(out_plan);
    ROTA_TRY(rota_compile_own(runtime, graph, options, out_plan));
    const rota_plan *plan = *out_plan;
    rota_status status = ROTA_OK;
    const rota_observers *observers = plan->executable ? &plan->executable->observers : NULL;
    if (plan->options.compare_ranks && observers && observers->count)
        status = observers->compared(observers->users, observers->count);
    if (status == ROTA_OK && runtime && runtime->options.compiled)
        status = runtime->options.compiled(runtime->options.compiled_user, graph, *out_plan);
    if (status != ROTA_OK) {
        rota_plan_release(*out_plan);
        *out_plan = NULL;
    }
    return status;
}
