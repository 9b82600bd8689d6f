/* Appending to text within a capacity. */
#include "base/text_out.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

void rota_text_say(rota_text_out *out, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const uint64_t left = out->length < out->capacity ? out->capacity - out->length : 0;
    const int length = vsnprintf(left ? out->text + out->length : NULL, (size_t)left, format, arguments);
    va_end(arguments);
    if (length > 0) out->length += (uint64_t)length;
}
