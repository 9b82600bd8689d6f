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

#define ROTA_CUDNN_DESCRIPTORS_MAX 128
#define ROTA_CUDNN_OPERATIONS_MAX 40
#define ROTA_CUDNN_OPERANDS_MAX 16

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

/* A plan, and the descriptors that it was made of. */
typedef struct rota_cudnn_plan {
    rota_cudnn_graph graph;
    cudnnBackendDescriptor_t execution;
    uint64_t workspace_bytes;
} rota_cudnn_plan;

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

/* A handle of the current context; kept for the life of the process, since a context may be gone before it.
 */
rota_status rota_cudnn_handle(cudnnHandle_t *out_handle);

/* Makes a plan of plan->graph by the first of the engines that cuDNN's heuristics name which takes it.
 * UNSUPPORTED: none does. Compiles: takes from milliseconds to seconds. */
rota_status rota_cudnn_plan_make(rota_cudnn_plan *plan, cudnnHandle_t handle);
void rota_cudnn_plan_free(rota_cudnn_plan *plan);

/* Puts the plan on `stream` (a CUstream): pointers are addresses on the device, of by-value tensors on the
 * host. A handle takes one caller at a time. */
rota_status rota_cudnn_run(const rota_cudnn_plan *plan, cudnnHandle_t handle, uint32_t count,
                           const int64_t *ids, void *const *pointers, void *workspace, void *stream);

#endif
#endif
