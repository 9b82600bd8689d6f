/* Byte-pair encoding: from merges to tokens and back. Learning merges is bpe_train.c's. */
#include "examples/gpt/bpe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "examples/gpt/pieces.h"

#define NO_POSITION UINT32_MAX

static bool no_memory(void) {
    fprintf(stderr, "no memory for byte-pair encoding\n");
    return false;
}

void gpt_bpe_free(gpt_bpe *bpe) {
    string_set_free(&bpe->strings);
    string_set_free(&bpe->pairs);
    free(bpe->merges);
    free(bpe->token_of);
    free(bpe->string_of);
    *bpe = (gpt_bpe){0};
}

bool gpt_bpe_begin(gpt_bpe *bpe) {
    *bpe = (gpt_bpe){0};
    for (int printing = 1; printing >= 0; printing--)
        for (uint32_t b = 0; b < 256; b++) {
            const bool prints = (b > 0x20 && b < 0x7f) || (b > 0xa0 && b != 0xad);
            const unsigned char byte = (unsigned char)b;
            if (prints == printing && string_set_add(&bpe->strings, &byte, 1) == STRING_SET_NONE)
                return no_memory();
        }
    bpe->count = bpe->strings.count;
    return true;
}

bool gpt_bpe_merge(gpt_bpe *bpe, uint32_t left, uint32_t right, uint32_t *out_result) {
    size_t left_size, right_size;
    string_set_get(&bpe->strings, left, &left_size);
    string_set_get(&bpe->strings, right, &right_size);
    unsigned char small[256],
        *joined = left_size + right_size <= sizeof small ? small : malloc(left_size + right_size);
    if (!joined) return no_memory();
    memcpy(joined, string_set_get(&bpe->strings, left, &left_size), left_size);
    memcpy(joined + left_size, string_set_get(&bpe->strings, right, &right_size), right_size);
    *out_result = string_set_add(&bpe->strings, joined, left_size + right_size);
    if (joined != small) free(joined);
    bpe->count = bpe->strings.count;
    const uint32_t pair[2] = {left, right};
    uint32_t rank =
        *out_result == STRING_SET_NONE ? STRING_SET_NONE : string_set_add(&bpe->pairs, pair, sizeof pair);
    if (rank == STRING_SET_NONE) return no_memory();
    if (rank < bpe->merge_count) return true; /* a file may say it twice; the first counts */
    gpt_merge *merges = array_grown(bpe->merges, sizeof *merges, (size_t)rank + 1, &bpe->merge_room);
    if (!merges) return no_memory();
    bpe->merges = merges;
    merges[bpe->merge_count++] = (gpt_merge){left, right, *out_result};
    return true;
}

bool gpt_bpe_finish(gpt_bpe *bpe) {
    static const char name[] = "<|endoftext|>";
    bpe->merged = bpe->strings.count;
    bpe->end_of_text = string_set_add(&bpe->strings, name, sizeof name - 1);
    bpe->count = bpe->strings.count;
    return bpe->end_of_text != STRING_SET_NONE || no_memory();
}

const unsigned char *gpt_bpe_bytes(const gpt_bpe *bpe, uint32_t token, size_t *out_size) {
    uint32_t string = bpe->string_of ? bpe->string_of[token] : token;
    return string_set_get(&bpe->strings, string, out_size);
}

/* ---- Encoding ---- */

/* A word is merged once, however often it comes: its tokens are kept. */
typedef struct encoder {
    const gpt_bpe *bpe;
    const unsigned char *text;
    progress_bar *progress;
    int32_t *out;
    size_t count;
    string_set words;
    uint32_t *ends; /* of word i's tokens in `tokens` */
    int32_t *tokens;
    size_t end_room, token_room;
    /* The word at work, as a list of strings. */
    uint32_t *string, *prev, *next;
    size_t string_room, prev_room, next_room;
    min_heap heap;
} encoder;

static bool offer(encoder *e, uint32_t position) {
    if (position == NO_POSITION || e->next[position] == NO_POSITION) return true;
    const uint32_t pair[2] = {e->string[position], e->string[e->next[position]]};
    uint32_t rank = string_set_find(&e->bpe->pairs, pair, sizeof pair);
    return rank == STRING_SET_NONE || min_heap_push(&e->heap, (min_heap_entry){rank, position, 0});
}

/* Leaves the merged word in the list that begins at 0. */
static bool merge_word(encoder *e, const unsigned char *word, size_t size) {
    uint32_t *grown;
    if (!(grown = array_grown(e->string, sizeof *grown, size, &e->string_room))) return false;
    e->string = grown;
    if (!(grown = array_grown(e->prev, sizeof *grown, size, &e->prev_room))) return false;
    e->prev = grown;
    if (!(grown = array_grown(e->next, sizeof *grown, size, &e->next_room))) return false;
    e->next = grown;
    for (uint32_t i = 0; i < size; i++) {
        e->string[i] = string_set_find(&e->bpe->strings, word + i, 1);
        e->prev[i] = i ? i - 1 : NO_POSITION;
        e->next[i] = i + 1 < size ? i + 1 : NO_POSITION;
    }
    for (uint32_t i = 0; i < size; i++)
        if (!offer(e, i)) return false;
    while (e->heap.count) {
        min_heap_entry top = min_heap_pop(&e->heap);
        const gpt_merge *merge = &e->bpe->merges[top.first];
        uint32_t position = (uint32_t)top.second, gone = e->next[position];
        /* What has been merged since is no such pair any more. */
        if (e->string[position] != merge->left || gone == NO_POSITION || e->string[gone] != merge->right)
            continue;
        e->string[position] = merge->result;
        e->string[gone] = STRING_SET_NONE;
        e->next[position] = e->next[gone];
        if (e->next[position] != NO_POSITION) e->prev[e->next[position]] = position;
        if (!offer(e, e->prev[position]) || !offer(e, position)) return false;
    }
    return true;
}

static bool learn_word(encoder *e, const unsigned char *word, size_t size) {
    uint32_t number = e->words.count - 1;
    uint32_t end = number ? e->ends[number - 1] : 0;
    if (!merge_word(e, word, size)) return false;
    for (uint32_t position = 0; position != NO_POSITION; position = e->next[position]) {
        int32_t *tokens = array_grown(e->tokens, sizeof *tokens, (size_t)end + 1, &e->token_room);
        if (!tokens) return false;
        e->tokens = tokens;
        uint32_t string = e->string[position];
        tokens[end++] = (int32_t)(e->bpe->token_of ? e->bpe->token_of[string] : string);
    }
    uint32_t *ends = array_grown(e->ends, sizeof *ends, e->words.count, &e->end_room);
    if (!ends) return false;
    e->ends = ends;
    ends[number] = end;
    return true;
}

static bool encode_piece(void *user, const unsigned char *piece, size_t size) {
    encoder *e = user;
    uint32_t known = e->words.count, number = string_set_add(&e->words, piece, size);
    if (number == STRING_SET_NONE || (number == known && !learn_word(e, piece, size))) return no_memory();
    uint32_t begin = number ? e->ends[number - 1] : 0, end = e->ends[number];
    memcpy(e->out + e->count, e->tokens + begin, (end - begin) * sizeof *e->out);
    e->count += end - begin;
    progress_at(e->progress, (uint64_t)(piece - e->text));
    return true;
}

bool gpt_bpe_encode(const gpt_bpe *bpe, const unsigned char *text, size_t size, progress_bar *progress,
                    int32_t *out_tokens, size_t *out_count) {
    encoder e = {.bpe = bpe, .text = text, .progress = progress, .out = out_tokens};
    bool good = gpt_pieces_each(text, size, encode_piece, &e);
    *out_count = e.count;
    string_set_free(&e.words);
    free(e.ends);
    free(e.tokens);
    free(e.string);
    free(e.prev);
    free(e.next);
    free(e.heap.entries);
    return good;
}
