/* A segment tree over ticks: sums under range additions with their maximum, and lists of intervals. */
#include "sched/plan/peaks.h"

#include <string.h>

typedef struct offer {
    uint32_t item, next; /* next: index + 1 of the next in its node's list; 0: none */
} offer;

bool rota_peaks_init(rota_peaks *peaks, rota_arena *arena, uint32_t ticks) {
    uint32_t leaves = 1;
    while (leaves < ticks) leaves *= 2;
    *peaks = (rota_peaks){.leaves = leaves};
    const size_t nodes = (size_t)leaves * 2;
    peaks->added = rota_arena_calloc(arena, nodes * sizeof *peaks->added, 8);
    peaks->most = rota_arena_calloc(arena, nodes * sizeof *peaks->most, 8);
    peaks->offer = rota_arena_calloc(arena, nodes * sizeof *peaks->offer, 8);
    return peaks->added && peaks->most && peaks->offer;
}

void rota_peaks_free(rota_peaks *peaks) {
    rota_vector_free(&peaks->offers);
}

/* The tree nodes that make up [first, last]: node 1 is the root, the leaves begin at `leaves`. */
#define FOR_COVER(peaks, first, last, node)                                                                  \
    for (uint32_t left_ = (uint32_t)(first) + (peaks)->leaves,                                               \
                  right_ = (uint32_t)(last) + (peaks)->leaves + 1;                                           \
         left_ < right_; left_ /= 2, right_ /= 2)                                                            \
        for (uint32_t side_ = 0, node; side_ < 2; side_++)                                                   \
            if ((side_ == 0 ? left_ & 1 : right_ & 1) && (node = side_ == 0 ? left_++ : --right_, true))

static void lift(rota_peaks *peaks, uint32_t node) {
    for (node /= 2; node; node /= 2) {
        const int64_t left = peaks->most[(size_t)2 * node], right = peaks->most[2 * node + 1];
        peaks->most[node] = peaks->added[node] + (left > right ? left : right);
    }
}

void rota_peaks_add(rota_peaks *peaks, int64_t first, int64_t last, int64_t bytes) {
    if (last < first || bytes == 0) return;
    FOR_COVER(peaks, first, last, node) {
        peaks->added[node] += bytes;
        peaks->most[node] += bytes;
    }
    lift(peaks, (uint32_t)first + peaks->leaves);
    lift(peaks, (uint32_t)last + peaks->leaves);
}

uint64_t rota_peaks_most(const rota_peaks *peaks, uint32_t *out_tick) {
    uint32_t node = 1;
    while (node < peaks->leaves)
        node = 2 * node + (peaks->most[2 * node + 1] > peaks->most[(size_t)2 * node]);
    *out_tick = node - peaks->leaves;
    return peaks->most[1] > 0 ? (uint64_t)peaks->most[1] : 0;
}

/* Below a node that stands for ticks [low, low + width). */
static int64_t most_below(const rota_peaks *peaks, uint32_t node, int64_t low, int64_t width, int64_t first,
                          int64_t last) {
    if (last < low || first >= low + width) return INT64_MIN / 2;
    if (first <= low && last >= low + width - 1) return peaks->most[node];
    const int64_t half = width / 2, left = most_below(peaks, 2 * node, low, half, first, last),
                  right = most_below(peaks, 2 * node + 1, low + half, half, first, last);
    return peaks->added[node] + (left > right ? left : right);
}

uint64_t rota_peaks_most_in(const rota_peaks *peaks, int64_t first, int64_t last) {
    const int64_t most = most_below(peaks, 1, 0, peaks->leaves, first, last);
    return most > 0 ? (uint64_t)most : 0;
}

bool rota_peaks_offer(rota_peaks *peaks, int64_t first, int64_t last, uint32_t item) {
    if (last < first) return true;
    FOR_COVER(peaks, first, last, node) {
        if (!rota_vector_reserve(&peaks->offers, sizeof(offer), 1)) return false;
        ((offer *)peaks->offers.data)[peaks->offers.count++] = (offer){item, peaks->offer[node]};
        peaks->offer[node] = (uint32_t)peaks->offers.count;
    }
    return true;
}

void rota_peaks_withdraw_all(rota_peaks *peaks) {
    memset(peaks->offer, 0, (size_t)peaks->leaves * 2 * sizeof *peaks->offer);
    peaks->offers.count = 0;
}

uint32_t rota_peaks_best(rota_peaks *peaks, uint32_t tick, const bool *taken) {
    const offer *offers = peaks->offers.data;
    uint32_t best = UINT32_MAX;
    for (uint32_t node = tick + peaks->leaves; node; node /= 2) {
        while (peaks->offer[node] && taken[offers[peaks->offer[node] - 1].item])
            peaks->offer[node] = offers[peaks->offer[node] - 1].next;
        if (!peaks->offer[node]) continue;
        const uint32_t item = offers[peaks->offer[node] - 1].item;
        if (item < best) best = item;
    }
    return best;
}
