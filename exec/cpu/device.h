/* The CPU executor's device, and how its parts work together. Internal to exec/cpu.
 *
 * A program's segment is cut at program_create into *units*: a unit is one or more commands run one after the
 * other by one worker, or one large kernel split over several (cluster.c). A segment of one unit is a
 * *serial* work: it needs no state and its runs may overlap. Any other has per-instance counters, one per
 * unit, that arm themselves again when they reach zero; its runs of one instance are ordered behind one
 * another by queue.c. A host function that ends later is a unit of its own (later.c), in a segment that is not
 * serial.
 *
 * Life of a work: submit (one thread) takes a work from the pool, copies its block, links it behind its queue
 * and, if its waits are met, pushes it to the injection deque (wake.c); a worker (worker.c) steals it and
 * runs its units, pushing units that became ready to its own deque; the last one marks the work done and
 * pumps: the pump (one thread at a time, others hand it their events and go on) moves timelines and starts
 * works whose waits are now met.
 *
 * Progress: submit, the pump's entry, and all deque traffic are lock-free and allocate only when the pool
 * grows. No application thread takes part in any of it, so one that is stopped delays nothing (P4). */
#ifndef ROTA_EXEC_CPU_DEVICE_H
#define ROTA_EXEC_CPU_DEVICE_H

#include <pthread.h>
#include "base/atomic.h"
#include "exec/common/link.h"
#include "exec/cpu/memory.h"
#include "exec/cpu/queue.h"
#include "exec/cpu/wake.h"
#include "exec/cpu/worker.h"
#include "exec/exec.h"

typedef struct rota_cpu_device rota_cpu_device;

enum { ROTA_CPU_DEQUE_CAPACITY = 8192, ROTA_CPU_INJECT_CAPACITY = 16384 };

typedef enum rota_cpu_stop {
    ROTA_CPU_RUNS,
    ROTA_CPU_IS_LOST, /* from rota_cpu_lose to close */
    ROTA_CPU_CLOSES
} rota_cpu_stop;

/* How workers learn that the device ends, and what they say to that. */
typedef struct rota_cpu_end_shared {
    /* rota_cpu_stop. Not 0: workers leave at the next command and call nothing of the host but `lost`. */
    _Alignas(64) _Atomic uint32_t stop;
    _Atomic uint32_t lost;
    _Atomic uint32_t parked; /* workers that have left for a loss */
    _Atomic uint32_t exited_count;
    _Atomic uint32_t runs; /* of host functions that end later, which have not ended: see later.c */
    char loss[160];        /* what the host is told of it; written before `stop` */
} rota_cpu_end_shared;

/* What the host has made and not destroyed; under the mutex, create and destroy only. */
typedef struct rota_cpu_objects_shared {
    pthread_mutex_t mutex;
    rota_link memories, programs, instances;
    uint64_t allocated_bytes;
} rota_cpu_objects_shared;

struct rota_cpu_device {
    rota_exec_device base;
    rota_exec_host host;
    uint32_t queue_count, worker_count;
    bool diagnostics;
    bool is_abandoned; /* open failed and a worker that was started does not end */
    rota_cpu_device *next_abandoned;
    rota_cpu_worker *workers;
    rota_cpu_end_shared end;
    rota_cpu_tasks_shared tasks;
    rota_cpu_pump_shared pump;
    rota_cpu_works_pump returning;
    rota_cpu_works_shared recycled;
    rota_cpu_works_submit works;
    rota_cpu_objects_shared objects;
    rota_cpu_queue queues[ROTA_EXEC_QUEUES_MAX];
};

static inline rota_cpu_device *rota_cpu_device_of(rota_exec_device *device) {
    return (rota_cpu_device *)device;
}

#endif
