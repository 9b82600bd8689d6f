/* Futex system call with an absolute CLOCK_MONOTONIC deadline. */
#include "base/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

bool rota_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t deadline_ns) {
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                             .tv_nsec = (long)(deadline_ns % 1000000000u)};
    /* FUTEX_WAIT_BITSET takes an absolute deadline, so that a spurious wake does not lengthen the wait. */
    long result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected, &until, NULL,
                          FUTEX_BITSET_MATCH_ANY);
    return !(result == -1 && errno == ETIMEDOUT);
}

void rota_futex_wake(_Atomic uint32_t *word, int count) {
    (void)syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL, NULL, 0);
}

void rota_nap_until(uint64_t deadline_ns) {
    static _Atomic uint32_t never; /* nobody changes or wakes it */
    while (rota_futex_wait(&never, 0, deadline_ns)) {
    }
}
