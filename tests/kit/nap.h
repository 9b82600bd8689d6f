/* A while in which nothing is to happen, or others are to get on. */
#ifndef ROTA_TESTS_NAP_H
#define ROTA_TESTS_NAP_H

#include <stdint.h>
#include "base/clock.h"
#include "base/futex.h"

static inline void test_nap_ns(uint64_t ns) {
    rota_nap_until(rota_deadline_after(ns));
}

static inline void test_nap_us(uint64_t us) {
    test_nap_ns(us * 1000u);
}

static inline void test_nap_ms(uint64_t ms) {
    test_nap_ns(ms * 1000000u);
}

/* Between two looks at what others are to do: 200 us. */
static inline void test_nap(void) {
    test_nap_us(200);
}

#endif
