/* Modules: see cuda_module.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_MODULE_H
#define ROTA_EXEC_CUDA_CUDA_MODULE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include "exec/cuda/cuda_api.h"
#include "exec/exec.h"

typedef struct rota_cuda_device rota_cuda_device;

/* A loaded image; made once for each content. */
typedef struct rota_cuda_module {
    struct rota_cuda_module *next;
    uint64_t hash[2];
    size_t size_bytes;
    CUmodule handle;
    bool starts_early; /* its kernels wait themselves for what they come after (rota_kernel_early.cuh) */
} rota_cuda_module;

/* Modules and functions' attributes; the lock is held while the driver compiles. */
typedef struct rota_cuda_modules_shared {
    pthread_mutex_t lock;
    rota_cuda_module *first;
} rota_cuda_modules_shared;

/* The function of a kernel that has an image, and whether it may be launched early (NULL: nobody asks). Blocks in
 * the driver's compiler, under a lock that only compiling takes, the first time. */
rota_status rota_cuda_function_get(rota_cuda_device *device, const rota_kernel *kernel,
                                   CUfunction *out_function, bool *out_starts_early);
void rota_cuda_modules_free(rota_cuda_device *device);

#endif
