/* See cell_pages.h. */
#include "exec/common/cell_pages.h"

#include <stdlib.h>
#include <string.h>

#define CELL_MIN 256u
#define PAGES_MIN 8u

uint64_t rota_cell_bytes(uint64_t size_bytes) {
    uint64_t cell_bytes = CELL_MIN;
    while (cell_bytes < size_bytes) cell_bytes *= 2;
    return cell_bytes;
}

rota_status rota_cell_page_begin(rota_cell_page *page, uint64_t cell_bytes, uint64_t page_bytes) {
    const uint32_t count = cell_bytes < page_bytes ? (uint32_t)(page_bytes / cell_bytes) : 1;
    *page = (rota_cell_page){.cell_bytes = cell_bytes, .cell_count = count, .free_count = count};
    page->used = calloc(count, 1);
    if (!page->used) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for argument blocks");
    return ROTA_OK;
}

void *rota_cell_pages_at(const rota_cell_pages *pages, uint32_t index) {
    return pages->pages + index * pages->page_size;
}

static const rota_cell_page *cells_at(const rota_cell_pages *pages, uint32_t index) {
    return rota_cell_pages_at(pages, index);
}

uint32_t rota_cell_pages_find(const rota_cell_pages *pages, uint64_t cell_bytes) {
    uint32_t index = 0;
    for (; index < pages->count; index++) {
        const rota_cell_page *page = cells_at(pages, index);
        if (page->used && page->cell_bytes == cell_bytes && page->free_count) break;
    }
    return index;
}

rota_status rota_cell_pages_keep(rota_cell_pages *pages, const void *page, uint32_t *out_index) {
    uint32_t index = 0;
    while (index < pages->count && cells_at(pages, index)->used) index++;
    if (index == pages->capacity) {
        const uint32_t capacity = pages->capacity ? pages->capacity * 2 : PAGES_MIN;
        uint8_t *larger = realloc(pages->pages, capacity * pages->page_size);
        if (!larger) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for argument blocks");
        pages->pages = larger;
        pages->capacity = capacity;
    }
    memcpy(rota_cell_pages_at(pages, index), page, pages->page_size);
    if (index == pages->count) pages->count++;
    *out_index = index;
    return ROTA_OK;
}

uint32_t rota_cell_take(rota_cell_page *page) {
    while (page->used[page->free_hint]) page->free_hint = (page->free_hint + 1) % page->cell_count;
    page->used[page->free_hint] = 1;
    page->free_count--;
    return page->free_hint;
}

bool rota_cell_give(rota_cell_page *page, uint32_t cell) {
    page->used[cell] = 0;
    page->free_hint = cell;
    page->free_count++;
    return page->cell_count == 1;
}

void rota_cell_pages_free(rota_cell_pages *pages) {
    free(pages->pages);
    pages->pages = NULL;
    pages->count = pages->capacity = 0;
}
