/* Ranges that works touch: which of them failed is asked of failed_ranges.h. With failed.mutex held.
 * Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_KINDS_TOUCH_H
#define ROTA_SCHED_RUNTIME_KINDS_TOUCH_H

#include "sched/runtime/memory/residency.h"
#include "sched/runtime/shared/causes.h"
#include "sched/runtime/shared/devices.h"
#include "sched/runtime/shared/marks.h"
#include "sched/runtime/shared/runtime.h"
#include "sched/runtime/shared/work.h"

/* `mode`: rota_access_mode. */
typedef bool (*rota_touch_fn)(rota_runtime *runtime, const rota_work *work, const rota_memory_range *where,
                              uint8_t mode, void *user);

/* The work's place in the one order. */
static inline rota_moment rota_turn_of(const rota_work *work) {
    return (rota_moment){work->submission->number, work->step};
}

/* The buffer's bytes in the memory that the device has. */
static inline rota_memory_range rota_memory_range_of_copy(const rota_residency *residency,
                                                          const rota_device *device, uint64_t offset,
                                                          uint64_t size) {
    return (rota_memory_range){
        residency->buffer, 0, 0, offset, offset + size, rota_residency_bit(residency, device)};
}

/* A rota_touch_fn; `reason`: a rota_reason. Marks what is written, whose turn has not come. */
bool rota_touch_mark_early(rota_runtime *runtime, const rota_work *work, const rota_memory_range *where,
                           uint8_t mode, void *reason);
/* Why the point will never pass, or NULL. */
const rota_cause *rota_cause_of_loss(rota_runtime *runtime, uint64_t point);

#endif
