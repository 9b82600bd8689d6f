/* Live bytes over the ticks of a record order, kept under range additions, and intervals of ticks offered in
 * an order of preference. Internal. */
#ifndef ROTA_SCHED_PLAN_PEAKS_H
#define ROTA_SCHED_PLAN_PEAKS_H

#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/vector.h"

typedef struct rota_peaks {
    uint32_t leaves; /* a power of two */
    int64_t *added;  /* by tree node: to all ticks below it */
    int64_t *most;   /* by tree node: largest sum below it, with its own addition */
    uint32_t *offer; /* by tree node: list of the intervals that cover it; index + 1 in offers */
    rota_vector offers;
} rota_peaks;

/* Over ticks [0, ticks), all 0. False: out of memory. Memory is the arena's, but for the offers. */
bool rota_peaks_init(rota_peaks *peaks, rota_arena *arena, uint32_t ticks);
void rota_peaks_free(rota_peaks *peaks);
/* Adds to ticks first to last, both included; nothing if last < first. O(log ticks). */
void rota_peaks_add(rota_peaks *peaks, int64_t first, int64_t last, int64_t bytes);
/* The largest sum, and the first tick that has it. O(log ticks). */
uint64_t rota_peaks_most(const rota_peaks *peaks, uint32_t *out_tick);

/* The largest sum among ticks first to last. O(log ticks). */
uint64_t rota_peaks_most_in(const rota_peaks *peaks, int64_t first, int64_t last);

/* Offers an item for ticks first to last. False: out of memory. */
bool rota_peaks_offer(rota_peaks *peaks, int64_t first, int64_t last, uint32_t item);
/* Forgets all offers. */
void rota_peaks_withdraw_all(rota_peaks *peaks);
/* The least of the items that are not taken and whose interval covers the tick, where lesser items were
 * offered later; UINT32_MAX: none. Those found taken are dropped, so all calls together cost O(log ticks) an
 * offer and a call. */
uint32_t rota_peaks_best(rota_peaks *peaks, uint32_t tick, const bool *taken);

#endif
