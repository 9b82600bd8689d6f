/* Neighbourhoods: which cores, and so which of the workers on them, are near one. Internal to exec/cpu. */
#ifndef ROTA_EXEC_CPU_NEAR_H
#define ROTA_EXEC_CPU_NEAR_H

#include <stdbool.h>
#include <stdint.h>

enum { ROTA_CPU_LEVELS_MAX = 3 };

typedef struct rota_cpu_range {
    uint32_t first, count;
} rota_cpu_range;

/* The nearest first, each inside the next: those that share a cache, a memory, a package. Only where a level
 * has others than the one below it; all there are is no level. */
typedef struct rota_cpu_near {
    rota_cpu_range levels[ROTA_CPU_LEVELS_MAX];
    uint32_t level_count;
} rota_cpu_near;

static inline bool rota_cpu_range_has(rota_cpu_range range, uint32_t index) {
    return index - range.first < range.count; /* wraps for what comes before */
}

/* Adds the next level, of `total` cores in all; one that is no level is left out. */
static inline void rota_cpu_near_add(rota_cpu_near *near, rota_cpu_range range, uint32_t total) {
    const uint32_t below = near->level_count ? near->levels[near->level_count - 1].count : 1;
    if (range.count > below && range.count < total) near->levels[near->level_count++] = range;
}

/* What is left of it with so many cores, the first ones. */
static inline rota_cpu_near rota_cpu_near_cut(const rota_cpu_near *near, uint32_t total) {
    rota_cpu_near cut = {.level_count = 0};
    for (uint32_t level = 0; level < near->level_count; level++) {
        rota_cpu_range range = near->levels[level];
        if (range.first < total && range.count > total - range.first) range.count = total - range.first;
        if (range.first < total) rota_cpu_near_add(&cut, range, total);
    }
    return cut;
}

#endif
