/* Whether two devices wait for each other: a sum that goes to and fro between two buffers, by a plan on each.
 */
#include "sched/trials/ordering.h"

#include "exec/smoke_kernel.h"
#include "sched/compile_own.h"
#include "sched/trials/read_within.h"

enum { TRIAL_WORDS = 1024, TRIAL_TURNS = 32 };

static rota_status compile(rota_device *device, rota_buffer *from, rota_buffer *one, rota_buffer *to,
                           rota_plan **out_plan) {
    rota_graph *graph;
    rota_recorder *recorder;
    uint32_t words = TRIAL_WORDS;
    rota_access accesses[] = {
        {from, 0, ROTA_WHOLE, ROTA_READ}, {one, 0, ROTA_WHOLE, ROTA_READ}, {to, 0, ROTA_WHOLE, ROTA_WRITE}};
    rota_kernel_node node = ROTA_KERNEL_NODE(.kernel = &rota_smoke_kernel, .accesses = accesses,
                                             .access_count = 3, .params = &words);
    rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.name = "ordering", .devices = &device, .device_count = 1);
    ROTA_TRY(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "ordering"), &graph));
    rota_status status = rota_recorder_open(graph, 0, NULL, &recorder);
    if (status == ROTA_OK) {
        status = rota_record_kernel(recorder, &node, NULL);
        rota_recorder_close(recorder);
    }
    if (status == ROTA_OK) status = rota_compile_own(rota_device_runtime(device), graph, &options, out_plan);
    rota_graph_release(graph);
    return status;
}

/* buffers: two for the sum, and what is added. */
static rota_status run(rota_device *const *devices, rota_buffer *const *buffers, uint64_t patience_ns,
                       rota_plan **plans) {
    float data[TRIAL_WORDS], added[TRIAL_WORDS];
    for (uint32_t i = 0; i < TRIAL_WORDS; i++) {
        data[i] = (float)i;
        added[i] = (float)(i % 5);
    }
    ROTA_TRY(rota_buffer_write(buffers[0], devices[0], 0, data, sizeof data, NULL));
    ROTA_TRY(rota_buffer_write(buffers[2], devices[1], 0, added, sizeof added, NULL));
    for (uint32_t d = 0; d < 2; d++)
        ROTA_TRY(compile(devices[d], buffers[d], buffers[2], buffers[!d], &plans[d]));
    rota_ticket ticket;
    for (uint32_t i = 0; i < TRIAL_TURNS; i++)
        ROTA_TRY(rota_submit_wait(plans[i % 2], NULL, patience_ns, &ticket));
    ROTA_TRY(rota_wait(ticket, patience_ns));
    ROTA_TRY(rota_trial_read(buffers[0], data, sizeof data, patience_ns));
    for (uint32_t i = 0; i < TRIAL_WORDS; i++)
        if (data[i] != (float)(i + i % 5 * TRIAL_TURNS))
            return rota_fail(ROTA_REFUSED, "element %u of a sum taken in turns is %g instead of %u", i,
                             (double)data[i], i + i % 5 * TRIAL_TURNS);
    return ROTA_OK;
}

rota_status rota_trial_ordering(rota_device *a, rota_device *b, uint64_t patience_ns) {
    rota_device *devices[] = {a, b};
    rota_plan *plans[2] = {NULL, NULL};
    rota_buffer *buffers[3] = {NULL, NULL, NULL};
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < 3 && status == ROTA_OK; i++)
        status = rota_buffer_create_in(rota_device_runtime(a), "ordering", TRIAL_WORDS * sizeof(float),
                                       &buffers[i]);
    if (status == ROTA_OK) status = run(devices, buffers, patience_ns, plans);
    for (uint32_t d = 0; d < 2; d++) rota_plan_release(plans[d]);
    for (uint32_t i = 0; i < 3; i++) rota_buffer_release(buffers[i]);
    return status;
}
