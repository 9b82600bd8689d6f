/* Timelines: values that are published, asked for and waited for. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_TIMELINE_H
#define ROTA_SCHED_RUNTIME_SHARED_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>
#include "sched/runtime.h"

typedef struct rota_timeline rota_timeline;

/* Whether the point's timeline has reached it. PASSED is true. */
bool rota_point_passed(rota_runtime *runtime, uint64_t point);
/* The queue's timeline has reached the value, and so everybody may know. */
void rota_device_publish(rota_device *device, uint32_t queue, uint64_t value);
void rota_device_wake_waiters(rota_device *device);
/* Submit threads that sleep until the timeline has the value, which was stored with seq_cst. */
void rota_device_wake_holders(rota_runtime *runtime, rota_timeline *timeline, uint64_t value);

#endif
