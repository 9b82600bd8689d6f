/* Damage to CBOR: items are changed, not only bytes, so that what comes out is read far into. */
#ifndef ROTA_TESTS_DAMAGE_H
#define ROTA_TESTS_DAMAGE_H

#include <stddef.h>
#include <stdint.h>

/* An item of a file: of a tag, an array or a map with what is in it. */
typedef struct damage_item {
    size_t begin, head, end; /* head: bytes in front of what is in it, or of its string */
    uint8_t major; /* of CBOR: 0 a number, 2 bytes, 3 a text, 4 an array, 5 a map, 6 a tag, 7 others */
} damage_item;

/* The items of a file, outer ones first, at most `capacity`; those before the first byte that is no CBOR. */
size_t damage_items(const uint8_t *data, size_t size, damage_item *out_items, size_t capacity);

/* One change to a file, drawn: a number, or a word of short bytes, becomes another, often one at a limit; an item
 * another's copy, doubled, taken out, or of another kind; a count or length lies; bytes are flipped; the end is
 * missing. `out` has room for `capacity`; returns its size. With no items it changes bytes. */
size_t damage_once(const uint8_t *data, size_t size, const damage_item *items, size_t count, uint64_t *random,
                   uint8_t *out, size_t capacity);

#endif
