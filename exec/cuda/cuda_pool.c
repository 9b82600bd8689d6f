/* Pools from which argument blocks and small memory that can be exported are cut. */
#include "exec/cuda/cuda_pool.h"
#include <stdlib.h>
#include "exec/cuda/cuda_device.h"
#include "exec/cuda/cuda_memory.h"

#define PAGE_BYTES (64u * 1024u)

void rota_cuda_pool_begin(rota_cuda_pool *pool, rota_cuda_pool_kind kind) {
    *pool = (rota_cuda_pool){.kind = kind, .pages.page_size = sizeof(rota_cuda_page)};
}

static rota_status page_fill(rota_cuda_device *device, const rota_cuda_pool *pool, rota_cuda_page *page) {
    const uint64_t bytes = page->cells.cell_count * page->cells.cell_bytes;
    rota_status status = ROTA_OK;
    if (pool->kind == ROTA_CUDA_POOL_PINNED) {
        void *host = NULL;
        status = rota_cuda_pin(device, bytes, "argument blocks", &host, &page->address);
        page->host = host;
    } else if (pool->kind == ROTA_CUDA_POOL_SHARED) {
        CUresult result = rota_cuda_map(device, bytes, &page->mapping);
        page->address = page->mapping.address;
        if (result != CUDA_SUCCESS)
            status = rota_cuda_fail_memory(device, "small buffers", bytes, result, "cuMemCreate");
    } else {
        CUdeviceptr address = 0;
        CUresult result = device->cu->MemAlloc(&address, bytes);
        page->address = address;
        if (result != CUDA_SUCCESS)
            status = rota_cuda_fail_memory(device, "argument blocks", bytes, result, "cuMemAlloc");
    }
    if (status != ROTA_OK) {
        free(page->cells.used);
        return status;
    }
    ra_fetch_add_relaxed(&device->objects.memory_bytes, bytes);
    return ROTA_OK;
}

static void page_free(rota_cuda_device *device, rota_cuda_page *page) {
    if (!page->cells.used) return;
    if (page->mapping.bytes)
        rota_cuda_unmap(device, &page->mapping);
    else if (page->host)
        (void)device->cu->MemFreeHost(page->host);
    else
        (void)device->cu->MemFree(page->address);
    ra_fetch_add_relaxed(&device->objects.memory_bytes,
                         (uint64_t)0 - page->cells.cell_count * page->cells.cell_bytes);
    free(page->cells.used);
    *page = (rota_cuda_page){0};
}

static rota_status page_add(rota_cuda_device *device, rota_cuda_pool *pool, uint64_t cell_bytes,
                            uint32_t *out_index) {
    rota_cuda_page page = {0};
    const uint64_t page_bytes =
        pool->kind == ROTA_CUDA_POOL_SHARED ? device->bounds.granularity : (uint64_t)PAGE_BYTES;
    ROTA_TRY(rota_cell_page_begin(&page.cells, cell_bytes, page_bytes));
    ROTA_TRY(page_fill(device, pool, &page));
    rota_status status = rota_cell_pages_keep(&pool->pages, &page, out_index);
    if (status != ROTA_OK) page_free(device, &page);
    return status;
}

rota_status rota_cuda_piece_take(rota_cuda_device *device, rota_cuda_pool *pool, uint64_t size_bytes,
                                 rota_cuda_piece *out_piece) {
    const uint64_t cell_bytes = rota_cell_bytes(size_bytes);
    pthread_mutex_lock(&device->objects.lock);
    uint32_t index = rota_cell_pages_find(&pool->pages, cell_bytes);
    rota_status status = ROTA_OK;
    if (index == pool->pages.count) status = page_add(device, pool, cell_bytes, &index);
    if (status == ROTA_OK) {
        rota_cuda_page *page = rota_cell_pages_at(&pool->pages, index);
        const uint32_t cell = rota_cell_take(&page->cells);
        const uint64_t offset = cell * cell_bytes;
        *out_piece = (rota_cuda_piece){
            .address = page->address + offset,
            .host = page->host ? page->host + offset : NULL,
            .page = index,
            .cell = cell,
            .taken = true,
        };
    }
    pthread_mutex_unlock(&device->objects.lock);
    return status;
}

void rota_cuda_piece_give(rota_cuda_device *device, rota_cuda_pool *pool, rota_cuda_piece *piece) {
    if (!piece->taken) return;
    rota_cuda_page unused = {0};
    pthread_mutex_lock(&device->objects.lock);
    rota_cuda_page *page = rota_cell_pages_at(&pool->pages, piece->page);
    if (rota_cell_give(&page->cells, piece->cell)) {
        unused = *page;
        *page = (rota_cuda_page){0};
    }
    pthread_mutex_unlock(&device->objects.lock);
    /* Without the lock: the driver may keep it until the device has nothing to do. */
    page_free(device, &unused);
    piece->taken = false;
}

void rota_cuda_pool_free(rota_cuda_device *device, rota_cuda_pool *pool) {
    for (uint32_t i = 0; i < pool->pages.count; i++) page_free(device, rota_cell_pages_at(&pool->pages, i));
    rota_cell_pages_free(&pool->pages);
}
