/* Monotonic time. */
#include "base/clock.h"

#include <time.h>

uint64_t rota_clock_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t rota_deadline_after(uint64_t timeout_ns) {
    uint64_t now = rota_clock_ns();
    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}
