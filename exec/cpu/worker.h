/* Workers: see worker.c. Internal to exec/cpu. */
#ifndef ROTA_EXEC_CPU_WORKER_H
#define ROTA_EXEC_CPU_WORKER_H

#include <pthread.h>
#include "base/atomic.h"
#include "base/patience.h"
#include "exec/cpu/deque.h"
#include "exec/cpu/near.h"
#include "exec/exec.h"

typedef struct rota_cpu_device rota_cpu_device;
typedef struct rota_cpu_worker rota_cpu_worker;
typedef struct rota_cpu_record rota_cpu_record;

/* One thread's, but for what is atomic. */
struct rota_cpu_worker {
    rota_cpu_deque deque;
    _Alignas(64) rota_cpu_device *device;
    /* What it runs now, for stuck_node and close: node is ROTA_CPU_NONE outside kernels and host
     * functions. */
    _Atomic(rota_exec_instance *) instance;
    _Atomic uint32_t node;
    /* Of the node, where it decides: the record of the body's command that runs. What it points to is not looked at
     * before it was found among the bodies' (device.c). */
    _Atomic(const rota_cpu_record *) inner;
    _Atomic uint64_t iteration; /* of the node, where it decides: how many it has begun; else 0 */
    uint32_t index;
    uint32_t tick;         /* tasks run: now and then the injection deque comes first */
    rota_cpu_task *handed; /* what it runs next: the pump started it, and nobody else sees it */
    uint64_t random;
    rota_patience patience;                  /* with searches: whether others want the core */
    rota_cpu_near near;                      /* of the workers, as of the cores that they are on */
    _Alignas(64) _Atomic uint32_t wake_word; /* 1: woken by wake.c, which counted it as searching */
    _Atomic uint32_t exited;
    pthread_t thread;
};

/* A task of another worker's, the nearest that has one; of those equally near, any first. NULL: none has. */
rota_cpu_task *rota_cpu_steal(rota_cpu_worker *worker);
/* A worker's whole life: takes and runs tasks until the device stops. */
void *rota_cpu_worker_main(void *worker);

#endif
