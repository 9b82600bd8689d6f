/* A set of byte strings, numbered in the order in which they were added. Zeroed, it is empty. */
#ifndef ROTA_EXAMPLES_COMMON_STRINGS_H
#define ROTA_EXAMPLES_COMMON_STRINGS_H

#include <stddef.h>
#include <stdint.h>

#define STRING_SET_NONE UINT32_MAX

typedef struct string_set {
    unsigned char *bytes; /* all strings, one after the other */
    size_t *ends;         /* of string i in `bytes` */
    uint32_t *table;      /* open addressing: 1 + number, 0 is free */
    uint64_t key[2];      /* of the hash: of this set alone, so that nobody can choose strings that collide */
    size_t byte_room, table_size;
    uint32_t count, room;
} string_set;

/* The string's number, added if it is new; STRING_SET_NONE: no memory. */
uint32_t string_set_add(string_set *strings, const void *bytes, size_t size);
/* STRING_SET_NONE: it isn't there. */
uint32_t string_set_find(const string_set *strings, const void *bytes, size_t size);
/* Valid until the next string is added. */
const unsigned char *string_set_get(const string_set *strings, uint32_t number, size_t *out_size);
void string_set_free(string_set *strings);

/* An array with room for at least `count` elements, grown by half; NULL (the old one stays): no memory. */
void *array_grown(void *array, size_t element_bytes, size_t count, size_t *room);

/* A min-heap by `first`, then `second`. */
typedef struct min_heap_entry {
    uint64_t first, second;
    uint32_t value;
} min_heap_entry;

typedef struct min_heap {
    min_heap_entry *entries;
    size_t count, room;
} min_heap;

/* 0: no memory. */
int min_heap_push(min_heap *heap, min_heap_entry entry);
/* The heap isn't empty. */
min_heap_entry min_heap_pop(min_heap *heap);

#endif
