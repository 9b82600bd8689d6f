/* Which of the edges into an operation stay: what a vector clock proves implied is dropped. */
#include "sched/plan/edges_reduce.h"

#include <stdlib.h>

#include "sched/plan/edges_parts.h"

static int compare_candidates(const void *left, const void *right) {
    uint32_t a = ((const candidate *)left)->from, b = ((const candidate *)right)->from;
    return a < b ? 1 : a > b ? -1 : 0;
}

/* Whether each is before the next, as those that wrote the pieces of a buffer one after the other are. */
static bool rises(const candidate *list, uint64_t count) {
    uint64_t i = 1;
    while (i < count && list[i - 1].from < list[i].from) i++;
    return i >= count;
}

static void reverse(candidate *list, uint64_t count) {
    for (uint64_t i = 0; i < count / 2; i++) {
        const candidate moved = list[i];
        list[i] = list[count - 1 - i];
        list[count - 1 - i] = moved;
    }
}

static void sort_candidates(candidate *list, uint64_t count) {
    if (count > 24) {
        if (rises(list, count)) {
            reverse(list, count);
            return;
        }
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
void rota_edges_clock_reduced(const hazards *h, rota_clock *clock, uint32_t own) {
    const uint32_t *chains = h->reached.data;
    const seen_chain *seen = h->seen.data;
    uint32_t *restrict latest = clock->latest, count = 0;
    for (uint64_t i = 0; i < h->reached.count; i++) {
        const uint32_t added = seen[chains[i]].latest;
        if (chains[i] == own) continue;
        uint32_t k = count;
        if (count < ROTA_CLOCK_ENTRIES)
            count++;
        else if (latest[--k] > added)
            continue;
        for (; k && latest[k - 1] < added; k--) latest[k] = latest[k - 1];
        latest[k] = added;
    }
    if (count < ROTA_CLOCK_ENTRIES) latest[count] = ROTA_NONE;
}

void rota_edges_clock_after(const hazards *h, rota_clock *clock, uint32_t own, uint32_t from) {
    const uint32_t *restrict chain = h->clocks.chain, *restrict others = clock_of(h, from)->latest;
    uint32_t *restrict latest = clock->latest, count = 0;
    const uint32_t froms = chain_of(h, from);
    if (froms != own && froms != ROTA_NONE) latest[count++] = from; /* later than all that it comes after */
    for (uint32_t k = 0; k < ROTA_CLOCK_ENTRIES && others[k] != ROTA_NONE && count < ROTA_CLOCK_ENTRIES;
         k++) {
        latest[count] = others[k];
        count += chain[others[k]] != own;
    }
    if (count < ROTA_CLOCK_ENTRIES) latest[count] = ROTA_NONE;
}

/* Notes how far a chain was seen; `reached` has room for it. Returns how many chains were reached. */
static inline uint64_t see(seen_chain *seen, uint32_t epoch, uint32_t chain, uint32_t latest,
                           uint32_t *reached, uint64_t reached_count) {
    if (seen->epoch == epoch) {
        if (seen->latest < latest) seen->latest = latest;
        return reached_count;
    }
    seen->epoch = epoch;
    seen->latest = latest;
    reached[reached_count] = chain;
    return reached_count + 1;
}

/* Keeps the candidates that no other one implies; the latest first, since only a later one can imply an
 * earlier. Joins come before all operations and stay: they are on no chain, and no clock knows them. */
uint64_t rota_edges_reduce(hazards *h, candidate *list, uint64_t count) {
    const uint32_t epoch = ++h->reductions;
    uint64_t kept = 0, reached_count = 0;
    h->reached.count = 0;
    if (!rota_vector_reserve(&h->reached, sizeof(uint32_t), count * (ROTA_CLOCK_ENTRIES + 1))) {
        h->failed = true;
        return 0;
    }
    sort_candidates(list, count);
    seen_chain *const seen = h->seen.data;
    const uint32_t *const chain_of_operation = h->clocks.chain;
    uint32_t *const reached = h->reached.data;
    for (uint64_t i = 0; i < count; i++) {
        const candidate next = list[i];
        const rota_clock *clock = clock_of(h, next.from);
        if (!(next.from & ROTA_JOIN)) {
            const uint32_t chain = chain_of_operation[next.from];
            if (seen[chain].epoch == epoch && seen[chain].latest >= next.from) continue;
            reached_count = see(&seen[chain], epoch, chain, next.from, reached, reached_count);
        } else if (kept && list[kept - 1].from == next.from) {
            continue;
        }
        list[kept++] = next;
        for (uint32_t k = 0; k < ROTA_CLOCK_ENTRIES && clock->latest[k] != ROTA_NONE; k++) {
            const uint32_t chain = chain_of_operation[clock->latest[k]];
            reached_count = see(&seen[chain], epoch, chain, clock->latest[k], reached, reached_count);
        }
    }
    h->reached.count = reached_count;
    return kept;
}
