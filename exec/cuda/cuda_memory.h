/* Memory: see cuda_memory.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_MEMORY_H
#define ROTA_EXEC_CUDA_CUDA_MEMORY_H

#include <stdbool.h>
#include "exec/common/link.h"
#include "exec/cuda/cuda_api.h"
#include "exec/cuda/cuda_pool.h"
#include "exec/exec.h"

typedef struct rota_cuda_device rota_cuda_device;

/* Of one kind: a mapping, a piece of the pool of small memory that can be exported, an import, pinned memory,
 * the application's or its allocator's, or what cuMemAlloc gave. */
typedef struct rota_cuda_memory {
    struct rota_exec_memory base; /* first: the contract's part */
    rota_link link;
    rota_cuda_mapping mapping;
    rota_cuda_piece piece;
    CUexternalMemory external; /* another device's */
    bool is_adopted;           /* the application's */
    bool is_given;             /* by the application's allocator */
} rota_cuda_memory;

/* Memory that can be exported, of at least so many bytes. */
CUresult rota_cuda_map(rota_cuda_device *device, uint64_t size_bytes, rota_cuda_mapping *out_mapping);
void rota_cuda_unmap(rota_cuda_device *device, rota_cuda_mapping *mapping);
/* Pinned host memory, as both sides see it. */
rota_status rota_cuda_pin(rota_cuda_device *device, uint64_t size_bytes, const char *name, void **out_host,
                          uint64_t *out_address);
/* The sentence for memory that the driver did not give. */
rota_status rota_cuda_fail_memory(rota_cuda_device *device, const char *name, uint64_t size_bytes,
                                  CUresult result, const char *what);

rota_status rota_cuda_memory_create(rota_exec_device *device, uint64_t size_bytes, uint32_t flags,
                                    const char *name, rota_exec_memory **out_memory);
/* The two ways in which an object of a device's list begins and ends. */
void rota_cuda_memory_keep(rota_cuda_device *device, rota_cuda_memory *memory);
void rota_cuda_memory_destroy(rota_exec_device *device, rota_exec_memory *memory);
/* False: it is left to close, since the driver did not make the context current. */
bool rota_cuda_memory_try_destroy(rota_cuda_device *device, rota_cuda_memory *memory);
void rota_cuda_memories_free(rota_cuda_device *device);

#endif
