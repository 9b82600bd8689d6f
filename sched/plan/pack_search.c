/* Transient memory of small plans: placing by size, by area and by life; and leaving memory alone for a while. */
#include "sched/plan/pack_search.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sched/plan/pack.h"

/* Packing a physical costs a look at all those packed before it. */
enum { SEARCH_MAX = 2048, APART_MAX = 1024 };

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

static int by_first(const void *left, const void *right) {
    const item *a = left, *b = right;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
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

/* The item of the chain that a physical is in. It is noted for all on the way there, so that chains as long as a graph
 * cost a step a physical. */
static uint32_t item_holding(const rota_physical *physicals, uint32_t physical, uint32_t *item_of) {
    uint32_t known = physical;
    while (item_of[known] == ROTA_NONE) {
        known = physicals[known].inplace_of;
        rota_assert(known != ROTA_NONE); /* chains begin in the part */
    }
    for (uint32_t i = physical; item_of[i] == ROTA_NONE; i = physicals[i].inplace_of)
        item_of[i] = item_of[known];
    return item_of[physical];
}

static uint32_t gather_items(const rota_compiler *c, uint32_t part, item *items, uint32_t *item_of) {
    const rota_physical *physicals = ROTA_PHYSICALS(c);
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->physicals.count; i++) item_of[i] = ROTA_NONE;
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
                item *whole = &items[item_holding(physicals, i, item_of)];
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

/* A part's items, and room to pack them. */
typedef struct search {
    rota_compiler *c;
    uint32_t part, count;
    item *items, *sorted; /* items' offsets are their numbers */
    uint32_t *packed, *item_of;
    uint64_t *offset_of; /* by item: the best packing's */
} search;

static rota_status open_search(rota_compiler *c, uint32_t part, uint32_t item_count, search *out) {
    *out = (search){.c = c,
                    .part = part,
                    .items = rota_arena_alloc(&c->scratch, sizeof(item) * (item_count + 1u), 8),
                    .sorted = rota_arena_alloc(&c->scratch, sizeof(item) * (item_count + 1u), 8),
                    .packed = rota_arena_alloc(&c->scratch, sizeof(uint32_t) * (item_count + 1u), 8),
                    .item_of =
                        rota_arena_alloc(&c->scratch, sizeof(uint32_t) * ((size_t)c->physicals.count + 1), 8),
                    .offset_of = rota_arena_alloc(&c->scratch, sizeof(uint64_t) * (item_count + 1u), 8)};
    if (!out->items || !out->sorted || !out->packed || !out->item_of || !out->offset_of)
        return rota_compile_no_memory(c);
    out->count = gather_items(c, part, out->items, out->item_of);
    for (uint32_t i = 0; i < out->count; i++) out->items[i].offset = i;
    return ROTA_OK;
}

static void sort_items(search *s, int (*order)(const void *, const void *)) {
    memcpy(s->sorted, s->items, sizeof(item) * s->count);
    qsort(s->sorted, s->count, sizeof(item), order);
}

/* Packs the sorted items; keeps that if it takes at most `most`. */
static bool pack_sorted(search *s, uint64_t most, uint64_t *out_bytes) {
    *out_bytes = fit_items(s->sorted, s->count, s->packed);
    if (*out_bytes > most) return false;
    for (uint32_t i = 0; i < s->count; i++)
        s->offset_of[s->item_of[s->sorted[i].physical]] = s->sorted[i].offset;
    return true;
}

static void take_packing(search *s, uint64_t bytes) {
    rota_compiler *c = s->c;
    for (uint32_t i = 0; i < c->physicals.count; i++) {
        rota_physical *physical = &ROTA_PHYSICALS(c)[i];
        if (!physical->packed || physical->first_operation == ROTA_NONE || physical->part != s->part)
            continue;
        physical->offset_bytes = s->offset_of[s->item_of[i]];
        physical->piece = 0;
    }
    c->pieces.count[s->part] = 1;
    c->pieces.bytes[s->part][0] = bytes;
    c->pieces.packed_anew[s->part] = true; /* the tenants noted by the first pass no longer hold */
}

/* Tries other packings of a part's items and takes the best one if it beats `best_bytes`. */
static rota_status search_part(rota_compiler *c, uint32_t part, uint32_t item_count, uint64_t best_bytes) {
    static int (*const orders[])(const void *, const void *) = {by_size, by_area, by_life};
    search s;
    ROTA_TRY(open_search(c, part, item_count, &s));
    bool better = false;
    for (size_t order = 0; order < sizeof orders / sizeof *orders && best_bytes > 0; order++) {
        uint64_t bytes;
        sort_items(&s, orders[order]);
        if (!pack_sorted(&s, best_bytes - 1, &bytes)) continue;
        best_bytes = bytes;
        better = true;
    }
    if (better && best_bytes <= rota_piece_limit(c, part)) take_packing(&s, best_bytes);
    return ROTA_OK;
}

rota_status rota_compile_pack_search(rota_compiler *c, uint32_t part, uint64_t best_bytes) {
    const uint32_t items = count_items(c, part);
    return items > 0 && items <= SEARCH_MAX ? search_part(c, part, items, best_bytes) : ROTA_OK;
}

/* ---- Leaving memory alone ---- */

/* Operations for which it is left alone, tried in turn; the most that lives at once then, as a share of the arena:
 * the rest is lost between items. */
static const uint32_t stretches[] = {64, 16, 4};
#define STRETCHED_SHARE(bytes) ((bytes) - (bytes) / 32)

/* Lets the sorted items live longer, by one operation after the other up to `by`, while no more than `most` lives at
 * once. live: room for a number by operation. */
static void stretch_lives(search *s, uint32_t by, uint64_t most, uint64_t *live) {
    const uint32_t operations = (uint32_t)s->c->operations.count;
    memset(live, 0, sizeof *live * (operations + 1u));
    for (uint32_t i = 0; i < s->count; i++) {
        live[s->sorted[i].first] += s->sorted[i].size;
        live[s->sorted[i].last + 1] -= s->sorted[i].size;
    }
    for (uint32_t n = 1; n < operations; n++) live[n] += live[n - 1];
    for (uint32_t round = 0; round < by; round++)
        for (uint32_t i = 0; i < s->count; i++) {
            item *it = &s->sorted[i];
            if (it->last + 1 < operations && live[it->last + 1] + it->size <= most)
                live[++it->last] += it->size;
        }
}

rota_status rota_compile_pack_apart(rota_compiler *c, uint32_t part, uint64_t bytes) {
    static int (*const orders[])(const void *, const void *) = {by_size, by_first, by_area};
    const uint32_t items = count_items(c, part);
    if (items == 0 || items > APART_MAX) return ROTA_OK;
    search s;
    ROTA_TRY(open_search(c, part, items, &s));
    uint64_t *live = rota_arena_alloc(&c->scratch, sizeof *live * (c->operations.count + 1), 8), packed_bytes;
    if (!live) return rota_compile_no_memory(c);
    for (size_t i = 0; i < sizeof stretches / sizeof *stretches; i++)
        for (size_t order = 0; order < sizeof orders / sizeof *orders; order++) {
            sort_items(&s, orders[order]);
            stretch_lives(&s, stretches[i], STRETCHED_SHARE(bytes), live);
            if (!pack_sorted(&s, bytes, &packed_bytes)) continue;
            take_packing(&s, bytes);
            return ROTA_OK;
        }
    return ROTA_OK;
}
