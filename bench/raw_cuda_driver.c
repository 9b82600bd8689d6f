/* See raw_cuda_driver.h. */
#include <stdio.h>

#ifdef ROTA_HAVE_CUDA
#include <dlfcn.h>
#include <string.h>
#include "bench/raw_cuda_driver.h"

bool raw_cuda_driver_check(CUresult result, const char *call) {
    if (result == CUDA_SUCCESS) return true;
    fprintf(stderr, "raw CUDA: %s failed with %d\n", call, (int)result);
    return false;
}

void *raw_cuda_driver_find(const raw_cuda_driver *cuda, const char *name) {
    void *address = dlsym(cuda->library, name);
    if (!address) fprintf(stderr, "raw CUDA: the driver has no %s\n", name);
    return address;
}

bool raw_cuda_driver_open(raw_cuda_driver *cuda, uint32_t index, const void *image, uint64_t memory_bytes) {
    if (!image) {
        fprintf(stderr, "raw CUDA: this build has no CUDA kernels\n");
        return false;
    }
    cuda->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!cuda->library) {
        fprintf(stderr, "raw CUDA: %s\n", dlerror());
        return false;
    }
#define LOAD(name, suffix, parameters)                                                                       \
    {                                                                                                        \
        void *address = raw_cuda_driver_find(cuda, "cu" #name #suffix);                                      \
        if (!address) return false;                                                                          \
        memcpy(&cuda->name, &address, sizeof address);                                                       \
    }
    RAW_CUDA_FUNCTIONS(LOAD)
#undef LOAD
    RAW_CUDA_CHECK(cuda->Init(0));
    RAW_CUDA_CHECK(cuda->DeviceGet(&cuda->device, (int)index));
    RAW_CUDA_CHECK(cuda->DevicePrimaryCtxRetain(&cuda->context, cuda->device));
    RAW_CUDA_CHECK(cuda->CtxPushCurrent(cuda->context));
    RAW_CUDA_CHECK(cuda->StreamCreate(&cuda->stream, CU_STREAM_NON_BLOCKING));
    RAW_CUDA_CHECK(cuda->ModuleLoadData(&cuda->module, image));
    RAW_CUDA_CHECK(cuda->MemAlloc(&cuda->memory, memory_bytes));
    return true;
}

/* The driver stays open: it does not survive being unloaded. */
void raw_cuda_driver_close(raw_cuda_driver *cuda) {
    if (!cuda->context) return;
    if (cuda->stream) (void)raw_cuda_driver_wait(cuda);
    if (cuda->exec) (void)cuda->GraphExecDestroy(cuda->exec);
    if (cuda->graph) (void)cuda->GraphDestroy(cuda->graph);
    if (cuda->memory) (void)cuda->MemFree(cuda->memory);
    if (cuda->module) (void)cuda->ModuleUnload(cuda->module);
    if (cuda->stream) (void)cuda->StreamDestroy(cuda->stream);
    CUcontext popped;
    (void)cuda->CtxPopCurrent(&popped);
    (void)cuda->DevicePrimaryCtxRelease(cuda->device);
}

bool raw_cuda_driver_add(const raw_cuda_driver *cuda, CUgraph graph, CUfunction function, void **parameters,
                         const CUgraphNode *before, size_t before_count, CUgraphNode *out_node) {
    const CUDA_KERNEL_NODE_PARAMS params = {
        .func = function,
        .gridDimX = 1,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = 1,
        .blockDimY = 1,
        .blockDimZ = 1,
        .kernelParams = parameters,
    };
    RAW_CUDA_CHECK(cuda->GraphAddKernelNode(out_node, graph, before, before_count, &params));
    return true;
}

bool raw_cuda_driver_instantiate(raw_cuda_driver *cuda) {
    RAW_CUDA_CHECK(cuda->GraphInstantiateWithFlags(&cuda->exec, cuda->graph, 0));
    RAW_CUDA_CHECK(cuda->GraphUpload(cuda->exec, cuda->stream));
    return true;
}

bool raw_cuda_driver_wait(const raw_cuda_driver *cuda) {
    RAW_CUDA_CHECK(cuda->StreamSynchronize(cuda->stream));
    return true;
}
#endif
