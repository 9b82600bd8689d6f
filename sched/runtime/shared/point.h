/* Points: a value of a queue's timeline in one word. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_POINT_H
#define ROTA_SCHED_RUNTIME_SHARED_POINT_H

#include <stdint.h>
#include "exec/exec.h"

#define ROTA_DEVICES_MAX 64
#define ROTA_TIMELINES_MAX (ROTA_DEVICES_MAX * ROTA_EXEC_QUEUES_MAX)
_Static_assert(ROTA_DEVICES_MAX <= 1024 && ROTA_EXEC_QUEUES_MAX <= 64, "a point has 10 and 6 bits for them");
#define ROTA_POINT_NONE 0u
#define ROTA_POINT_PASSED UINT64_MAX /* of a ticket that ended without any work */

static inline uint64_t rota_point(uint32_t device, uint32_t queue, uint64_t value) {
    return value << 16 | (uint64_t)device << 6 | queue;
}
static inline uint32_t rota_point_device(uint64_t point) {
    return (uint32_t)(point >> 6) & 1023u;
}
static inline uint32_t rota_point_queue(uint64_t point) {
    return (uint32_t)point & 63u;
}
/* The same for points of one timeline, of which the higher is the later. */
static inline uint32_t rota_point_timeline(uint64_t point) {
    return (uint32_t)point & 65535u;
}
static inline uint64_t rota_point_value(uint64_t point) {
    return point >> 16;
}

/* A work's hold: a point, with this bit where its device can wait for it itself. */
#define ROTA_FOREIGN_WAIT_ON_DEVICE ((uint64_t)1 << 63)
static inline uint64_t rota_foreign_wait_point(uint64_t foreign) {
    return foreign & ~ROTA_FOREIGN_WAIT_ON_DEVICE;
}

#endif
