/* Keeping a running thread off some CPUs. Internal; not installed. */
#ifndef ROTA_BASE_THREAD_CPUS_H
#define ROTA_BASE_THREAD_CPUS_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

/* Fewer CPUs than this are left to no thread: rota's own would be in one another's way. */
#define ROTA_THREAD_CPUS_MIN 4

typedef struct rota_thread_cpus {
    _Atomic int32_t thread; /* 0: not running */
    cpu_set_t home;         /* what the thread began with */
} rota_thread_cpus;

/* By the thread itself, at its begin and its end. */
void rota_thread_cpus_begin(rota_thread_cpus *own);
void rota_thread_cpus_end(rota_thread_cpus *own);
/* Any thread: it runs where it began but for `cpus`, in place of those of an earlier call, or as it did where
 * too few would be left. Nothing if the thread is not running. */
void rota_thread_cpus_keep_off(rota_thread_cpus *own, const cpu_set_t *cpus);

#endif
