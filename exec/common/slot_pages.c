/* See slot_pages.h. */
#include "exec/common/slot_pages.h"

#include <stdlib.h>
#include <string.h>

#define SLOT_MIN 256u
#define PAGES_MIN 8u

uint64_t rota_slot_bytes(uint64_t size_bytes) {
    uint64_t slot_bytes = SLOT_MIN;
    while (slot_bytes < size_bytes) slot_bytes *= 2;
    return slot_bytes;
}

rota_status rota_slot_page_begin(rota_slot_page *page, uint64_t slot_bytes, uint64_t page_bytes) {
    const uint32_t count = slot_bytes < page_bytes ? (uint32_t)(page_bytes / slot_bytes) : 1;
    *page = (rota_slot_page){.slot_bytes = slot_bytes, .slot_count = count, .free_count = count};
    page->used = calloc(count, 1);
    if (!page->used) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for argument blocks");
    return ROTA_OK;
}

void *rota_slot_pages_at(const rota_slot_pages *pages, uint32_t index) {
    return pages->pages + index * pages->page_size;
}

static const rota_slot_page *slots_at(const rota_slot_pages *pages, uint32_t index) {
    return rota_slot_pages_at(pages, index);
}

uint32_t rota_slot_pages_find(const rota_slot_pages *pages, uint64_t slot_bytes) {
    uint32_t index = 0;
    for (; index < pages->count; index++) {
        const rota_slot_page *page = slots_at(pages, index);
        if (page->used && page->slot_bytes == slot_bytes && page->free_count) break;
    }
    return index;
}

rota_status rota_slot_pages_keep(rota_slot_pages *pages, const void *page, uint32_t *out_index) {
    uint32_t index = 0;
    while (index < pages->count && slots_at(pages, index)->used) index++;
    if (index == pages->capacity) {
        const uint32_t capacity = pages->capacity ? pages->capacity * 2 : PAGES_MIN;
        uint8_t *larger = realloc(pages->pages, capacity * pages->page_size);
        if (!larger) return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for argument blocks");
        pages->pages = larger;
        pages->capacity = capacity;
    }
    memcpy(rota_slot_pages_at(pages, index), page, pages->page_size);
    if (index == pages->count) pages->count++;
    *out_index = index;
    return ROTA_OK;
}

uint32_t rota_slot_take(rota_slot_page *page) {
    while (page->used[page->free_hint]) page->free_hint = (page->free_hint + 1) % page->slot_count;
    page->used[page->free_hint] = 1;
    page->free_count--;
    return page->free_hint;
}

bool rota_slot_give(rota_slot_page *page, uint32_t slot) {
    page->used[slot] = 0;
    page->free_hint = slot;
    page->free_count++;
    return page->slot_count == 1;
}

void rota_slot_pages_free(rota_slot_pages *pages) {
    free(pages->pages);
    pages->pages = NULL;
    pages->count = pages->capacity = 0;
}
