/* Pools of small memory: see cuda_pool.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_POOL_H
#define ROTA_EXEC_CUDA_CUDA_POOL_H

#include <stdbool.h>
#include "base/status.h"
#include "exec/common/cell_pages.h"
#include "exec/cuda/cuda_api.h"

typedef struct rota_cuda_device rota_cuda_device;

/* A piece of a page of pinned or of device memory. */
typedef struct rota_cuda_piece {
    uint64_t address;
    uint8_t *host; /* pinned memory */
    uint32_t page, cell;
    bool taken;
} rota_cuda_piece;

/* Device memory that can be exported. */
typedef struct rota_cuda_mapping {
    CUmemGenericAllocationHandle handle;
    uint64_t address, bytes; /* bytes 0: none */
} rota_cuda_mapping;

/* Pinning costs a millisecond, and freeing device memory waits for the device: pieces come from pages. */
typedef struct rota_cuda_page {
    rota_cell_page cells;      /* first */
    rota_cuda_mapping mapping; /* of pages that can be exported */
    uint64_t address;
    uint8_t *host;
} rota_cuda_page;

typedef enum rota_cuda_pool_kind {
    ROTA_CUDA_POOL_DEVICE,
    ROTA_CUDA_POOL_PINNED,
    ROTA_CUDA_POOL_SHARED
} rota_cuda_pool_kind;

typedef struct rota_cuda_pool {
    rota_cuda_pool_kind kind;
    rota_cell_pages pages; /* rota_cuda_page */
} rota_cuda_pool;

void rota_cuda_pool_begin(rota_cuda_pool *out_pool, rota_cuda_pool_kind kind);
rota_status rota_cuda_piece_take(rota_cuda_device *device, rota_cuda_pool *pool, uint64_t size_bytes,
                                 rota_cuda_piece *out_piece);
void rota_cuda_piece_give(rota_cuda_device *device, rota_cuda_pool *pool, rota_cuda_piece *piece);
void rota_cuda_pool_free(rota_cuda_device *device, rota_cuda_pool *pool);

#endif
