/* The CUDA driver, opened at run time, and the table of its functions that rota calls: one list (an X-macro)
 * from which the table and its filling come. Nothing links to libcuda, and nothing here belongs to the CUDA
 * runtime API. Internal; not installed. */
#ifndef ROTA_EXEC_CUDA_CUDA_API_H
#define ROTA_EXEC_CUDA_CUDA_API_H

#include <cuda.h>
#include <stdbool.h>
#include "base/status.h"

/* The lowest driver version that has all of what follows: cuGetProcAddress in its second form and the second
 * form of kernel nodes came with 12.0. */
#define ROTA_CUDA_DRIVER_NEEDED 12000

/* name without "cu", the CUDA version whose form of the function is meant, parameters. */
#define ROTA_CUDA_FUNCTIONS(X)                                                                               \
    X(Init, 2000, (unsigned))                                                                                \
    X(DriverGetVersion, 2020, (int *))                                                                       \
    X(GetErrorName, 6000, (CUresult, const char **))                                                         \
    X(GetErrorString, 6000, (CUresult, const char **))                                                       \
    X(DeviceGetCount, 2000, (int *))                                                                         \
    X(DeviceGet, 2000, (CUdevice *, int))                                                                    \
    X(DeviceGetName, 2000, (char *, int, CUdevice))                                                          \
    X(DeviceTotalMem, 3020, (size_t *, CUdevice))                                                            \
    X(DeviceGetUuid, 11040, (CUuuid *, CUdevice))                                                            \
    X(DeviceGetAttribute, 2000, (int *, CUdevice_attribute, CUdevice))                                       \
    X(DevicePrimaryCtxRetain, 7000, (CUcontext *, CUdevice))                                                 \
    X(DevicePrimaryCtxRelease, 11000, (CUdevice))                                                            \
    X(CtxPushCurrent, 4000, (CUcontext))                                                                     \
    X(CtxPopCurrent, 4000, (CUcontext *))                                                                    \
    X(CtxGetDevice, 2000, (CUdevice *))                                                                      \
    X(ThreadExchangeStreamCaptureMode, 10010, (CUstreamCaptureMode *))                                       \
    X(MemGetInfo, 3020, (size_t *, size_t *))                                                                \
    X(MemAlloc, 3020, (CUdeviceptr *, size_t))                                                               \
    X(MemFree, 3020, (CUdeviceptr))                                                                          \
    X(MemHostAlloc, 2020, (void **, size_t, unsigned))                                                       \
    X(MemHostGetDevicePointer, 3020, (CUdeviceptr *, void *, unsigned))                                      \
    X(MemFreeHost, 2000, (void *))                                                                           \
    X(PointerGetAttributes, 7000, (unsigned, CUpointer_attribute *, void **, CUdeviceptr))                   \
    X(MemGetAllocationGranularity, 10020,                                                                    \
      (size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags))                             \
    X(MemCreate, 10020,                                                                                      \
      (CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long))             \
    X(MemRelease, 10020, (CUmemGenericAllocationHandle))                                                     \
    X(MemAddressReserve, 10020, (CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long))            \
    X(MemAddressFree, 10020, (CUdeviceptr, size_t))                                                          \
    X(MemMap, 10020, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long))        \
    X(MemUnmap, 10020, (CUdeviceptr, size_t))                                                                \
    X(MemSetAccess, 10020, (CUdeviceptr, size_t, const CUmemAccessDesc *, size_t))                           \
    X(MemGetAccess, 10020, (unsigned long long *, const CUmemLocation *, CUdeviceptr))                       \
    X(MemExportToShareableHandle, 10020,                                                                     \
      (void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long))                 \
    X(ImportExternalMemory, 10000, (CUexternalMemory *, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *))           \
    X(ExternalMemoryGetMappedBuffer, 10000,                                                                  \
      (CUdeviceptr *, CUexternalMemory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *))                           \
    X(DestroyExternalMemory, 10000, (CUexternalMemory))                                                      \
    X(ImportExternalSemaphore, 10000, (CUexternalSemaphore *, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *))  \
    X(WaitExternalSemaphoresAsync, 10000,                                                                    \
      (const CUexternalSemaphore *, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *, unsigned, CUstream))        \
    X(SignalExternalSemaphoresAsync, 10000,                                                                  \
      (const CUexternalSemaphore *, const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *, unsigned, CUstream))      \
    X(DestroyExternalSemaphore, 10000, (CUexternalSemaphore))                                                \
    X(MemcpyAsync, 4000, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                                       \
    X(ModuleLoadDataEx, 2010, (CUmodule *, const void *, unsigned, CUjit_option *, void **))                 \
    X(ModuleUnload, 2000, (CUmodule))                                                                        \
    X(ModuleGetFunction, 2000, (CUfunction *, CUmodule, const char *))                                       \
    X(FuncGetAttribute, 2020, (int *, CUfunction_attribute, CUfunction))                                     \
    X(FuncSetAttribute, 9000, (CUfunction, CUfunction_attribute, int))                                       \
    X(LaunchKernel, 4000,                                                                                    \
      (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **,  \
       void **))                                                                                             \
    X(StreamCreate, 2000, (CUstream *, unsigned))                                                            \
    X(StreamCreateWithPriority, 5050, (CUstream *, unsigned, int))                                           \
    X(CtxGetStreamPriorityRange, 5050, (int *, int *))                                                       \
    X(StreamDestroy, 4000, (CUstream))                                                                       \
    X(StreamWaitEvent, 3020, (CUstream, CUevent, unsigned))                                                  \
    X(StreamGetCtx, 9020, (CUstream, CUcontext *))                                                           \
    X(StreamIsCapturing, 10000, (CUstream, CUstreamCaptureStatus *))                                         \
    X(StreamAddCallback, 5000, (CUstream, CUstreamCallback, void *, unsigned))                               \
    X(StreamQuery, 2000, (CUstream))                                                                         \
    X(StreamSynchronize, 2000, (CUstream))                                                                   \
    X(StreamBeginCapture, 10010, (CUstream, CUstreamCaptureMode))                                            \
    X(StreamEndCapture, 10000, (CUstream, CUgraph *))                                                        \
    X(EventCreate, 2000, (CUevent *, unsigned))                                                              \
    X(EventDestroy, 4000, (CUevent))                                                                         \
    X(EventRecord, 2000, (CUevent, CUstream))                                                                \
    X(EventQuery, 2000, (CUevent))                                                                           \
    X(GraphCreate, 10000, (CUgraph *, unsigned))                                                             \
    X(GraphDestroy, 10000, (CUgraph))                                                                        \
    X(GraphGetNodes, 10000, (CUgraph, CUgraphNode *, size_t *))                                              \
    X(GraphNodeGetType, 10000, (CUgraphNode, CUgraphNodeType *))                                             \
    X(GraphKernelNodeGetParams, 12000, (CUgraphNode, CUDA_KERNEL_NODE_PARAMS *))                             \
    X(GraphKernelNodeSetParams, 12000, (CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *))                       \
    X(GraphKernelNodeCopyAttributes, 11000, (CUgraphNode, CUgraphNode))                                      \
    X(GraphAddKernelNode, 12000,                                                                             \
      (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_KERNEL_NODE_PARAMS *))                \
    X(GraphKernelNodeSetAttribute, 11000,                                                                    \
      (CUgraphNode, CUlaunchAttributeID, const CUlaunchAttributeValue *))                                    \
    X(GraphAddMemcpyNode, 10000,                                                                             \
      (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, const CUDA_MEMCPY3D *, CUcontext))               \
    X(GraphAddEmptyNode, 10000, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t))                       \
    X(GraphAddChildGraphNode, 10000, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraph))         \
    X(GraphInstantiateWithFlags, 11040, (CUgraphExec *, CUgraph, unsigned long long))                        \
    X(GraphExecKernelNodeSetParams, 12000, (CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *))      \
    X(GraphNodeSetEnabled, 11060, (CUgraphExec, CUgraphNode, unsigned))                                      \
    X(GraphUpload, 11010, (CUgraphExec, CUstream))                                                           \
    X(GraphLaunch, 10000, (CUgraphExec, CUstream))                                                           \
    X(GraphExecDestroy, 10000, (CUgraphExec))

/* Those that a newer driver has; NULL in the table of an older one. */
#define ROTA_CUDA_NEWER_FUNCTIONS(X)                                                                         \
    X(DeviceCanAccessPeer, 4000, (int *, CUdevice, CUdevice))                                                \
    X(CtxEnablePeerAccess, 4000, (CUcontext, unsigned))                                                      \
    X(MemGetHandleForAddressRange, 11070,                                                                    \
      (void *, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long))                               \
    X(StreamWaitValue64, 11070, (CUstream, CUdeviceptr, cuuint64_t, unsigned))                               \
    X(StreamWriteValue64, 11070, (CUstream, CUdeviceptr, cuuint64_t, unsigned))                              \
    X(FuncGetParamInfo, 12040, (CUfunction, size_t, size_t *, size_t *))                                     \
    X(FuncGetName, 12030, (const char **, CUfunction))                                                       \
    X(ModuleGetFunctionCount, 12040, (unsigned *, CUmodule))                                                 \
    X(ModuleEnumerateFunctions, 12040, (CUfunction *, unsigned, CUmodule))                                   \
    X(GraphConditionalHandleCreate, 12030, (unsigned long long *, CUgraph, CUcontext, unsigned, unsigned))   \
    X(GraphAddNode, 12030,                                                                                   \
      (CUgraphNode *, CUgraph, const CUgraphNode *, const rota_cuda_edge *, size_t,                          \
       rota_cuda_conditional_node *))                                                                        \
    X(GraphAddDependencies, 13000,                                                                           \
      (CUgraph, const CUgraphNode *, const CUgraphNode *, const rota_cuda_edge *, size_t))

/* CUgraphEdgeData and what of its values is used, which older headers lack. */
typedef struct rota_cuda_edge {
    unsigned char from_port, to_port, type, reserved[5];
} rota_cuda_edge;
#define ROTA_CUDA_PORT_PROGRAMMATIC 1
#define ROTA_CUDA_EDGE_PROGRAMMATIC 1

/* CUgraphNodeParams with what it has for a conditional node, and the values of those, likewise. The bodies' graphs come
 * out, and are the node's. */
typedef struct rota_cuda_conditional_node {
    int node_type;
    int reserved0[3];
    union {
        long long reserved1[29];
        struct {
            unsigned long long handle;
            int type;
            unsigned size;
            CUgraph *bodies;
            CUcontext context;
        } is;
    } u;
    long long reserved2;
} rota_cuda_conditional_node;
#define ROTA_CUDA_NODE_CONDITIONAL 13
#define ROTA_CUDA_CONDITIONAL_IF 0
#define ROTA_CUDA_CONDITIONAL_WHILE 1
#define ROTA_CUDA_CONDITIONAL_SWITCH 2
/* A kernel node's attribute by which kernels may set its grid (CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE), and
 * its value, which begins CUlaunchAttributeValue; likewise. */
#define ROTA_CUDA_ATTRIBUTE_UPDATABLE 13
typedef struct rota_cuda_updatable {
    int is_updatable;
    uint64_t node; /* comes out: for what the device calls */
} rota_cuda_updatable;

/* From which driver on there are nodes of the first two kinds; and of the third, and of an if with an else. */
#define ROTA_CUDA_CONDITIONALS_NEEDED 12040
#define ROTA_CUDA_SWITCHES_NEEDED 12080

typedef struct rota_cuda_api {
#define ROTA_CUDA_MEMBER(name, version, parameters) CUresult(CUDAAPI *name) parameters;
    ROTA_CUDA_FUNCTIONS(ROTA_CUDA_MEMBER)
    ROTA_CUDA_NEWER_FUNCTIONS(ROTA_CUDA_MEMBER)
#undef ROTA_CUDA_MEMBER
} rota_cuda_api;

/* Finds "cuName" of a version in an open driver; NULL where it is missing. */
typedef void *(*rota_cuda_find_fn)(void *user, const char *name, int version);

/* Opens the library of this name and fills the table. UNSUPPORTED, with the reason: no such library, no CUDA
 * driver, a driver too old (both versions named), a function missing (named). */
rota_status rota_cuda_api_load(const char *library, rota_cuda_api *out_api);
/* Only the filling, out of an open driver of this version. */
rota_status rota_cuda_api_fill(int version, rota_cuda_find_fn find, void *user, rota_cuda_api *out_api);

/* The driver of this process: libcuda.so.1, opened once and kept (a driver does not survive being unloaded).
 * Any thread; blocks in the dynamic linker the first time. */
rota_status rota_cuda_api_get(const rota_cuda_api **out_api);

/* For tests: from now on rota_cuda_api_get gives `api`; NULL: the process's driver again. Borrowed. */
void rota_cuda_api_use(const rota_cuda_api *api);
bool rota_cuda_api_is_replaced(void);

/* "CUDA_ERROR_ILLEGAL_ADDRESS" and the like; static storage. */
const char *rota_cuda_result_name(const rota_cuda_api *api, CUresult result);

/* Whether the context is gone with this result: every later call on it gives the same. */
bool rota_cuda_is_fatal(CUresult result);

/* The status that a result stands for, with a sentence "<what>: <name> (<text>)". */
rota_status rota_cuda_fail(const rota_cuda_api *api, CUresult result, const char *what);

#endif
