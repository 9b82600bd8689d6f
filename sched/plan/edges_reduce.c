/* Which of the edges into an operation stay: what a vector clock proves implied is dropped. */
#include "sched/plan/edges_parts.h"

#include <stdlib.h>

static int compare_candidates(const void *left, const void *right) {
    uint32_t a = ((const candidate *)left)->from, b = ((const candidate *)right)->from;
    return a < b ? 1 : a > b ? -1 : 0;
}

static void sort_candidates(candidate *list, uint64_t count) {
    if (count > 24) {
        qsort(list, (size_t)count, sizeof *list, compare_candidates);
        return;
    }
    for (uint64_t i = 1; i < count; i++) {
        candidate moved = list[i];
        uint64_t k = i;
        for (; k && list[k - 1].from < moved.from; k--) list[k] = list[k - 1];
        list[k] = moved;
    }
}

/* Returns how many entries there are then. */
static inline uint32_t clock_add(rota_clock *clock, uint32_t count, uint32_t chain, uint32_t latest) {
    for (uint32_t i = 0; i < count; i++)
        if (clock->chain[i] == chain) {
            if (clock->latest[i] < latest) clock->latest[i] = latest;
            return count;
        }
    uint32_t at = count;
    if (at == ROTA_CLOCK_ENTRIES) {
        at = 0;
        for (uint32_t i = 1; i < ROTA_CLOCK_ENTRIES; i++)
            if (clock->latest[i] < clock->latest[at]) at = i;
        if (clock->latest[at] > latest) return count;
        count--;
    }
    clock->chain[at] = chain;
    clock->latest[at] = latest;
    return count + 1;
}

/* Adds what a predecessor and what comes before it are in other chains. */
void rota_edges_clock_join(rota_clock *restrict clock, const rota_clock *restrict other, uint32_t from) {
    const uint32_t own = clock->own_chain, others = other->count;
    uint32_t count = clock->count;
    if (count == 0) {
        for (uint32_t k = 0; k < others; k++) {
            clock->chain[count] = other->chain[k];
            clock->latest[count] = other->latest[k];
            count += other->chain[k] != own;
        }
    } else {
        for (uint32_t k = 0; k < others; k++)
            if (other->chain[k] != own) count = clock_add(clock, count, other->chain[k], other->latest[k]);
    }
    if (other->own_chain != own && other->own_chain != ROTA_NONE)
        count = clock_add(clock, count, other->own_chain, from);
    clock->count = count;
}

/* Keeps the candidates that no other one implies; the latest first, since only a later one can imply an
 * earlier. Joins come before all operations and stay: they are on no chain, and no clock knows them. */
uint64_t rota_edges_reduce(hazards *h, candidate *list, uint64_t count) {
    uint32_t epoch = ++h->reductions;
    uint64_t kept = 0;
    sort_candidates(list, count);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t from = list[i].from;
        const rota_clock *clock = clock_of(h, from);
        if (!(from & ROTA_JOIN)) {
            seen_chain *own = &h->seen[clock->own_chain];
            if (own->epoch == epoch && own->latest >= from) continue;
            *own = (seen_chain){epoch, from};
        } else if (kept && list[kept - 1].from == from) {
            continue;
        }
        list[kept++] = list[i];
        for (uint32_t k = 0; k < clock->count; k++) {
            seen_chain *seen = &h->seen[clock->chain[k]];
            if (seen->epoch != epoch || seen->latest < clock->latest[k])
                *seen = (seen_chain){epoch, clock->latest[k]};
        }
    }
    return kept;
}
