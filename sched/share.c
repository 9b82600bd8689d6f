/* Devices that share memory: two drivers' views of one GPU. What they offer is tried when the second is
 * opened; from then on a persistent buffer has one memory for both, made on whichever needed it first and
 * imported by the other, and their works are ordered like those of any two devices. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sched/runtime_internal.h"
#include "sched/testing.h"

rota_status rota_share_import(rota_device *owner, rota_exec_memory *memory, rota_device *device,
                              const char *name, rota_exec_memory **out_memory) {
    rota_exec_export from;
    ROTA_TRY(owner->exec->vtable->memory_export(owner->exec, memory, &from));
    rota_status status = device->exec->vtable->memory_import(device->exec, &from, name, out_memory);
    (void)close(from.fd);
    return status;
}

bool rota_share_end(rota_device *device, rota_exec_memory *memory) {
    device->exec->vtable->memory_destroy(device->exec, memory);
    return !rota_device_is_lost(device);
}

bool rota_device_shares(const rota_device *a, const rota_device *b) {
    return a->domain == b->domain;
}

/* ---- The trial ---- */

/* One below the granularity at which executors allocate, one above where they allow that. */
enum { TRIAL_SIZES = 2, TRIAL_SMALL = 4096, TRIAL_LARGE = 3 << 20 };

typedef struct trial {
    uint64_t bytes[TRIAL_SIZES];
    rota_buffer *written[TRIAL_SIZES], *copied[TRIAL_SIZES];
    rota_graph *graph;
    rota_plan *plan;
    uint32_t *host;
} trial;

static rota_status compile(trial *t, rota_device *device) {
    ROTA_TRY(rota_graph_create(&(rota_graph_options){.name = "sharing"}, &t->graph));
    rota_recorder *recorder;
    ROTA_TRY(rota_recorder_open(t->graph, 0, NULL, &recorder));
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < TRIAL_SIZES && status == ROTA_OK; i++)
        status = rota_record_copy(recorder, t->copied[i], 0, t->written[i], 0, t->bytes[i], NULL);
    rota_recorder_close(recorder);
    if (status != ROTA_OK) return status;
    rota_compile_options options = {.name = "sharing", .devices = &device, .device_count = 1};
    return rota_compile(device->runtime, t->graph, &options, &t->plan);
}

/* What `from` wrote is read by `to`, in the same memory. */
static rota_status run(trial *t, rota_device *from, rota_device *to) {
    uint64_t most = t->bytes[TRIAL_SIZES - 1];
    t->host = malloc(most);
    if (!t->host) return rota_fail(ROTA_OUT_OF_MEMORY, "no host memory");
    uint32_t words = (uint32_t)(most / sizeof *t->host), salt = from->index * 97u + 1u;
    for (uint32_t i = 0; i < words; i++) t->host[i] = i * 2654435761u + salt;
    for (uint32_t i = 0; i < TRIAL_SIZES; i++) {
        ROTA_TRY(rota_runtime_buffer(from->runtime, "shared", t->bytes[i], &t->written[i]));
        ROTA_TRY(rota_runtime_buffer(from->runtime, "copy", t->bytes[i], &t->copied[i]));
        ROTA_TRY(rota_buffer_write(t->written[i], from, 0, t->host, t->bytes[i], NULL));
    }
    ROTA_TRY(compile(t, to));
    rota_ticket ticket;
    ROTA_TRY(rota_submit_wait(t->plan, NULL, 0, &ticket));
    ROTA_TRY(rota_wait(ticket, 0));
    for (uint32_t i = 0; i < TRIAL_SIZES; i++) {
        memset(t->host, 0, t->bytes[i]);
        ROTA_TRY(rota_buffer_read(t->copied[i], 0, t->host, t->bytes[i]));
        for (uint32_t w = 0; w < t->bytes[i] / sizeof *t->host; w++)
            if (t->host[w] != w * 2654435761u + salt)
                return rota_fail(ROTA_REFUSED, "word %u of %llu bytes written by '%s' is not what '%s' reads",
                                 w, (unsigned long long)t->bytes[i], from->id, to->id);
    }
    return ROTA_OK;
}

static rota_status try_one_way(rota_device *from, rota_device *to) {
    uint64_t large = TRIAL_LARGE, from_max = from->info.max_allocation_bytes,
             to_max = to->info.max_allocation_bytes;
    if (from_max && from_max < large) large = from_max;
    if (to_max && to_max < large) large = to_max;
    trial t = {.bytes = {TRIAL_SMALL, large & ~(uint64_t)(ROTA_BUFFER_ALIGNMENT - 1)}};
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

static bool may_share(const rota_device *a, const rota_device *b) {
    return ra_load_acquire(&a->visible) && !rota_device_is_lost(a) && a->exec->caps.shares_memory &&
           b->exec->caps.shares_memory && memcmp(a->exec->gpu, b->exec->gpu, sizeof a->exec->gpu) == 0;
}

void rota_share_open(rota_device *device) {
    rota_runtime *runtime = device->runtime;
    if (runtime->apart || runtime->touch)
        return; /* in touch mode nothing is computed that could be compared */
    for (uint32_t d = 0; d < device->index; d++) {
        rota_device *other = runtime->devices[d];
        if (!may_share(other, device)) continue;
        device->domain = other->domain;
        uint32_t before = ra_exchange_acq_rel(&other->is_shared, 1);
        ra_store_relaxed(&device->is_shared, 1);
        rota_status status = try_one_way(other, device);
        if (status == ROTA_OK) status = try_one_way(device, other);
        if (status == ROTA_OK) {
            rota_log_write(&runtime->options.log, ROTA_LOG_INFO, "devices '%s' and '%s' share memory",
                           other->id, device->id);
            rota_across_open(other, device);
            return;
        }
        device->domain = device->index;
        ra_store_relaxed(&device->is_shared, 0);
        ra_store_relaxed(&other->is_shared, before);
        rota_log_write(
            &runtime->options.log, ROTA_LOG_INFO,
            "devices '%s' and '%s' are of one GPU but share no memory (%s): bytes go from one to the other "
            "through the host's",
            other->id, device->id, rota_last_error());
    }
}

rota_status rota_runtime_set_apart(rota_runtime *runtime, bool apart) {
    ROTA_TRY(rota_runtime_check(runtime));
    runtime->apart = apart;
    return ROTA_OK;
}
