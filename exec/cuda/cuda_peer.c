/* Peers: CUDA devices of different GPUs in one process. Their streams wait for one another by words in host memory
 * (cuda_timeline.c), and a copy on one reads the other's memory where it is: addresses are the same in all contexts of
 * a process, and memory made by cuMemCreate is reached by whichever device it was opened to. What was not made so (an
 * application's allocator, imports, adopted memory) is not opened, and goes through the host.
 *
 * Read, not written, by who wants the bytes: the copy is a work of the device that uses them next, behind its own
 * wait, and nothing of another device's is written from outside. */
#include "exec/cuda/cuda_peer.h"

#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_memory.h"
#include "exec/cuda/cuda_share.h"
#include <stdlib.h>
#include <string.h>

bool rota_cuda_peers_are_off(void) {
    const char *wanted = getenv("ROTA_PEER");
    return wanted && strcmp(wanted, "0") == 0;
}

static rota_status meet(rota_exec_device *base, rota_exec_device *other_base) {
    rota_cuda_device *device = (rota_cuda_device *)base, *other = (rota_cuda_device *)other_base;
    int can = 0;
    if (rota_cuda_peers_are_off())
        return rota_fail(ROTA_UNSUPPORTED, "%s and %s are kept apart by ROTA_PEER=0", base->info.id,
                         other_base->info.id);
    if (!device->bounds.granularity || !other->bounds.granularity)
        return rota_fail(ROTA_UNSUPPORTED, "%s or %s has no memory that others could read", base->info.id,
                         other_base->info.id);
    if (!device->cu->DeviceCanAccessPeer || device->handle == other->handle)
        return rota_fail(ROTA_UNSUPPORTED, "%s and %s are not two GPUs of this driver", base->info.id,
                         other_base->info.id);
    ROTA_TRY(rota_cuda_enter(device));
    const rota_status status =
        rota_cuda_check(device, device->cu->DeviceCanAccessPeer(&can, device->handle, other->handle),
                        "cuDeviceCanAccessPeer");
    rota_cuda_leave(device);
    if (status != ROTA_OK || can) return status;
    return rota_fail(ROTA_UNSUPPORTED, "%s has no access to the memory of %s", base->info.id,
                     other_base->info.id);
}

static rota_status memory_open(rota_exec_device *base, rota_exec_device *other_base,
                               rota_exec_memory *memory) {
    rota_cuda_device *device = (rota_cuda_device *)base, *other = (rota_cuda_device *)other_base;
    rota_cuda_mapping mapping;
    if (!rota_cuda_find_mapping(other, (const rota_cuda_memory *)memory, &mapping))
        return rota_fail(ROTA_UNSUPPORTED, "%s: memory at %llx can't be opened to %s", other_base->info.id,
                         (unsigned long long)memory->address, base->info.id);
    const CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->handle},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE, /* as all that is known to be taken everywhere */
    };
    ROTA_TRY(rota_cuda_enter(other));
    /* A page of small memory may be opened again and again. */
    const rota_status status =
        rota_cuda_check(other, other->cu->MemSetAccess(mapping.address, mapping.bytes, &access, 1),
                        "cuMemSetAccess for another device");
    rota_cuda_leave(other);
    return status;
}

const rota_exec_peers rota_cuda_peers = {.meet = meet,
                                         .memory_open = memory_open,
                                         .timeline_open = rota_cuda_timeline_open,
                                         .timeline_meet = rota_cuda_timeline_meet};
