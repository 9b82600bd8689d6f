/* A context of the application's, and memory from its allocator: see cuda_application.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_APPLICATION_H
#define ROTA_EXEC_CUDA_CUDA_APPLICATION_H

#include <stdbool.h>
#include "exec/cuda/cuda_api.h"
#include "exec/exec.h"

typedef struct rota_cuda_device rota_cuda_device;
typedef struct rota_cuda_memory rota_cuda_memory;

/* What a device has of an application: nothing, where none said any. */
typedef struct rota_cuda_application {
    bool has_context; /* the device's context is not rota's to release */
    rota_cuda_context given;
} rota_cuda_application;

/* Takes what was given, and finds the GPU's index. INVALID_ARGUMENT names the member that is wrong. The driver was
 * started. */
rota_status rota_cuda_application_open(rota_cuda_device *device, const rota_cuda_context *given,
                                       uint32_t *out_index);
/* Device memory from the application's allocator, and back. The context is current. */
rota_status rota_cuda_application_allocate(rota_cuda_device *device, uint64_t size_bytes, const char *name,
                                           rota_cuda_memory *memory);
void rota_cuda_application_free(rota_cuda_device *device, rota_cuda_memory *memory);

#endif
