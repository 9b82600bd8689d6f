/* Log lines to the application's callback. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void rota_log_write(const rota_log *log, rota_log_level level, const char *format, ...) {
    if (!log || !log->fn || !format || level < log->level) return;
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    log->fn(log->user, level, text);
}
