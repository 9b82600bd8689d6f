/* Skip list of disjoint byte ranges. */
#include "sched/plan/interval.h"

#include <string.h>

/* Of the heights of a map: of each the same, so that what it comes to depends on nothing but what is done with it. */
#define RANDOM_SEED 0x9e3779b9u

void rota_interval_map_init(rota_interval_map *map, rota_arena *arena) {
    memset(map, 0, sizeof *map);
    map->arena = arena;
    map->random = RANDOM_SEED;
}

void rota_interval_map_clear(rota_interval_map *map) {
    for (rota_interval *segment = map->head[0]; segment;) {
        rota_interval *next = segment->next[0];
        segment->next[0] = map->free[segment->height];
        map->free[segment->height] = segment;
        segment = next;
    }
    memset(map->head, 0, sizeof map->head);
    map->random = RANDOM_SEED;
    map->credit = 0;
}

/* The pointers that a search for the first segment with high > low passes, level by level. */
typedef struct path {
    rota_interval **links[ROTA_INTERVAL_LEVELS];
} path;

static rota_interval *search(rota_interval_map *map, uint64_t low, path *out) {
    rota_interval **links = map->head;
    for (int level = ROTA_INTERVAL_LEVELS - 1; level >= 0; level--) {
        while (links[level] && links[level]->high <= low) links = links[level]->next;
        out->links[level] = &links[level];
    }
    return *out->links[0];
}

rota_interval *rota_interval_map_find(const rota_interval_map *map, uint64_t low) {
    rota_interval *const *links = map->head;
    for (int level = ROTA_INTERVAL_LEVELS - 1; level >= 0; level--)
        while (links[level] && links[level]->high <= low) links = links[level]->next;
    return links[0];
}

/* xorshift32: heights need no better, and compiles must be repeatable. */
static uint32_t pick_height(rota_interval_map *map) {
    uint32_t x = map->random;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    map->random = x;
    uint32_t height = 1;
    while ((x & 3) == 0 && height < ROTA_INTERVAL_LEVELS) {
        height++;
        x >>= 2;
    }
    return height;
}

static rota_interval *insert(rota_interval_map *map, const path *where, uint64_t low, uint64_t high,
                             rota_range_state state) {
    uint32_t height = pick_height(map);
    rota_interval *segment = map->free[height];
    if (segment)
        map->free[height] = segment->next[0];
    else
        segment = rota_arena_alloc(map->arena, sizeof *segment + sizeof segment->next[0] * height, 8);
    if (!segment) return NULL;
    segment->low = low;
    segment->high = high;
    segment->state = state;
    segment->height = height;
    for (uint32_t level = 0; level < height; level++) {
        segment->next[level] = *where->links[level];
        *where->links[level] = segment;
    }
    return segment;
}

/* Makes `at` a boundary if it lies inside a segment. */
static bool cut(rota_interval_map *map, uint64_t boundary) {
    path where;
    rota_interval *segment = search(map, boundary, &where);
    if (!segment || segment->low >= boundary) return true;
    /* The new segment is the lower part: the path in front of the old one is the path to it. */
    uint64_t low = segment->low;
    segment->low = boundary;
    if (insert(map, &where, low, boundary, segment->state)) return true;
    segment->low = low;
    return false;
}

rota_interval *rota_interval_map_cover(rota_interval_map *map, uint64_t low, uint64_t high) {
    if (!cut(map, low) || !cut(map, high)) return NULL;
    rota_interval *first = NULL;
    const rota_range_state untouched = {0};
    uint64_t offset = low;
    while (offset < high) {
        path where;
        rota_interval *segment = search(map, offset, &where);
        if (!segment || segment->low > offset) {
            uint64_t end = segment && segment->low < high ? segment->low : high;
            segment = insert(map, &where, offset, end, untouched);
            if (!segment) return NULL;
        }
        if (!first) first = segment;
        offset = segment->high;
        /* Runs without gaps are walked, not searched. */
        while (offset < high && segment->next[0] && segment->next[0]->low == offset) {
            segment = segment->next[0];
            offset = segment->high;
        }
    }
    return first;
}

void rota_interval_map_merge(rota_interval_map *map, uint64_t low, uint64_t high, rota_range_state state) {
    path where;
    rota_interval *first = search(map, low, &where);
    for (uint32_t level = 0; level < first->height; level++) where.links[level] = &first->next[level];
    for (rota_interval *segment = first->next[0]; segment && segment->low < high;) {
        rota_interval *next = segment->next[0];
        for (uint32_t level = 0; level < segment->height; level++) *where.links[level] = segment->next[level];
        segment->next[0] = map->free[segment->height];
        map->free[segment->height] = segment;
        segment = next;
    }
    first->high = high;
    first->state = state;
}
