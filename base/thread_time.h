/* How much of a processor threads have used. Internal; not installed. */
#ifndef ROTA_BASE_THREAD_TIME_H
#define ROTA_BASE_THREAD_TIME_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

/* In nanoseconds, of the thread whose clock that is; 0: there is none. */
uint64_t rota_thread_cpu_ns(clockid_t clock);
/* Of another thread, which has not been joined. */
uint64_t rota_thread_cpu_ns_of(pthread_t thread);

#endif
