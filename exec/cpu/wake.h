/* Tasks on their way to workers, and workers woken for them: see wake.c. Internal to exec/cpu. */
#ifndef ROTA_EXEC_CPU_WAKE_H
#define ROTA_EXEC_CPU_WAKE_H

#include "base/atomic.h"
#include "exec/cpu/deque.h"
#include "exec/cpu/info.h"
#include "exec/cpu/near.h"

typedef struct rota_cpu_device rota_cpu_device;
typedef struct rota_cpu_worker rota_cpu_worker;

/* Where tasks stand that no worker has, and which workers look for some or sleep. */
typedef struct rota_cpu_tasks_shared {
    rota_cpu_deque inject; /* owned by the submit thread */
    _Alignas(64) _Atomic(rota_cpu_task *) overflow;
    _Alignas(64) _Atomic uint32_t searchers; /* workers looking for tasks, and workers woken to do so */
    _Atomic uint64_t looks_until_ns;         /* until then the last one that looks does not sleep */
    _Alignas(64) _Atomic uint64_t idle[ROTA_CPU_WORKERS_MAX / 64]; /* sleeping workers */
} rota_cpu_tasks_shared;

/* Pushes to the worker's own deque, or the overflow list, and wakes a sleeper if nobody is looking. */
void rota_cpu_push(rota_cpu_worker *worker, rota_cpu_task *task);
/* Pushes what the worker was to run next, if there is anything. */
void rota_cpu_show_handed(rota_cpu_worker *worker);
/* Puts a task behind the *count that the submit thread put in the injection deque and nobody sees yet, and counts it;
 * false where that is full: it is on the overflow list. */
bool rota_cpu_put(rota_cpu_device *device, rota_cpu_task *task, uint32_t *count);
/* Shows so many, and wakes. Submit thread. */
void rota_cpu_inject(rota_cpu_device *device, uint32_t count);
/* Something was pushed: wakes one sleeper if no worker is looking for tasks, the nearest to the worker that `near` is
 * of; NULL: whoever pushed it is none. */
void rota_cpu_notify(rota_cpu_device *device, const rota_cpu_near *near);
/* What a full deque does not take, from `first` on to `last`. */
void rota_cpu_push_overflow(rota_cpu_device *device, rota_cpu_task *first, rota_cpu_task *last);
/* Gives the device up: its workers leave what they do after their present command, and the last of them tells
 * the host, as nothing touches memory any more. Submit thread. */
void rota_cpu_lose(rota_cpu_device *device, const char *message);
/* Wakes everyone (a loss, close). */
void rota_cpu_wake_all(rota_cpu_device *device);

#endif
