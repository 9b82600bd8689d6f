/* What a device can wait for on another one without the host: asked while works are sequenced. */
#include "base/atomic.h"
#include "sched/runtime/order/clocks.h"
#include "sched/runtime/order/linked.h"
#include "sched/runtime/shared/cancel.h"
#include "sched/runtime/shared/point.h"
#include "sched/runtime/shared/runtime.h"

/* Whether the driver has the value's signal once its work is handed over: not where that, or one before, is gone on
 * with. Of a queue with such works, what has not passed. */
static bool gets_signal(const rota_timeline *timeline, uint64_t value) {
    if (timeline->order.goes_on == 0) return true;
    const uint64_t completed = ra_load_relaxed(&timeline->completed);
    return timeline->order.goes_on <= completed || value <= completed;
}

/* Whether it is known what of the device's own comes before (clocks.c): else it can't be waited for first. */
static bool is_known(const rota_device *device, const rota_device *other, const rota_timeline *timeline,
                     uint64_t value) {
    bool known = true;
    if (ra_load_acquire(&device->others.peers) >> other->index & 1u)
        (void)rota_hazard_past(timeline, value, &known);
    return known;
}

bool rota_linked_can_wait(const rota_device *device, uint32_t queues, uint64_t point) {
    const rota_device *other = device->runtime->devices[rota_point_device(point)];
    /* While something has failed the host waits: rota_linked_is_ready. */
    return queues && !rota_failed_is_any(ra_load_acquire(&device->runtime->failed.active)) &&
           (ra_load_acquire(&device->others.linked) >> other->index & 1u) &&
           (device->exec->caps.timeline_queues & queues) == queues &&
           other->timelines[rota_point_queue(point)].shared[device->index] &&
           gets_signal(&other->timelines[rota_point_queue(point)], rota_point_value(point)) &&
           is_known(device, other, &other->timelines[rota_point_queue(point)], rota_point_value(point));
}

uint64_t rota_linked_foreign_wait(const rota_work *work, uint64_t point, uint32_t *count) {
    rota_timeline *timeline = rota_runtime_timeline(work->device->runtime, point);
    if (work->by_host || *count == ROTA_EXEC_LINKED_WAITS_MAX ||
        !rota_linked_can_wait(work->device, 1u << work->queue, point))
        return point;
    if (!ra_load_relaxed(&timeline->awaited)) ra_store_relaxed(&timeline->awaited, 1);
    (*count)++;
    return point | ROTA_FOREIGN_WAIT_ON_DEVICE;
}
