/* The same kernels through the CUDA driver alone. */
#include "bench/raw_cuda.h"

#include <stdio.h>

#ifdef ROTA_HAVE_CUDA
#include <cuda.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

#define BUFFER_BYTES 256

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

struct raw_cuda {
    void *library;
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction functions[BENCH_OPERANDS_MAX];
    CUdeviceptr memory;
    uint64_t bytes;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    uint64_t submitted, edges;
    double build_ns;
#define DECLARE(name, suffix, parameters) CUresult(CUDAAPI *name) parameters;
    FUNCTIONS(DECLARE)
#undef DECLARE
};

/* A kernel's parameter (exec/cuda/rota_kernel.cuh), for up to BENCH_OPERANDS_MAX operands. */
typedef struct arguments {
    uint64_t block, masks;
    uint64_t words[BENCH_OPERANDS_MAX + (sizeof(bench_params) + 7) / 8];
} arguments;

static bool check_result(CUresult result, const char *call) {
    if (result == CUDA_SUCCESS) return true;
    fprintf(stderr, "raw CUDA: %s failed with %d\n", call, (int)result);
    return false;
}
#define CHECK(call)                                                                                          \
    if (!check_result(call, #call)) return false

static bool open_device(raw_cuda *raw, uint32_t index) {
    raw->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!raw->library) {
        fprintf(stderr, "raw CUDA: %s\n", dlerror());
        return false;
    }
#define LOAD(name, suffix, parameters)                                                                       \
    {                                                                                                        \
        void *address = dlsym(raw->library, "cu" #name #suffix);                                             \
        if (!address) {                                                                                      \
            fprintf(stderr, "raw CUDA: the driver has no cu" #name #suffix "\n");                            \
            return false;                                                                                    \
        }                                                                                                    \
        memcpy(&raw->name, &address, sizeof address);                                                        \
    }
    FUNCTIONS(LOAD)
#undef LOAD
    CHECK(raw->Init(0));
    CHECK(raw->DeviceGet(&raw->device, (int)index));
    CHECK(raw->DevicePrimaryCtxRetain(&raw->context, raw->device));
    CHECK(raw->CtxPushCurrent(raw->context));
    CHECK(raw->StreamCreate(&raw->stream, CU_STREAM_NON_BLOCKING));
    CHECK(raw->ModuleLoadData(&raw->module, bench_kernels_plain[0].cuda.image));
    for (uint32_t i = 0; i < BENCH_OPERANDS_MAX; i++)
        CHECK(raw->ModuleGetFunction(&raw->functions[i], raw->module, bench_kernels_plain[i].cuda.entry));
    return true;
}

/* Whoever last wrote each buffer, and who read it since. */
typedef struct touched {
    uint64_t *writer;       /* by buffer: node + 1 */
    uint64_t *first_reader; /* by buffer: index + 1 in readers, of the last added */
    struct reader {
        uint64_t node, next;
    } * readers;
    uint64_t reader_count;
} touched;

static uint64_t gather(touched *t, const bench_node *node, const CUgraphNode *nodes, CUgraphNode *before) {
    uint64_t count = 0;
    for (uint32_t a = 0; a < node->access_count; a++) {
        uint64_t buffer = node->accesses[a].buffer, reader = t->first_reader[buffer];
        bool writes = node->accesses[a].mode != ROTA_READ;
        /* Readers come after the writer, so that they stand for it. */
        if (t->writer[buffer] && !(writes && reader)) before[count++] = nodes[t->writer[buffer] - 1];
        for (; writes && reader; reader = t->readers[reader - 1].next)
            before[count++] = nodes[t->readers[reader - 1].node];
    }
    /* Two accesses may give the same node, and a node may be named once. */
    uint64_t kept = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t j = 0;
        while (j < kept && before[j] != before[i]) j++;
        if (j == kept) before[kept++] = before[i];
    }
    return kept;
}

static void touch(touched *t, const bench_node *node, uint64_t index) {
    for (uint32_t a = 0; a < node->access_count; a++) {
        uint64_t buffer = node->accesses[a].buffer;
        if (node->accesses[a].mode == ROTA_READ) {
            t->readers[t->reader_count] = (struct reader){index, t->first_reader[buffer]};
            t->first_reader[buffer] = ++t->reader_count;
        } else {
            t->writer[buffer] = index + 1;
            t->first_reader[buffer] = 0;
        }
    }
}

static bool add_node(raw_cuda *raw, const bench_node *node, const CUgraphNode *before, uint64_t count,
                     CUgraphNode *out_node) {
    arguments a = {0};
    for (uint32_t i = 0; i < node->access_count; i++)
        a.words[i] = raw->memory + node->accesses[i].buffer * BUFFER_BYTES + node->accesses[i].offset_bytes;
    memcpy(&a.words[node->access_count], &node->params, sizeof node->params);
    void *parameters[] = {&a};
    CUDA_KERNEL_NODE_PARAMS params = {
        .func = raw->functions[node->access_count - 1],
        .gridDimX = 1,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = 1,
        .blockDimY = 1,
        .blockDimZ = 1,
        .kernelParams = parameters,
    };
    CHECK(raw->GraphAddKernelNode(out_node, raw->graph, before, count, &params));
    raw->edges += count;
    return true;
}

static bool build_graph(raw_cuda *raw, const bench_graph *graph) {
    uint64_t accesses = graph->node_count * BENCH_OPERANDS_MAX;
    touched t = {.writer = calloc(graph->buffer_count, sizeof(uint64_t)),
                 .first_reader = calloc(graph->buffer_count, sizeof(uint64_t)),
                 .readers = malloc(accesses * sizeof(struct reader))};
    CUgraphNode *nodes = malloc(graph->node_count * sizeof(CUgraphNode));
    CUgraphNode *before = malloc((accesses + BENCH_OPERANDS_MAX) * sizeof(CUgraphNode));
    bool good = t.writer && t.first_reader && t.readers && nodes && before;
    if (!good) fprintf(stderr, "raw CUDA: out of memory\n");
    uint64_t begin = rota_clock_ns();
    good = good && check_result(raw->GraphCreate(&raw->graph, 0), "cuGraphCreate");
    for (uint64_t i = 0; i < graph->node_count && good; i++) {
        bench_node node;
        bench_graph_node(graph, i, &node);
        uint64_t count = gather(&t, &node, nodes, before);
        touch(&t, &node, i);
        good = add_node(raw, &node, before, count, &nodes[i]);
    }
    good = good && check_result(raw->GraphInstantiateWithFlags(&raw->exec, raw->graph, 0),
                                "cuGraphInstantiateWithFlags");
    good = good && check_result(raw->GraphUpload(raw->exec, raw->stream), "cuGraphUpload");
    raw->build_ns = (double)(rota_clock_ns() - begin);
    free(t.writer);
    free(t.first_reader);
    free(t.readers);
    free(nodes);
    free(before);
    return good;
}

static bool write_first(raw_cuda *raw, const bench_graph *graph) {
    uint32_t *state = bench_graph_state(graph, 0, NULL);
    uint8_t *host = calloc(1, raw->bytes);
    bool good = state && host;
    for (uint64_t buffer = 0; buffer < graph->buffer_count && good; buffer++)
        memcpy(host + buffer * BUFFER_BYTES, state + buffer * BENCH_WORDS_MAX, (size_t)BENCH_WORDS_MAX * 4);
    good =
        good &&
        check_result(raw->MemcpyHtoDAsync(raw->memory, host, raw->bytes, raw->stream), "cuMemcpyHtoDAsync") &&
        raw_cuda_wait(raw);
    free(state);
    free(host);
    return good;
}

static bool create(raw_cuda *raw, const bench_graph *graph, uint32_t index) {
    if (!bench_kernels_plain[0].cuda.image) {
        fprintf(stderr, "raw CUDA: this build has no CUDA kernels\n");
        return false;
    }
    raw->bytes = graph->buffer_count * BUFFER_BYTES;
    if (!open_device(raw, index)) return false;
    CHECK(raw->MemAlloc(&raw->memory, raw->bytes));
    return write_first(raw, graph) && build_graph(raw, graph) && raw_cuda_wait(raw);
}

raw_cuda *raw_cuda_create(const bench_graph *graph, uint32_t index) {
    raw_cuda *raw = calloc(1, sizeof *raw);
    if (raw && create(raw, graph, index)) return raw;
    raw_cuda_destroy(raw);
    return NULL;
}

void raw_cuda_destroy(raw_cuda *raw) {
    if (!raw) return;
    if (raw->context) {
        if (raw->stream) (void)raw_cuda_wait(raw);
        if (raw->exec) (void)raw->GraphExecDestroy(raw->exec);
        if (raw->graph) (void)raw->GraphDestroy(raw->graph);
        if (raw->memory) (void)raw->MemFree(raw->memory);
        if (raw->module) (void)raw->ModuleUnload(raw->module);
        if (raw->stream) (void)raw->StreamDestroy(raw->stream);
        CUcontext popped;
        (void)raw->CtxPopCurrent(&popped);
        (void)raw->DevicePrimaryCtxRelease(raw->device);
    }
    free(raw); /* the driver stays open: it does not survive being unloaded */
}

bool raw_cuda_submit(raw_cuda *raw) {
    CHECK(raw->GraphLaunch(raw->exec, raw->stream));
    raw->submitted++;
    return true;
}

bool raw_cuda_wait(raw_cuda *raw) {
    return check_result(raw->StreamSynchronize(raw->stream), "cuStreamSynchronize");
}

uint64_t raw_cuda_submitted(const raw_cuda *raw) {
    return raw->submitted;
}

uint64_t raw_cuda_edges(const raw_cuda *raw) {
    return raw->edges;
}

double raw_cuda_build_ns(const raw_cuda *raw) {
    return raw->build_ns;
}

bool raw_cuda_check(raw_cuda *raw, const bench_graph *graph, uint64_t replays) {
    uint8_t *host = malloc(raw->bytes);
    uint32_t *state = bench_graph_state(graph, replays, NULL);
    bool good =
        host && state &&
        check_result(raw->MemcpyDtoHAsync(host, raw->memory, raw->bytes, raw->stream), "cuMemcpyDtoHAsync") &&
        raw_cuda_wait(raw);
    for (uint64_t buffer = 0; buffer < graph->buffer_count && good; buffer++) {
        if (!graph->persistent_number[buffer]) continue;
        uint32_t got, expected = state[buffer * BENCH_WORDS_MAX];
        memcpy(&got, host + buffer * BUFFER_BYTES, 4);
        good = got == expected;
        if (!good)
            fprintf(stderr,
                    "raw CUDA: place %" PRIu64 " holds %" PRIu32 " after %" PRIu64 " replays, not %" PRIu32
                    "\n",
                    buffer, got, replays, expected);
    }
    free(host);
    free(state);
    return good;
}

#else
raw_cuda *raw_cuda_create(const bench_graph *graph, uint32_t index) {
    (void)graph, (void)index;
    fprintf(stderr, "raw CUDA: this build was made without the CUDA toolkit's headers\n");
    return NULL;
}
void raw_cuda_destroy(raw_cuda *raw) {
    (void)raw;
}
bool raw_cuda_submit(raw_cuda *raw) {
    (void)raw;
    return false;
}
bool raw_cuda_wait(raw_cuda *raw) {
    (void)raw;
    return false;
}
uint64_t raw_cuda_submitted(const raw_cuda *raw) {
    (void)raw;
    return 0;
}
uint64_t raw_cuda_edges(const raw_cuda *raw) {
    (void)raw;
    return 0;
}
double raw_cuda_build_ns(const raw_cuda *raw) {
    (void)raw;
    return 0;
}
bool raw_cuda_check(raw_cuda *raw, const bench_graph *graph, uint64_t replays) {
    (void)raw, (void)graph, (void)replays;
    return false;
}
#endif
