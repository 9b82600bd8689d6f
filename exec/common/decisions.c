/* See decisions.h. */
#include "exec/common/decisions.h"
#include <stdarg.h>
#include <stdio.h>
#include "graph/conditional_internal.h"

__attribute__((format(printf, 4, 5))) static size_t append(char *text, size_t text_bytes, size_t length,
                                                           const char *format, ...) {
    if (length >= text_bytes) return text_bytes;
    va_list values;
    va_start(values, format);
    const int more = vsnprintf(text + length, text_bytes - length, format, values);
    va_end(values);
    length += more > 0 ? (size_t)more : 0;
    return length < text_bytes ? length : text_bytes;
}

size_t rota_decision_place(char *text, size_t text_bytes, size_t length, uint8_t kind, uint64_t begun,
                           const char *name) {
    const char *comma = length ? ", " : "", *what = rota_conditional_kind_name(kind);
    if (!rota_conditional_is_loop(kind) || begun == 0)
        return append(text, text_bytes, length, "%s%s '%s'", comma, what, name);
    return append(text, text_bytes, length, "%siteration %llu of %s '%s'", comma,
                  (unsigned long long)(begun - 1), what, name);
}

size_t rota_decision_node(char *text, size_t text_bytes, size_t length, const char *name) {
    return append(text, text_bytes, length, ", node '%s': ", name);
}

size_t rota_decision_count(char *text, size_t text_bytes, size_t length, uint32_t value, uint32_t max) {
    return append(text, text_bytes, length, "its count is %u, the most it may be is %u (rota_count.max)",
                  value, max);
}

size_t rota_decision_limit(char *text, size_t text_bytes, size_t length,
                           const rota_exec_conditional *conditional, uint32_t value) {
    const unsigned long long most = conditional->iterations_max;
    if (conditional->kind == ROTA_CONDITIONAL_WHILE)
        return append(text, text_bytes, length,
                      ": its condition is %u after %llu iterations, the most it may have (iterations_max)",
                      value, most);
    return append(text, text_bytes, length,
                  ": its count is %u, and it may have %llu iterations (iterations_max)", value, most);
}
