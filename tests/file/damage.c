/* Damage to CBOR. */
#include "tests/file/damage.h"

#include <cbor.h>
#include <stdbool.h>
#include <string.h>
#include "tests/kit/random.h"

/* ---- Items ---- */

/* The length of a head, and its number; 0: none that says one. */
static size_t head_of(const uint8_t *data, size_t left, uint64_t *out_number) {
    const uint8_t low = left ? data[0] & 31 : 31;
    const size_t more = low < 24 ? 0 : low < 28 ? (size_t)1 << (low - 24) : 9;
    if (!left || low > 27 || more + 1 > left) return 0;
    *out_number = low < 24 ? low : 0;
    for (size_t i = 0; i < more; i++) *out_number = *out_number << 8 | data[1 + i];
    return 1 + more;
}

typedef struct scan {
    const uint8_t *data;
    size_t size, next, count, capacity;
    damage_item *items;
} scan;

static void scan_item(scan *s, uint32_t depth) {
    uint64_t number;
    const size_t head = head_of(s->data + s->next, s->size - s->next, &number);
    if (!head || depth > 12 || s->count == s->capacity) {
        s->next = s->size;
        return;
    }
    const size_t index = s->count++;
    const uint8_t major = s->data[s->next] >> 5;
    s->items[index] = (damage_item){s->next, head, s->size, major};
    s->next += head;
    if (major == 2 || major == 3)
        s->next = number < s->size - s->next ? s->next + (size_t)number : s->size;
    else if (major >= 4 && major <= 6)
        for (uint64_t i = 0; i < (major == 4   ? number
                                  : major == 5 ? 2 * number
                                               : 1) &&
                             s->next < s->size;
             i++)
            scan_item(s, depth + 1);
    s->items[index].end = s->next;
}

size_t damage_items(const uint8_t *data, size_t size, damage_item *out_items, size_t capacity) {
    scan s = {.data = data, .size = size, .capacity = capacity, .items = out_items};
    scan_item(&s, 0);
    return s.count;
}

/* ---- Changes ---- */

typedef struct target {
    uint8_t *bytes;
    size_t size, capacity;
} target;

static void put(target *t, const void *bytes, size_t size) {
    if (size > t->capacity - t->size) size = t->capacity - t->size;
    if (size) memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
}

/* Numbers where something begins or ends, and others. */
static uint64_t draw_number(uint64_t *random, uint64_t was) {
    static const uint64_t edges[] = {0,          1,          2,          3,          4,          8,
                                     16,         17,         23,         24,         25,         255,
                                     256,        257,        65535,      65536,      INT32_MAX,  UINT32_MAX,
                                     1ull << 32, 1ull << 46, 1ull << 47, 1ull << 56, 1ull << 63, UINT64_MAX};
    switch (test_below(random, 4)) {
    case 0:
        return edges[test_below(random, sizeof edges / sizeof *edges)];
    case 1:
        return was + 1 + test_below(random, 4);
    case 2:
        return was - 1 - test_below(random, 4);
    default:
        return test_below(random, 64);
    }
}

static void put_head(target *t, uint8_t major, uint64_t number) {
    unsigned char head[9];
    const size_t size = cbor_encode_uint(number, head, sizeof head);
    head[0] |= (unsigned char)(major << 5);
    put(t, head, size);
}

/* Something small of any kind. */
static void put_other(target *t, uint64_t *random) {
    static const char *const words[] = {"",          "READ",   "READWRITE", "SLOT",       "PERSISTENT",
                                        "TRANSIENT", "name",   "kernel",    "copy",       "unary",
                                        "test",      "matmul", "\xff",      "rota graph", "while",
                                        "switch",    "bodies", "index",     "count"};
    static const uint8_t simple[] = {0xf4, 0xf5, 0xf6, 0xf7, 0xff, 0x9f, 0xbf,
                                     0x5f, 0x80, 0xa0, 0xe0, 0x40, 0x60};
    const char *word = words[test_below(random, sizeof words / sizeof *words)];
    switch (test_below(random, 4)) {
    case 0:
        put_head(t, (uint8_t)test_below(random, 2), draw_number(random, 0));
        return;
    case 1:
        put_head(t, (uint8_t)(2 + test_below(random, 2)), strlen(word));
        put(t, word, strlen(word));
        return;
    case 2:
        put(t, &simple[test_below(random, sizeof simple)], 1);
        return;
    default:
        put(t, "\xfa\x7f\xc0\x00\x00", 5); /* not a number */
    }
}

/* An item's offset in the file gets something else. */
static void change_item(const uint8_t *data, const damage_item *item, const damage_item *other,
                        uint64_t *random, target *t) {
    uint64_t number = 0;
    (void)head_of(data + item->begin, item->end - item->begin, &number);
    switch (test_below(random, 7)) {
    case 0: /* nothing */
        return;
    case 1: /* twice */
        put(t, data + item->begin, item->end - item->begin);
        put(t, data + item->begin, item->end - item->begin);
        return;
    case 2:
        put(t, data + other->begin, other->end - other->begin);
        return;
    case 3:
        put_other(t, random);
        return;
    case 4: /* bytes of a string, or of what is in it */
        put(t, data + item->begin, item->end - item->begin);
        if (item->end > item->begin + item->head && t->size)
            t->bytes[t->size - 1 -
                     test_below(random, (uint32_t)(item->end - item->begin - item->head)) % t->size] ^=
                (uint8_t)(1 + test_below(random, 255));
        return;
    default: /* another number, length, count or tag */
        if (item->major == 7 || item->major == 1) {
            put_other(t, random);
            return;
        }
        put_head(t, item->major, draw_number(random, number));
        put(t, data + item->begin + item->head, item->end - item->begin - item->head);
    }
}

/* A word of a short string of bytes, such as a node's parameters; false: there is none. */
static bool change_word(const uint8_t *data, size_t size, const damage_item *items, size_t count,
                        uint64_t *random, target *t) {
    for (uint32_t i = 0; i < 50; i++) {
        const damage_item *item = &items[test_below(random, (uint32_t)count)];
        const size_t begin = item->begin + item->head, words = (item->end - begin) / 4;
        if (item->major != 2 || !words || words > 64) continue;
        put(t, data, size);
        const size_t offset = begin + (size_t)4 * test_below(random, (uint32_t)words);
        uint32_t word;
        memcpy(&word, data + offset, sizeof word);
        word = (uint32_t)draw_number(random, word);
        if (offset + 4 <= t->size) memcpy(t->bytes + offset, &word, sizeof word);
        return true;
    }
    return false;
}

size_t damage_once(const uint8_t *data, size_t size, const damage_item *items, size_t count, uint64_t *random,
                   uint8_t *out, size_t capacity) {
    target t = {.bytes = out, .capacity = capacity};
    const uint32_t kind = count ? test_below(random, 40) : 39;
    if (kind == 0) { /* cut short */
        put(&t, data, test_below(random, (uint32_t)size));
        return t.size;
    }
    if (kind >= 38) { /* bytes */
        put(&t, data, size);
        for (uint32_t i = 0; i <= test_below(random, 3) && t.size; i++)
            t.bytes[test_below(random, (uint32_t)t.size)] = (uint8_t)test_below(random, 256);
        return t.size;
    }
    if (kind < 9 && change_word(data, size, items, count, random, &t)) return t.size;
    const damage_item *item = &items[test_below(random, (uint32_t)count)];
    const damage_item *other = &items[test_below(random, (uint32_t)count)];
    /* One of the same kind is what else can stand there. */
    for (uint32_t i = 0; i < 8 && other->major != item->major; i++)
        other = &items[test_below(random, (uint32_t)count)];
    put(&t, data, item->begin);
    change_item(data, item, other, random, &t);
    put(&t, data + item->end, size - item->end);
    return t.size;
}
