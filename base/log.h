/* Log lines go to a callback that the application gives; without one they go nowhere. The library never prints. */
#ifndef ROTA_BASE_LOG_H
#define ROTA_BASE_LOG_H

#include "export.h"

typedef enum rota_log_level {
    ROTA_LOG_DEBUG,
    ROTA_LOG_INFO,
    ROTA_LOG_WARNING,
    ROTA_LOG_ERROR
} rota_log_level;

/* Called from any thread of the application or of rota, several at once. `message` has no newline and is valid
 * during the call. Must not call back into rota. */
typedef void (*rota_log_fn)(void *user, rota_log_level level, const char *message);

/* A callback, its user pointer (borrowed while any object made with it lives), and the lowest level passed on. */
typedef struct rota_log {
    rota_log_fn fn;
    void *user;
    rota_log_level level;
} rota_log;

/* Formats and passes on one line; `log` or its fn may be NULL. Does not touch the thread's error sentence. */
ROTA_API void rota_log_write(const rota_log *log, rota_log_level level, const char *format, ...)
    ROTA_PRINTF(3, 4);

#endif
