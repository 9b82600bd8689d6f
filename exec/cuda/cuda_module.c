/* Images loaded as modules, each content once, and the functions in them. */
#include "exec/cuda/cuda_module.h"
#include "exec/cuda/cuda_context.h"
#include "exec/cuda/cuda_device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"

#define LOG_BYTES 512u

/* Two hashes of different kinds stand for the content: images are large and often gone by the next look. */
static void hash_image(const void *image, size_t size_bytes, uint64_t out_hash[2]) {
    const uint8_t *bytes = image;
    uint64_t a = ROTA_HASH_BEGIN, b = size_bytes;
    size_t offset = 0;
    for (; offset + 8 <= size_bytes; offset += 8) {
        uint64_t word;
        memcpy(&word, bytes + offset, 8);
        a = (a ^ word) * ROTA_HASH_PRIME;
        a ^= a >> 29;
        b = (b + word) * 0x9E3779B97F4A7C15ull;
        b ^= b >> 32;
    }
    for (; offset < size_bytes; offset++) {
        a = rota_hash_byte(a, bytes[offset]);
        b = (b + bytes[offset]) * 0x9E3779B97F4A7C15ull;
    }
    out_hash[0] = a;
    out_hash[1] = b;
}

static rota_status load_module(rota_cuda_device *device, const rota_kernel *kernel, CUmodule *out_module) {
    char errors[LOG_BYTES] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {errors, (void *)(uintptr_t)sizeof errors};
    CUresult result = device->cu->ModuleLoadDataEx(out_module, kernel->cuda.image, 2, options, values);
    if (result == CUDA_SUCCESS) return ROTA_OK;
    if (rota_cuda_is_fatal(result)) return rota_cuda_lose(device, result, "cuModuleLoadDataEx");
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return rota_cuda_check(device, result, "cuModuleLoadDataEx");
    errors[sizeof errors - 1] = 0;
    return rota_fail(
        ROTA_UNSUPPORTED,
        "the CUDA image of kernel '%s' does not load on %s (%s, compute capability %u.%u): %s%s%s",
        kernel->name, device->base.info.id, device->base.info.name,
        device->targets.measured.compute_capability / 10, device->targets.measured.compute_capability % 10,
        rota_cuda_result_name(device->cu, result), errors[0] ? ": " : "", errors);
}

static CUresult look_for_entry(const rota_cuda_api *cu, const CUfunction *functions, unsigned count,
                               const char *entry, bool *out_found) {
    for (unsigned i = 0; i < count; i++) {
        const char *name = NULL;
        CUresult result = cu->FuncGetName(&name, functions[i]);
        if (result != CUDA_SUCCESS) return result;
        if (strcmp(name, entry) == 0) *out_found = true;
    }
    return CUDA_SUCCESS;
}

/* Whether the module's kernels have the wait in the code that this device got. Its entries are looked through:
 * asking for one that is not there would be an error in the eyes of compute-sanitizer. */
static rota_status look_for_wait(rota_cuda_device *device, rota_cuda_module *module) {
    const rota_cuda_api *cu = device->cu;
    unsigned count = 0;
    /* With the newest of the functions that this takes come the others. */
    if (device->targets.measured.compute_capability < 90 || !cu->GraphAddDependencies) return ROTA_OK;
    ROTA_TRY(rota_cuda_check(device, cu->ModuleGetFunctionCount(&count, module->handle),
                             "cuModuleGetFunctionCount"));
    CUfunction *functions = calloc(count + (size_t)1, sizeof(CUfunction));
    if (!functions) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for a CUDA image");
    CUresult result = cu->ModuleEnumerateFunctions(functions, count, module->handle);
    if (result == CUDA_SUCCESS)
        result = look_for_entry(cu, functions, count, "rota_starts_early", &module->starts_early);
    free(functions);
    return rota_cuda_check(device, result, "cuModuleEnumerateFunctions");
}

static rota_status get_module(rota_cuda_device *device, const rota_kernel *kernel,
                              const rota_cuda_module **out_module) {
    uint64_t hash[2];
    hash_image(kernel->cuda.image, kernel->cuda.size_bytes, hash);
    for (rota_cuda_module *m = device->modules.first; m; m = m->next)
        if (m->hash[0] == hash[0] && m->hash[1] == hash[1] && m->size_bytes == kernel->cuda.size_bytes) {
            *out_module = m;
            return ROTA_OK;
        }
    rota_cuda_module *m = calloc(1, sizeof *m);
    if (!m) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for a CUDA image");
    rota_status status = load_module(device, kernel, &m->handle);
    if (status == ROTA_OK) status = look_for_wait(device, m);
    if (status != ROTA_OK) {
        if (m->handle) (void)device->cu->ModuleUnload(m->handle);
        free(m);
        return status;
    }
    m->hash[0] = hash[0];
    m->hash[1] = hash[1];
    m->size_bytes = kernel->cuda.size_bytes;
    m->next = device->modules.first;
    device->modules.first = m;
    *out_module = m;
    return ROTA_OK;
}

rota_status rota_cuda_function_get(rota_cuda_device *device, const rota_kernel *kernel,
                                   CUfunction *out_function, bool *out_starts_early) {
    const rota_cuda_module *module = NULL;
    if (!kernel->cuda.entry)
        return rota_fail(ROTA_INVALID_ARGUMENT, "kernel '%s' does not name its entry in the CUDA image",
                         kernel->name);
    pthread_mutex_lock(&device->modules.lock);
    rota_status status = get_module(device, kernel, &module);
    pthread_mutex_unlock(&device->modules.lock);
    if (status != ROTA_OK) return status;
    if (out_starts_early) *out_starts_early = module->starts_early;
    CUresult result = device->cu->ModuleGetFunction(out_function, module->handle, kernel->cuda.entry);
    if (result == CUDA_ERROR_NOT_FOUND)
        return rota_fail(ROTA_UNSUPPORTED, "the CUDA image of kernel '%s' has no entry '%s'", kernel->name,
                         kernel->cuda.entry);
    return rota_cuda_check(device, result, "cuModuleGetFunction");
}

void rota_cuda_modules_free(rota_cuda_device *device) {
    while (device->modules.first) {
        rota_cuda_module *m = device->modules.first;
        device->modules.first = m->next;
        (void)device->cu->ModuleUnload(m->handle); /* fails on a lost device, whose context goes anyway */
        free(m);
    }
}
