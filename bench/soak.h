/* What the threads of rota-bench soak do (soak_work.c), for soak.c. */
#ifndef ROTA_BENCH_SOAK_H
#define ROTA_BENCH_SOAK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "sched/runtime.h"

#define SOAK_DEVICES_MAX 8
#define SOAK_MESSAGE_MAX 1536

typedef struct soak {
    rota_runtime *runtime;
    rota_device *devices[SOAK_DEVICES_MAX];
    uint32_t device_count;
    atomic_bool stop, pause;
    _Atomic uint32_t resting; /* threads that do nothing while it is paused */
} soak;

/* What threads do, each one of these in turn. */
enum { SOAK_REPLAYS, SOAK_HOST, SOAK_ARGUMENTS, SOAK_OPENER, SOAK_FAILURES, SOAK_KINDS };
#define SOAK_FORM "replays|host|arguments|runtimes|failures|all"

/* Belongs to its thread, but for the atomics. */
typedef struct soak_thread {
    soak *soak;
    uint32_t kind;
    uint64_t seed; /* of what is random */
    _Atomic uint64_t rounds, failures;
    uint64_t refusals, reopened; /* memory that was refused as it should be; runtimes opened and closed */
    char message[SOAK_MESSAGE_MAX];
} soak_thread;

/* Does some of it, and releases what it made. False, with thread->message, where something was not as it
 * should be. */
bool soak_round(soak_thread *thread);

#endif
