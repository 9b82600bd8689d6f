/* The smoke test (S1): two uploads back to back, fills, and an add, through everything that a user's plan
 * goes through. */
#include "sched/trials/smoke.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/futex.h"
#include "exec/smoke_kernel.h"
#include "sched/compile_own.h"
#include "sched/trials/read_within.h"

#define ELEMENTS 65536u
#define BYTES (ELEMENTS * sizeof(float))

typedef struct smoke {
    rota_runtime *runtime;
    rota_device *device;
    uint64_t idle_ns, patience_ns;
    float *host;
    rota_buffer *a, *b, *c, *uploads[2];
    rota_graph *graph;
    rota_plan *plan;
} smoke;

static void idle(const smoke *test) {
    if (test->idle_ns) rota_nap_until(rota_deadline_after(test->idle_ns));
}

static uint32_t bits_of(float value) {
    union {
        float value;
        uint32_t bits;
    } both = {value};
    return both.bits;
}

static rota_status record(smoke *test) {
    ROTA_TRY(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "smoke"), &test->graph));
    rota_recorder *recorder;
    ROTA_TRY(rota_recorder_open(test->graph, 0, NULL, &recorder));
    uint32_t count = ELEMENTS;
    rota_access accesses[] = {{test->a, 0, ROTA_WHOLE, ROTA_READ},
                              {test->b, 0, ROTA_WHOLE, ROTA_READ},
                              {test->c, 0, ROTA_WHOLE, ROTA_WRITE}};
    rota_kernel_node node = ROTA_KERNEL_NODE(.kernel = &rota_smoke_kernel, .accesses = accesses,
                                             .access_count = 3, .params = &count);
    rota_status status = rota_record_fill(recorder, test->a, 0, BYTES, bits_of(1.0f), NULL);
    if (status == ROTA_OK) status = rota_record_fill(recorder, test->b, 0, BYTES, bits_of(2.0f), NULL);
    if (status == ROTA_OK) status = rota_record_kernel(recorder, &node, NULL);
    rota_recorder_close(recorder);
    if (status != ROTA_OK) return status;
    rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.name = "smoke", .devices = &test->device, .device_count = 1);
    return rota_compile_own(test->runtime, test->graph, &options, &test->plan);
}

static rota_status check(smoke *test, rota_buffer *buffer, float expected, const char *what) {
    for (uint32_t i = 0; i < ELEMENTS; i++) test->host[i] = -999.0f;
    ROTA_TRY(rota_trial_read(buffer, test->host, BYTES, test->patience_ns));
    for (uint32_t i = 0; i < ELEMENTS; i++)
        if (bits_of(test->host[i]) != bits_of(expected))
            return rota_fail(ROTA_REFUSED, "smoke test: element %u of %s is %g, expected %g", i, what,
                             (double)test->host[i], (double)expected);
    return ROTA_OK;
}

static rota_status upload(smoke *test, rota_buffer *buffer, float value) {
    for (uint32_t i = 0; i < ELEMENTS; i++) test->host[i] = value;
    return rota_buffer_write(buffer, test->device, 0, test->host, BYTES, NULL);
}

static rota_status run(smoke *test) {
    test->host = malloc(BYTES);
    if (!test->host) return rota_fail(ROTA_OUT_OF_MEMORY, "smoke test: no host memory");
    ROTA_TRY(rota_buffer_create_in(test->runtime, "smoke a", BYTES, &test->a));
    ROTA_TRY(rota_buffer_create_in(test->runtime, "smoke b", BYTES, &test->b));
    ROTA_TRY(rota_buffer_create_in(test->runtime, "smoke c", BYTES, &test->c));
    ROTA_TRY(rota_buffer_create_in(test->runtime, "smoke upload 1", BYTES, &test->uploads[0]));
    ROTA_TRY(rota_buffer_create_in(test->runtime, "smoke upload 2", BYTES, &test->uploads[1]));
    ROTA_TRY(record(test));
    idle(test);
    /* Back to back: the second must not disturb the first while that is in flight. */
    ROTA_TRY(upload(test, test->uploads[0], 5.0f));
    ROTA_TRY(upload(test, test->uploads[1], 7.0f));
    ROTA_TRY(upload(test, test->c, -999.0f));
    idle(test);
    rota_ticket ticket;
    ROTA_TRY(rota_submit_wait(test->plan, NULL, test->patience_ns, &ticket));
    ROTA_TRY(rota_wait(ticket, test->patience_ns));
    idle(test);
    ROTA_TRY(check(test, test->c, 3.0f, "c = a + b"));
    ROTA_TRY(check(test, test->uploads[0], 5.0f, "the first of two uploads"));
    return check(test, test->uploads[1], 7.0f, "the second of two uploads");
}

rota_status rota_trial_smoke(rota_device *device, uint64_t idle_ns, uint64_t patience_ns) {
    smoke test = {.runtime = rota_device_runtime(device),
                  .device = device,
                  .idle_ns = idle_ns,
                  .patience_ns = patience_ns};
    rota_status status = run(&test);
    rota_plan_release(test.plan);
    rota_graph_release(test.graph);
    rota_buffer_release(test.a);
    rota_buffer_release(test.b);
    rota_buffer_release(test.c);
    rota_buffer_release(test.uploads[0]);
    rota_buffer_release(test.uploads[1]);
    free(test.host);
    return status;
}
