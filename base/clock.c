/* Monotonic time. */
#include "base/clock.h"

#include <time.h>

uint64_t rota_clock_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t rota_clock_by_ns(void) {
    struct timespec tick;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &tick);
    return (uint64_t)tick.tv_sec * 1000000000u + (uint64_t)tick.tv_nsec + ROTA_CLOCK_TICK_NS;
}

uint64_t rota_deadline_after(uint64_t timeout_ns) {
    uint64_t now = rota_clock_ns();
    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}
