/* Argument blocks, cut from pages: one list of pages for each power-of-two size. */
#include "exec/vk/vk_block.h"
#include <stdlib.h>
#include "exec/vk/vk_device.h"

#define PAGE_BYTES (64u * 1024u)

static rota_status page_new(rota_vk_device *device, uint64_t cell_bytes, rota_vk_block_page *out_page) {
    rota_vk_block_page page = {0};
    ROTA_TRY(rota_cell_page_begin(&page.cells, cell_bytes, (uint64_t)PAGE_BYTES));
    rota_status status = rota_vk_memory_take(device, page.cells.cell_count * cell_bytes, &page.memory);
    if (status == ROTA_OK)
        *out_page = page;
    else
        free(page.cells.used);
    return status;
}

static void page_free(rota_vk_device *device, rota_vk_block_page *page) {
    if (!page->cells.used) return;
    rota_vk_memory_give(device, page->memory);
    free(page->cells.used);
}

rota_status rota_vk_block_take(rota_vk_device *device, uint32_t words, rota_vk_block *out_block) {
    const uint64_t cell_bytes = rota_cell_bytes((uint64_t)words * 8);
    rota_cell_pages *pages = &device->objects.pages;
    pthread_mutex_lock(&device->objects.lock);
    uint32_t index = rota_cell_pages_find(pages, cell_bytes);
    if (index == pages->count) {
        /* The driver allocates without the lock: the completion thread takes it. */
        pthread_mutex_unlock(&device->objects.lock);
        rota_vk_block_page page;
        ROTA_TRY(page_new(device, cell_bytes, &page));
        pthread_mutex_lock(&device->objects.lock);
        rota_status status = rota_cell_pages_keep(pages, &page, &index);
        if (status != ROTA_OK) {
            pthread_mutex_unlock(&device->objects.lock);
            page_free(device, &page);
            return status;
        }
    }
    rota_vk_block_page *page = rota_cell_pages_at(pages, index);
    const uint32_t cell = rota_cell_take(&page->cells);
    const uint64_t offset = cell * cell_bytes;
    *out_block = (rota_vk_block){
        .address = page->memory->base.address + offset,
        .words = (uint64_t *)(void *)((uint8_t *)page->memory->base.host + offset),
        .memory = page->memory,
        .offset_bytes = offset,
        .page = index,
        .cell = cell,
    };
    pthread_mutex_unlock(&device->objects.lock);
    return ROTA_OK;
}

void rota_vk_block_give(rota_vk_device *device, rota_vk_block *block) {
    if (!block->words) return;
    rota_vk_block_page unused = {0};
    pthread_mutex_lock(&device->objects.lock);
    rota_vk_block_page *page = rota_cell_pages_at(&device->objects.pages, block->page);
    if (rota_cell_give(&page->cells, block->cell)) {
        unused = *page;
        *page = (rota_vk_block_page){0};
    }
    pthread_mutex_unlock(&device->objects.lock);
    page_free(device, &unused);
    block->words = NULL;
}

void rota_vk_blocks_free(rota_vk_device *device) {
    rota_cell_pages *pages = &device->objects.pages;
    for (uint32_t i = 0; i < pages->count; i++) page_free(device, rota_cell_pages_at(pages, i));
    rota_cell_pages_free(pages);
}
