/* Invariants of the library itself, as assertions: on in debug builds and under sanitizers (ROTA_ASSERTIONS),
 * where a broken one prints where and aborts; in release builds not computed. Never for what a caller gives:
 * that gets a status and a sentence. Internal. */
#ifndef ROTA_BASE_ASSERT_H
#define ROTA_BASE_ASSERT_H

#ifndef ROTA_ASSERTIONS
#define ROTA_ASSERTIONS 0
#endif

#if ROTA_ASSERTIONS
#include <stdio.h>
#include <stdlib.h>

static _Noreturn inline void rota_assertion_failed(const char *condition, const char *file, int line,
                                                   const char *function) {
    (void)fprintf(stderr, "%s:%d: %s: assertion failed: %s\n", file, line, function, condition);
    abort();
}

#define rota_assert(condition)                                                                               \
    ((condition) ? (void)0 : rota_assertion_failed(#condition, __FILE__, __LINE__, __func__))
#else
#define rota_assert(condition) ((void)sizeof((condition) ? 1 : 0)) /* compiled, not computed */
#endif

#endif
