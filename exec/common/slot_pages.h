/* Pages cut into equal slots, a power of two of bytes each: small memory without a driver's call for each.
 * What a page's memory is, is the executor's: its own struct of a page begins with rota_slot_page. Internal
 * to the executors. Whoever calls holds the lock that the pages are under. */
#ifndef ROTA_EXEC_COMMON_SLOT_PAGES_H
#define ROTA_EXEC_COMMON_SLOT_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

typedef struct rota_slot_page {
    uint64_t slot_bytes;
    uint32_t slot_count, free_count, free_hint;
    uint8_t *used; /* NULL: there is no page here */
} rota_slot_page;

/* Pages stay where they are in the order in which they came; a place without one is used again. */
typedef struct rota_slot_pages {
    size_t page_size; /* of the executor's struct */
    uint8_t *pages;
    uint32_t count, capacity;
} rota_slot_pages;

/* Of a slot for so much. */
uint64_t rota_slot_bytes(uint64_t size_bytes);
/* A page of about so many bytes, or of one slot, without memory yet; OUT_OF_MEMORY. */
rota_status rota_slot_page_begin(rota_slot_page *page, uint64_t slot_bytes, uint64_t page_bytes);

void *rota_slot_pages_at(const rota_slot_pages *pages, uint32_t index);
/* A page with a free slot of that size, or pages->count; linear in the pages. */
uint32_t rota_slot_pages_find(const rota_slot_pages *pages, uint64_t slot_bytes);
/* Takes over a copy of the executor's page; OUT_OF_MEMORY. */
rota_status rota_slot_pages_keep(rota_slot_pages *pages, const void *page, uint32_t *out_index);
/* A slot of a page that has one free. */
uint32_t rota_slot_take(rota_slot_page *page);
/* True: it was the page's only one. Those are not kept; of small slots an empty page is. */
bool rota_slot_give(rota_slot_page *page, uint32_t slot);
/* The array; the pages in it have been freed. */
void rota_slot_pages_free(rota_slot_pages *pages);

#endif
