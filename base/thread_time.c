/* See thread_time.h. */
#include "base/thread_time.h"

uint64_t rota_thread_cpu_ns(clockid_t clock) {
    struct timespec time;
    if (clock_gettime(clock, &time) != 0) return 0;
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t rota_thread_cpu_ns_of(pthread_t thread) {
    clockid_t clock;
    return pthread_getcpuclockid(thread, &clock) == 0 ? rota_thread_cpu_ns(clock) : 0;
}
