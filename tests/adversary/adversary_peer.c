/* The adversarial executor's devices as GPUs apart that are peers. Their memory is the process's, so any could read
 * any: what was not opened to a device, and what is destroyed, it must not. */
#include "tests/adversary/adversary_peer.h"

static rota_status meet(rota_exec_device *base, rota_exec_device *other) {
    const adversary_device *device = (const adversary_device *)base;
    if (device->options->peers && !base->caps.unified_host && !other->caps.unified_host) return ROTA_OK;
    return rota_fail(ROTA_UNSUPPORTED, "%s and %s are no peers", base->info.id, other->info.id);
}

static rota_status memory_open(rota_exec_device *base, rota_exec_device *other,
                               rota_exec_memory *base_memory) {
    adversary_device *device = (adversary_device *)base;
    adversary_memory *memory = (adversary_memory *)base_memory;
    if (memory->magic != ADVERSARY_LIVE || memory->device != ((adversary_device *)other)->index)
        adversary_violation(device, "memory '%s' is opened that is not live, or not of %s", memory->name,
                            other->info.id);
    if (memory->is_import || memory->is_adopted ||
        adversary_strikes(&device->options->faults.import_fails_in))
        return rota_fail(ROTA_UNSUPPORTED, "%s: '%s' can't be opened", base->info.id, memory->name);
    (void)atomic_fetch_or(&memory->opened, 1u << device->index);
    return ROTA_OK;
}

const rota_exec_peers adversary_peers = {.meet = meet,
                                         .memory_open = memory_open,
                                         .timeline_open = adversary_timeline_open,
                                         .timeline_meet = adversary_timeline_meet};

bool adversary_may_read(const adversary_device *device, const rota_exec_memory *base_memory) {
    const adversary_memory *memory = (const adversary_memory *)base_memory;
    return memory->magic == ADVERSARY_LIVE &&
           (memory->device == device->index || atomic_load(&memory->opened) >> device->index & 1u);
}
