/* Points that a work is to come after. */
#include "sched/runtime/order/wanted.h"

uint32_t rota_wanted_take(rota_wanted *wanted, uint32_t queue_count, uint64_t *out_points) {
    const uint32_t count = wanted->count;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t t = wanted->touched[i];
        out_points[i] = rota_point(t / queue_count, t % queue_count, wanted->value[t]);
        wanted->value[t] = 0;
    }
    wanted->count = 0;
    return count;
}
