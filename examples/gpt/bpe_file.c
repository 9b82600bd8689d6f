/* Byte-pair encoding in GPT-2's files: merges.txt, a line a merge, and vocab.json. Both write a byte as a
 * character that prints: itself where it does, else one of those from U+0100 on. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/files.h"
#include "examples/gpt/bpe.h"
#include "examples/common/utf8.h"

#define FIRST_LINE "#version: 0.2"
#define OWN_LINE FIRST_LINE " rota, merges: "

/* Bytes of a vocab.json: 65536 tokens take some 1.5 MB. Parsed, JSON takes up to 40 times as much memory. */
#define VOCABULARY_MOST (8 << 20)

/* The character of each byte. */
static void list_characters(uint32_t out_codes[256]) {
    uint32_t hidden = 0x100;
    for (uint32_t b = 0; b < 256; b++) {
        const bool prints = (b > 0x20 && b < 0x7f) || (b > 0xa0 && b != 0xad);
        out_codes[b] = prints ? b : hidden++;
    }
}

/* The bytes that printed characters stand for, in place; SIZE_MAX: one stands for none. */
static size_t unprint(const uint32_t codes[256], unsigned char *text, size_t size) {
    size_t count = 0;
    for (size_t offset = 0, length; offset < size; offset += length) {
        uint32_t code = utf8_decode(text + offset, size - offset, &length), b = 0;
        while (b < 256 && codes[b] != code) b++;
        if (b == 256) return SIZE_MAX;
        text[count++] = (unsigned char)b;
    }
    return count;
}

static void print_string(FILE *stream, const gpt_bpe *bpe, const uint32_t codes[256], uint32_t string) {
    size_t size;
    const unsigned char *bytes = string_set_get(&bpe->strings, string, &size);
    for (size_t i = 0; i < size; i++) {
        unsigned char utf8[4];
        fwrite(utf8, 1, utf8_encode(codes[bytes[i]], utf8), stream);
    }
}

char *gpt_bpe_print_merges(const gpt_bpe *bpe) {
    uint32_t codes[256];
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    list_characters(codes);
    if (stream) fprintf(stream, OWN_LINE "%" PRIu32 "\n", bpe->merge_count);
    for (uint32_t i = 0; stream && i < bpe->merge_count; i++) {
        print_string(stream, bpe, codes, bpe->merges[i].left);
        fputc(' ', stream);
        print_string(stream, bpe, codes, bpe->merges[i].right);
        fputc('\n', stream);
    }
    if (stream && fclose(stream) == 0) return text;
    fprintf(stderr, "no memory for the text of %" PRIu32 " merges\n", bpe->merge_count);
    free(text);
    return NULL;
}

/* A token's name in vocab.json; that of a special token is its text. From malloc, or NULL. */
static char *name_of_string(const gpt_bpe *bpe, const uint32_t codes[256], uint32_t string) {
    char *text = NULL;
    size_t size, length;
    FILE *stream = open_memstream(&text, &length);
    if (!stream) return NULL;
    const unsigned char *bytes = string_set_get(&bpe->strings, string, &size);
    if (string < bpe->merged)
        print_string(stream, bpe, codes, string);
    else
        fwrite(bytes, 1, size, stream);
    if (fclose(stream) == 0) return text;
    free(text);
    return NULL;
}

char *gpt_bpe_print_numbers(const gpt_bpe *bpe) {
    uint32_t codes[256];
    list_characters(codes);
    cJSON *names = cJSON_CreateObject();
    bool good = names != NULL;
    for (uint32_t token = 0; good && token < bpe->count; token++) {
        char *name = name_of_string(bpe, codes, bpe->string_of[token]);
        good = name && cJSON_AddNumberToObject(names, name, token);
        free(name);
    }
    char *text = good ? cJSON_PrintUnformatted(names) : NULL;
    if (!text) fprintf(stderr, "no memory for the numbers of %" PRIu32 " tokens\n", bpe->count);
    cJSON_Delete(names);
    return text;
}

static bool save(const gpt_bpe *bpe, file_writer *file) {
    char *text = gpt_bpe_print_merges(bpe);
    if (!text) {
        file_abandon(file);
        return false;
    }
    file_put(file, text, strlen(text));
    free(text);
    return file_commit(file);
}

bool gpt_bpe_save(const gpt_bpe *bpe, const char *merges_path) {
    file_writer file;
    return file_open(&file, merges_path) && save(bpe, &file);
}

bool gpt_bpe_keep(const gpt_bpe *bpe, const char *path) {
    file_writer file;
    return file_open_private(&file, path) && save(bpe, &file);
}

static uint32_t find_printed(const gpt_bpe *bpe, const uint32_t codes[256], unsigned char *text,
                             size_t size) {
    size = unprint(codes, text, size);
    return size == SIZE_MAX ? STRING_SET_NONE : string_set_find(&bpe->strings, text, size);
}

/* How many merges the first line says; UINT64_MAX: it says nothing. */
static uint64_t promised_by(const char *line) {
    const size_t length = strlen(OWN_LINE);
    if (strncmp(line, OWN_LINE, length) != 0 || line[length] < '0' || line[length] > '9') return UINT64_MAX;
    char *end;
    const uint64_t promised = strtoull(line + length, &end, 10);
    return *end ? UINT64_MAX : promised;
}

/* `kept`: a file of gpt_bpe_keep's, whose first line must be whole. */
static bool read_merges(gpt_bpe *bpe, const char *path, char *text, size_t size, bool kept) {
    uint32_t codes[256], number = 0;
    list_characters(codes);
    uint64_t promised = UINT64_MAX;
    for (char *line = text, *end = text + size, *next; line < end; line = next) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        next = stop ? stop + 1 : end;
        if (!stop) stop = end;
        if (stop > line && stop[-1] == '\r') stop--;
        *stop = 0;
        number++;
        if (number == 1) promised = promised_by(line);
        if (kept && promised == UINT64_MAX) break;
        if (stop == line || strncmp(line, "#version", 8) == 0) continue;
        char *space = memchr(line, ' ', (size_t)(stop - line));
        uint32_t left = STRING_SET_NONE, right = left, result;
        if (space) {
            left = find_printed(bpe, codes, (unsigned char *)line, (size_t)(space - line));
            right = find_printed(bpe, codes, (unsigned char *)space + 1, (size_t)(stop - space - 1));
        }
        if (left == STRING_SET_NONE || right == STRING_SET_NONE) {
            fprintf(stderr, "'%s' line %" PRIu32 " is no merge of two tokens that earlier lines make\n", path,
                    number);
            return false;
        }
        if (!gpt_bpe_merge(bpe, left, right, &result)) return false;
    }
    if (kept && promised == UINT64_MAX) {
        fprintf(stderr, "'%s' is not used: its first line doesn't say how many merges it has\n", path);
        return false;
    }
    if (promised != UINT64_MAX && promised != bpe->merge_count) {
        fprintf(stderr, "'%s' is truncated: it has %" PRIu32 " merges of %" PRIu64 "\n", path,
                bpe->merge_count, promised);
        return false;
    }
    return gpt_bpe_finish(bpe);
}

/* The string of a token's name in vocab.json; a special token's name is its text, and becomes a string. */
static uint32_t string_of_name(gpt_bpe *bpe, const uint32_t codes[256], const char *name) {
    size_t size = strlen(name), bytes;
    unsigned char *copy = malloc(size + 1);
    if (!copy) return STRING_SET_NONE;
    memcpy(copy, name, size + 1);
    bytes = unprint(codes, copy, size);
    uint32_t string = bytes == SIZE_MAX ? STRING_SET_NONE : string_set_find(&bpe->strings, copy, bytes);
    free(copy);
    return string != STRING_SET_NONE ? string : string_set_add(&bpe->strings, name, size);
}

static bool read_numbers(gpt_bpe *bpe, const char *path, const cJSON *names) {
    uint32_t codes[256], count = 0, most = 0;
    list_characters(codes);
    for (const cJSON *n = names->child; n; n = n->next, count++) {
        if (!cJSON_IsNumber(n) || !(n->valuedouble >= 0) || n->valuedouble >= GPT_BPE_MOST ||
            n->valuedouble != (double)(uint32_t)n->valuedouble) {
            fprintf(stderr, "'%s' gives token '%s' no number from 0 to %d\n", path, n->string,
                    GPT_BPE_MOST - 1);
            return false;
        }
        if ((uint32_t)n->valuedouble >= most) most = (uint32_t)n->valuedouble + 1;
    }
    if (most != count || !count) {
        fprintf(stderr, "'%s' has %" PRIu32 " tokens, but their numbers go up to %" PRIu32 "\n", path, count,
                most);
        return false;
    }
    /* One string more for each name, at most: those of special tokens. */
    size_t room = (size_t)bpe->strings.count + count;
    bpe->token_of = malloc(room * sizeof *bpe->token_of);
    bpe->string_of = malloc(count * sizeof *bpe->string_of);
    if (!bpe->token_of || !bpe->string_of) {
        fprintf(stderr, "no memory for the tokens of '%s'\n", path);
        return false;
    }
    memset(bpe->token_of, 0xff, room * sizeof *bpe->token_of);
    memset(bpe->string_of, 0xff, count * sizeof *bpe->string_of);
    for (const cJSON *n = names->child; n; n = n->next) {
        uint32_t string = string_of_name(bpe, codes, n->string), token = (uint32_t)n->valuedouble;
        if (string == STRING_SET_NONE || bpe->string_of[token] != STRING_SET_NONE) {
            fprintf(stderr, "'%s' gives number %" PRIu32 " to '%s', which another token has\n", path, token,
                    n->string);
            return false;
        }
        bpe->token_of[string] = token;
        bpe->string_of[token] = string;
    }
    for (uint32_t s = 0; s < bpe->merged; s++)
        if (bpe->token_of[s] == STRING_SET_NONE) {
            size_t size;
            const unsigned char *bytes = string_set_get(&bpe->strings, s, &size);
            fprintf(stderr,
                    "'%s' has no number for '%.*s', which the merges make: it belongs to other merges\n",
                    path, (int)size, (const char *)bytes);
            return false;
        }
    bpe->count = count;
    return true;
}

static bool few_enough(const gpt_bpe *bpe, const char *path, uint64_t most) {
    if (bpe->count <= most) return true;
    fprintf(stderr, "'%s' makes %" PRIu32 " tokens, more than the %" PRIu64 " that are supported\n", path,
            bpe->count, most);
    return false;
}

bool gpt_bpe_load_kept(const char *path, uint64_t most, gpt_bpe *out) {
    *out = (gpt_bpe){0};
    size_t size;
    const char *why;
    FILE *stream = rota_cache_open(path, &why);
    if (!stream) {
        fprintf(stderr, "'%s' is not used: %s\n", path, why ? why : "it can't be read");
        return false;
    }
    char *text = file_read_stream(stream, path, &size);
    const bool good =
        text && gpt_bpe_begin(out) && read_merges(out, path, text, size, true) && few_enough(out, path, most);
    free(text);
    if (!good) gpt_bpe_free(out);
    return good;
}

bool gpt_bpe_read(const char *name, const char *merges, const char *numbers, gpt_bpe *out) {
    *out = (gpt_bpe){0};
    char *text = strdup(merges); /* lines are cut in it */
    bool good = text && gpt_bpe_begin(out) && read_merges(out, name, text, strlen(text), true) &&
                few_enough(out, name, GPT_BPE_MOST);
    if (!text) fprintf(stderr, "no memory for the merges of '%s'\n", name);
    free(text);
    if (good && numbers) {
        cJSON *names = cJSON_Parse(numbers);
        good = cJSON_IsObject(names) && read_numbers(out, name, names);
        if (!cJSON_IsObject(names)) fprintf(stderr, "'%s' has numbers of tokens that make no sense\n", name);
        cJSON_Delete(names);
    }
    if (!good) gpt_bpe_free(out);
    return good;
}

bool gpt_bpe_load(const char *merges_path, const char *vocabulary_path, gpt_bpe *out) {
    *out = (gpt_bpe){0};
    size_t size;
    char *text = file_read(merges_path, &size);
    if (!text) return false;
    bool good = gpt_bpe_begin(out) && read_merges(out, merges_path, text, size, false);
    free(text);
    text = NULL;
    good = good && few_enough(out, merges_path, GPT_BPE_MOST);
    if (good && vocabulary_path) {
        text = file_read(vocabulary_path, &size);
        const bool short_enough = text && size <= VOCABULARY_MOST;
        cJSON *names = short_enough ? cJSON_ParseWithLength(text, size) : NULL;
        if (text && !short_enough)
            fprintf(stderr, "'%s' has %zu bytes, more than the %d that are supported\n", vocabulary_path,
                    size, VOCABULARY_MOST);
        else if (text && !cJSON_IsObject(names))
            fprintf(stderr, "'%s' is no JSON object of tokens\n", vocabulary_path);
        good = cJSON_IsObject(names) && read_numbers(out, vocabulary_path, names);
        cJSON_Delete(names);
        free(text);
    }
    if (!good) gpt_bpe_free(out);
    return good;
}
