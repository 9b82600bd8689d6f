/* Devices that share memory: two drivers' views of one GPU. What they offer is tried when the second is
 * opened; from then on a persistent buffer has one memory for both, made on whichever needed it first and
 * imported by the other, and their works are ordered like those of any two devices. */
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "sched/runtime/memory/import.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/runtime.h" /* IWYU pragma: keep */

rota_status rota_share_import(rota_device *owner, rota_exec_memory *memory, rota_device *device,
                              const char *name, rota_exec_memory **out_memory) {
    rota_exec_export from;
    ROTA_TRY(owner->exec->vtable->memory_export(owner->exec, memory, false, &from));
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

bool rota_share_may(const rota_device *a, const rota_device *b) {
    return ra_load_acquire(&a->is_seen) && !rota_device_is_lost(a) && a->exec->caps.shares_memory &&
           b->exec->caps.shares_memory && memcmp(a->exec->gpu, b->exec->gpu, sizeof a->exec->gpu) == 0;
}

uint32_t rota_share_begin(rota_device *device, rota_device *other) {
    device->domain = other->domain;
    uint32_t before = ra_exchange_acq_rel(&other->is_shared, 1);
    ra_store_relaxed(&device->is_shared, 1);
    return before;
}

void rota_share_refuse(rota_device *device, rota_device *other, uint32_t before) {
    device->domain = device->index;
    ra_store_relaxed(&device->is_shared, 0);
    ra_store_relaxed(&other->is_shared, before);
}
