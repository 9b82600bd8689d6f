/* Whether two devices have one memory for a buffer: what one wrote is read by the other. */
#include "sched/trials/sharing.h"

#include <stdlib.h>
#include <string.h>

#include "sched/compile_own.h"
#include "sched/trials/read_within.h"

/* One below the granularity at which executors allocate, one above where they allow that. */
enum { TRIAL_SIZES = 2, TRIAL_SMALL = 4096, TRIAL_LARGE = 3 << 20 };

typedef struct trial {
    uint64_t bytes[TRIAL_SIZES];
    rota_buffer *written[TRIAL_SIZES], *copied[TRIAL_SIZES];
    rota_graph *graph;
    rota_plan *plan;
    uint32_t *host;
    uint64_t patience_ns;
} trial;

static rota_status compile(trial *t, rota_device *device) {
    ROTA_TRY(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "sharing"), &t->graph));
    rota_recorder *recorder;
    ROTA_TRY(rota_recorder_open(t->graph, 0, NULL, &recorder));
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < TRIAL_SIZES && status == ROTA_OK; i++)
        status = rota_record_copy(recorder, t->copied[i], 0, t->written[i], 0, t->bytes[i], NULL);
    rota_recorder_close(recorder);
    if (status != ROTA_OK) return status;
    rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.name = "sharing", .devices = &device, .device_count = 1);
    return rota_compile_own(rota_device_runtime(device), t->graph, &options, &t->plan);
}

/* Another for each device: what one trial leaves in memory is not taken for what the next one writes. */
static uint32_t salt_of(const rota_device *device) {
    uint32_t salt = 1;
    for (const char *id = rota_device_get_info(device)->id; *id; id++) salt = salt * 97u + (unsigned char)*id;
    return salt;
}

/* What `from` wrote is read by `to`, in the same memory. */
static rota_status run(trial *t, rota_device *from, rota_device *to) {
    uint64_t most = t->bytes[TRIAL_SIZES - 1];
    t->host = malloc(most);
    if (!t->host) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory");
    uint32_t words = (uint32_t)(most / sizeof *t->host), salt = salt_of(from);
    for (uint32_t i = 0; i < words; i++) t->host[i] = i * 2654435761u + salt;
    for (uint32_t i = 0; i < TRIAL_SIZES; i++) {
        ROTA_TRY(rota_buffer_create_in(rota_device_runtime(from), "shared", t->bytes[i], &t->written[i]));
        ROTA_TRY(rota_buffer_create_in(rota_device_runtime(from), "copy", t->bytes[i], &t->copied[i]));
        ROTA_TRY(rota_buffer_write(t->written[i], from, 0, t->host, t->bytes[i], NULL));
    }
    ROTA_TRY(compile(t, to));
    rota_ticket ticket;
    ROTA_TRY(rota_submit_wait(t->plan, NULL, t->patience_ns, &ticket));
    ROTA_TRY(rota_wait(ticket, t->patience_ns));
    for (uint32_t i = 0; i < TRIAL_SIZES; i++) {
        memset(t->host, 0, t->bytes[i]);
        ROTA_TRY(rota_trial_read(t->copied[i], t->host, t->bytes[i], t->patience_ns));
        for (uint32_t w = 0; w < t->bytes[i] / sizeof *t->host; w++)
            if (t->host[w] != w * 2654435761u + salt)
                return rota_fail(ROTA_REFUSED, "word %u of %llu bytes written by '%s' is not what '%s' reads",
                                 w, (unsigned long long)t->bytes[i], rota_device_get_info(from)->id,
                                 rota_device_get_info(to)->id);
    }
    return ROTA_OK;
}

rota_status rota_trial_sharing(rota_device *from, rota_device *to, uint64_t patience_ns) {
    uint64_t large = TRIAL_LARGE, from_max = rota_device_get_info(from)->max_allocation_bytes,
             to_max = rota_device_get_info(to)->max_allocation_bytes;
    if (from_max && from_max < large) large = from_max;
    if (to_max && to_max < large) large = to_max;
    trial t = {.bytes = {TRIAL_SMALL, large & ~(uint64_t)(ROTA_BUFFER_ALIGNMENT - 1)},
               .patience_ns = patience_ns};
    rota_status status = run(&t, from, to);
    rota_plan_release(t.plan);
    rota_graph_release(t.graph);
    for (uint32_t i = 0; i < TRIAL_SIZES; i++) {
        rota_buffer_release(t.written[i]);
        rota_buffer_release(t.copied[i]);
    }
    free(t.host);
    return status;
}
