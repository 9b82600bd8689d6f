/* The few functions of the CUDA driver that ops call themselves (executors and ops don't know one another),
 * opened at run time. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_DRIVER_H
#define ROTA_OPS_CUDA_DRIVER_H

#include <cuda.h>
#include "base/status.h"

/* Name without "cu", the version of CUDA whose form of the function is meant. */
#define ROTA_CUDA_DRIVER_FUNCTIONS(X)                                                                        \
    X(GetErrorName, 6000)                                                                                    \
    X(TensorMapEncodeTiled, 12000)                                                                           \
    X(EventCreate, 2000)                                                                                     \
    X(EventDestroy, 4000)                                                                                    \
    X(EventRecord, 2000)                                                                                     \
    X(EventSynchronize, 2000)                                                                                \
    X(EventElapsedTime, 2000)                                                                                \
    X(StreamSynchronize, 2000)                                                                               \
    X(StreamBeginCapture, 10010)                                                                             \
    X(StreamEndCapture, 10000)                                                                               \
    X(GraphCreate, 10000)                                                                                    \
    X(GraphAddChildGraphNode, 10000)                                                                         \
    X(GraphInstantiateWithFlags, 11040)                                                                      \
    X(GraphLaunch, 10000)                                                                                    \
    X(GraphExecDestroy, 10000)                                                                               \
    X(GraphDestroy, 10000)                                                                                   \
    X(CtxGetCurrent, 4000)                                                                                   \
    X(CtxGetId, 12000)                                                                                       \
    X(CtxPushCurrent, 4000)                                                                                  \
    X(CtxPopCurrent, 4000)                                                                                   \
    X(DeviceGet, 2000)                                                                                       \
    X(DevicePrimaryCtxRetain, 7000)                                                                          \
    X(DevicePrimaryCtxRelease, 11000)                                                                        \
    X(MemcpyHtoDAsync, 3020)                                                                                 \
    X(MemcpyDtoDAsync, 3020)                                                                                 \
    X(MemcpyDtoHAsync, 3020)                                                                                 \
    X(LibraryLoadData, 12000)                                                                                \
    X(LibraryGetKernel, 12000)                                                                               \
    X(KernelGetFunction, 12000)                                                                              \
    X(FuncSetAttribute, 9000)                                                                                \
    X(LaunchKernelEx, 11060)

typedef struct rota_cuda_driver {
#define ROTA_CUDA_DRIVER_FIELD(name, version) __typeof__(&cu##name) name;
    ROTA_CUDA_DRIVER_FUNCTIONS(ROTA_CUDA_DRIVER_FIELD)
#undef ROTA_CUDA_DRIVER_FIELD
} rota_cuda_driver;

/* UNSUPPORTED: no driver, or one that lacks a function, which is named. Any thread; the first call may block.
 */
rota_status rota_cuda_driver_get(const rota_cuda_driver **out_driver);

/* ROTA_OK, or fails with what was called and the driver's name for the error. */
rota_status rota_cuda_driver_check(const rota_cuda_driver *driver, CUresult result, const char *what);

/* A device's context, which is its primary one, being the calling thread's current one: whoever compiles asks on
 * any thread. What is entered is left, by the same thread. */
typedef struct rota_cuda_scope {
    CUdevice device;
    unsigned long long context; /* its number, which no other has in the life of the process */
} rota_cuda_scope;
rota_status rota_cuda_scope_enter(int32_t ordinal, rota_cuda_scope *out_scope);
void rota_cuda_scope_leave(const rota_cuda_scope *scope);

#endif
