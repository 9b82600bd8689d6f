/* Memory that GPUs read of one another. A buffer has memory of its own on each, and bytes go from one to the other by a
 * copy of the device that gets them (kinds/migration.c), which waits for whoever wrote them, and which all that writes
 * them anew, wherever, comes after, as it does after the writer that it stands for. So there is nothing that hazards
 * would have to know of it.
 *
 * Memory is opened when the second of two peers has some: before that a copy between them can't be. What can't be
 * opened (an import, the application's) goes through the host. */
#include "sched/runtime/memory/peers.h"

#include "base/atomic.h"
#include "sched/runtime/memory/residency.h"
#include "sched/runtime/shared/runtime.h" /* IWYU pragma: keep */

static bool are_peers(const rota_device *a, const rota_device *b) {
    return ra_load_acquire(&a->others.peers) >> b->index & 1u; /* with rota_devices_meet */
}

rota_status rota_peer_open(rota_device *owner, rota_exec_memory *memory, rota_device *device) {
    if (!are_peers(owner, device))
        return rota_fail(ROTA_UNSUPPORTED, "devices '%s' and '%s' don't read each other's memory", owner->id,
                         device->id);
    return device->exec->vtable->peers->memory_open(device->exec, owner->exec, memory);
}

static void open_or_note(rota_residency *residency, rota_device *owner, rota_exec_memory *memory,
                         rota_device *device) {
    const uint64_t bit = (uint64_t)1 << owner->index;
    if (rota_peer_open(owner, memory, device) != ROTA_OK)
        (void)ra_fetch_or_seq_cst(&residency->memory_is.unopened, bit); /* before the memory is seen */
}

void rota_residency_open(rota_residency *residency, rota_device *device, rota_exec_memory *memory) {
    const rota_runtime *runtime = device->runtime;
    for (uint64_t left = ra_load_acquire(&device->others.peers); left; left &= left - 1) {
        rota_device *peer = runtime->devices[__builtin_ctzll(left)];
        rota_exec_memory *theirs = ra_load_relaxed(&residency->memory[peer->index]); /* of the mutex's */
        if (!theirs) continue;
        open_or_note(residency, device, memory, peer);
        open_or_note(residency, peer, theirs, device);
    }
}

/* The memory is loaded first, with the release of who made it: then what could not be opened is seen. */
bool rota_residency_is_open(const rota_residency *residency, const rota_device *from, const rota_device *to) {
    return are_peers(from, to) && ra_load_acquire(&residency->memory[from->index]) &&
           ra_load_acquire(&residency->memory[to->index]) &&
           !(ra_load_relaxed(&residency->memory_is.unopened) >> from->index & 1u);
}

uint64_t rota_peers_of(const rota_runtime *runtime, uint64_t devices) {
    uint64_t all = devices;
    for (; devices; devices &= devices - 1)
        all |= ra_load_acquire(&runtime->devices[__builtin_ctzll(devices)]->others.peers);
    return all;
}
