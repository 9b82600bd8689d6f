/* Status codes and the thread-local sentence that goes with the last error. */
#ifndef ROTA_BASE_STATUS_H
#define ROTA_BASE_STATUS_H

#include "export.h"

/* One list: name, text. The enum, rota_status_name, rota_status_text and the documentation come from it. */
#define ROTA_STATUS_LIST(X)                                                                                  \
    X(OK, "success")                                                                                         \
    X(INVALID_ARGUMENT, "an argument is outside what the call accepts")                                      \
    X(OUT_OF_RANGE, "an offset, size or index lies outside its object")                                      \
    X(MISALIGNED, "an offset, size or pointer lacks the alignment asked for")                                \
    X(OVERLAP, "two accesses of one node overlap and its kernel does not allow it")                          \
    X(WRONG_STATE, "the object is not in a state in which the call is legal")                                \
    X(NOT_FOUND, "no such object")                                                                           \
    X(ALREADY_EXISTS, "an object of that name or key exists")                                                \
    X(UNDEFINED_DATA, "data is read that nothing wrote")                                                     \
    X(UNSUPPORTED, "the device or build lacks what is asked for")                                            \
    X(OUT_OF_MEMORY, "memory could not be allocated, or the memory limit would be passed")                   \
    X(BUSY, "no room at present; try again, or give a deadline to wait")                                     \
    X(TIMEOUT, "the deadline passed first")                                                                  \
    X(DEVICE_LOST, "the device no longer answers or reported a fault")                                       \
    X(REFUSED, "the device failed its smoke test")                                                           \
    X(NODE_FAILED, "a node failed; its ticket and all that depends on it failed with it")                    \
    X(SYSTEM, "an operating-system call failed")                                                             \
    X(INTERNAL, "an invariant of rota is broken: a bug in rota")                                             \
    X(CANCELLED, "it was cancelled, by a call or by its deadline, before all of it had begun")

typedef enum rota_status {
#define ROTA_STATUS_ENUM(name, text) ROTA_##name,
    ROTA_STATUS_LIST(ROTA_STATUS_ENUM)
#undef ROTA_STATUS_ENUM
        ROTA_STATUS_COUNT
} rota_status;

/* "OUT_OF_RANGE" and the like; "UNKNOWN" for a value outside the enum. Static storage. Wait-free. */
ROTA_API const char *rota_status_name(rota_status status);

/* The general meaning of a status. Static storage. Wait-free. */
ROTA_API const char *rota_status_text(rota_status status);

/* The sentence of this thread's last failed call: which node, op, buffer or shape was wrong and what was
 * expected. Never NULL; empty before the first failure. Valid until this thread's next failed call; copy it to
 * keep it or to hand it to another thread. Wait-free. */
ROTA_API const char *rota_last_error(void);

/* Sets this thread's sentence (printf form, cut at ROTA_ERROR_MESSAGE_MAX) and returns `status`, so that a check
 * reads `return rota_fail(ROTA_OUT_OF_RANGE, ...)`. For kernels and host functions of users too. Wait-free; does
 * not allocate. */
#define ROTA_ERROR_MESSAGE_MAX 1024
ROTA_API rota_status rota_fail(rota_status status, const char *format, ...) ROTA_PRINTF(2, 3);

/* Prefixes this thread's sentence with context ("plan 'step': " ...), unless it begins with that already, and
 * returns `status`. Wait-free. */
ROTA_API rota_status rota_fail_context(rota_status status, const char *format, ...) ROTA_PRINTF(2, 3);

/* Returns from the enclosing function when `expression` is not ROTA_OK. */
#define ROTA_TRY(expression)                                                                                 \
    do {                                                                                                     \
        rota_status rota_try_status_ = (expression);                                                         \
        if (rota_try_status_ != ROTA_OK) return rota_try_status_;                                            \
    } while (0)

#endif
