/* The CUDA driver as raw graphs of the benchmarks use it: opened at run time, a device, a module, memory and a stream
 * of its own, and graphs of kernels of one thread each. For builds with CUDA's headers (ROTA_HAVE_CUDA). One thread. */
#ifndef ROTA_BENCH_RAW_CUDA_DRIVER_H
#define ROTA_BENCH_RAW_CUDA_DRIVER_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name without "cu", the symbol's suffix, parameters. */
#define RAW_CUDA_FUNCTIONS(X)                                                                                \
    X(Init, , (unsigned))                                                                                    \
    X(DeviceGet, , (CUdevice *, int))                                                                        \
    X(DevicePrimaryCtxRetain, , (CUcontext *, CUdevice))                                                     \
    X(DevicePrimaryCtxRelease, _v2, (CUdevice))                                                              \
    X(CtxPushCurrent, _v2, (CUcontext))                                                                      \
    X(CtxPopCurrent, _v2, (CUcontext *))                                                                     \
    X(MemAlloc, _v2, (CUdeviceptr *, size_t))                                                                \
    X(MemFree, _v2, (CUdeviceptr))                                                                           \
    X(MemcpyHtoDAsync, _v2, (CUdeviceptr, const void *, size_t, CUstream))                                   \
    X(MemcpyDtoHAsync, _v2, (void *, CUdeviceptr, size_t, CUstream))                                         \
    X(ModuleLoadData, , (CUmodule *, const void *))                                                          \
    X(ModuleUnload, , (CUmodule))                                                                            \
    X(ModuleGetFunction, , (CUfunction *, CUmodule, const char *))                                           \
    X(LaunchKernel, ,                                                                                        \
      (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **,  \
       void **))                                                                                             \
    X(StreamCreate, , (CUstream *, unsigned))                                                                \
    X(StreamDestroy, _v2, (CUstream))                                                                        \
    X(StreamSynchronize, , (CUstream))                                                                       \
    X(GraphCreate, , (CUgraph *, unsigned))                                                                  \
    X(GraphDestroy, , (CUgraph))                                                                             \
    X(GraphAddKernelNode, _v2,                                                                               \
      (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_KERNEL_NODE_PARAMS *))                \
    X(GraphInstantiateWithFlags, , (CUgraphExec *, CUgraph, unsigned long long))                             \
    X(GraphUpload, , (CUgraphExec, CUstream))                                                                \
    X(GraphLaunch, , (CUgraphExec, CUstream))                                                                \
    X(GraphExecDestroy, , (CUgraphExec))

typedef struct raw_cuda_driver {
    void *library;
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUdeviceptr memory;
    CUstream stream;
    CUgraph graph; /* made by whoever records it; ended with the rest */
    CUgraphExec exec;
#define RAW_CUDA_DECLARE(name, suffix, parameters) CUresult(CUDAAPI *name) parameters;
    RAW_CUDA_FUNCTIONS(RAW_CUDA_DECLARE)
#undef RAW_CUDA_DECLARE
} raw_cuda_driver;

/* What fails here prints one sentence, and gives false or NULL. */
bool raw_cuda_driver_check(CUresult result, const char *call);
#define RAW_CUDA_CHECK(call)                                                                                 \
    if (!raw_cuda_driver_check(call, #call)) return false

/* Device `index` with the module of that image and so much memory. Ended by the next, also where it failed. */
bool raw_cuda_driver_open(raw_cuda_driver *cuda, uint32_t index, const void *image, uint64_t memory_bytes);
void raw_cuda_driver_close(raw_cuda_driver *cuda);
/* A function that not all drivers have. */
void *raw_cuda_driver_find(const raw_cuda_driver *cuda, const char *name);
/* A kernel of one thread, as a node. */
bool raw_cuda_driver_add(const raw_cuda_driver *cuda, CUgraph graph, CUfunction function, void **parameters,
                         const CUgraphNode *before, size_t before_count, CUgraphNode *out_node);
bool raw_cuda_driver_instantiate(raw_cuda_driver *cuda);
/* Waits for the stream. */
bool raw_cuda_driver_wait(const raw_cuda_driver *cuda);

#endif
