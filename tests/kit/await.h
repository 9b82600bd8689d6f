/* Waiting for what others are to do, however slow they are. */
#ifndef ROTA_TESTS_AWAIT_H
#define ROTA_TESTS_AWAIT_H

#include "base/clock.h"
#include "tests/kit/nap.h"
#include "tests/kit/support.h"

#define TEST_AWAIT_NS UINT64_C(60000000000)

/* Looks until the condition holds, which it must within a minute. */
#define test_await(condition)                                                                                \
    do {                                                                                                     \
        const uint64_t test_await_until = rota_deadline_after(TEST_AWAIT_NS);                                \
        while (!(condition) && rota_clock_ns() < test_await_until) test_nap();                               \
        if (!(condition)) fail_msg("not within a minute: %s", #condition);                                   \
    } while (0)

#endif
