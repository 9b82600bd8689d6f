/* Memory of the application's: a device pointer, of whatever allocator, that the driver knows. */
#include "exec/cuda/cuda_adopt.h"

#include <stdlib.h>
#include "base/atomic.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_memory.h"
#include "exec/cuda/cuda_share.h"

/* What the driver knows of the bytes at an address; 0 and NULL where it knows nothing. */
typedef struct known {
    unsigned type; /* CUmemorytype */
    int ordinal;
    CUdeviceptr begin;
    size_t bytes;
} known;

static rota_status ask(rota_cuda_device *device, CUdeviceptr address, known *out) {
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *values[] = {&out->type, &out->ordinal, &out->begin, &out->bytes};
    *out = (known){0, -1, 0, 0};
    return rota_cuda_check(device, device->cu->PointerGetAttributes(4, attributes, values, address),
                           "cuPointerGetAttributes");
}

/* Every byte is memory of this GPU. Memory that was mapped in parts is known by part. */
static rota_status check_range(rota_cuda_device *device, const rota_exec_foreign *from, const char *name) {
    const CUdeviceptr begin = (CUdeviceptr)(uintptr_t)from->memory, end = begin + from->size_bytes;
    const char *id = device->base.info.id;
    for (CUdeviceptr address = begin; address < end;) {
        known is;
        ROTA_TRY(ask(device, address, &is));
        const unsigned long long missing = (unsigned long long)(address - begin);
        if (is.type != CU_MEMORYTYPE_DEVICE || is.bytes == 0)
            return rota_fail(
                ROTA_INVALID_ARGUMENT,
                "%s: byte %llu of the %llu of '%s', at %llx, is no device memory that the driver "
                "knows",
                id, missing, (unsigned long long)from->size_bytes, name, (unsigned long long)address);
        if (is.ordinal != device->handle)
            return rota_fail(ROTA_INVALID_ARGUMENT, "%s: '%s' at %llx is memory of device %d", id, name,
                             (unsigned long long)address, is.ordinal);
        address = is.begin + is.bytes;
    }
    return ROTA_OK;
}

rota_status rota_cuda_memory_adopt(rota_exec_device *base, const rota_exec_foreign *from, const char *name,
                                   rota_exec_memory **out_memory) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    const rota_exec_export fd = {.fd = from->fd,
                                 .allocation_bytes = from->allocation_bytes,
                                 .offset_bytes = from->offset_bytes,
                                 .size_bytes = from->size_bytes};
    if (from->kind == ROTA_EXEC_FOREIGN_FD) return rota_cuda_memory_import(base, &fd, name, out_memory);
    /* cuImportExternalMemory has a type for it since CUDA 13.0, and says where it is offered. */
    if (from->kind == ROTA_EXEC_FOREIGN_DMA_BUF)
        return rota_fail(ROTA_UNSUPPORTED,
                         "%s: '%s' is a dma-buf, which CUDA's driver imports on Jetson alone, from Thor on: "
                         "expected a device pointer or an opaque descriptor",
                         base->info.id, name);
    if (from->kind == ROTA_EXEC_FOREIGN_HOST)
        return rota_fail(ROTA_UNSUPPORTED, "%s: '%s' is host memory, expected a device pointer",
                         base->info.id, name);
    rota_cuda_memory *memory = calloc(1, sizeof *memory);
    if (!memory) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for '%s'", name);
    rota_status status = rota_cuda_enter(device);
    if (status == ROTA_OK) {
        status = check_range(device, from, name);
        rota_cuda_leave(device);
    }
    if (status != ROTA_OK) {
        free(memory);
        return status;
    }
    memory->is_adopted = true;
    memory->base = (rota_exec_memory){(uint64_t)(uintptr_t)from->memory, NULL, from->size_bytes};
    rota_cuda_memory_keep(device, memory);
    *out_memory = &memory->base;
    return ROTA_OK;
}

bool rota_cuda_memory_return(rota_exec_device *base, rota_exec_memory *memory) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    return !ra_load_acquire(&device->noisy) && /* pairs with rota_cuda_give_up */
           rota_cuda_memory_try_destroy(device, (rota_cuda_memory *)memory);
}
