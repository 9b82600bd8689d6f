/* A timeline semaphore of the application's behind a timeline of its. Internal; not installed. */
#ifndef ROTA_SCHED_RUNTIME_SHARED_EXTERNAL_SEMAPHORE_H
#define ROTA_SCHED_RUNTIME_SHARED_EXTERNAL_SEMAPHORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "exec/exec_semaphore.h"
#include "sched/embed.h"

/* Of its timeline, and of the executor until that forgets it. */
typedef struct rota_external_semaphore {
    rota_exec_semaphore exec; /* first */
    rota_device *device;      /* while users says so; its address always */
    /* The handle may be used while the mutex is held and this is not NULL: the application has not released the
     * timeline, and so neither its semaphore. Who may not wait for a driver does not wait for the mutex. */
    pthread_mutex_t mutex;
    rota_external_timeline *timeline;
    uint64_t signalled;         /* under it, too: the driver was told of all up to here */
    _Atomic uint64_t to_signal; /* and is to be told up to here: points that were reached */
    _Atomic uint64_t wanted;    /* somebody waits for up to here, on the host */
    _Atomic uint64_t promised;  /* signals up to here are with the driver */
    _Atomic uint32_t users;     /* threads that use the device by it; above them, that nobody may any more */
    _Atomic uint32_t references;
    _Atomic uint32_t is_released; /* by its application */
    uint64_t timeout_ns;          /* the runtime's: who waits for the thread waits no longer */
    bool is_exportable;           /* rota made it, for others to have */
} rota_external_semaphore;

/* Around a use of the device by a thread that nothing else keeps from being there when it closes. False: it is closed,
 * or the executor has forgotten the semaphore. Lock-free. */
bool rota_external_semaphore_enter(rota_external_semaphore *semaphore);
void rota_external_semaphore_leave(rota_external_semaphore *semaphore);
/* Of one that nobody enters any more: its application has released it, not close. */
bool rota_external_semaphore_is_released(const rota_external_semaphore *semaphore);
/* Nobody enters any more; whether those who had have left: then the mutex is the caller's. */
bool rota_external_semaphore_shut(rota_external_semaphore *semaphore);
/* The mutex, for who may wait for a driver, until then. False: whoever has it is kept in there. */
bool rota_external_semaphore_lock(rota_external_semaphore *semaphore, uint64_t until);

/* Points up to the value are reached, and the executor's thread tells the driver so. Between enter and leave;
 * lock-free. */
void rota_external_semaphore_reach(rota_external_semaphore *semaphore, uint64_t value);
/* Up to where points are reached by now. */
uint64_t rota_external_semaphore_noted(const rota_external_semaphore *semaphore);
/* Tells the driver what is left of that. With the mutex held, and the device there. As the driver's; it is not told
 * again. */
rota_status rota_external_semaphore_signal(rota_external_semaphore *semaphore);
/* What that said, to the log. Without the mutex. */
void rota_external_semaphore_note(const rota_external_timeline *timeline, rota_status status);
/* That it can't be released, for the mutex was not had. Between enter and leave. */
void rota_external_semaphore_note_kept(const rota_external_timeline *timeline);

void rota_external_semaphore_drop(rota_external_semaphore *semaphore);

#endif
