/* Pages cut into equal cells, a power of two of bytes each: small memory without a driver's call for each.
 * What a page's memory is, is the executor's: its own struct of a page begins with rota_cell_page. Internal
 * to the executors. Whoever calls holds the lock that the pages are under. */
#ifndef ROTA_EXEC_COMMON_CELL_PAGES_H
#define ROTA_EXEC_COMMON_CELL_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/status.h"

typedef struct rota_cell_page {
    uint64_t cell_bytes;
    uint32_t cell_count, free_count, free_hint;
    uint8_t *used; /* NULL: there is no page here */
} rota_cell_page;

/* Pages stay where they are in the order in which they came; a place without one is used again. */
typedef struct rota_cell_pages {
    size_t page_size; /* of the executor's struct */
    uint8_t *pages;
    uint32_t count, capacity;
} rota_cell_pages;

/* Of a cell for so much. */
uint64_t rota_cell_bytes(uint64_t size_bytes);
/* A page of about so many bytes, or of one cell, without memory yet; OUT_OF_MEMORY. */
rota_status rota_cell_page_begin(rota_cell_page *page, uint64_t cell_bytes, uint64_t page_bytes);

void *rota_cell_pages_at(const rota_cell_pages *pages, uint32_t index);
/* A page with a free cell of that size, or pages->count; linear in the pages. */
uint32_t rota_cell_pages_find(const rota_cell_pages *pages, uint64_t cell_bytes);
/* Takes over a copy of the executor's page; OUT_OF_MEMORY. */
rota_status rota_cell_pages_keep(rota_cell_pages *pages, const void *page, uint32_t *out_index);
/* A cell of a page that has one free. */
uint32_t rota_cell_take(rota_cell_page *page);
/* True: it was the page's only one. Those are not kept; of small cells an empty page is. */
bool rota_cell_give(rota_cell_page *page, uint32_t cell);
/* The array; the pages in it have been freed. */
void rota_cell_pages_free(rota_cell_pages *pages);

#endif
