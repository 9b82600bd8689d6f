/* CBOR items read from memory. */
#include "file/cbor_read.h"

#include <cbor.h> /* IWYU pragma: keep */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/utf8.h"

typedef enum item_kind {
    ITEM_NOTHING, /* the bytes end, or are no CBOR */
    ITEM_UINT,
    ITEM_NEGATIVE,
    ITEM_BYTES,
    ITEM_TEXT,
    ITEM_ARRAY,
    ITEM_MAP,
    ITEM_TAG,
    ITEM_FLOAT,
    ITEM_BOOL,
    ITEM_NULL,
    ITEM_UNDEFINED,
    ITEM_ENDLESS, /* says no length in front */
    ITEM_BREAK,
    ITEM_KIND_COUNT
} item_kind;

static const char *const kind_names[ITEM_KIND_COUNT] = {"nothing",
                                                        "a number",
                                                        "a negative number",
                                                        "bytes",
                                                        "a text",
                                                        "an array",
                                                        "a map",
                                                        "a tag",
                                                        "a real number",
                                                        "true or false",
                                                        "null",
                                                        "undefined",
                                                        "an item without a length in front",
                                                        "a break"};

typedef struct item {
    item_kind kind;
    uint64_t number; /* or length, count, tag, 0 or 1 */
    double real;
    const uint8_t *bytes;
} item;

/* ---- What libcbor's decoder calls ---- */

static void on_number(void *out, uint64_t value) {
    *(item *)out = (item){.kind = ITEM_UINT, .number = value};
}
static void on_u8(void *out, uint8_t value) {
    on_number(out, value);
}
static void on_u16(void *out, uint16_t value) {
    on_number(out, value);
}
static void on_u32(void *out, uint32_t value) {
    on_number(out, value);
}
static void on_negative(void *out) {
    *(item *)out = (item){.kind = ITEM_NEGATIVE};
}
static void on_n8(void *out, uint8_t value) {
    (void)value;
    on_negative(out);
}
static void on_n16(void *out, uint16_t value) {
    (void)value;
    on_negative(out);
}
static void on_n32(void *out, uint32_t value) {
    (void)value;
    on_negative(out);
}
static void on_n64(void *out, uint64_t value) {
    (void)value;
    on_negative(out);
}
static void on_bytes(void *out, cbor_data bytes, size_t size) {
    *(item *)out = (item){.kind = ITEM_BYTES, .number = size, .bytes = bytes};
}
static void on_text(void *out, cbor_data bytes, size_t size) {
    *(item *)out = (item){.kind = ITEM_TEXT, .number = size, .bytes = bytes};
}
static void on_array(void *out, size_t count) {
    *(item *)out = (item){.kind = ITEM_ARRAY, .number = count};
}
static void on_map(void *out, size_t count) {
    *(item *)out = (item){.kind = ITEM_MAP, .number = count};
}
static void on_tag(void *out, uint64_t tag) {
    *(item *)out = (item){.kind = ITEM_TAG, .number = tag};
}
static void on_float(void *out, float value) {
    *(item *)out = (item){.kind = ITEM_FLOAT, .real = (double)value};
}
static void on_double(void *out, double value) {
    *(item *)out = (item){.kind = ITEM_FLOAT, .real = value};
}
static void on_bool(void *out, bool value) {
    *(item *)out = (item){.kind = ITEM_BOOL, .number = value};
}
static void on_null(void *out) {
    *(item *)out = (item){.kind = ITEM_NULL};
}
static void on_undefined(void *out) {
    *(item *)out = (item){.kind = ITEM_UNDEFINED};
}
static void on_endless(void *out) {
    *(item *)out = (item){.kind = ITEM_ENDLESS};
}
static void on_break(void *out) {
    *(item *)out = (item){.kind = ITEM_BREAK};
}

static const struct cbor_callbacks callbacks = {.uint8 = on_u8,
                                                .uint16 = on_u16,
                                                .uint32 = on_u32,
                                                .uint64 = on_number,
                                                .negint8 = on_n8,
                                                .negint16 = on_n16,
                                                .negint32 = on_n32,
                                                .negint64 = on_n64,
                                                .byte_string_start = on_endless,
                                                .byte_string = on_bytes,
                                                .string_start = on_endless,
                                                .string = on_text,
                                                .indef_array_start = on_endless,
                                                .array_start = on_array,
                                                .indef_map_start = on_endless,
                                                .map_start = on_map,
                                                .tag = on_tag,
                                                .float2 = on_float,
                                                .float4 = on_float,
                                                .float8 = on_double,
                                                .undefined = on_undefined,
                                                .null = on_null,
                                                .boolean = on_bool,
                                                .indef_break = on_break};

/* The item at `at`, and how many bytes it takes: of an array, a map or a tag those in front of what is in it. */
static item peek(const rota_cbor_reader *reader, size_t *out_bytes) {
    item found = {.kind = ITEM_NOTHING};
    *out_bytes = 0;
    if (reader->at == reader->size) return found;
    const struct cbor_decoder_result result =
        cbor_stream_decode(reader->bytes + reader->at, reader->size - reader->at, &callbacks, &found);
    if (result.status != CBOR_DECODER_FINISHED) return (item){.kind = ITEM_NOTHING};
    *out_bytes = result.read;
    return found;
}

static item take(rota_cbor_reader *reader) {
    size_t bytes;
    const item taken = peek(reader, &bytes);
    reader->item = reader->at;
    reader->at += bytes;
    return taken;
}

/* ---- What is said ---- */

static void write_place(const rota_cbor_reader *reader, char *text, size_t capacity) {
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < reader->depth && used < capacity; i++) {
        const rota_cbor_place *place = &reader->places[i];
        int more = 0;
        if (place->is_array)
            more = snprintf(text + used, capacity - used, "[%llu]", (unsigned long long)place->index);
        else if (place->key)
            more = snprintf(text + used, capacity - used, "%s%s", used ? "." : "", place->key);
        used += more > 0 ? (size_t)more : 0;
    }
}

rota_status rota_cbor_context(const rota_cbor_reader *reader, rota_status status) {
    char place[256];
    write_place(reader, place, sizeof place);
    return rota_fail_context(status, "graph file '%s', byte %zu%s%s%s: ", reader->path, reader->item,
                             place[0] ? " (" : "", place, place[0] ? ")" : "");
}

rota_status rota_cbor_no_memory(const rota_cbor_reader *reader) {
    return rota_cbor_context(reader, rota_fail(ROTA_OUT_OF_MEMORY, "no host memory"));
}

rota_status rota_cbor_refuse(const rota_cbor_reader *reader, const char *format, ...) {
    char sentence[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return rota_cbor_context(reader, rota_fail(ROTA_INVALID_ARGUMENT, "%s", sentence));
}

static rota_status unexpected(const rota_cbor_reader *reader, const item *found, const char *expected) {
    if (found->kind != ITEM_NOTHING)
        return rota_cbor_refuse(reader, "%s, expected %s", kind_names[found->kind], expected);
    return rota_cbor_refuse(reader, "the file ends, or has no CBOR here; expected %s", expected);
}

/* ---- Items ---- */

rota_status rota_cbor_read_uint(rota_cbor_reader *reader, uint64_t most, uint64_t *out_value) {
    const item found = take(reader);
    if (found.kind != ITEM_UINT) return unexpected(reader, &found, "a number");
    if (found.number > most)
        return rota_cbor_refuse(reader, "%llu, expected at most %llu", (unsigned long long)found.number,
                                (unsigned long long)most);
    *out_value = found.number;
    return ROTA_OK;
}

rota_status rota_cbor_read_u32(rota_cbor_reader *reader, uint32_t least, uint32_t most, uint32_t *out_value) {
    uint64_t value = 0;
    ROTA_TRY(rota_cbor_read_uint(reader, most, &value));
    if (value < least)
        return rota_cbor_refuse(reader, "%llu, expected %u to %u", (unsigned long long)value, least, most);
    *out_value = (uint32_t)value;
    return ROTA_OK;
}

rota_status rota_cbor_read_bool(rota_cbor_reader *reader, bool *out_value) {
    const item found = take(reader);
    if (found.kind != ITEM_BOOL) return unexpected(reader, &found, "true or false");
    *out_value = found.number != 0;
    return ROTA_OK;
}

rota_status rota_cbor_read_f32(rota_cbor_reader *reader, float *out_value) {
    const item found = take(reader);
    if (found.kind != ITEM_FLOAT) return unexpected(reader, &found, "a real number");
    *out_value = (float)found.real;
    return ROTA_OK;
}

rota_status rota_cbor_read_tag(rota_cbor_reader *reader, uint64_t tag) {
    const item found = take(reader);
    if (found.kind != ITEM_TAG || found.number != tag) {
        char expected[64];
        (void)snprintf(expected, sizeof expected, "tag %llu", (unsigned long long)tag);
        return unexpected(reader, &found, expected);
    }
    return ROTA_OK;
}

rota_status rota_cbor_read_bytes(rota_cbor_reader *reader, rota_cbor_bytes *out_bytes) {
    const item found = take(reader);
    if (found.kind != ITEM_BYTES) return unexpected(reader, &found, "bytes");
    *out_bytes = (rota_cbor_bytes){found.bytes, (size_t)found.number};
    return ROTA_OK;
}

rota_status rota_cbor_read_text(rota_cbor_reader *reader, rota_arena *arena, const char **out_text) {
    const item found = take(reader);
    if (found.kind != ITEM_TEXT && found.kind != ITEM_BYTES) return unexpected(reader, &found, "a text");
    const size_t size = (size_t)found.number;
    if (size && memchr(found.bytes, 0, size))
        return rota_cbor_refuse(reader, "a text with a zero byte in it");
    if (found.kind == ITEM_TEXT)
        for (size_t i = 0, length; i < size; i += length)
            if (!(length = rota_utf8_length(found.bytes + i, size - i)))
                return rota_cbor_refuse(reader, "a text that is not UTF-8");
    char *copy = rota_arena_alloc(arena, size + 1, 1);
    if (!copy) return rota_cbor_no_memory(reader);
    if (size) memcpy(copy, found.bytes, size);
    copy[size] = 0;
    *out_text = copy;
    return ROTA_OK;
}

static bool is_text(const item *found, const char *text) {
    return found->kind == ITEM_TEXT && found->number == strlen(text) &&
           memcmp(found->bytes, text, (size_t)found->number) == 0;
}

rota_status rota_cbor_read_name(rota_cbor_reader *reader, const char *const *names, uint32_t count,
                                uint32_t *out_which) {
    const item found = take(reader);
    for (uint32_t i = 0; i < count; i++)
        if (is_text(&found, names[i])) {
            *out_which = i;
            return ROTA_OK;
        }
    char expected[128];
    size_t used = 0;
    for (uint32_t i = 0; i < count && used < sizeof expected; i++) {
        const char *between = i == 0 ? "" : i + 1 == count ? " or " : ", ";
        const int more = snprintf(expected + used, sizeof expected - used, "%s%s", between, names[i]);
        used += more > 0 ? (size_t)more : 0;
    }
    return unexpected(reader, &found, expected);
}

bool rota_cbor_is_uint(const rota_cbor_reader *reader) {
    size_t bytes;
    return peek(reader, &bytes).kind == ITEM_UINT;
}

bool rota_cbor_take_null(rota_cbor_reader *reader) {
    size_t bytes;
    if (peek(reader, &bytes).kind != ITEM_NULL) return false;
    (void)take(reader);
    return true;
}

/* ---- Arrays and maps ---- */

static rota_status enter(rota_cbor_reader *reader, rota_cbor_place place) {
    /* As deep as the readers' own calls go, never as a file says. */
    if (reader->depth == ROTA_CBOR_DEPTH_MAX)
        return rota_cbor_refuse(reader, "arrays and maps in too many others");
    reader->places[reader->depth++] = place;
    return ROTA_OK;
}

static rota_status begin_array(rota_cbor_reader *reader, uint32_t element_bytes, uint64_t least,
                               uint64_t most, uint64_t *out_count) {
    const item found = take(reader);
    if (found.kind != ITEM_ARRAY) return unexpected(reader, &found, "an array");
    if (found.number < least || found.number > most)
        return rota_cbor_refuse(reader, "an array of %llu, expected %llu to %llu",
                                (unsigned long long)found.number, (unsigned long long)least,
                                (unsigned long long)most);
    if (found.number > (reader->size - reader->at) / element_bytes)
        return rota_cbor_refuse(
            reader, "an array of %llu, but the file has %zu bytes more, and each element has at least %u",
            (unsigned long long)found.number, reader->size - reader->at, element_bytes);
    *out_count = found.number;
    return enter(reader, (rota_cbor_place){.is_array = true});
}

rota_status rota_cbor_begin_array(rota_cbor_reader *reader, uint64_t least, uint64_t most,
                                  uint64_t *out_count) {
    return begin_array(reader, 1, least, most, out_count);
}

rota_status rota_cbor_begin_list(rota_cbor_reader *reader, uint32_t element_bytes, uint64_t most,
                                 uint64_t *out_count) {
    return begin_array(reader, element_bytes, 0, most, out_count);
}

void rota_cbor_element(rota_cbor_reader *reader, uint64_t index) {
    reader->places[reader->depth - 1].index = index;
}

rota_status rota_cbor_read_uint_at(rota_cbor_reader *reader, uint64_t index, uint64_t most,
                                   uint64_t *out_value) {
    rota_cbor_element(reader, index);
    return rota_cbor_read_uint(reader, most, out_value);
}

rota_status rota_cbor_read_u32_at(rota_cbor_reader *reader, uint64_t index, uint32_t *out_value) {
    rota_cbor_element(reader, index);
    return rota_cbor_read_u32(reader, 0, UINT32_MAX, out_value);
}

rota_status rota_cbor_read_u32s(rota_cbor_reader *reader, uint32_t count, uint32_t *out_values) {
    uint64_t found;
    ROTA_TRY(rota_cbor_begin_array(reader, count, count, &found));
    for (uint32_t i = 0; i < count; i++) ROTA_TRY(rota_cbor_read_u32_at(reader, i, &out_values[i]));
    return rota_cbor_end(reader);
}

rota_status rota_cbor_begin_map(rota_cbor_reader *reader) {
    const item found = take(reader);
    if (found.kind != ITEM_MAP) return unexpected(reader, &found, "a map");
    return enter(reader, (rota_cbor_place){.left = found.number});
}

bool rota_cbor_take_key(rota_cbor_reader *reader, const char *key) {
    rota_cbor_place *place = &reader->places[reader->depth - 1];
    size_t bytes;
    if (!place->left) return false;
    const item found = peek(reader, &bytes);
    if (!is_text(&found, key)) return false;
    (void)take(reader);
    place->left--;
    place->key = key;
    return true;
}

/* The key that is next, as far as it can be shown. */
static rota_status refuse_key(rota_cbor_reader *reader, const char *expected) {
    rota_cbor_place *place = &reader->places[reader->depth - 1];
    place->key = NULL;
    const item found = take(reader);
    char shown[40] = "";
    if (found.kind == ITEM_TEXT)
        for (size_t i = 0; i < found.number && i + 1 < sizeof shown; i++)
            shown[i] = (char)(found.bytes[i] < 0x20 || found.bytes[i] > 0x7e ? '?' : found.bytes[i]);
    if (found.kind == ITEM_TEXT) return rota_cbor_refuse(reader, "key '%s', expected %s", shown, expected);
    return unexpected(reader, &found, expected);
}

rota_status rota_cbor_want_key(rota_cbor_reader *reader, const char *key) {
    if (rota_cbor_take_key(reader, key)) return ROTA_OK;
    char expected[64];
    (void)snprintf(expected, sizeof expected, "the key '%s'", key);
    if (reader->places[reader->depth - 1].left) return refuse_key(reader, expected);
    reader->places[reader->depth - 1].key = NULL;
    return rota_cbor_refuse(reader, "the map ends, expected %s", expected);
}

rota_status rota_cbor_end(rota_cbor_reader *reader) {
    const rota_cbor_place *place = &reader->places[reader->depth - 1];
    if (!place->is_array && place->left) return refuse_key(reader, "the end of the map");
    reader->depth--;
    return ROTA_OK;
}
