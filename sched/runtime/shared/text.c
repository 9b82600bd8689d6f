/* Text appended within a capacity. */
#include "sched/runtime/shared/text.h"

#include <stdarg.h>
#include <stdio.h>

void rota_append(char *text, size_t capacity, size_t *length, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(text + *length, capacity - *length, format, arguments);
    va_end(arguments);
    if (written > 0)
        *length += (size_t)written < capacity - *length ? (size_t)written : capacity - *length - 1;
}
