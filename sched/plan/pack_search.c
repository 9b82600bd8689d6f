/* Transient memory of small plans: placing by size, by area and by life. */
#include "sched/plan/pack_search.h"

#include <stdlib.h>
#include <string.h>

#include "sched/plan/pack.h"

/* Packing a physical costs a look at all those packed before it. */
enum { SEARCH_MAX = 2048 };

/* One range of the arena: a physical and those that take it over in place. */
typedef struct item {
    uint32_t first, last; /* operations */
    uint32_t physical;    /* first of the in-place chain */
    uint64_t size, offset;
} item;

static int by_size(const void *left, const void *right) {
    const item *a = left, *b = right;
    if (a->size != b->size) return a->size < b->size ? 1 : -1;
    uint32_t life_a = a->last - a->first, life_b = b->last - b->first;
    if (life_a != life_b) return life_a < life_b ? 1 : -1;
    return a->physical < b->physical ? -1 : a->physical > b->physical;
}

static int by_area(const void *left, const void *right) {
    const item *a = left, *b = right;
    double area_a = (double)a->size * (a->last - a->first + 1.0),
           area_b = (double)b->size * (b->last - b->first + 1.0);
    if (area_a != area_b) return area_a < area_b ? 1 : -1;
    return a->physical < b->physical ? -1 : a->physical > b->physical;
}

static int by_life(const void *left, const void *right) {
    const item *a = left, *b = right;
    uint32_t life_a = a->last - a->first, life_b = b->last - b->first;
    if (life_a != life_b) return life_a < life_b ? 1 : -1;
    return by_size(left, right);
}

/* Puts each item, in the given order, into the smallest gap left by those it lives with. `packed` is sorted
 * by offset. */
static uint64_t fit_items(item *items, uint32_t count, uint32_t *packed) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t offset = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
        for (uint32_t k = 0; k < i; k++) {
            const item *other = &items[packed[k]];
            if (other->first > items[i].last || items[i].first > other->last) continue;
            if (other->offset > offset && other->offset - offset >= items[i].size &&
                other->offset - offset < best_gap) {
                best = offset;
                best_gap = other->offset - offset;
            }
            if (other->offset + other->size > offset) offset = other->offset + other->size;
        }
        if (best == UINT64_MAX) best = offset;
        items[i].offset = best;
        if (best + items[i].size > total) total = best + items[i].size;
        uint32_t k = i;
        for (; k && items[packed[k - 1]].offset > best; k--) packed[k] = packed[k - 1];
        packed[k] = i;
    }
    return total;
}

static uint32_t gather_items(const rota_compiler *c, uint32_t part, item *items, uint32_t *item_of) {
    const rota_physical *physicals = ROTA_PHYSICALS(c);
    uint32_t count = 0;
    /* An input starts before the output that takes its place, but may have a higher number: follow chains
     * from their start. */
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < c->physicals.count; i++) {
            const rota_physical *physical = &physicals[i];
            if (!physical->packed || physical->first_operation == ROTA_NONE || physical->part != part)
                continue;
            if (pass == 0) {
                if (physical->inplace_of != ROTA_NONE) continue;
                item_of[i] = count;
                items[count++] = (item){physical->first_operation, physical->last_operation, i,
                                        rota_aligned_size(physical->size_bytes), 0};
            } else if (physical->inplace_of != ROTA_NONE) {
                uint32_t root = physical->inplace_of;
                while (physicals[root].inplace_of != ROTA_NONE) root = physicals[root].inplace_of;
                item_of[i] = item_of[root];
                item *whole = &items[item_of[root]];
                if (whole->last < physical->last_operation) whole->last = physical->last_operation;
            }
        }
    return count;
}

static uint32_t count_items(const rota_compiler *c, uint32_t part) {
    uint32_t items = 0;
    for (uint32_t i = 0; i < c->physicals.count; i++) {
        const rota_physical *physical = &ROTA_PHYSICALS(c)[i];
        if (physical->packed && physical->first_operation != ROTA_NONE && physical->part == part &&
            physical->inplace_of == ROTA_NONE)
            items++;
    }
    return items;
}

/* Tries other packings of a part's items and takes the best one if it beats `best_bytes`. */
static rota_status search_part(rota_compiler *c, uint32_t part, uint32_t item_count, uint64_t best_bytes) {
    static int (*const orders[])(const void *, const void *) = {by_size, by_area, by_life};
    item *items = rota_arena_alloc(&c->scratch, sizeof *items * (item_count + 1u), 8);
    uint32_t *packed = rota_arena_alloc(&c->scratch, sizeof *packed * (item_count + 1u), 8);
    uint32_t *item_of = rota_arena_alloc(&c->scratch, sizeof *item_of * ((size_t)c->physicals.count + 1), 8);
    uint64_t *offset_of = rota_arena_alloc(&c->scratch, sizeof *offset_of * (item_count + 1u), 8);
    if (!items || !packed || !item_of || !offset_of) return rota_compile_no_memory(c);
    uint32_t count = gather_items(c, part, items, item_of);
    bool better = false;
    for (uint32_t i = 0; i < count; i++)
        items[i].offset = i; /* remembers the item's number until it is packed */
    item *sorted = rota_arena_alloc(&c->scratch, sizeof *sorted * (item_count + 1u), 8);
    if (!sorted) return rota_compile_no_memory(c);
    for (size_t order = 0; order < sizeof orders / sizeof *orders; order++) {
        memcpy(sorted, items, sizeof *items * count);
        qsort(sorted, count, sizeof *sorted, orders[order]);
        uint64_t bytes = fit_items(sorted, count, packed);
        if (bytes >= best_bytes) continue;
        best_bytes = bytes;
        better = true;
        for (uint32_t i = 0; i < count; i++) offset_of[item_of[sorted[i].physical]] = sorted[i].offset;
    }
    if (!better || best_bytes > rota_piece_limit(c, part)) return ROTA_OK;
    for (uint32_t i = 0; i < c->physicals.count; i++) {
        rota_physical *physical = &ROTA_PHYSICALS(c)[i];
        if (!physical->packed || physical->first_operation == ROTA_NONE || physical->part != part) continue;
        physical->offset_bytes = offset_of[item_of[i]];
        physical->piece = 0;
    }
    c->pieces.count[part] = 1;
    c->pieces.bytes[part][0] = best_bytes;
    c->pieces.packed_anew[part] = true; /* the tenants noted by the first pass no longer hold */
    return ROTA_OK;
}

rota_status rota_compile_pack_search(rota_compiler *c, uint32_t part, uint64_t best_bytes) {
    const uint32_t items = count_items(c, part);
    return items > 0 && items <= SEARCH_MAX ? search_part(c, part, items, best_bytes) : ROTA_OK;
}
