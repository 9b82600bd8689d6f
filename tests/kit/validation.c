/* Counts what the validation layer says. */
#include "tests/kit/validation.h"

#include <stdio.h>
#include <string.h>
#include "base/atomic.h"

static _Atomic uint32_t messages;

static void log_line(void *user, rota_log_level level, const char *message) {
    (void)user;
    if (level < ROTA_LOG_WARNING || !strstr(message, "Vulkan validation")) return;
    (void)ra_fetch_add_relaxed(&messages, 1);
    fprintf(stderr, "%s\n", message);
}

rota_runtime_options validation_on(rota_runtime_options options) {
    options.log = (rota_log){log_line, NULL, ROTA_LOG_WARNING};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    options.validation = true;
#endif
    return options;
}

uint32_t validation_messages(void) {
    return ra_load_relaxed(&messages);
}
