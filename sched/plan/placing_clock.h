/* When nodes that are placed would run: devices begin them in record order. Internal; not installed. */
#ifndef ROTA_SCHED_PLAN_PLACING_CLOCK_H
#define ROTA_SCHED_PLAN_PLACING_CLOCK_H

#include <stdbool.h>
#include "base/arena.h"
#include "sched/placing.h"

enum { ROTA_PLACING_DEVICES_MAX = 32 };

/* Of the nodes that were begun. */
typedef struct rota_placing_clock {
    const rota_placing *placing;
    double *ended; /* by node */
    double *
        sent; /* by node: when all that its device began up to it has ended, which is when its values leave */
    double *arrived;                        /* by value and device; negative: not yet */
    uint8_t *device;                        /* by node */
    double all_ended;                       /* with what is read back */
    double high[ROTA_PLACING_DEVICES_MAX];  /* by device: when all that it began has ended */
    double floor[ROTA_PLACING_DEVICES_MAX]; /* by device: when the last copy came that it waited for */
    double link[ROTA_PLACING_DEVICES_MAX];  /* by device: when the last copy to it is through */
    double free[ROTA_PLACING_DEVICES_MAX];  /* by hardware: when it can begin the next */
} rota_placing_clock;

/* False: out of memory. */
bool rota_placing_clock_init(rota_placing_clock *clock, const rota_placing *placing, rota_arena *arena);
/* No node has begun. */
void rota_placing_clock_reset(rota_placing_clock *clock);
/* When node `n` ended if it came next, on `device`. */
double rota_placing_clock_try(const rota_placing_clock *clock, uint32_t n, uint32_t device);
/* It does. */
void rota_placing_clock_begin(rota_placing_clock *clock, uint32_t n, uint32_t device);
/* A replay's time with all nodes placed so. */
double rota_placing_clock_run(rota_placing_clock *clock, const uint8_t *devices);

/* Of a value's copy: how long it is under way, and of that how long the next one waits for it. */
static inline double rota_placing_link_ns(const rota_placing *placing, const rota_placing_edge *edge,
                                          uint32_t from, uint32_t to) {
    const double byte_ns = edge->from == ROTA_PLACING_OUTSIDE
                               ? placing->host_byte_ns[to]
                               : placing->byte_ns[from * placing->device_count + to];
    return byte_ns * (double)edge->bytes;
}
static inline double rota_placing_latency_ns(const rota_placing *placing, const rota_placing_edge *edge,
                                             uint32_t from, uint32_t to) {
    return edge->from == ROTA_PLACING_OUTSIDE ? placing->host_latency_ns[to]
                                              : placing->latency_ns[from * placing->device_count + to];
}
static inline const rota_placing_cost *rota_placing_cost_of(const rota_placing *placing, uint32_t n,
                                                            uint32_t device) {
    return &placing->costs[(size_t)n * placing->device_count + device];
}

#endif
