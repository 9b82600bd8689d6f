/* See plans.h. */
#include "examples/common/plans.h"

rota_status plans_buffer(rota_runtime *runtime, rota_device *device, const char *name, uint64_t bytes,
                         const void *data, rota_buffer **out) {
    ROTA_TRY(rota_buffer_create_in(runtime, name, bytes, out));
    return data ? rota_buffer_write(*out, device, 0, data, bytes, NULL) : ROTA_OK;
}

rota_status plans_compile(rota_runtime *runtime, rota_device *device, const char *name,
                          rota_status (*record)(const void *user, rota_graph *graph, rota_recorder *recorder),
                          const void *user, rota_plan **out_plan) {
    rota_graph *graph = NULL;
    rota_recorder *recorder = NULL;
    ROTA_TRY(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = name), &graph));
    rota_status status = rota_recorder_open(graph, 0, NULL, &recorder);
    if (status == ROTA_OK) status = record(user, graph, recorder);
    rota_recorder_close(recorder);
    if (status == ROTA_OK)
        status = rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1),
                              out_plan);
    rota_graph_release(graph);
    return status;
}

rota_status plans_replay(rota_plan *plan) {
    rota_ticket ticket;
    ROTA_TRY(rota_submit_wait(plan, NULL, 0, &ticket));
    return rota_wait(ticket, 0);
}
