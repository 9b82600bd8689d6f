/* CBOR items written to a stream. */
#include "file/cbor_write.h"

#include <cbor.h> /* IWYU pragma: keep */
#include <string.h>
#include "base/utf8.h"

enum { HEAD_BYTES = 9 }; /* of any item: its kind, and 8 bytes of number */

/* Nobody else has the stream, and items are a few bytes each: its lock is not taken for each. */
static void put(FILE *file, const unsigned char *head, size_t size) {
    (void)fwrite_unlocked(head, 1, size, file);
}

void rota_cbor_put_uint(FILE *file, uint64_t value) {
    unsigned char head[HEAD_BYTES];
    put(file, head, cbor_encode_uint(value, head, sizeof head));
}

void rota_cbor_put_array(FILE *file, size_t count) {
    unsigned char head[HEAD_BYTES];
    put(file, head, cbor_encode_array_start(count, head, sizeof head));
}

void rota_cbor_put_map(FILE *file, size_t count) {
    unsigned char head[HEAD_BYTES];
    put(file, head, cbor_encode_map_start(count, head, sizeof head));
}

void rota_cbor_put_bytes(FILE *file, const void *bytes, size_t size) {
    unsigned char head[HEAD_BYTES];
    put(file, head, cbor_encode_bytestring_start(size, head, sizeof head));
    if (size) put(file, bytes, size);
}

static bool is_utf8(const char *text, size_t size) {
    for (const unsigned char *next = (const unsigned char *)text; size;) {
        const size_t length = rota_utf8_length(next, size);
        if (!length) return false;
        next += length;
        size -= length;
    }
    return true;
}

void rota_cbor_put_text(FILE *file, const char *text) {
    const size_t size = strlen(text);
    if (!is_utf8(text, size)) {
        rota_cbor_put_bytes(file, text, size);
        return;
    }
    unsigned char head[HEAD_BYTES];
    put(file, head, cbor_encode_string_start(size, head, sizeof head));
    if (size) put(file, (const unsigned char *)text, size);
}

void rota_cbor_put_bool(FILE *file, bool value) {
    unsigned char head[HEAD_BYTES];
    put(file, head, cbor_encode_bool(value, head, sizeof head));
}

void rota_cbor_put_null(FILE *file) {
    unsigned char head[HEAD_BYTES];
    put(file, head, cbor_encode_null(head, sizeof head));
}

void rota_cbor_put_f32(FILE *file, float value) {
    unsigned char head[HEAD_BYTES];
    put(file, head, cbor_encode_single(value, head, sizeof head));
}

void rota_cbor_put_tag(FILE *file, uint64_t tag) {
    unsigned char head[HEAD_BYTES];
    put(file, head, cbor_encode_tag(tag, head, sizeof head));
}
