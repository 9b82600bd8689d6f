/* Memory of devices, within the runtime's limit. */
#include "base/atomic.h"
#include "sched/runtime/memory/memory.h"
#include "sched/runtime/shared/runtime.h"

rota_status rota_device_memory_try(rota_device *device, uint64_t size_bytes, uint32_t flags, const char *name,
                                   bool *out_is_limited, rota_exec_memory **out_memory) {
    rota_runtime *runtime = device->runtime;
    *out_memory = NULL;
    *out_is_limited = true;
    uint64_t limit = runtime->options.memory_limit_bytes;
    uint64_t held = ra_load_relaxed(&runtime->budget.memory_bytes);
    do {
        if (limit != 0 && (size_bytes > limit || held > limit - size_bytes))
            return rota_fail(
                ROTA_OUT_OF_MEMORY,
                "'%s' needs %llu bytes on device '%s': %llu of the memory limit of %llu are free", name,
                (unsigned long long)size_bytes, device->id,
                (unsigned long long)(held < limit ? limit - held : 0), (unsigned long long)limit);
    } while (!ra_cas_acq_rel(&runtime->budget.memory_bytes, &held, held + size_bytes));
    *out_is_limited = false;
    rota_status status =
        device->exec->vtable->memory_create(device->exec, size_bytes, flags, name, out_memory);
    if (status != ROTA_OK) {
        (void)ra_fetch_sub_acq_rel(&runtime->budget.memory_bytes, size_bytes);
        return status;
    }
    uint64_t peak = ra_load_relaxed(&runtime->budget.memory_peak_bytes);
    while (peak < held + size_bytes &&
           !ra_cas_acq_rel(&runtime->budget.memory_peak_bytes, &peak, held + size_bytes)) {
    }
    /* An executor may round up; what is given back is what was asked. */
    if ((*out_memory)->size_bytes != size_bytes) {
        uint64_t more = (*out_memory)->size_bytes - size_bytes;
        (void)ra_fetch_add_acq_rel(&runtime->budget.memory_bytes, more);
    }
    return ROTA_OK;
}

void rota_device_memory_destroy(rota_device *device, rota_exec_memory *memory) {
    const uint64_t held = ra_fetch_sub_acq_rel(&device->runtime->budget.memory_bytes, memory->size_bytes);
    rota_assert(held >= memory->size_bytes);
    (void)held;
    device->exec->vtable->memory_destroy(device->exec, memory);
}
