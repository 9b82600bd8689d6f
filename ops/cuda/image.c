/* Launching kernels of rota's CUDA images from library nodes. */
#include "ops/cuda/image.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ops/cuda/driver.h"

/* Images loaded so far. A library belongs to no context and stays for the life of the process. */
typedef struct loaded_image {
    struct loaded_image *next;
    const void *image;
    CUlibrary library;
} loaded_image;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static loaded_image *images;

/* As rota_cuda_driver_check, of a call about one kernel. */
static rota_status check(const rota_cuda_driver *cu, CUresult result, const char *call, const char *entry) {
    char what[128];
    if (result == CUDA_SUCCESS) return ROTA_OK;
    (void)snprintf(what, sizeof what, "%s of kernel '%s'", call, entry);
    return rota_cuda_driver_check(cu, result, what);
}

static rota_status library_of(const rota_cuda_driver *cu, const void *image, const char *name,
                              CUlibrary *out_library) {
    rota_status status = ROTA_OK;
    pthread_mutex_lock(&lock);
    loaded_image *entry = images;
    while (entry && entry->image != image) entry = entry->next;
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        if (!entry)
            status = rota_fail(ROTA_OUT_OF_MEMORY, "no memory to load kernel '%s'", name);
        else
            status = check(cu, cu->LibraryLoadData(&entry->library, image, NULL, NULL, 0, NULL, NULL, 0),
                           "cuLibraryLoadData", name);
        if (status == ROTA_OK) {
            entry->image = image;
            entry->next = images;
            images = entry;
        } else {
            free(entry);
        }
    }
    if (status == ROTA_OK) *out_library = entry->library;
    pthread_mutex_unlock(&lock);
    return status;
}

/* rota_args of exec/cuda/rota_kernel.cuh. */
typedef struct image_args {
    uint64_t block;
    uint32_t slot_mask, bind_mask;
    uint64_t words[ROTA_KERNEL_OPERANDS_MAX + ROTA_KERNEL_PARAM_BYTES_MAX / 8];
} image_args;

/* Dynamic shared memory of a block that needs no leave. */
#define SHARED_BYTES_UNASKED (48u * 1024u)

static uint32_t at_least_1(uint32_t count) {
    return count ? count : 1;
}

/* The function is allowed its shared memory, not the kernel: drivers were seen that allow the kernel less than the
 * device has (of an H200's 232448 bytes a block 231424), and the function all of them. */
static rota_status allow_shared(const rota_cuda_driver *cu, CUfunction function, uint32_t shared_bytes,
                                const char *entry) {
    if (shared_bytes <= SHARED_BYTES_UNASKED) return ROTA_OK;
    const CUresult result =
        cu->FuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared_bytes);
    if (result == CUDA_ERROR_INVALID_VALUE)
        return rota_fail(
            ROTA_UNSUPPORTED,
            "kernel '%s' needs %" PRIu32
            " bytes of shared memory a block, and the driver allows it less (cuFuncSetAttribute)",
            entry, shared_bytes);
    return check(cu, result, "cuFuncSetAttribute", entry);
}

rota_status rota_cuda_image_function(const void *image, const char *entry, uint32_t shared_bytes,
                                     CUfunction *out_function) {
    const rota_cuda_driver *cu;
    CUlibrary library;
    CUkernel kernel;
    ROTA_TRY(rota_cuda_driver_get(&cu));
    ROTA_TRY(library_of(cu, image, entry, &library));
    ROTA_TRY(check(cu, cu->LibraryGetKernel(&kernel, library, entry), "cuLibraryGetKernel", entry));
    ROTA_TRY(check(cu, cu->KernelGetFunction(out_function, kernel), "cuKernelGetFunction", entry));
    return allow_shared(cu, *out_function, shared_bytes, entry);
}

rota_status rota_cuda_image_run(const rota_kernel *kernel, const rota_cuda_call *call,
                                const uint64_t *operands, const uint64_t *operand_bytes, const void *params) {
    const rota_cuda_driver *cu;
    CUfunction function;
    if (!kernel->cuda.image || !kernel->cuda.launch || kernel->cuda.prepare)
        return rota_fail(ROTA_UNSUPPORTED, "kernel '%s' has no CUDA image", kernel->name);
    image_args args = {0};
    memcpy(args.words, operands, kernel->operand_count * sizeof *operands);
    memcpy(args.words + kernel->operand_count, params, kernel->param_bytes);
    rota_cuda_launch launch = {0};
    kernel->cuda.launch(params, operand_bytes, call->target, &launch);
    ROTA_TRY(rota_cuda_driver_get(&cu));
    ROTA_TRY(
        rota_cuda_image_function(kernel->cuda.image, kernel->cuda.entry, launch.shared_bytes, &function));
    const CUlaunchConfig config = {.gridDimX = at_least_1(launch.groups[0]),
                                   .gridDimY = at_least_1(launch.groups[1]),
                                   .gridDimZ = at_least_1(launch.groups[2]),
                                   .blockDimX = at_least_1(launch.block[0]),
                                   .blockDimY = at_least_1(launch.block[1]),
                                   .blockDimZ = at_least_1(launch.block[2]),
                                   .sharedMemBytes = launch.shared_bytes,
                                   .hStream = (CUstream)call->stream};
    void *parameters[] = {&args};
    return check(cu, cu->LaunchKernelEx(&config, function, parameters, NULL), "cuLaunchKernelEx",
                 kernel->name);
}

rota_status rota_cuda_image_run_node(const rota_kernel *kernel, const rota_cuda_call *call,
                                     const uint8_t *operands, const void *params) {
    uint64_t addresses[ROTA_KERNEL_OPERANDS_MAX], bytes[ROTA_KERNEL_OPERANDS_MAX];
    for (uint32_t i = 0; i < kernel->operand_count; i++) {
        addresses[i] = call->operands[operands[i]];
        bytes[i] = call->operand_bytes[operands[i]];
    }
    const rota_kernel *selected =
        kernel->cuda.select ? kernel->cuda.select(params, bytes, 0, call->target) : NULL;
    return rota_cuda_image_run(selected ? selected : kernel, call, addresses, bytes, params);
}
