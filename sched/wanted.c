/* The points that the submission at hand comes after, of each timeline the latest. */
#include "sched/runtime_internal.h"

static uint32_t timeline_index(const rota_runtime *runtime, uint64_t point) {
    return rota_point_device(point) * runtime->queue_count + rota_point_queue(point);
}

void rota_hazard_want(rota_runtime *runtime, uint64_t point) {
    if (point == ROTA_POINT_NONE) return;
    uint32_t t = timeline_index(runtime, point);
    uint64_t value = rota_point_value(point);
    if (runtime->wanted[t] == 0) runtime->touched[runtime->touched_count++] = t;
    if (runtime->wanted[t] < value) runtime->wanted[t] = value;
}
