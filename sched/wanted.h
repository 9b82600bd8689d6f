/* The points that the submission at hand comes after: the sequencer's, of each timeline the latest. Internal. */
#ifndef ROTA_SCHED_WANTED_H
#define ROTA_SCHED_WANTED_H

#include "sched/runtime_internal.h"

/* The submission at hand comes after the point: what is wanted of its timeline is at least that. */
static inline void rota_hazard_want(rota_runtime *runtime, uint64_t point) {
    if (point == ROTA_POINT_NONE) return;
    uint32_t t = rota_point_device(point) * runtime->queue_count + rota_point_queue(point);
    uint64_t value = rota_point_value(point);
    if (runtime->wanted[t] == 0) runtime->touched[runtime->touched_count++] = t;
    if (runtime->wanted[t] < value) runtime->wanted[t] = value;
}

#endif
