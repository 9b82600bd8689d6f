/* A while in which nothing is to happen, or others are to get on. */
#ifndef ROTA_TESTS_NAP_H
#define ROTA_TESTS_NAP_H

#include <stdint.h>
#include "base/clock.h"
#include "base/futex.h"

static inline void test_nap_ms(uint64_t ms) {
    rota_nap_until(rota_deadline_after(ms * 1000000u));
}

/* Between two looks at what others are to do: 200 us. */
static inline void test_nap(void) {
    rota_nap_until(rota_deadline_after(200000));
}

#endif
