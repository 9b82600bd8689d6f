/* What is counted of a runtime. */
#include "base/atomic.h"
#include "base/given.h"
#include "base/sized_copy.h"
#include "base/thread_time.h"
#include "sched/runtime/shared/handle.h"
#include "sched/runtime/shared/runtime.h"

static void read_stats(rota_runtime *runtime, rota_runtime_stats *out_stats) {
    /* First: what is no longer pending here is no longer counted below; with the releases in released.c. */
    out_stats->reclaim_pending = ra_load_acquire(&runtime->stats.reclaim_pending);
    out_stats->memory_bytes = ra_load_relaxed(&runtime->budget.memory_bytes);
    out_stats->memory_peak_bytes = ra_load_relaxed(&runtime->budget.memory_peak_bytes);
    out_stats->buffers = ra_load_relaxed(&runtime->objects.buffer_count);
    out_stats->plans = ra_load_relaxed(&runtime->objects.plan_count);
    out_stats->submissions = ra_load_relaxed(&runtime->stats.submissions);
    out_stats->failed = ra_load_relaxed(&runtime->stats.failed);
    out_stats->driver_submits = ra_load_relaxed(&runtime->stats.driver_submits);
    out_stats->waits_dropped = ra_load_relaxed(&runtime->stats.waits_dropped);
    out_stats->device_waits = ra_load_relaxed(&runtime->stats.device_waits);
    out_stats->migrations = ra_load_relaxed(&runtime->stats.migrations);
    out_stats->migrated_bytes = ra_load_relaxed(&runtime->stats.migrated_bytes);
    out_stats->peer_bytes = ra_load_relaxed(&runtime->stats.peer_bytes);
    out_stats->abandoned_bytes = ra_load_relaxed(&runtime->stats.abandoned);
    out_stats->completed = ra_load_relaxed(&runtime->stats.completed);
    uint64_t cpu = rota_thread_cpu_ns_of(runtime->sequencing.thread) +
                   rota_thread_cpu_ns_of(runtime->completing.thread) +
                   rota_thread_cpu_ns_of(runtime->reclaiming.thread);
    uint32_t devices = ra_load_acquire(&runtime->device_count);
    for (uint32_t d = 0; d < devices; d++) {
        rota_exec_device *exec = runtime->devices[d]->exec;
        cpu += rota_thread_cpu_ns_of(runtime->devices[d]->handover.thread) +
               rota_thread_cpu_ns_of(runtime->devices[d]->building.thread);
        if (exec->vtable->own_cpu_ns) cpu += exec->vtable->own_cpu_ns(exec);
    }
    uint64_t spinning = ra_load_relaxed(&runtime->stats.spin_ns);
    out_stats->scheduler_cpu_ns = cpu > spinning ? cpu - spinning : 0;
}

rota_status rota_runtime_get_stats(rota_runtime *runtime, rota_runtime_stats *out_stats) {
    ROTA_GIVEN(out_stats);
    ROTA_TRY(rota_sized_check(out_stats->struct_size, "rota_runtime_stats"));
    rota_runtime_stats counted = ROTA_RUNTIME_STATS();
    rota_status status = rota_runtime_check(runtime);
    if (status == ROTA_OK) read_stats(runtime, &counted);
    rota_sized_out(out_stats, &counted, sizeof counted);
    return status;
}
