/* See raw_cuda_loop.h. */
#include "bench/raw_cuda_loop.h"

#include <stdio.h>

#ifdef ROTA_HAVE_CUDA
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "bench/raw_cuda_driver.h"
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

struct raw_cuda_loop {
    raw_cuda_driver cuda; /* memory: x; LEFT bytes on how many iterations are left */
    CUfunction work, down, more;
    CUresult(CUDAAPI *create_handle)(unsigned long long *, CUgraph, CUcontext, unsigned, unsigned);
    CUresult(CUDAAPI *add_node)(CUgraphNode *, CUgraph, const CUgraphNode *, const void *, size_t,
                                conditional_node *);
};
enum { LEFT = 256 };

/* A kernel's parameter (exec/cuda/rota_kernel.cuh). */
typedef struct arguments {
    uint64_t block, masks, operand;
    uint32_t steps, unused;
} arguments;

static bool find(const raw_cuda_loop *raw, const char *name, void *out_function) {
    void *address = raw_cuda_driver_find(&raw->cuda, name);
    memcpy(out_function, &address, sizeof address);
    return address != NULL;
}

static bool create(raw_cuda_loop *raw, uint32_t index) {
    const struct {
        const void *image;
        size_t size_bytes;
    } image = {ROTA_CUDA_IMAGE_loops_cuda};
    raw_cuda_driver *cuda = &raw->cuda;
    if (!raw_cuda_driver_open(cuda, index, image.image, LEFT + (uint64_t)LEFT) ||
        !find(raw, "cuGraphConditionalHandleCreate", &raw->create_handle) ||
        !find(raw, "cuGraphAddNode_v2", &raw->add_node))
        return false;
    RAW_CUDA_CHECK(cuda->ModuleGetFunction(&raw->work, cuda->module, ROTA_CUDA_ENTRY_loops_cuda(loops_work)));
    RAW_CUDA_CHECK(cuda->ModuleGetFunction(&raw->down, cuda->module, ROTA_CUDA_ENTRY_loops_cuda(loops_down)));
    RAW_CUDA_CHECK(cuda->ModuleGetFunction(&raw->more, cuda->module, ROTA_CUDA_ENTRY_loops_cuda(loops_more)));
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
    raw_cuda_driver_close(&raw->cuda);
    free(raw);
}

uint32_t raw_cuda_loop_steps(raw_cuda_loop *raw, double us) {
    const uint32_t many = 1u << 20;
    const raw_cuda_driver *cuda = &raw->cuda;
    arguments args = {.operand = cuda->memory, .steps = many};
    void *parameters[] = {&args};
    double ns = 0;
    for (uint32_t i = 0; i < 2; i++) { /* the first is to warm up */
        const uint64_t begin = rota_clock_ns();
        if (!raw_cuda_driver_check(
                cuda->LaunchKernel(raw->work, 1, 1, 1, 1, 1, 1, 0, cuda->stream, parameters, NULL),
                "cuLaunchKernel") ||
            !raw_cuda_driver_wait(cuda))
            return 0;
        ns = (double)(rota_clock_ns() - begin) / many;
    }
    const double steps = us * 1e3 / ns;
    return steps < 1 ? 1 : steps > 1e9 ? 1000000000u : (uint32_t)steps;
}

bool raw_cuda_loop_build(raw_cuda_loop *raw, uint32_t steps) {
    raw_cuda_driver *cuda = &raw->cuda;
    CUdeviceptr left = cuda->memory + LEFT;
    unsigned long long handle = 0;
    arguments of_work = {.operand = cuda->memory, .steps = steps}, of_down = {.operand = left};
    void *work[] = {&of_work}, *down[] = {&of_down}, *more[] = {&handle, &left};
    CUgraphNode first, loop, both[2], last;
    RAW_CUDA_CHECK(cuda->GraphCreate(&cuda->graph, 0));
    RAW_CUDA_CHECK(raw->create_handle(&handle, cuda->graph, cuda->context, 0, 0));
    if (!raw_cuda_driver_add(cuda, cuda->graph, raw->more, more, NULL, 0, &first)) return false;
    conditional_node node = {.node_type = NODE_CONDITIONAL,
                             .handle = handle,
                             .type = CONDITIONAL_WHILE,
                             .size = 1,
                             .context = cuda->context};
    RAW_CUDA_CHECK(raw->add_node(&loop, cuda->graph, &first, NULL, 1, &node));
    CUgraph body = node.bodies[0];
    return raw_cuda_driver_add(cuda, body, raw->work, work, NULL, 0, &both[0]) &&
           raw_cuda_driver_add(cuda, body, raw->down, down, NULL, 0, &both[1]) &&
           raw_cuda_driver_add(cuda, body, raw->more, more, both, 2, &last) &&
           raw_cuda_driver_instantiate(cuda) && raw_cuda_driver_wait(cuda);
}

bool raw_cuda_loop_run(raw_cuda_loop *raw, uint32_t iterations, uint32_t *x, double *out_us) {
    const raw_cuda_driver *cuda = &raw->cuda;
    RAW_CUDA_CHECK(cuda->MemcpyHtoDAsync(cuda->memory, x, 4, cuda->stream));
    RAW_CUDA_CHECK(cuda->MemcpyHtoDAsync(cuda->memory + LEFT, &iterations, 4, cuda->stream));
    if (!raw_cuda_driver_wait(cuda)) return false;
    const uint64_t begin = rota_clock_ns();
    RAW_CUDA_CHECK(cuda->GraphLaunch(cuda->exec, cuda->stream));
    if (!raw_cuda_driver_wait(cuda)) return false;
    *out_us = (double)(rota_clock_ns() - begin) / 1e3;
    RAW_CUDA_CHECK(cuda->MemcpyDtoHAsync(x, cuda->memory, 4, cuda->stream));
    return raw_cuda_driver_wait(cuda);
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
