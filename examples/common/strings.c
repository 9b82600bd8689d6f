/* A set of numbered byte strings, and a heap. */
#include "examples/common/strings.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

void *array_grown(void *array, size_t element_bytes, size_t count, size_t *room) {
    if (count <= *room) return array;
    size_t larger = *room + *room / 2;
    if (larger < count) larger = count < 16 ? 16 : count;
    void *grown = realloc(array, larger * element_bytes);
    if (grown) *room = larger;
    return grown;
}

static uint64_t turned(uint64_t x, int by) {
    return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4]) {
    v[0] += v[1], v[2] += v[3];
    v[1] = turned(v[1], 13) ^ v[0], v[3] = turned(v[3], 16) ^ v[2];
    v[0] = turned(v[0], 32);
    v[2] += v[1], v[0] += v[3];
    v[1] = turned(v[1], 17) ^ v[2], v[3] = turned(v[3], 21) ^ v[0];
    v[2] = turned(v[2], 32);
}

/* SipHash-1-3 (Aumasson, Bernstein: "SipHash: a fast short-input PRF"): strings come from files, and whoever
 * writes those must not be able to make them collide. */
static uint64_t hash_of(const uint64_t key[2], const unsigned char *bytes, size_t size) {
    uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                     key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t word, last = (uint64_t)size << 56;
    for (; size >= 8; bytes += 8, size -= 8) {
        memcpy(&word, bytes, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    word = 0;
    if (size) memcpy(&word, bytes, size);
    last |= word;
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static void choose_key(string_set *strings) {
    if (getrandom(strings->key, sizeof strings->key, 0) == (ssize_t)sizeof strings->key) return;
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    strings->key[0] = (uint64_t)now.tv_nsec;
    strings->key[1] = (uint64_t)(uintptr_t)strings;
}

const unsigned char *string_set_get(const string_set *strings, uint32_t number, size_t *out_size) {
    size_t begin = number ? strings->ends[number - 1] : 0;
    *out_size = strings->ends[number] - begin;
    return strings->bytes ? strings->bytes + begin : (const unsigned char *)"";
}

/* Where the string is in the table, or the free entry where it belongs. */
static size_t entry_of(const string_set *strings, const void *bytes, size_t size) {
    size_t entry = hash_of(strings->key, bytes, size) & (strings->table_size - 1);
    for (;; entry = (entry + 1) & (strings->table_size - 1)) {
        if (!strings->table[entry]) return entry;
        size_t other_size;
        const unsigned char *other = string_set_get(strings, strings->table[entry] - 1, &other_size);
        if (other_size == size && (!size || memcmp(other, bytes, size) == 0)) return entry;
    }
}

uint32_t string_set_find(const string_set *strings, const void *bytes, size_t size) {
    if (!strings->table_size) return STRING_SET_NONE;
    return strings->table[entry_of(strings, bytes, size)] - 1;
}

static int grow_table(string_set *strings) {
    size_t size = strings->table_size ? strings->table_size * 2 : 1024;
    uint32_t *table = calloc(size, sizeof *table);
    if (!table) return 0;
    if (!strings->table) choose_key(strings);
    free(strings->table);
    strings->table = table;
    strings->table_size = size;
    for (uint32_t i = 0; i < strings->count; i++) {
        size_t length;
        const unsigned char *bytes = string_set_get(strings, i, &length);
        table[entry_of(strings, bytes, length)] = i + 1;
    }
    return 1;
}

uint32_t string_set_add(string_set *strings, const void *bytes, size_t size) {
    if (strings->count >= strings->table_size / 2 && !grow_table(strings)) return STRING_SET_NONE;
    size_t entry = entry_of(strings, bytes, size);
    if (strings->table[entry]) return strings->table[entry] - 1;
    size_t begin = strings->count ? strings->ends[strings->count - 1] : 0, room = strings->room;
    unsigned char *all = array_grown(strings->bytes, 1, begin + size, &strings->byte_room);
    if (!all && begin + size) return STRING_SET_NONE;
    strings->bytes = all;
    size_t *ends = array_grown(strings->ends, sizeof *ends, (size_t)strings->count + 1, &room);
    if (!ends || room > UINT32_MAX) return STRING_SET_NONE;
    strings->ends = ends;
    strings->room = (uint32_t)room;
    if (size) memcpy(all + begin, bytes, size);
    ends[strings->count] = begin + size;
    strings->table[entry] = ++strings->count;
    return strings->count - 1;
}

void string_set_free(string_set *strings) {
    free(strings->bytes);
    free(strings->ends);
    free(strings->table);
    *strings = (string_set){0};
}

static int before(min_heap_entry a, min_heap_entry b) {
    return a.first != b.first ? a.first < b.first : a.second < b.second;
}

int min_heap_push(min_heap *heap, min_heap_entry entry) {
    min_heap_entry *entries = array_grown(heap->entries, sizeof *entries, heap->count + 1, &heap->room);
    if (!entries) return 0;
    heap->entries = entries;
    size_t i = heap->count++;
    for (; i && before(entry, entries[(i - 1) / 2]); i = (i - 1) / 2) entries[i] = entries[(i - 1) / 2];
    entries[i] = entry;
    return 1;
}

min_heap_entry min_heap_pop(min_heap *heap) {
    min_heap_entry *entries = heap->entries, top = entries[0], last = entries[--heap->count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < heap->count; i = child) {
        if (child + 1 < heap->count && before(entries[child + 1], entries[child])) child++;
        if (!before(entries[child], last)) break;
        entries[i] = entries[child];
    }
    entries[i] = last;
    return top;
}
