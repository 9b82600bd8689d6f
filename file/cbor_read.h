/* CBOR items read from memory, one at a time, by libcbor's decoder, which allocates nothing: what a file says of its
 * own sizes is believed only as far as its bytes reach. Arrays, maps and strings say their length in front; keys of a
 * map stand in the order in which they are asked for. Every error names the file, the byte, the place
 * ("records[0].nodes[17]") and what was expected. Internal; not installed. */
#ifndef ROTA_FILE_CBOR_READ_H
#define ROTA_FILE_CBOR_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/status.h"

#define ROTA_CBOR_DEPTH_MAX 8

/* An array or map that is being read. */
typedef struct rota_cbor_place {
    const char *key; /* of a map: the key that was asked for last; NULL: none yet, or an array */
    uint64_t index;  /* of an array: the element */
    uint64_t left;   /* keys that were not read yet */
    bool is_array;
} rota_cbor_place;

typedef struct rota_cbor_reader {
    const char *path; /* of the file, for what is said */
    const uint8_t *bytes;
    size_t size, at;
    size_t item; /* where the item begins that was read last */
    rota_cbor_place places[ROTA_CBOR_DEPTH_MAX];
    uint32_t depth;
} rota_cbor_reader;

/* Bytes in the reader's memory. */
typedef struct rota_cbor_bytes {
    const uint8_t *data;
    size_t size;
} rota_cbor_bytes;

/* INVALID_ARGUMENT with a sentence about the item that was read last. */
rota_status rota_cbor_refuse(const rota_cbor_reader *reader, const char *format, ...) ROTA_PRINTF(2, 3);
/* Puts the place before this thread's sentence, of a call that refused what was read; returns `status`. */
rota_status rota_cbor_context(const rota_cbor_reader *reader, rota_status status);

/* The same of memory that there is not. */
rota_status rota_cbor_no_memory(const rota_cbor_reader *reader);
/* Returns from the enclosing function what a call refused, with the place in the file. */
#define ROTA_CBOR_TRY(reader, expression)                                                                    \
    do {                                                                                                     \
        const rota_status cbor_try_status_ = (expression);                                                   \
        if (cbor_try_status_ != ROTA_OK) return rota_cbor_context((reader), cbor_try_status_);               \
    } while (0)

/* A number of at most `most`; a number that is at least `least`, too. */
rota_status rota_cbor_read_uint(rota_cbor_reader *reader, uint64_t most, uint64_t *out_value);
rota_status rota_cbor_read_u32(rota_cbor_reader *reader, uint32_t least, uint32_t most, uint32_t *out_value);
rota_status rota_cbor_read_bool(rota_cbor_reader *reader, bool *out_value);
rota_status rota_cbor_read_f32(rota_cbor_reader *reader, float *out_value);
rota_status rota_cbor_read_tag(rota_cbor_reader *reader, uint64_t tag);
/* Bytes as they lie in the file. */
rota_status rota_cbor_read_bytes(rota_cbor_reader *reader, rota_cbor_bytes *out_bytes);
/* A text, or bytes, without a zero byte, copied. OUT_OF_MEMORY. */
rota_status rota_cbor_read_text(rota_cbor_reader *reader, rota_arena *arena, const char **out_text);
/* A text that is one of names[0..count). */
rota_status rota_cbor_read_name(rota_cbor_reader *reader, const char *const *names, uint32_t count,
                                uint32_t *out_which);
/* Whether the next item is null, which is then read; false, too, where it is nothing at all. */
bool rota_cbor_take_null(rota_cbor_reader *reader);
/* Whether the next item is a number; nothing is read. */
bool rota_cbor_is_uint(const rota_cbor_reader *reader);

/* An array of least to most elements, each of which takes at least a byte of what is left of the file. Each is
 * announced by rota_cbor_element, and the last followed by rota_cbor_end. */
rota_status rota_cbor_begin_array(rota_cbor_reader *reader, uint64_t least, uint64_t most,
                                  uint64_t *out_count);
/* An array of any number of elements up to `most`, each of which takes at least element_bytes of what is left. */
rota_status rota_cbor_begin_list(rota_cbor_reader *reader, uint32_t element_bytes, uint64_t most,
                                 uint64_t *out_count);
void rota_cbor_element(rota_cbor_reader *reader, uint64_t index);
/* Element `index`, which is a number; of any 32 bits. */
rota_status rota_cbor_read_uint_at(rota_cbor_reader *reader, uint64_t index, uint64_t most,
                                   uint64_t *out_value);
rota_status rota_cbor_read_u32_at(rota_cbor_reader *reader, uint64_t index, uint32_t *out_value);
/* An array of `count` of those. */
rota_status rota_cbor_read_u32s(rota_cbor_reader *reader, uint32_t count, uint32_t *out_values);
rota_status rota_cbor_begin_map(rota_cbor_reader *reader);
/* Whether the next key is this one; it is then read, and its value is next. */
bool rota_cbor_take_key(rota_cbor_reader *reader, const char *key);
/* Wants the next key to be this one. */
rota_status rota_cbor_want_key(rota_cbor_reader *reader, const char *key);
/* Ends an array; or a map, of which all keys must have been read. */
rota_status rota_cbor_end(rota_cbor_reader *reader);

#endif
