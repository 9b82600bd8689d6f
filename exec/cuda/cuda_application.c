/* A context of the application's, and memory from its allocator.
 *
 * Allocators of applications keep blocks by stream: what was freed on one is given out on it again while works that are
 * on it may still use it. rota's memory is used on many streams, and is freed when the host has seen the end of all
 * that used it. So it is asked for, and given back, on a stream of rota's: such an allocator has a block for that only
 * if rota gave it back, with nothing left to use it, or if it is new. What it has put on that stream for it, as
 * cuMemAllocAsync may, is waited for, with naps and to the stall limit: cuStreamSynchronize has no deadline, and the
 * stream may have been made to wait for another one that waits for rota, which waits for the memory. Memory that is not
 * there by then is given back on the same stream, in whose order nobody has used it. */
#include "exec/cuda/cuda_application.h"

#include <stdio.h>
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_memory.h"
#include "graph/buffer.h"

rota_status rota_cuda_application_open(rota_cuda_device *device, const rota_cuda_context *given,
                                       uint32_t *out_index) {
    const char *id = device->base.info.id;
    if (!given->allocate != !given->free)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "%s: rota_cuda_context has allocate or free alone, expected both or neither", id);
    device->application.given = *given;
    *out_index = given->index;
    if (!given->context) return ROTA_OK;
    CUcontext popped;
    CUdevice handle = 0;
    CUresult result = device->cu->CtxPushCurrent(given->context);
    if (result != CUDA_SUCCESS)
        return rota_fail_context(rota_cuda_fail(device->cu, result, "cuCtxPushCurrent"),
                                 "%s: rota_cuda_context.context: ", id);
    result = device->cu->CtxGetDevice(&handle);
    (void)device->cu->CtxPopCurrent(&popped); /* what was pushed is there to pop */
    if (result != CUDA_SUCCESS) return rota_cuda_fail(device->cu, result, "cuCtxGetDevice");
    *out_index = (uint32_t)handle; /* the driver numbers its devices so */
    device->application.has_context = true;
    device->context = given->context;
    return ROTA_OK;
}

static rota_status fail_to_allocate(const rota_cuda_device *device, uint64_t size_bytes, const char *name) {
    char why[ROTA_ERROR_MESSAGE_MAX];
    (void)snprintf(why, sizeof why, "%s", rota_last_error());
    return rota_fail(
        ROTA_OUT_OF_MEMORY,
        "%s: '%s' asks for %llu bytes, which the application's allocator does not give; rota holds %llu%s%s",
        device->base.info.id, name, (unsigned long long)size_bytes,
        (unsigned long long)ra_load_relaxed(&device->objects.memory_bytes), why[0] ? ": " : "", why);
}

rota_status rota_cuda_application_allocate(rota_cuda_device *device, uint64_t size_bytes, const char *name,
                                           rota_cuda_memory *memory) {
    const rota_cuda_context *given = &device->application.given;
    (void)rota_fail(ROTA_OK, "%s", ""); /* so that what is said after the call is the function's */
    void *pointer = given->allocate(given->user, size_bytes, device->own.stream);
    if (!pointer) return fail_to_allocate(device, size_bytes, name);
    if ((uintptr_t)pointer % ROTA_BUFFER_ALIGNMENT != 0) {
        given->free(given->user, pointer, size_bytes, device->own.stream);
        return rota_fail(
            ROTA_MISALIGNED,
            "%s: '%s': the application's allocator gives memory at %p, expected a multiple of %d",
            device->base.info.id, name, pointer, ROTA_BUFFER_ALIGNMENT);
    }
    /* Of a pool that goes by streams (cuMemAllocAsync) it is memory for works on that one until this is over. */
    const CUresult result = rota_cuda_settle(device, device->own.stream, device->bounds.stall_ns);
    if (result != CUDA_SUCCESS) {
        given->free(given->user, pointer, size_bytes, device->own.stream);
        if (result != CUDA_ERROR_NOT_READY) return rota_cuda_fail(device->cu, result, "cuStreamQuery");
        return rota_fail(
            ROTA_TIMEOUT,
            "%s: '%s': the application's allocator gives memory that is not ready after %.3f s: what "
            "it has put on rota's stream does not end",
            device->base.info.id, name, (double)device->bounds.stall_ns * 1e-9);
    }
    memory->base.address = (uint64_t)(uintptr_t)pointer;
    memory->is_given = true;
    return ROTA_OK;
}

void rota_cuda_application_free(rota_cuda_device *device, rota_cuda_memory *memory) {
    const rota_cuda_context *given = &device->application.given;
    given->free(given->user, (void *)(uintptr_t)memory->base.address, memory->base.size_bytes,
                device->own.stream);
}
