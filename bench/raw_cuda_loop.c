/* See raw_cuda_loop.h. */
#include "bench/raw_cuda_loop.h"

#include <stdio.h>

#ifdef ROTA_HAVE_CUDA
#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "cuda/loops_cuda.h"

/* CUgraphNodeParams of a conditional node, which older headers lack (exec/cuda/cuda_api.h). */
typedef struct conditional_node {
    int node_type;
    int reserved0[3];
    unsigned long long handle;
    int type;
    unsigned size;
    CUgraph *bodies;
    CUcontext context;
    long long reserved1[25];
    long long reserved2;
} conditional_node;
_Static_assert(sizeof(conditional_node) == 256, "the driver's struct");
enum { NODE_CONDITIONAL = 13, CONDITIONAL_WHILE = 1 };

/* name without "cu", the symbol's suffix, parameters. */
#define FUNCTIONS(X)                                                                                         \
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
    X(GraphConditionalHandleCreate, , (unsigned long long *, CUgraph, CUcontext, unsigned, unsigned))        \
    X(GraphAddNode, _v2,                                                                                     \
      (CUgraphNode *, CUgraph, const CUgraphNode *, const void *, size_t, conditional_node *))               \
    X(GraphInstantiateWithFlags, , (CUgraphExec *, CUgraph, unsigned long long))                             \
    X(GraphUpload, , (CUgraphExec, CUstream))                                                                \
    X(GraphLaunch, , (CUgraphExec, CUstream))                                                                \
    X(GraphExecDestroy, , (CUgraphExec))

struct raw_cuda_loop {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction work, down, more;
    CUdeviceptr memory; /* x; how many iterations are left */
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
#define DECLARE(name, suffix, parameters) CUresult(CUDAAPI *name) parameters;
    FUNCTIONS(DECLARE)
#undef DECLARE
};

/* A kernel's parameter (exec/cuda/rota_kernel.cuh). */
typedef struct arguments {
    uint64_t block, masks, operand;
    uint32_t steps, unused;
} arguments;

static bool check_result(CUresult result, const char *call) {
    if (result == CUDA_SUCCESS) return true;
    fprintf(stderr, "raw CUDA: %s failed with %d\n", call, (int)result);
    return false;
}
#define CHECK(call)                                                                                          \
    if (!check_result(call, #call)) return false

static bool load(raw_cuda_loop *raw) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); /* stays open */
    if (!library) {
        fprintf(stderr, "raw CUDA: %s\n", dlerror());
        return false;
    }
#define LOAD(name, suffix, parameters)                                                                       \
    {                                                                                                        \
        void *address = dlsym(library, "cu" #name #suffix);                                                  \
        if (!address) {                                                                                      \
            fprintf(stderr, "raw CUDA: the driver has no cu" #name #suffix "\n");                            \
            return false;                                                                                    \
        }                                                                                                    \
        memcpy(&raw->name, &address, sizeof address);                                                        \
    }
    FUNCTIONS(LOAD)
#undef LOAD
    return true;
}

static bool create(raw_cuda_loop *raw, uint32_t index) {
    const struct {
        const void *image;
        size_t size_bytes;
    } image = {ROTA_CUDA_IMAGE_loops_cuda};
    if (!image.image) {
        fprintf(stderr, "raw CUDA: this build has no CUDA kernels\n");
        return false;
    }
    if (!load(raw)) return false;
    CHECK(raw->Init(0));
    CHECK(raw->DeviceGet(&raw->device, (int)index));
    CHECK(raw->DevicePrimaryCtxRetain(&raw->context, raw->device));
    CHECK(raw->CtxPushCurrent(raw->context));
    CHECK(raw->StreamCreate(&raw->stream, CU_STREAM_NON_BLOCKING));
    CHECK(raw->ModuleLoadData(&raw->module, image.image));
    CHECK(raw->ModuleGetFunction(&raw->work, raw->module, ROTA_CUDA_ENTRY_loops_cuda(loops_work)));
    CHECK(raw->ModuleGetFunction(&raw->down, raw->module, ROTA_CUDA_ENTRY_loops_cuda(loops_down)));
    CHECK(raw->ModuleGetFunction(&raw->more, raw->module, ROTA_CUDA_ENTRY_loops_cuda(loops_more)));
    CHECK(raw->MemAlloc(&raw->memory, 512));
    return true;
}

raw_cuda_loop *raw_cuda_loop_create(uint32_t index) {
    raw_cuda_loop *raw = calloc(1, sizeof *raw);
    if (raw && create(raw, index)) return raw;
    raw_cuda_loop_destroy(raw);
    return NULL;
}

void raw_cuda_loop_destroy(raw_cuda_loop *raw) {
    if (!raw) return;
    if (raw->context) {
        if (raw->stream) (void)raw->StreamSynchronize(raw->stream);
        if (raw->exec) (void)raw->GraphExecDestroy(raw->exec);
        if (raw->graph) (void)raw->GraphDestroy(raw->graph);
        if (raw->memory) (void)raw->MemFree(raw->memory);
        if (raw->module) (void)raw->ModuleUnload(raw->module);
        if (raw->stream) (void)raw->StreamDestroy(raw->stream);
        CUcontext popped;
        (void)raw->CtxPopCurrent(&popped);
        (void)raw->DevicePrimaryCtxRelease(raw->device);
    }
    free(raw);
}

uint32_t raw_cuda_loop_steps(raw_cuda_loop *raw, double us) {
    const uint32_t many = 1u << 20;
    arguments args = {.operand = raw->memory, .steps = many};
    void *parameters[] = {&args};
    double ns = 0;
    for (uint32_t i = 0; i < 2; i++) { /* the first is to warm up */
        const uint64_t begin = rota_clock_ns();
        if (!check_result(raw->LaunchKernel(raw->work, 1, 1, 1, 1, 1, 1, 0, raw->stream, parameters, NULL),
                          "cuLaunchKernel") ||
            !check_result(raw->StreamSynchronize(raw->stream), "cuStreamSynchronize"))
            return 0;
        ns = (double)(rota_clock_ns() - begin) / many;
    }
    const double steps = us * 1e3 / ns;
    return steps < 1 ? 1 : steps > 1e9 ? 1000000000u : (uint32_t)steps;
}

static bool add(raw_cuda_loop *raw, CUgraph graph, CUfunction function, void **parameters,
                const CUgraphNode *before, size_t before_count, CUgraphNode *out_node) {
    const CUDA_KERNEL_NODE_PARAMS params = {.func = function,
                                            .gridDimX = 1,
                                            .gridDimY = 1,
                                            .gridDimZ = 1,
                                            .blockDimX = 1,
                                            .blockDimY = 1,
                                            .blockDimZ = 1,
                                            .kernelParams = parameters};
    CHECK(raw->GraphAddKernelNode(out_node, graph, before, before_count, &params));
    return true;
}

bool raw_cuda_loop_build(raw_cuda_loop *raw, uint32_t steps) {
    CUdeviceptr left = raw->memory + 256;
    unsigned long long handle = 0;
    arguments of_work = {.operand = raw->memory, .steps = steps}, of_down = {.operand = left};
    void *work[] = {&of_work}, *down[] = {&of_down}, *more[] = {&handle, &left};
    CUgraphNode first, loop, both[2], last;
    CHECK(raw->GraphCreate(&raw->graph, 0));
    CHECK(raw->GraphConditionalHandleCreate(&handle, raw->graph, raw->context, 0, 0));
    if (!add(raw, raw->graph, raw->more, more, NULL, 0, &first)) return false;
    conditional_node node = {.node_type = NODE_CONDITIONAL,
                             .handle = handle,
                             .type = CONDITIONAL_WHILE,
                             .size = 1,
                             .context = raw->context};
    CHECK(raw->GraphAddNode(&loop, raw->graph, &first, NULL, 1, &node));
    CUgraph body = node.bodies[0];
    if (!add(raw, body, raw->work, work, NULL, 0, &both[0]) ||
        !add(raw, body, raw->down, down, NULL, 0, &both[1]) ||
        !add(raw, body, raw->more, more, both, 2, &last))
        return false;
    CHECK(raw->GraphInstantiateWithFlags(&raw->exec, raw->graph, 0));
    CHECK(raw->GraphUpload(raw->exec, raw->stream));
    CHECK(raw->StreamSynchronize(raw->stream));
    return true;
}

bool raw_cuda_loop_run(raw_cuda_loop *raw, uint32_t iterations, uint32_t *x, double *out_us) {
    CHECK(raw->MemcpyHtoDAsync(raw->memory, x, 4, raw->stream));
    CHECK(raw->MemcpyHtoDAsync(raw->memory + 256, &iterations, 4, raw->stream));
    CHECK(raw->StreamSynchronize(raw->stream));
    const uint64_t begin = rota_clock_ns();
    CHECK(raw->GraphLaunch(raw->exec, raw->stream));
    CHECK(raw->StreamSynchronize(raw->stream));
    *out_us = (double)(rota_clock_ns() - begin) / 1e3;
    CHECK(raw->MemcpyDtoHAsync(x, raw->memory, 4, raw->stream));
    CHECK(raw->StreamSynchronize(raw->stream));
    return true;
}
#else
raw_cuda_loop *raw_cuda_loop_create(uint32_t index) {
    (void)index;
    fprintf(stderr, "raw CUDA: this build was made without CUDA's headers\n");
    return NULL;
}
void raw_cuda_loop_destroy(raw_cuda_loop *raw) {
    (void)raw;
}
uint32_t raw_cuda_loop_steps(raw_cuda_loop *raw, double us) {
    (void)raw, (void)us;
    return 0;
}
bool raw_cuda_loop_build(raw_cuda_loop *raw, uint32_t steps) {
    (void)raw, (void)steps;
    return false;
}
bool raw_cuda_loop_run(raw_cuda_loop *raw, uint32_t iterations, uint32_t *x, double *out_us) {
    (void)raw, (void)iterations, (void)x, (void)out_us;
    return false;
}
#endif
