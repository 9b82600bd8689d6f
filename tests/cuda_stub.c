/* See cuda_stub.h. One mutex guards everything; the thread that runs work holds it while it does. */
#include "tests/cuda_stub.h"

#ifdef ROTA_HAVE_CUDA
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "exec/smoke_kernel.h"
#include "tests/cuda_stub_kernels.h"
#include "tests/random.h"

#define KERNELS_MAX 64
#define STREAMS_MAX 64
#define DEVICES_MAX 4

enum {
#define STUB_ID(name, version, parameters) ID_##name,
    ROTA_CUDA_FUNCTIONS(STUB_ID)
#undef STUB_ID
        ID_COUNT
};
static const char *const names[] = {
#define STUB_NAME(name, version, parameters) #name,
    ROTA_CUDA_FUNCTIONS(STUB_NAME)
#undef STUB_NAME
        NULL};

enum {
    CONTEXT,
    STREAM,
    EVENT,
    GRAPH,
    EXEC,
    MODULE,
    MEMORY,
    HOST_MEMORY,
    HANDLE,
    RESERVED,
    MAPPED,
    KIND_COUNT
};
static const char *const kind_names[] = {"contexts",          "streams",  "events", "graphs",
                                         "executable graphs", "modules",  "memory", "host memory",
                                         "handles",           "reserved", "mapped"};

typedef struct record {
    bool done;
    uint32_t references;
} record;

struct CUevent_st {
    record *last;
};

typedef enum node_kind { NODE_KERNEL, NODE_MEMCPY, NODE_EMPTY, NODE_CHILD } node_kind;

struct CUgraphNode_st {
    CUgraph graph;
    node_kind kind;
    uint32_t index, before_count, cluster;
    uint32_t *before; /* indices */
    stub_launch launch;
    CUDA_MEMCPY3D copy;
    CUgraph child;
};

struct CUgraph_st {
    CUgraphNode *nodes;
    uint32_t count;
};

struct CUgraphExec_st {
    CUgraph graph; /* a copy */
    uint32_t in_flight;
};

typedef struct operation {
    struct operation *next;
    enum { LAUNCH, KERNEL, COPY, RECORD, WAIT } kind;
    CUgraphExec exec;
    stub_launch launch;
    CUdeviceptr to, from;
    size_t bytes;
    record *mark;
} operation;

struct CUstream_st {
    operation *first, *last;
    CUgraph capturing;
    CUgraphNode captured; /* the last */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool running, paused;
    uint64_t seed;
    int devices, retained[DEVICES_MAX];
    CUresult sticky;
    CUstream streams[STREAMS_MAX];
    stub_kernel kernels[KERNELS_MAX];
    uint32_t kernel_count;
    uint32_t alive[KIND_COUNT];
    uint64_t calls[ID_COUNT];
    int fail_id;
    uint64_t fail_at;
    CUresult fail_with;
    const char *hang, *fault;
    CUdevice_attribute lacking;
    int compute_mode;
    uint32_t violations;
    char violation[256];
    cuda_stub_graph last;
} stub = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static _Thread_local CUcontext current[16];
static _Thread_local uint32_t depth;

/* ---- Entering and leaving a call ---- */

static void violate(const char *what) {
    if (stub.violations++ == 0) snprintf(stub.violation, sizeof stub.violation, "%s", what);
}

static CUresult enter(int id, bool in_context) {
    pthread_mutex_lock(&stub.lock);
    stub.calls[id]++;
    if (stub.fail_id == id && stub.calls[id] == stub.fail_at) {
        stub.fail_id = -1;
        if (rota_cuda_is_fatal(stub.fail_with)) stub.sticky = stub.fail_with;
        return stub.fail_with;
    }
    if (!in_context) return CUDA_SUCCESS;
    if (depth == 0) violate(names[id]);
    if (depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
    return stub.sticky;
}

static CUresult leave(CUresult result) {
    pthread_cond_broadcast(&stub.changed);
    pthread_mutex_unlock(&stub.lock);
    return result;
}

/* Starts a call that can fail; ENTER_END: one that ends an object's life, which it does even so. */
#define ENTER(name)                                                                                          \
    CUresult result_ = enter(ID_##name, true);                                                               \
    if (result_ != CUDA_SUCCESS) return leave(result_)
#define ENTER_FREE(name)                                                                                     \
    CUresult result_ = enter(ID_##name, false);                                                              \
    if (result_ != CUDA_SUCCESS) return leave(result_)
#define ENTER_END(name) CUresult result_ = enter(ID_##name, true)

static void *take(int kind, size_t bytes) {
    void *memory = calloc(1, bytes);
    if (!memory) abort();
    stub.alive[kind]++;
    return memory;
}

static void give(int kind) {
    if (stub.alive[kind]-- == 0) violate("something freed twice");
}

static void check_stream(CUstream stream) {
    if (stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
        violate("a default stream was used");
}

/* ---- Driver, devices, contexts ---- */

static CUresult CUDAAPI stub_Init(unsigned flags) {
    (void)flags;
    ENTER_FREE(Init);
    return leave(stub.devices ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE);
}
static CUresult CUDAAPI stub_DriverGetVersion(int *out) {
    ENTER_FREE(DriverGetVersion);
    *out = 12040;
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_GetErrorName(CUresult result, const char **out) {
    *out = result == CUDA_ERROR_OUT_OF_MEMORY        ? "CUDA_ERROR_OUT_OF_MEMORY"
           : result == CUDA_ERROR_ILLEGAL_ADDRESS    ? "CUDA_ERROR_ILLEGAL_ADDRESS"
           : result == CUDA_ERROR_INVALID_VALUE      ? "CUDA_ERROR_INVALID_VALUE"
           : result == CUDA_ERROR_DEVICE_UNAVAILABLE ? "CUDA_ERROR_DEVICE_UNAVAILABLE"
                                                     : "an error";
    return CUDA_SUCCESS;
}
static CUresult CUDAAPI stub_GetErrorString(CUresult result, const char **out) {
    (void)result;
    *out = "as the stand-in was told";
    return CUDA_SUCCESS;
}
static CUresult CUDAAPI stub_DeviceGetCount(int *out) {
    ENTER_FREE(DeviceGetCount);
    *out = stub.devices;
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_DeviceGet(CUdevice *out, int ordinal) {
    ENTER_FREE(DeviceGet);
    *out = ordinal;
    return leave(ordinal < stub.devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE);
}
static CUresult CUDAAPI stub_DeviceGetName(char *out, int size, CUdevice device) {
    ENTER_FREE(DeviceGetName);
    snprintf(out, (size_t)size, "stand-in %d", device);
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_DeviceTotalMem(size_t *out, CUdevice device) {
    (void)device;
    ENTER_FREE(DeviceTotalMem);
    *out = (size_t)1 << 30;
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_DeviceGetAttribute(int *out, CUdevice_attribute which, CUdevice device) {
    (void)device;
    ENTER_FREE(DeviceGetAttribute);
    *out = 1;
    if (which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) *out = 9;
    if (which == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) *out = 0;
    if (which == CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) *out = stub.compute_mode;
    if (which == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) *out = 232448;
    if (which == stub.lacking) *out = 0;
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_DevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
    ENTER_FREE(DevicePrimaryCtxRetain);
    if (stub.sticky) return leave(stub.sticky);
    if (stub.retained[device]++ == 0) stub.alive[CONTEXT]++;
    *out = (CUcontext)(void *)&stub.retained[device];
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_DevicePrimaryCtxRelease(CUdevice device) {
    CUresult result = enter(ID_DevicePrimaryCtxRelease, false);
    if (--stub.retained[device] == 0) give(CONTEXT);
    if (depth) violate("a context is released while it is current");
    return leave(result);
}
static CUresult CUDAAPI stub_CtxPushCurrent(CUcontext context) {
    ENTER_FREE(CtxPushCurrent);
    if (stub.retained[(int *)(void *)context - stub.retained] == 0)
        violate("a released context is made current");
    current[depth++] = context;
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_CtxPopCurrent(CUcontext *out) {
    CUresult result = enter(ID_CtxPopCurrent, false);
    if (depth == 0) violate("a context is popped that was not pushed");
    if (depth) *out = current[--depth];
    return leave(result);
}

/* ---- Memory ---- */

static CUresult CUDAAPI stub_MemGetInfo(size_t *out_free, size_t *out_total) {
    ENTER(MemGetInfo);
    *out_free = 12345;
    *out_total = (size_t)1 << 30;
    return leave(CUDA_SUCCESS);
}
/* Aligned as CUDA does; the end is where a sanitizer looks for it. */
static void *bytes_of(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, 256, bytes ? bytes : 1) != 0) abort();
    memset(memory, 0xCD, bytes);
    return memory;
}
static CUresult CUDAAPI stub_MemAlloc(CUdeviceptr *out, size_t bytes) {
    ENTER(MemAlloc);
    if (bytes > (size_t)1 << 30) return leave(CUDA_ERROR_OUT_OF_MEMORY);
    *out = (CUdeviceptr)(uintptr_t)bytes_of(bytes);
    stub.alive[MEMORY]++;
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_MemFree(CUdeviceptr address) {
    ENTER_END(MemFree);
    give(MEMORY);
    free((void *)(uintptr_t)address);
    return leave(result_);
}
static CUresult CUDAAPI stub_MemHostAlloc(void **out, size_t bytes, unsigned flags) {
    (void)flags;
    ENTER(MemHostAlloc);
    *out = bytes_of(bytes);
    stub.alive[HOST_MEMORY]++;
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_MemHostGetDevicePointer(CUdeviceptr *out, void *host, unsigned flags) {
    (void)flags;
    ENTER(MemHostGetDevicePointer);
    *out = (CUdeviceptr)(uintptr_t)host;
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_MemFreeHost(void *host) {
    ENTER_END(MemFreeHost);
    give(HOST_MEMORY);
    free(host);
    return leave(result_);
}
static CUresult CUDAAPI stub_MemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *properties,
                                                         CUmemAllocationGranularity_flags flags) {
    (void)properties, (void)flags;
    ENTER(MemGetAllocationGranularity);
    *out = 65536;
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_MemCreate(CUmemGenericAllocationHandle *out, size_t bytes,
                                       const CUmemAllocationProp *properties, unsigned long long flags) {
    (void)flags;
    ENTER(MemCreate);
    if (bytes % 65536 || properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return leave(CUDA_ERROR_INVALID_VALUE);
    if (bytes > (size_t)1 << 30) return leave(CUDA_ERROR_OUT_OF_MEMORY);
    *out = bytes;
    stub.alive[HANDLE]++;
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_MemRelease(CUmemGenericAllocationHandle handle) {
    (void)handle;
    ENTER_END(MemRelease);
    give(HANDLE);
    return leave(result_);
}
static CUresult CUDAAPI stub_MemAddressReserve(CUdeviceptr *out, size_t bytes, size_t alignment,
                                               CUdeviceptr wish, unsigned long long flags) {
    (void)alignment, (void)wish, (void)flags;
    ENTER(MemAddressReserve);
    *out = (CUdeviceptr)(uintptr_t)bytes_of(bytes);
    stub.alive[RESERVED]++;
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_MemAddressFree(CUdeviceptr address, size_t bytes) {
    (void)bytes;
    ENTER_END(MemAddressFree);
    give(RESERVED);
    free((void *)(uintptr_t)address);
    return leave(result_);
}
static CUresult CUDAAPI stub_MemMap(CUdeviceptr address, size_t bytes, size_t offset,
                                    CUmemGenericAllocationHandle handle, unsigned long long flags) {
    (void)address, (void)offset, (void)flags;
    ENTER(MemMap);
    if (handle != bytes) violate("memory mapped with another size than it was made with");
    stub.alive[MAPPED]++;
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_MemUnmap(CUdeviceptr address, size_t bytes) {
    (void)address, (void)bytes;
    ENTER_END(MemUnmap);
    give(MAPPED);
    return leave(result_);
}
static CUresult CUDAAPI stub_MemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access,
                                          size_t count) {
    (void)address, (void)bytes, (void)access, (void)count;
    ENTER(MemSetAccess);
    return leave(CUDA_SUCCESS);
}

/* ---- Modules and functions ---- */

static CUresult CUDAAPI stub_ModuleLoadDataEx(CUmodule *out, const void *image, unsigned count,
                                              CUjit_option *options, void **values) {
    (void)image, (void)count, (void)options, (void)values;
    ENTER(ModuleLoadDataEx);
    *out = take(MODULE, 1);
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_ModuleUnload(CUmodule module) {
    ENTER_END(ModuleUnload);
    give(MODULE);
    free(module);
    return leave(result_);
}
static CUresult CUDAAPI stub_ModuleGetFunction(CUfunction *out, CUmodule module, const char *entry) {
    (void)module;
    ENTER(ModuleGetFunction);
    for (uint32_t i = 0; i < stub.kernel_count; i++)
        if (strcmp(stub.kernels[i].entry, entry) == 0) {
            *out = (CUfunction)(void *)&stub.kernels[i];
            return leave(CUDA_SUCCESS);
        }
    return leave(CUDA_ERROR_NOT_FOUND);
}
static CUresult CUDAAPI stub_FuncGetAttribute(int *out, CUfunction_attribute which, CUfunction function) {
    (void)function;
    ENTER(FuncGetAttribute);
    *out = which == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_FuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
    (void)function, (void)which, (void)value;
    ENTER(FuncSetAttribute);
    return leave(CUDA_SUCCESS);
}

/* ---- Graphs ---- */

static CUgraphNode node_new(CUgraph graph, node_kind kind, const CUgraphNode *before, size_t count) {
    CUgraphNode node = calloc(1, sizeof *node);
    uint32_t *indices = calloc(count + 1, sizeof *indices);
    CUgraphNode *nodes = realloc(graph->nodes, (graph->count + 1) * sizeof *nodes);
    if (!node || !indices || !nodes) abort();
    for (size_t i = 0; i < count; i++) {
        if (before[i]->graph != graph) violate("an edge from another graph");
        indices[i] = before[i]->index;
        for (size_t j = 0; j < i; j++)
            if (indices[j] == indices[i]) violate("the same edge twice");
    }
    *node = (struct CUgraphNode_st){.graph = graph,
                                    .kind = kind,
                                    .index = graph->count,
                                    .before = indices,
                                    .before_count = (uint32_t)count,
                                    .cluster = 1};
    graph->nodes = nodes;
    graph->nodes[graph->count++] = node;
    return node;
}

static void graph_free(CUgraph graph) {
    for (uint32_t i = 0; i < graph->count; i++) {
        if (graph->nodes[i]->child) graph_free(graph->nodes[i]->child);
        stub_launch_free(&graph->nodes[i]->launch);
        free(graph->nodes[i]->before);
        free(graph->nodes[i]);
    }
    free(graph->nodes);
    free(graph);
}

static CUgraph graph_copy(CUgraph from) {
    CUgraph graph = calloc(1, sizeof *graph);
    if (!graph) abort();
    for (uint32_t i = 0; i < from->count; i++) {
        CUgraphNode old = from->nodes[i], node = node_new(graph, old->kind, NULL, 0);
        node->before = realloc(node->before, (old->before_count + 1) * sizeof *node->before);
        if (!node->before) abort();
        memcpy(node->before, old->before, old->before_count * sizeof *node->before);
        node->before_count = old->before_count;
        node->cluster = old->cluster;
        node->copy = old->copy;
        node->launch = stub_launch_copy(&old->launch);
        if (old->child) node->child = graph_copy(old->child);
    }
    return graph;
}

static CUresult CUDAAPI stub_GraphCreate(CUgraph *out, unsigned flags) {
    (void)flags;
    ENTER(GraphCreate);
    *out = take(GRAPH, sizeof(struct CUgraph_st));
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_GraphDestroy(CUgraph graph) {
    ENTER_END(GraphDestroy);
    give(GRAPH);
    graph_free(graph);
    return leave(result_);
}
static CUresult CUDAAPI stub_GraphGetNodes(CUgraph graph, CUgraphNode *out, size_t *count) {
    ENTER(GraphGetNodes);
    (void)out;
    *count = graph->count;
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_GraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
                                                size_t count, const CUDA_KERNEL_NODE_PARAMS *params) {
    ENTER(GraphAddKernelNode);
    if (params->gridDimX == 0 || params->gridDimY == 0 || params->gridDimZ == 0)
        return leave(CUDA_ERROR_INVALID_VALUE);
    *out = node_new(graph, NODE_KERNEL, before, count);
    (*out)->launch = stub_launch_new((stub_kernel *)(void *)params->func, params->kernelParams);
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_GraphKernelNodeSetAttribute(CUgraphNode node, CUlaunchAttributeID which,
                                                         const CUlaunchAttributeValue *value) {
    ENTER(GraphKernelNodeSetAttribute);
    if (which == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        node->cluster = value->clusterDim.x * value->clusterDim.y * value->clusterDim.z;
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_GraphAddMemcpyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
                                                size_t count, const CUDA_MEMCPY3D *copy, CUcontext context) {
    (void)context;
    ENTER(GraphAddMemcpyNode);
    *out = node_new(graph, NODE_MEMCPY, before, count);
    (*out)->copy = *copy;
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_GraphAddEmptyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
                                               size_t count) {
    ENTER(GraphAddEmptyNode);
    *out = node_new(graph, NODE_EMPTY, before, count);
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_GraphAddChildGraphNode(CUgraphNode *out, CUgraph graph,
                                                    const CUgraphNode *before, size_t count, CUgraph child) {
    ENTER(GraphAddChildGraphNode);
    *out = node_new(graph, NODE_CHILD, before, count);
    (*out)->child = graph_copy(child);
    return leave(CUDA_SUCCESS);
}

static void describe_graph(CUgraph graph) {
    stub.last = (cuda_stub_graph){.nodes = graph->count};
    for (uint32_t i = 0; i < graph->count; i++) {
        CUgraphNode node = graph->nodes[i];
        stub.last.edges += node->before_count;
        stub.last.roots += node->before_count == 0;
        stub.last.kernels += node->kind == NODE_KERNEL;
        stub.last.memcpys += node->kind == NODE_MEMCPY;
        stub.last.children += node->kind == NODE_CHILD;
        stub.last.empties += node->kind == NODE_EMPTY;
        if (node->cluster > stub.last.widest_cluster) stub.last.widest_cluster = node->cluster;
    }
}
static CUresult CUDAAPI stub_GraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
                                                       unsigned long long flags) {
    (void)flags;
    ENTER(GraphInstantiateWithFlags);
    describe_graph(graph);
    *out = take(EXEC, sizeof(struct CUgraphExec_st));
    (*out)->graph = graph_copy(graph);
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_GraphUpload(CUgraphExec exec, CUstream stream) {
    (void)exec;
    ENTER(GraphUpload);
    check_stream(stream);
    if (stream->capturing) violate("an upload on a stream that is captured");
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_GraphExecDestroy(CUgraphExec exec) {
    ENTER_END(GraphExecDestroy);
    if (exec->in_flight && !stub.sticky) violate("an executable graph destroyed in flight");
    give(EXEC);
    graph_free(exec->graph);
    exec->graph = NULL;
    if (!exec->in_flight) free(exec);
    return leave(result_);
}

/* ---- Streams and events ---- */

static operation *push(CUstream stream, operation what) {
    operation *op = malloc(sizeof *op);
    if (!op) abort();
    *op = what;
    op->next = NULL;
    if (stream->last)
        stream->last->next = op;
    else
        stream->first = op;
    stream->last = op;
    return op;
}

static void let_go(record *r) {
    if (r && --r->references == 0) free(r);
}

static CUresult CUDAAPI stub_GraphLaunch(CUgraphExec exec, CUstream stream) {
    ENTER(GraphLaunch);
    check_stream(stream);
    exec->in_flight++;
    push(stream, (operation){.kind = LAUNCH, .exec = exec});
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_LaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                                          unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                          CUstream stream, void **params, void **extra) {
    (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
    ENTER(LaunchKernel);
    check_stream(stream);
    stub_launch launch = stub_launch_new((stub_kernel *)(void *)function, params);
    if (stream->capturing) {
        CUgraphNode before = stream->captured;
        stream->captured = node_new(stream->capturing, NODE_KERNEL, &before, before != NULL);
        stream->captured->launch = launch;
    } else {
        push(stream, (operation){.kind = KERNEL, .launch = launch});
    }
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_MemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    ENTER(MemcpyAsync);
    check_stream(stream);
    push(stream, (operation){.kind = COPY, .to = to, .from = from, .bytes = bytes});
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_StreamCreate(CUstream *out, unsigned flags) {
    ENTER(StreamCreate);
    if (flags != CU_STREAM_NON_BLOCKING) violate("a stream that waits for the default stream");
    uint32_t i = 0;
    while (stub.streams[i]) i++;
    if (i == STREAMS_MAX) abort();
    *out = stub.streams[i] = take(STREAM, sizeof(struct CUstream_st));
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_StreamDestroy(CUstream stream) {
    ENTER_END(StreamDestroy);
    if (stream->first && !stub.sticky) violate("a stream destroyed with work on it");
    for (uint32_t i = 0; i < STREAMS_MAX; i++)
        if (stub.streams[i] == stream) stub.streams[i] = NULL;
    while (stream->first) {
        operation *op = stream->first;
        stream->first = op->next;
        let_go(op->mark);
        stub_launch_free(&op->launch);
        if (op->exec && --op->exec->in_flight == 0 && !op->exec->graph) free(op->exec);
        free(op);
    }
    give(STREAM);
    free(stream);
    return leave(result_);
}
static CUresult CUDAAPI stub_StreamSynchronize(CUstream stream) {
    ENTER(StreamSynchronize);
    check_stream(stream);
    if (stream->capturing) violate("a wait for a stream that is captured");
    while (stream->first && !stub.sticky) pthread_cond_wait(&stub.changed, &stub.lock);
    return leave(stub.sticky);
}
static CUresult CUDAAPI stub_StreamQuery(CUstream stream) {
    ENTER(StreamQuery);
    check_stream(stream);
    return leave(stream->first ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_StreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    (void)flags;
    ENTER(StreamWaitEvent);
    check_stream(stream);
    if (!event->last) violate("a wait for an event that was never recorded");
    if (!event->last) return leave(CUDA_ERROR_INVALID_VALUE);
    event->last->references++;
    push(stream, (operation){.kind = WAIT, .mark = event->last});
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_StreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
    ENTER(StreamBeginCapture);
    check_stream(stream);
    if (mode != CU_STREAM_CAPTURE_MODE_RELAXED || stream->capturing)
        violate("a capture that is not relaxed or alone");
    stream->capturing = take(GRAPH, sizeof(struct CUgraph_st));
    stream->captured = NULL;
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_StreamEndCapture(CUstream stream, CUgraph *out) {
    ENTER_END(StreamEndCapture);
    CUgraph graph = stream->capturing;
    stream->capturing = NULL;
    if (result_ != CUDA_SUCCESS && graph) {
        give(GRAPH);
        graph_free(graph);
        graph = NULL;
    }
    *out = graph;
    return leave(result_);
}
static CUresult CUDAAPI stub_EventCreate(CUevent *out, unsigned flags) {
    (void)flags;
    ENTER(EventCreate);
    *out = take(EVENT, sizeof(struct CUevent_st));
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_EventDestroy(CUevent event) {
    ENTER_END(EventDestroy);
    let_go(event->last);
    give(EVENT);
    free(event);
    return leave(result_);
}
static CUresult CUDAAPI stub_EventRecord(CUevent event, CUstream stream) {
    ENTER(EventRecord);
    check_stream(stream);
    let_go(event->last);
    event->last = calloc(1, sizeof *event->last);
    if (!event->last) abort();
    event->last->references = 2;
    push(stream, (operation){.kind = RECORD, .mark = event->last});
    return leave(CUDA_SUCCESS);
}
static CUresult CUDAAPI stub_EventQuery(CUevent event) {
    ENTER(EventQuery);
    return leave(!event->last || event->last->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

/* ---- Running ---- */

static bool is_hung(CUgraph graph) {
    for (uint32_t i = 0; stub.hang && graph && i < graph->count; i++)
        if ((graph->nodes[i]->kind == NODE_KERNEL &&
             strcmp(graph->nodes[i]->launch.kernel->entry, stub.hang) == 0) ||
            (graph->nodes[i]->child && is_hung(graph->nodes[i]->child)))
            return true;
    return false;
}

static void run_kernel(const stub_launch *launch) {
    if (stub.fault && strcmp(launch->kernel->entry, stub.fault) == 0)
        stub.sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
    if (!stub.sticky) stub_launch_run(launch);
}

/* The nodes in random order, each after those that its edges name. */
static void run_graph(CUgraph graph) {
    uint32_t *left = calloc(graph->count + 1, sizeof *left), *ready = calloc(graph->count + 1, sizeof *ready);
    uint32_t ready_count = 0;
    if (!left || !ready) abort();
    for (uint32_t i = 0; i < graph->count; i++) {
        left[i] = graph->nodes[i]->before_count;
        if (left[i] == 0) ready[ready_count++] = i;
    }
    /* Who waits for whom, the other way round. */
    uint32_t *first = calloc(graph->count + 2, sizeof *first), edges = 0;
    if (!first) abort();
    for (uint32_t i = 0; i < graph->count; i++)
        for (uint32_t e = 0; e < graph->nodes[i]->before_count; e++)
            first[graph->nodes[i]->before[e] + 1]++, edges++;
    for (uint32_t i = 0; i < graph->count; i++) first[i + 1] += first[i];
    uint32_t *after = calloc(edges + 1, sizeof *after), *cursor = calloc(graph->count + 1, sizeof *cursor);
    if (!after || !cursor) abort();
    for (uint32_t i = 0; i < graph->count; i++)
        for (uint32_t e = 0; e < graph->nodes[i]->before_count; e++) {
            uint32_t before = graph->nodes[i]->before[e];
            after[first[before] + cursor[before]++] = i;
        }
    while (ready_count && !stub.sticky) {
        uint32_t pick = (uint32_t)(test_random(&stub.seed) % ready_count), index = ready[pick];
        ready[pick] = ready[--ready_count];
        CUgraphNode node = graph->nodes[index];
        if (node->kind == NODE_KERNEL) run_kernel(&node->launch);
        if (node->kind == NODE_MEMCPY)
            memmove((void *)(uintptr_t)node->copy.dstDevice, (const void *)(uintptr_t)node->copy.srcDevice,
                    node->copy.WidthInBytes);
        if (node->kind == NODE_CHILD) run_graph(node->child);
        for (uint32_t e = first[index]; e < first[index + 1]; e++)
            if (--left[after[e]] == 0) ready[ready_count++] = after[e];
    }
    free(left);
    free(ready);
    free(first);
    free(after);
    free(cursor);
}

static bool can_run(const struct CUstream_st *stream) {
    const operation *op = stream ? stream->first : NULL;
    if (!op || (op->kind == WAIT && !op->mark->done)) return false;
    if (op->kind == LAUNCH && is_hung(op->exec->graph)) return false;
    return true;
}

static void run_first(CUstream stream) {
    operation *op = stream->first;
    if (op->kind == LAUNCH) {
        run_graph(op->exec->graph);
        if (--op->exec->in_flight == 0 && !op->exec->graph) free(op->exec);
    } else if (op->kind == KERNEL) {
        run_kernel(&op->launch);
    } else if (op->kind == COPY) {
        memmove((void *)(uintptr_t)op->to, (const void *)(uintptr_t)op->from, op->bytes);
    } else if (op->kind == RECORD && !stub.sticky) {
        op->mark->done = true;
    }
    stream->first = op->next;
    if (!stream->first) stream->last = NULL;
    let_go(op->mark);
    stub_launch_free(&op->launch);
    free(op);
}

static void *run_main(void *unused) {
    (void)unused;
    pthread_mutex_lock(&stub.lock);
    while (stub.running) {
        uint32_t count = 0, able[STREAMS_MAX];
        for (uint32_t i = 0; i < STREAMS_MAX; i++)
            if (can_run(stub.streams[i])) able[count++] = i;
        if (count == 0 || stub.paused || stub.sticky) {
            pthread_cond_wait(&stub.changed, &stub.lock);
            continue;
        }
        run_first(stub.streams[able[test_random(&stub.seed) % count]]);
        pthread_cond_broadcast(&stub.changed);
        /* Others get a word in between. */
        pthread_mutex_unlock(&stub.lock);
        pthread_mutex_lock(&stub.lock);
    }
    pthread_mutex_unlock(&stub.lock);
    return NULL;
}

/* ---- What tests call ---- */

const rota_cuda_api *cuda_stub_api(void) {
    static const rota_cuda_api api = {
#define STUB_ENTRY(name, version, parameters) .name = stub_##name,
        ROTA_CUDA_FUNCTIONS(STUB_ENTRY)
#undef STUB_ENTRY
    };
    return &api;
}

void cuda_stub_start(uint64_t seed, int devices) {
    pthread_mutex_lock(&stub.lock);
    memset(stub.alive, 0, sizeof stub.alive);
    memset(stub.calls, 0, sizeof stub.calls);
    memset(stub.retained, 0, sizeof stub.retained);
    memset(stub.streams, 0, sizeof stub.streams);
    stub.seed = seed;
    stub.devices = devices;
    stub.sticky = CUDA_SUCCESS;
    stub.paused = false;
    stub.hang = stub.fault = NULL;
    stub.fail_id = -1;
    stub.lacking = 0;
    stub.compute_mode = CU_COMPUTEMODE_DEFAULT;
    stub.violations = 0;
    stub.violation[0] = 0;
    stub.kernel_count = 0;
    stub.running = true;
    pthread_mutex_unlock(&stub.lock);
    for (uint32_t i = 0; i < stub_own_kernel_count; i++)
        stub.kernels[stub.kernel_count++] = stub_own_kernels[i];
    cuda_stub_kernel(&rota_smoke_kernel);
    if (pthread_create(&stub.thread, NULL, run_main, NULL) != 0) abort();
    rota_cuda_api_use(cuda_stub_api());
}

void cuda_stub_stop(void) {
    rota_cuda_api_use(NULL);
    pthread_mutex_lock(&stub.lock);
    stub.running = false;
    pthread_cond_broadcast(&stub.changed);
    pthread_mutex_unlock(&stub.lock);
    pthread_join(stub.thread, NULL);
}

void cuda_stub_kernel(const rota_kernel *kernel) {
    if (stub.kernel_count == KERNELS_MAX) abort();
    stub.kernels[stub.kernel_count++] = stub_kernel_of(kernel);
}

uint32_t cuda_stub_alive(char *out_text, size_t text_bytes) {
    uint32_t sum = 0;
    size_t used = 0;
    if (text_bytes) out_text[0] = 0;
    pthread_mutex_lock(&stub.lock);
    for (int k = 0; k < KIND_COUNT; k++) {
        sum += stub.alive[k];
        if (stub.alive[k] && used < text_bytes)
            used +=
                (size_t)snprintf(out_text + used, text_bytes - used, "%u %s ", stub.alive[k], kind_names[k]);
    }
    pthread_mutex_unlock(&stub.lock);
    return sum;
}

uint32_t cuda_stub_violations(char *out_text, size_t text_bytes) {
    pthread_mutex_lock(&stub.lock);
    uint32_t count = stub.violations;
    if (text_bytes) snprintf(out_text, text_bytes, "%s", stub.violation);
    pthread_mutex_unlock(&stub.lock);
    return count;
}

static int id_of(const char *name) {
    for (int i = 0; i < ID_COUNT; i++)
        if (strcmp(names[i], name) == 0) return i;
    abort();
}

void cuda_stub_fail(const char *name, uint32_t skip, CUresult result) {
    pthread_mutex_lock(&stub.lock);
    stub.fail_id = id_of(name);
    stub.fail_at = stub.calls[stub.fail_id] + skip + 1;
    stub.fail_with = result;
    pthread_mutex_unlock(&stub.lock);
}

uint64_t cuda_stub_calls(const char *name) {
    pthread_mutex_lock(&stub.lock);
    uint64_t calls = stub.calls[id_of(name)];
    pthread_mutex_unlock(&stub.lock);
    return calls;
}

const char *cuda_stub_name(uint32_t index) {
    return index < ID_COUNT ? names[index] : NULL;
}

#define SET(field, value)                                                                                    \
    pthread_mutex_lock(&stub.lock);                                                                          \
    stub.field = value;                                                                                      \
    pthread_cond_broadcast(&stub.changed);                                                                   \
    pthread_mutex_unlock(&stub.lock)

void cuda_stub_pause(bool paused) {
    SET(paused, paused);
}
void cuda_stub_hang(const char *entry) {
    SET(hang, entry);
}
void cuda_stub_fault(const char *entry) {
    SET(fault, entry);
}
void cuda_stub_lack(CUdevice_attribute attribute) {
    SET(lacking, attribute);
}
void cuda_stub_compute_mode(int mode) {
    SET(compute_mode, mode);
}

cuda_stub_graph cuda_stub_last_graph(void) {
    pthread_mutex_lock(&stub.lock);
    cuda_stub_graph last = stub.last;
    pthread_mutex_unlock(&stub.lock);
    return last;
}
#endif
