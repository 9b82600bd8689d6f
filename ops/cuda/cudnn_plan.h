/* Graphs of operations that cuDNN computes as one, by its backend functions, opened at run time: tensors and
 * operations are described one by one, then a plan of an engine that takes the whole is made. Internal; not
 * installed. */
#ifndef ROTA_OPS_CUDA_CUDNN_PLAN_H
#define ROTA_OPS_CUDA_CUDNN_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

/* Opens the library on first use. Any thread; may block. */
bool rota_cudnn_present(void);

/* The library's version number, 91900 for 9.19.0; 0: not present. */
uint64_t rota_cudnn_version(void);

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#include <string.h>

#define ROTA_CUDNN_DESCRIPTORS_MAX 192
#define ROTA_CUDNN_OPERATIONS_MAX 40
#define ROTA_CUDNN_OPERANDS_MAX 16
#define ROTA_CUDNN_WAYS_MAX 8

/* Where a tensor's elements are when the plan runs. */
typedef enum rota_cudnn_storage {
    ROTA_CUDNN_IN_MEMORY, /* of the device */
    ROTA_CUDNN_VIRTUAL,   /* nowhere: within the plan's kernels */
    ROTA_CUDNN_BY_VALUE   /* one element, given by the host */
} rota_cudnn_storage;

/* A graph that is being described. The first failure stays in `status`, and everything after it does nothing:
 * one check at the end tells. */
typedef struct rota_cudnn_graph {
    rota_status status;
    uint32_t descriptor_count, operation_count;
    int64_t virtual_count;
    cudnnBackendDescriptor_t descriptors[ROTA_CUDNN_DESCRIPTORS_MAX];
    cudnnBackendDescriptor_t operations[ROTA_CUDNN_OPERATIONS_MAX];
} rota_cudnn_graph;

/* An engine with its settings, ready to run the graph. */
typedef struct rota_cudnn_way {
    cudnnBackendDescriptor_t execution;
    uint64_t workspace_bytes;
    int64_t engine; /* its number in this version of the library */
} rota_cudnn_way;

/* Which engines are asked for. */
typedef struct rota_cudnn_wish {
    uint32_t refused_notes; /* bit i: those that have cudnnBackendNumericalNote_t i */
    uint32_t way_count;     /* at most, and ROTA_CUDNN_WAYS_MAX */
    uint64_t workspace_bytes_max;
} rota_cudnn_wish;

/* Plans of a graph, best guess first, and the descriptors that they were made of. */
typedef struct rota_cudnn_plan {
    rota_cudnn_graph graph;
    uint32_t way_count;
    rota_cudnn_way ways[ROTA_CUDNN_WAYS_MAX];
} rota_cudnn_plan;

/* Windows that slide over the last two axes. */
typedef struct rota_cudnn_window {
    int64_t stride[2], padding[2], dilation[2];
} rota_cudnn_window;

/* Which of a convolution's three tensors is computed of the other two. */
typedef enum rota_cudnn_product {
    ROTA_CUDNN_FORWARD, /* y */
    ROTA_CUDNN_INPUT,   /* x, a gradient */
    ROTA_CUDNN_WEIGHT   /* w, a gradient */
} rota_cudnn_product;

/* A tensor of four dimensions. `id`: by which rota_cudnn_run knows it; of virtual ones it is not looked at.
 */
cudnnBackendDescriptor_t rota_cudnn_tensor(rota_cudnn_graph *graph, rota_cudnn_storage storage, int64_t id,
                                           cudnnDataType_t type, const int64_t shape[4],
                                           const int64_t stride[4]);

/* Operations, in the order of their data. b and t may be NULL where the mode takes fewer; axis is GEN_INDEX's
 * alone. */
void rota_cudnn_pointwise(rota_cudnn_graph *graph, cudnnPointwiseMode_t mode, cudnnDataType_t math,
                          int64_t axis, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                          cudnnBackendDescriptor_t t, cudnnBackendDescriptor_t y);
void rota_cudnn_matmul(rota_cudnn_graph *graph, cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b,
                       cudnnBackendDescriptor_t c);
void rota_cudnn_reduction(rota_cudnn_graph *graph, cudnnReduceTensorOp_t op, cudnnBackendDescriptor_t x,
                          cudnnBackendDescriptor_t y);
void rota_cudnn_reshape(rota_cudnn_graph *graph, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y);
/* x [batch, in, height, width], w [out, in / groups, kh, kw], y [batch, out, oh, ow]; sums in f32. */
void rota_cudnn_convolution(rota_cudnn_graph *graph, rota_cudnn_product product,
                            const rota_cudnn_window *window, cudnnBackendDescriptor_t x,
                            cudnnBackendDescriptor_t w, cudnnBackendDescriptor_t y);

/* A handle of the current context; kept for the life of the process, since a context may be gone before it.
 */
rota_status rota_cudnn_handle(cudnnHandle_t *out_handle);

/* Held by whoever uses a handle, which takes one caller at a time, or looks at plans that are kept: all that
 * plan with cuDNN share the handles. */
void rota_cudnn_lock(void);
void rota_cudnn_unlock(void);

/* Makes plans of plan->graph by the engines that cuDNN's heuristics name, best guess first, of those that take
 * it and are as wished. UNSUPPORTED: none is. Compiles: takes from milliseconds to seconds. */
rota_status rota_cudnn_plan_make(rota_cudnn_plan *plan, const rota_cudnn_wish *wish, cudnnHandle_t handle);
void rota_cudnn_plan_free(rota_cudnn_plan *plan);

/* An address on the device as rota_cudnn_run takes it. */
static inline void *rota_cudnn_address(uint64_t value) {
    void *pointer;
    memcpy(&pointer, &value, sizeof pointer);
    return pointer;
}

/* Puts a way on `stream` (a CUstream): pointers are addresses on the device, of by-value tensors on the host.
 * The lock is held. */
rota_status rota_cudnn_run(const rota_cudnn_way *way, cudnnHandle_t handle, uint32_t count,
                           const int64_t *ids, void *const *pointers, void *workspace, void *stream);

#endif
#endif
