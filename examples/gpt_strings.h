/* A set of byte strings, numbered in the order in which they were added. Zeroed, it is empty. */
#ifndef ROTA_EXAMPLES_GPT_STRINGS_H
#define ROTA_EXAMPLES_GPT_STRINGS_H

#include <stddef.h>
#include <stdint.h>

#define GPT_STRING_NONE UINT32_MAX

typedef struct gpt_strings {
    unsigned char *bytes; /* all strings, one after the other */
    size_t *ends;         /* of string i in `bytes` */
    uint32_t *table;      /* open addressing: 1 + number, 0 is free */
    uint64_t key[2];      /* of the hash: of this set alone, so that nobody can choose strings that collide */
    size_t byte_room, table_size;
    uint32_t count, room;
} gpt_strings;

/* The string's number, added if it is new; GPT_STRING_NONE: no memory. */
uint32_t gpt_strings_add(gpt_strings *strings, const void *bytes, size_t size);
/* GPT_STRING_NONE: it isn't there. */
uint32_t gpt_strings_find(const gpt_strings *strings, const void *bytes, size_t size);
/* Valid until the next string is added. */
const unsigned char *gpt_strings_get(const gpt_strings *strings, uint32_t number, size_t *out_size);
void gpt_strings_free(gpt_strings *strings);

/* An array with room for at least `count` elements, grown by half; NULL (the old one stays): no memory. */
void *gpt_grown(void *array, size_t element_bytes, size_t count, size_t *room);

/* A min-heap by `first`, then `second`. */
typedef struct gpt_heap_entry {
    uint64_t first, second;
    uint32_t value;
} gpt_heap_entry;

typedef struct gpt_heap {
    gpt_heap_entry *entries;
    size_t count, room;
} gpt_heap;

/* 0: no memory. */
int gpt_heap_push(gpt_heap *heap, gpt_heap_entry entry);
/* The heap isn't empty. */
gpt_heap_entry gpt_heap_pop(gpt_heap *heap);

#endif
