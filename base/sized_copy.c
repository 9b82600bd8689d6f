/* Structs of callers that were built with another version. */
#include "base/sized_copy.h"

#include <ctype.h>
#include <string.h>

/* No struct is as large: what is larger was never set. */
#define SIZE_MAX_BYTES 4096

/* "ROTA_RUNTIME_OPTIONS" of "rota_runtime_options". */
static const char *macro_of(const char *type, char *text, size_t capacity) {
    size_t length = 0;
    for (; type[length] && length + 1 < capacity; length++)
        text[length] = (char)toupper((unsigned char)type[length]);
    text[length] = 0;
    return text;
}

rota_status rota_sized_check(size_t struct_size, const char *type) {
    char macro[64];
    if (struct_size > sizeof(size_t) && struct_size <= SIZE_MAX_BYTES && struct_size % sizeof(size_t) == 0)
        return ROTA_OK;
    return rota_fail(ROTA_INVALID_ARGUMENT, "%s.struct_size is %zu, which is no size of it: make one by %s()",
                     type, struct_size, macro_of(type, macro, sizeof macro));
}

const void *rota_sized_in(const void *given, size_t size, const char *type, void *room) {
    size_t struct_size;
    memcpy(&struct_size, given, sizeof struct_size);
    if (rota_sized_check(struct_size, type) != ROTA_OK) return NULL;
    if (struct_size < size) {
        memset(room, 0, size);
        memcpy(room, given, struct_size);
        memcpy(room, &size, sizeof size);
        return room;
    }
    const unsigned char *bytes = given;
    for (size_t i = size; i < struct_size; i++)
        if (bytes[i]) {
            (void)rota_fail(
                ROTA_INVALID_ARGUMENT,
                "%s of %zu bytes has something at byte %zu; rota %s knows the first %zu and takes the "
                "rest as 0 only",
                type, struct_size, i, rota_version(), size);
            return NULL;
        }
    return given;
}

void rota_sized_out(void *out, const void *made, size_t size) {
    size_t struct_size;
    memcpy(&struct_size, out, sizeof struct_size);
    size_t known = struct_size < size ? struct_size : size;
    memcpy((char *)out + sizeof struct_size, (const char *)made + sizeof struct_size,
           known - sizeof struct_size);
    memset((char *)out + known, 0, struct_size - known);
}
