/* Plans of cuDNN that are kept for the life of the process, as handles are: one for each description and context.
 * Internal; not installed. */
#ifndef ROTA_OPS_CUDA_CUDNN_KEPT_H
#define ROTA_OPS_CUDA_CUDNN_KEPT_H

#include "ops/cuda/cudnn_plan.h" /* IWYU pragma: keep */

#if __has_include(<cudnn.h>)

#include <cudnn.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"
#include "graph/kernel.h"

/* Stays where it is once it is made; the rest of it is under rota_cudnn_lock. */
typedef struct rota_cudnn_kept {
    struct rota_cudnn_kept *next;
    unsigned long long context;
    rota_cudnn_plan plan;
    cudnnHandle_t handle;
    rota_status status; /* of making it */
    uint32_t failed;    /* bit i: way i, to run */
    char why[ROTA_ERROR_MESSAGE_MAX];
    _Alignas(max_align_t) unsigned char about[]; /* what it is of */
} rota_cudnn_kept;

/* All plans of one kind. */
typedef struct rota_cudnn_keeper {
    size_t about_bytes; /* of a description, all of whose bytes say what it is */
    /* Makes kept->plan, and takes the handle; may leave it half made. The context is current, the lock held. */
    rota_status (*make)(rota_cudnn_kept *kept, const rota_cuda_target *target);
    /* Logs that it could not be made, which kept->why says. */
    void (*say)(const rota_cudnn_kept *kept, const rota_cuda_target *target);
    rota_cudnn_kept *plans;
} rota_cudnn_keeper;

/* The plan of the target's context, made if it is not there; whether it could be is in its status. Any thread, without
 * the lock; may take seconds. OUT_OF_MEMORY, or why there is no context: then it is NULL. */
rota_status rota_cudnn_kept_get(rota_cudnn_keeper *keeper, const void *about, const rota_cuda_target *target,
                                rota_cudnn_kept **out_kept);

#endif
#endif
