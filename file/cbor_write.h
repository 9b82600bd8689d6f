/* CBOR items written to a stream, by libcbor's encoder. Errors stay with the stream, which its owner looks at
 * (base/output.h). Internal; not installed. */
#ifndef ROTA_FILE_CBOR_WRITE_H
#define ROTA_FILE_CBOR_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

void rota_cbor_put_uint(FILE *file, uint64_t value);
/* The array's `count` elements, or the map's `count` keys and values, are what is written next. */
void rota_cbor_put_array(FILE *file, size_t count);
void rota_cbor_put_map(FILE *file, size_t count);
void rota_cbor_put_bytes(FILE *file, const void *bytes, size_t size);
/* A text; a string of bytes where it is not UTF-8. */
void rota_cbor_put_text(FILE *file, const char *text);
void rota_cbor_put_bool(FILE *file, bool value);
void rota_cbor_put_null(FILE *file);
void rota_cbor_put_f32(FILE *file, float value);
void rota_cbor_put_tag(FILE *file, uint64_t tag);

#endif
