/* Memory that other drivers of the GPU use too: exported by its opaque file descriptor, or as a dma-buf for any driver,
 * and theirs imported. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "exec/cuda/cuda_share.h"
#include "graph/buffer.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_memory.h"

bool rota_cuda_find_mapping(rota_cuda_device *device, const rota_cuda_memory *memory,
                            rota_cuda_mapping *out_mapping) {
    *out_mapping = memory->mapping;
    if (memory->piece.taken) {
        pthread_mutex_lock(&device->objects.lock);
        const rota_cuda_page *page = rota_cell_pages_at(&device->objects.shared.pages, memory->piece.page);
        *out_mapping = page->mapping;
        pthread_mutex_unlock(&device->objects.lock);
    }
    return out_mapping->bytes && !memory->external;
}

/* The context is current. */
static rota_status export_opaque(rota_cuda_device *device, const rota_cuda_mapping *mapping, int *out_fd) {
    return rota_cuda_check(device,
                           device->cu->MemExportToShareableHandle(
                               out_fd, mapping->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                           "cuMemExportToShareableHandle");
}

/* Likewise. */
static rota_status export_dma_buf(rota_cuda_device *device, const rota_cuda_mapping *mapping, int *out_fd) {
    int is_offered = 0;
    if (!device->cu->MemGetHandleForAddressRange)
        return rota_fail(ROTA_UNSUPPORTED,
                         "%s: exports no dma-buf: the CUDA driver has no cuMemGetHandleForAddressRange",
                         device->base.info.id);
    ROTA_TRY(rota_cuda_check(
        device,
        device->cu->DeviceGetAttribute(&is_offered, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, device->handle),
        "cuDeviceGetAttribute"));
    if (!is_offered)
        return rota_fail(ROTA_UNSUPPORTED,
                         "%s: exports no dma-buf: the driver has no CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED on "
                         "this GPU",
                         device->base.info.id);
    const CUresult result = device->cu->MemGetHandleForAddressRange(out_fd, mapping->address, mapping->bytes,
                                                                    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    /* What the attribute offers, a container may not. */
    if (result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_NOT_PERMITTED)
        return rota_fail(ROTA_UNSUPPORTED,
                         "%s: exports no dma-buf: cuMemGetHandleForAddressRange says %s, though the GPU has "
                         "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED",
                         device->base.info.id, rota_cuda_result_name(device->cu, result));
    return rota_cuda_check(device, result, "cuMemGetHandleForAddressRange");
}

/* Of the mapping that the memory is in. */
rota_status rota_cuda_memory_export(rota_exec_device *base, rota_exec_memory *memory_base, bool is_dma_buf,
                                    rota_exec_export *out_export) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    const rota_cuda_memory *memory = (const rota_cuda_memory *)memory_base;
    rota_cuda_mapping mapping;
    if (!rota_cuda_find_mapping(device, memory, &mapping))
        return rota_fail(ROTA_INTERNAL, "%s: memory that was not made to be shared is exported",
                         device->base.info.id);
    ROTA_TRY(rota_cuda_enter(device));
    int fd = -1;
    const rota_status status =
        is_dma_buf ? export_dma_buf(device, &mapping, &fd) : export_opaque(device, &mapping, &fd);
    rota_cuda_leave(device);
    *out_export = (rota_exec_export){.fd = fd,
                                     .allocation_bytes = mapping.bytes,
                                     .offset_bytes = memory->base.address - mapping.address,
                                     .size_bytes = memory->base.size_bytes,
                                     .is_dma_buf = is_dma_buf};
    return status;
}

/* The context is current. */
static rota_status import(rota_cuda_device *device, const rota_exec_export *from, rota_cuda_memory *memory) {
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC handle = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                               .handle.fd = fcntl(from->fd, F_DUPFD_CLOEXEC, 0),
                                               .size = from->allocation_bytes};
    if (handle.handle.fd < 0)
        return rota_fail(ROTA_SYSTEM, "%s: no file descriptor for shared memory", device->base.info.id);
    CUresult result = device->cu->ImportExternalMemory(&memory->external, &handle);
    if (result != CUDA_SUCCESS) {
        (void)close(handle.handle.fd); /* else it is the driver's */
        memory->external = NULL;
        return rota_cuda_check(device, result, "cuImportExternalMemory");
    }
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.offset = 0, .size = from->offset_bytes + from->size_bytes};
    CUdeviceptr address = 0;
    ROTA_TRY(rota_cuda_check(device,
                             device->cu->ExternalMemoryGetMappedBuffer(&address, memory->external, &buffer),
                             "cuExternalMemoryGetMappedBuffer"));
    memory->mapping.address = address;
    memory->base.address = address + from->offset_bytes;
    memory->base.size_bytes = from->size_bytes;
    if (memory->base.address % ROTA_BUFFER_ALIGNMENT == 0) return ROTA_OK;
    return rota_fail(ROTA_UNSUPPORTED,
                     "%s: another device's memory begins at %llx here, expected a multiple of %d",
                     device->base.info.id, (unsigned long long)memory->base.address, ROTA_BUFFER_ALIGNMENT);
}

rota_status rota_cuda_memory_import(rota_exec_device *base, const rota_exec_export *from, const char *name,
                                    rota_exec_memory **out_memory) {
    rota_cuda_device *device = (rota_cuda_device *)base;
    rota_cuda_memory *memory = calloc(1, sizeof *memory);
    if (!memory) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for '%s'", name ? name : "memory");
    rota_status status = rota_cuda_enter(device);
    if (status == ROTA_OK) {
        status = import(device, from, memory);
        if (status != ROTA_OK && memory->mapping.address) (void)device->cu->MemFree(memory->mapping.address);
        if (status != ROTA_OK && memory->external) (void)device->cu->DestroyExternalMemory(memory->external);
        rota_cuda_leave(device);
    }
    if (status != ROTA_OK) {
        free(memory);
        return status;
    }
    rota_cuda_memory_keep(device, memory);
    *out_memory = &memory->base;
    return ROTA_OK;
}
