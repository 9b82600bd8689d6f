/* Points that a work is to come after, the newest of each timeline: the sequencer's. Filled for one work
 * after the other, or for one delivery, and emptied by who makes waits, a chain or a list of it. Internal;
 * not installed. */
#ifndef ROTA_SCHED_RUNTIME_ORDER_WANTED_H
#define ROTA_SCHED_RUNTIME_ORDER_WANTED_H

#include <stdint.h>
#include "sched/runtime/shared/point.h"

typedef struct rota_wanted {
    uint64_t *value;   /* by timeline, as an index over all devices; 0: none */
    uint32_t *touched; /* timelines that have had a value since it was empty */
    uint32_t count;
} rota_wanted;

/* What is wanted of the point's timeline is at least the point; a device has so many timelines. */
static inline void rota_wanted_add(rota_wanted *wanted, uint32_t queue_count, uint64_t point) {
    if (point == ROTA_POINT_NONE) return;
    uint32_t t = rota_point_device(point) * queue_count + rota_point_queue(point);
    uint64_t value = rota_point_value(point);
    if (wanted->value[t] == 0) wanted->touched[wanted->count++] = t;
    if (wanted->value[t] < value) wanted->value[t] = value;
}

/* The points, one a timeline at most, leaving none. Returns how many. */
uint32_t rota_wanted_take(rota_wanted *wanted, uint32_t queue_count, uint64_t *out_points);

#endif
