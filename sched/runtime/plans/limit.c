/* How much a plan's transients may take within the runtime's memory limit: what is free of it, less what else an
 * instance of the plan has. */
#include "sched/runtime/plans/limit.h"

#include "base/atomic.h"
#include "graph/graph_internal.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/runtime.h"

/* Of what is free, at most this part is left for staging. */
enum { SPARE_SHARE = 16 };

/* Bytes beside transients that an instance is yet to be given. */
static uint64_t others_bytes(const rota_plan *plan) {
    uint64_t bytes = 0;
    for (uint32_t p = 0; p < plan->partition_count; p++) {
        const rota_partition *part = &plan->partitions[p];
        for (uint32_t m = 0; m < part->desc.memory_count; m++) {
            const rota_plan_memory *memory = &part->memories[m];
            if (memory->foreign_part != ROTA_NONE) continue;
            if (memory->kind == ROTA_EXEC_BASE_STAGING) bytes += memory->size_bytes;
            if (memory->kind != ROTA_EXEC_BASE_PERSISTENT) continue;
            const rota_buffer *buffer = plan->buffers[memory->buffer].buffer;
            const rota_residency *residency = buffer->residency;
            /* Acquire pairs with rota_residency_prepare; what another thread prepares meanwhile counts twice. */
            if (residency && !ra_load_acquire(&residency->memory[part->device->index]))
                bytes += buffer->size_bytes;
        }
    }
    return bytes;
}

static uint64_t less(uint64_t bytes, uint64_t taken) {
    return bytes > taken ? bytes - taken : 0;
}

/* A limit that changes nothing is none. What the compile had by itself is more than that: the plan keeps it. */
static uint64_t as_limit(const rota_plan *plan, uint64_t bytes) {
    return bytes < plan->stats.arena_bytes ? bytes : 0;
}

rota_plan_limits rota_plan_limits_of(const rota_plan *plan) {
    rota_plan_limits limits = {0};
    const rota_compile_options *options = &plan->options;
    const uint64_t limit = plan->runtime->options.memory_limit_bytes,
                   own = options->memory_limit_bytes ? options->memory_limit_bytes
                                                     : plan->graph->memory_limit_bytes;
    if (!limit || own == UINT64_MAX) return limits;
    const uint64_t held = ra_load_relaxed(&plan->runtime->budget.memory_bytes);
    const uint64_t room = less(less(limit, held), others_bytes(plan));
    const uint64_t staging = plan->runtime->options.staging_limit_bytes,
                   spare = staging < room / SPARE_SHARE ? staging : room / SPARE_SHARE;
    const uint64_t shared = options->arena_of ? options->arena_of->stats.arena_bytes : 0;
    const uint64_t with_spare = (room - spare) / (options->arenas ? options->arenas : 1);
    limits.with_spare = as_limit(plan, with_spare > shared ? with_spare : shared);
    limits.all = as_limit(plan, room > shared ? room : shared);
    return limits;
}
