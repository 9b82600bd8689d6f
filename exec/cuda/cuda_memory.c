/* Device memory and pinned host memory.
 *
 * Memory from 2 MiB is made with cuMemCreate and can be exported as a file descriptor where the driver offers
 * that: it costs what cuMemAlloc does (measured: 92 us against 87 us for 64 MiB). Its granularity is 2 MiB,
 * so smaller memory comes from cuMemAlloc, which shares such blocks among allocations and cannot be exported;
 * or, where others may want to import it, from a pool whose pages are such blocks. */
#include "exec/cuda/cuda_memory.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_device.h"
#include <stdlib.h>
#include <string.h>

rota_status rota_cuda_fail_memory(rota_cuda_device *device, const char *name, uint64_t size_bytes,
                                  CUresult result, const char *what) {
    if (result != CUDA_ERROR_OUT_OF_MEMORY) return rota_cuda_check(device, result, what);
    size_t free_bytes = 0, total_bytes = 0;
    if (device->cu->MemGetInfo(&free_bytes, &total_bytes) != CUDA_SUCCESS) free_bytes = 0;
    return rota_fail(ROTA_OUT_OF_MEMORY,
                     "%s: '%s' asks for %llu bytes; %llu of %llu are free, rota holds %llu",
                     device->base.info.id, name, (unsigned long long)size_bytes,
                     (unsigned long long)free_bytes, (unsigned long long)device->base.info.memory_bytes,
                     (unsigned long long)ra_load_relaxed(&device->objects.memory_bytes));
}

/* ---- Memory that can be exported ---- */

static CUmemAllocationProp exportable(const rota_cuda_device *device) {
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->handle},
    };
}

static void unmap(rota_cuda_device *device, const rota_cuda_mapping *mapping, bool mapped) {
    /* Nothing can be done about a failure; it is that of a lost device. */
    if (mapped) (void)device->cu->MemUnmap(mapping->address, mapping->bytes);
    if (mapping->address) (void)device->cu->MemAddressFree(mapping->address, mapping->bytes);
    (void)device->cu->MemRelease(mapping->handle);
}

void rota_cuda_unmap(rota_cuda_device *device, rota_cuda_mapping *mapping) {
    unmap(device, mapping, true);
    *mapping = (rota_cuda_mapping){0};
}

CUresult rota_cuda_map(rota_cuda_device *device, uint64_t size_bytes, rota_cuda_mapping *mapping) {
    CUmemAllocationProp properties = exportable(device);
    CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    uint64_t bytes = (size_bytes + device->bounds.granularity - 1) / device->bounds.granularity *
                     device->bounds.granularity;
    CUresult result = device->cu->MemCreate(&mapping->handle, bytes, &properties, 0);
    if (result != CUDA_SUCCESS) return result;
    mapping->bytes = bytes;
    CUdeviceptr address = 0;
    bool mapped = false;
    result = device->cu->MemAddressReserve(&address, bytes, 0, 0, 0);
    mapping->address = address;
    if (result == CUDA_SUCCESS) result = device->cu->MemMap(address, bytes, 0, mapping->handle, 0);
    mapped = result == CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) result = device->cu->MemSetAccess(address, bytes, &access, 1);
    if (result != CUDA_SUCCESS) {
        unmap(device, mapping, mapped);
        *mapping = (rota_cuda_mapping){0};
    }
    return result;
}

static rota_status allocate_device(rota_cuda_device *device, uint64_t size_bytes, bool shared,
                                   const char *name, rota_cuda_memory *memory) {
    if (device->application.given.allocate)
        return rota_cuda_application_allocate(device, size_bytes, name, memory);
    if (shared && size_bytes <= device->bounds.granularity / 2) {
        ROTA_TRY(rota_cuda_piece_take(device, &device->objects.shared, size_bytes, &memory->piece));
        memory->base.address = memory->piece.address;
        return ROTA_OK;
    }
    if (device->bounds.granularity && (shared || size_bytes >= device->bounds.granularity)) {
        CUresult result = rota_cuda_map(device, size_bytes, &memory->mapping);
        memory->base.address = memory->mapping.address;
        if (shared || (result != CUDA_ERROR_NOT_SUPPORTED && result != CUDA_ERROR_NOT_PERMITTED))
            return result == CUDA_SUCCESS
                       ? ROTA_OK
                       : rota_cuda_fail_memory(device, name, size_bytes, result, "cuMemCreate");
    }
    CUdeviceptr address = 0;
    CUresult result = device->cu->MemAlloc(&address, size_bytes);
    if (result != CUDA_SUCCESS) return rota_cuda_fail_memory(device, name, size_bytes, result, "cuMemAlloc");
    memory->base.address = address;
    return ROTA_OK;
}

/* ---- Pinned memory ---- */

rota_status rota_cuda_pin(rota_cuda_device *device, uint64_t size_bytes, const char *name, void **out_host,
                          uint64_t *out_address) {
    void *host = NULL;
    CUdeviceptr address = 0;
    /* The driver has its pages from where this thread has its own. */
    const bool entered = rota_locality_enter(&device->base.locality);
    CUresult result =
        device->cu->MemHostAlloc(&host, size_bytes, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);
    rota_locality_leave(entered);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return rota_fail(ROTA_OUT_OF_MEMORY,
                         "%s: '%s' asks for %llu bytes of pinned host memory; rota holds %llu",
                         device->base.info.id, name, (unsigned long long)size_bytes,
                         (unsigned long long)ra_load_relaxed(&device->objects.memory_bytes));
    if (result != CUDA_SUCCESS) return rota_cuda_check(device, result, "cuMemHostAlloc");
    result = device->cu->MemHostGetDevicePointer(&address, host, 0);
    if (result != CUDA_SUCCESS) {
        (void)device->cu->MemFreeHost(host);
        return rota_cuda_check(device, result, "cuMemHostGetDevicePointer");
    }
    *out_host = host;
    *out_address = address;
    return ROTA_OK;
}

/* ---- The contract's memory ---- */

/* The context is current. */
static void release(rota_cuda_device *device, rota_cuda_memory *memory) {
    if (memory->is_adopted) {
        memory->base.address = 0;
    } else if (memory->external) {
        if (memory->base.address) (void)device->cu->MemFree(memory->mapping.address);
        (void)device->cu->DestroyExternalMemory(memory->external);
    } else if (memory->is_given)
        rota_cuda_application_free(device, memory);
    else if (memory->mapping.bytes)
        rota_cuda_unmap(device, &memory->mapping);
    else if (memory->piece.taken)
        rota_cuda_piece_give(device, &device->objects.shared, &memory->piece);
    else if (memory->base.host)
        (void)device->cu->MemFreeHost(memory->base.host);
    else if (memory->base.address)
        (void)device->cu->MemFree(memory->base.address);
    free(memory);
}

rota_status rota_cuda_memory_create(rota_exec_device *base, uint64_t size_bytes, uint32_t flags,
                                    const char *name, rota_exec_memory **out_memory) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    const char *title = name ? name : "memory";
    if (size_bytes == 0) return rota_fail(ROTA_INVALID_ARGUMENT, "%s: '%s' has size 0", base->info.id, title);
    bool shared = flags & ROTA_EXEC_MEMORY_SHARED, pinned = flags && !shared;
    rota_cuda_memory *memory = calloc(1, sizeof *memory);
    if (!memory) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for '%s'", title);
    rota_status status = rota_cuda_enter(device);
    if (status == ROTA_OK) {
        if (size_bytes > base->info.max_allocation_bytes && !pinned) /* more than there ever is */
            status = rota_cuda_fail_memory(device, title, size_bytes, CUDA_ERROR_OUT_OF_MEMORY, "");
        else if (pinned)
            status = rota_cuda_pin(device, size_bytes, title, &memory->base.host, &memory->base.address);
        else
            status = allocate_device(device, size_bytes, shared, title, memory);
        rota_cuda_leave(device);
    }
    if (status != ROTA_OK) {
        free(memory);
        return status;
    }
    memory->base.size_bytes = size_bytes;
    rota_cuda_memory_keep(device, memory);
    *out_memory = &memory->base;
    return ROTA_OK;
}

/* What the memory adds to what rota holds: imported and adopted bytes are their owner's, a piece's are its page's. */
static uint64_t own_bytes(const rota_cuda_memory *memory) {
    return memory->external || memory->is_adopted || memory->piece.taken ? 0 : memory->base.size_bytes;
}

void rota_cuda_memory_keep(rota_cuda_device *device, rota_cuda_memory *memory) {
    ra_fetch_add_relaxed(&device->objects.memory_bytes, own_bytes(memory));
    pthread_mutex_lock(&device->objects.lock);
    rota_link_add(&device->objects.memories, &memory->link);
    pthread_mutex_unlock(&device->objects.lock);
}

static void forget(rota_cuda_device *device, rota_cuda_memory *memory) {
    pthread_mutex_lock(&device->objects.lock);
    rota_link_remove(&memory->link);
    pthread_mutex_unlock(&device->objects.lock);
    ra_fetch_add_relaxed(&device->objects.memory_bytes, (uint64_t)0 - own_bytes(memory));
}

/* Also on a lost device, whose context takes the calls and refuses them. */
bool rota_cuda_memory_try_destroy(rota_cuda_device *device, rota_cuda_memory *memory) {
    if (!rota_cuda_push_to_free(device, "memory")) return false;
    forget(device, memory);
    release(device, memory);
    rota_cuda_leave(device);
    return true;
}

void rota_cuda_memory_destroy(rota_exec_device *base, rota_exec_memory *memory_base) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    rota_cuda_memory *memory = (rota_cuda_memory *)memory_base;
    if (!memory || ra_load_acquire(&device->noisy))
        return; /* pairs with rota_cuda_give_up; close counts it */
    (void)rota_cuda_memory_try_destroy(device, memory);
}

void rota_cuda_memories_free(rota_cuda_device *device) {
    while (!rota_link_is_alone(&device->objects.memories)) {
        rota_cuda_memory *memory = ROTA_LINKED(device->objects.memories.next, rota_cuda_memory, link);
        forget(device, memory);
        release(device, memory);
    }
}
