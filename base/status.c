/* Status names and the thread-local error sentence. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ROTA_STRING_(x) #x
#define ROTA_STRING(x) ROTA_STRING_(x)

static _Thread_local char error_message[ROTA_ERROR_MESSAGE_MAX];

const char *rota_version(void) {
    return ROTA_STRING(ROTA_VERSION_MAJOR) "." ROTA_STRING(ROTA_VERSION_MINOR) "." ROTA_STRING(
        ROTA_VERSION_PATCH);
}

const char *rota_status_name(rota_status status) {
    switch (status) {
#define ROTA_STATUS_NAME(name, text)                                                                         \
    case ROTA_##name:                                                                                        \
        return #name;
        ROTA_STATUS_LIST(ROTA_STATUS_NAME)
#undef ROTA_STATUS_NAME
    case ROTA_STATUS_COUNT:
        break;
    }
    return "UNKNOWN";
}

const char *rota_status_text(rota_status status) {
    switch (status) {
#define ROTA_STATUS_TEXT(name, text)                                                                         \
    case ROTA_##name:                                                                                        \
        return text;
        ROTA_STATUS_LIST(ROTA_STATUS_TEXT)
#undef ROTA_STATUS_TEXT
    case ROTA_STATUS_COUNT:
        break;
    }
    return "unknown status";
}

const char *rota_last_error(void) {
    return error_message;
}

rota_status rota_fail(rota_status status, const char *format, ...) {
    /* Formatted aside first: an argument may be the old message. */
    char text[ROTA_ERROR_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format ? format : "", arguments);
    va_end(arguments);
    memcpy(error_message, text, sizeof text);
    return status;
}

rota_status rota_fail_context(rota_status status, const char *format, ...) {
    char text[ROTA_ERROR_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format ? format : "", arguments);
    va_end(arguments);
    if (length < 0) return status;
    size_t used = (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
    /* Whoever failed may have said it already. */
    if (strncmp(error_message, text, used) == 0) return status;
    (void)snprintf(text + used, sizeof text - used, "%s", error_message);
    memcpy(error_message, text, sizeof text);
    return status;
}
