/* The CUDA stand-in: address ranges, what is mapped there, and which devices reach it. */
#include "tests/exec/cuda/cuda_stub.h"

#ifdef ROTA_HAVE_CUDA
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tests/exec/cuda/cuda_stub_internal.h"

stub_mapping *stub_mapped_at(CUdeviceptr address) {
    for (uint32_t i = 0; i < MAPPINGS_MAX; i++) {
        stub_mapping *mapping = &stub.mapped[i];
        if (mapping->address && address >= mapping->address && address < mapping->address + mapping->bytes)
            return mapping;
    }
    return NULL;
}

CUresult CUDAAPI stub_MemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr wish,
                                        unsigned long long flags) {
    (void)alignment, (void)wish, (void)flags;
    ENTER(MemAddressReserve);
    void *memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    *out = (CUdeviceptr)(uintptr_t)memory;
    stub.alive[RESERVED]++;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_MemAddressFree(CUdeviceptr address, size_t bytes) {
    ENTER_END(MemAddressFree);
    stub_give(RESERVED);
    (void)munmap((void *)(uintptr_t)address, bytes);
    return stub_leave(result_);
}
CUresult CUDAAPI stub_MemMap(CUdeviceptr address, size_t bytes, size_t offset,
                             CUmemGenericAllocationHandle handle, unsigned long long flags) {
    (void)offset, (void)flags;
    ENTER(MemMap);
    struct stat about;
    if (fstat((int)handle, &about) != 0 || (size_t)about.st_size != bytes)
        stub_violate("memory mapped with another size than it was made with");
    void *memory = (void *)(uintptr_t)address;
    if (mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, (int)handle, 0) != memory)
        abort();
    memset(memory, 0xCD, bytes);
    uint32_t i = 0;
    while (i < MAPPINGS_MAX && stub.mapped[i].address) i++;
    if (i < MAPPINGS_MAX) stub.mapped[i] = (stub_mapping){address, bytes, 0, (int)handle};
    stub.alive[MAPPED]++;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_MemUnmap(CUdeviceptr address, size_t bytes) {
    ENTER_END(MemUnmap);
    stub_give(MAPPED);
    stub_mapping *mapping = stub_mapped_at(address);
    if (mapping) mapping->address = 0;
    void *memory = (void *)(uintptr_t)address;
    if (mmap(memory, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != memory) abort();
    return stub_leave(result_);
}
CUresult CUDAAPI stub_MemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                                   size_t count) {
    ENTER(MemSetAccess);
    stub_mapping *mapping = stub_mapped_at(address);
    if (!mapping || mapping->address != address || mapping->bytes != bytes)
        return stub_leave(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) mapping->reaches |= 1u << access[i].location.id;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_MemGetAccess(unsigned long long *out, const CUmemLocation *location,
                                   CUdeviceptr address) {
    ENTER(MemGetAccess);
    const stub_mapping *mapping = stub_mapped_at(address);
    if (!mapping) return stub_leave(CUDA_ERROR_INVALID_VALUE);
    *out = mapping->reaches >> location->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : 0;
    return stub_leave(CUDA_SUCCESS);
}

/* Of all of a mapping, as rota asks for it; whole pages. */
CUresult CUDAAPI stub_MemGetHandleForAddressRange(void *out, CUdeviceptr address, size_t bytes,
                                                  CUmemRangeHandleType type, unsigned long long flags) {
    ENTER(MemGetHandleForAddressRange);
    const stub_mapping *mapping = stub_mapped_at(address);
    if (address % 4096 || bytes % 4096)
        stub_violate("a dma-buf of memory that does not begin and end with a page");
    if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags || !mapping || mapping->address != address ||
        mapping->bytes != bytes)
        return stub_leave(CUDA_ERROR_INVALID_VALUE);
    *(int *)out = dup(mapping->fd);
    return stub_leave(CUDA_SUCCESS);
}

/* What cuMemAlloc gives is for whoever asked for it; all devices could. */
CUresult CUDAAPI stub_DeviceCanAccessPeer(int *out, CUdevice device, CUdevice peer) {
    ENTER_FREE(DeviceCanAccessPeer);
    *out = device != peer && !stub.out_of_reach;
    return stub_leave(CUDA_SUCCESS);
}
CUresult CUDAAPI stub_CtxEnablePeerAccess(CUcontext context, unsigned flags) {
    (void)flags;
    ENTER(CtxEnablePeerAccess);
    uint32_t *enabled = &stub.peers[cuda_stub_current_device()];
    const uint32_t bit = 1u << ((int *)(void *)context - stub.retained);
    if (*enabled & bit) return stub_leave(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    *enabled |= bit;
    return stub_leave(CUDA_SUCCESS);
}

void stub_check_reach(CUdeviceptr address) {
    const stub_mapping *mapping = stub_mapped_at(address);
    if (mapping && !(mapping->reaches >> cuda_stub_current_device() & 1))
        stub_violate("a device's copy of memory that it does not reach");
}

uint32_t cuda_stub_reached_by(CUdeviceptr address) {
    const stub_mapping *mapping = stub_mapped_at(address);
    return mapping ? mapping->reaches : UINT32_MAX;
}
#endif
