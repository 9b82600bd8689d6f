/* Shared by the tests. */
#ifndef ROTA_TESTS_SUPPORT_H
#define ROTA_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/status.h"
#include "tests/kit/random.h"

/* Fails the test with rota's sentence unless the expression is ROTA_OK. */
#define assert_ok(expression)                                                                                \
    do {                                                                                                     \
        rota_status status_ = (expression);                                                                  \
        if (status_ != ROTA_OK)                                                                              \
            fail_msg("%s: %s: %s", #expression, rota_status_name(status_), rota_last_error());               \
    } while (0)

/* Fails unless the expression gives exactly this status. */
#define assert_status(expression, expected)                                                                  \
    do {                                                                                                     \
        rota_status status_ = (expression);                                                                  \
        if (status_ != (expected))                                                                           \
            fail_msg("%s: %s, expected %s: %s", #expression, rota_status_name(status_),                      \
                     rota_status_name(expected), rota_last_error());                                         \
    } while (0)

/* Fails unless rota's last sentence has the text. */
static inline void expect_said(const char *text) {
    if (!strstr(rota_last_error(), text)) fail_msg("'%s' is not in: %s", text, rota_last_error());
}

#endif
