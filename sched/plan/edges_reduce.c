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

/* The clock keeps the latest of what was reached. Operations differ, so it is the same in whatever order
 * chains come. */
void rota_edges_clock_reduced(hazards *h, rota_clock *clock) {
    const uint32_t *chains = h->reached.data, own = clock->own_chain;
    uint32_t count = 0;
    for (uint64_t i = 0; i < h->reached.count; i++) {
        const uint32_t chain = chains[i], latest = h->seen[chain].latest;
        if (chain == own) continue;
        uint32_t k = count;
        if (count < ROTA_CLOCK_ENTRIES)
            count++;
        else if (clock->latest[--k] > latest)
            continue;
        for (; k && clock->latest[k - 1] < latest; k--) {
            clock->chain[k] = clock->chain[k - 1];
            clock->latest[k] = clock->latest[k - 1];
        }
        clock->chain[k] = chain;
        clock->latest[k] = latest;
    }
    clock->count = count;
}

void rota_edges_clock_after(rota_clock *restrict clock, const rota_clock *restrict other, uint32_t from) {
    const uint32_t own = clock->own_chain, others = other->count;
    const bool is_elsewhere = other->own_chain != own && other->own_chain != ROTA_NONE;
    uint32_t count = 0;
    if (is_elsewhere) { /* later than all that it comes after */
        clock->chain[0] = other->own_chain;
        clock->latest[0] = from;
        count = 1;
    }
    for (uint32_t k = 0; k < others && count < ROTA_CLOCK_ENTRIES; k++) {
        clock->chain[count] = other->chain[k];
        clock->latest[count] = other->latest[k];
        count += other->chain[k] != own;
    }
    clock->count = count;
}

/* Notes how far a chain was seen. */
static inline void see(hazards *h, uint32_t chain, uint32_t epoch, uint32_t latest) {
    seen_chain *seen = &h->seen[chain];
    if (seen->epoch != epoch) {
        seen->epoch = epoch;
        seen->latest = latest;
        ((uint32_t *)h->reached.data)[h->reached.count++] = chain;
    } else if (seen->latest < latest) {
        seen->latest = latest;
    }
}

/* Keeps the candidates that no other one implies; the latest first, since only a later one can imply an
 * earlier. Joins come before all operations and stay: they are on no chain, and no clock knows them. */
uint64_t rota_edges_reduce(hazards *h, candidate *list, uint64_t count) {
    uint32_t epoch = ++h->reductions;
    uint64_t kept = 0;
    h->reached.count = 0;
    if (!rota_vector_reserve(&h->reached, sizeof(uint32_t), count * (ROTA_CLOCK_ENTRIES + 1))) {
        h->failed = true;
        return 0;
    }
    sort_candidates(list, count);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t from = list[i].from;
        const rota_clock *clock = clock_of(h, from);
        if (!(from & ROTA_JOIN)) {
            const seen_chain *own = &h->seen[clock->own_chain];
            if (own->epoch == epoch && own->latest >= from) continue;
            see(h, clock->own_chain, epoch, from);
        } else if (kept && list[kept - 1].from == from) {
            continue;
        }
        list[kept++] = list[i];
        for (uint32_t k = 0; k < clock->count; k++) see(h, clock->chain[k], epoch, clock->latest[k]);
    }
    return kept;
}
