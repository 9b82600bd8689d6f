/* What kinds of works have to say of the ranges that they touch. */
#include "base/atomic.h"
#include "sched/runtime/kinds/touch.h"
#include "sched/runtime/shared/failed_ranges.h"
#include "sched/runtime/shared/loss.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/timeline.h"

bool rota_touch_mark_early(rota_runtime *runtime, const rota_work *work, const rota_memory_range *where,
                           uint8_t mode, void *reason) {
    if (mode != ROTA_READ)
        rota_failed_ranges_mark(runtime, where, rota_turn_of(work), *(const rota_reason *)reason, true);
    return false;
}

const rota_cause *rota_cause_of_loss(rota_runtime *runtime, uint64_t point) {
    const rota_device *device = runtime->devices[rota_point_device(point)];
    const bool is_lost = rota_device_is_lost(device); /* first: then what was reached before is seen */
    return is_lost && !rota_point_passed(runtime, point) ? ra_load_acquire(&device->lost_cause) : NULL;
}
