/* A timeline semaphore of the application's behind a timeline of its. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_EXTERNAL_SEMAPHORE_H
#define ROTA_SCHED_RUNTIME_SHARED_EXTERNAL_SEMAPHORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include "base/atomic.h"
#include "exec/exec_semaphore.h"
#include "sched/embed.h"

/* Of its timeline, and of the executor until that forgets it. */
typedef struct rota_external_semaphore {
    rota_exec_semaphore exec; /* first */
    rota_device *device;
    /* The handle may be used while the mutex is held and this is not NULL: the application has not released the
     * timeline, and so neither its semaphore. */
    pthread_mutex_t mutex;
    rota_external_timeline *timeline;
    /* Under it, too: device and handle may be used no more. Calls that began before the runtime closed look here, since
     * what they looked at before may be long ago. */
    bool is_closed;
    _Atomic uint64_t wanted;   /* somebody waits for up to here, on the host */
    _Atomic uint64_t promised; /* signals up to here are with the driver */
    _Atomic uint32_t references;
    bool is_exportable; /* rota made it, for others to have */
} rota_external_semaphore;

static inline void rota_external_semaphore_drop(rota_external_semaphore *semaphore) {
    /* acq_rel: publishes this side's use; the last one sees the other's. */
    if (!semaphore || ra_fetch_sub_acq_rel(&semaphore->references, 1) != 1) return;
    (void)pthread_mutex_destroy(&semaphore->mutex);
    free(semaphore);
}

#endif
