/* Learning merges. Each different word is kept once, with how often it comes, as a list of tokens. Every pair
 * of tokens knows its count and the positions where it was seen; a merge visits those positions alone, and a heap
 * finds the next. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "examples/gpt/bpe.h"
#include "examples/gpt/pieces.h"

#define NO_POSITION UINT32_MAX
#define LEAST_COUNT 2 /* a pair that comes once would be a token that is never seen again */

typedef struct pair_record {
    int64_t count;
    uint32_t
        *positions; /* of the left token; may hold positions that have changed since, or hold one twice */
    size_t position_count, position_room;
} pair_record;

typedef struct learner {
    gpt_bpe *bpe;
    progress_bar *progress;
    string_set words;
    uint32_t *word_counts;
    size_t word_room;
    /* Places, one for each byte of each word. */
    uint32_t *token, *prev, *next, *weight;
    string_set pairs; /* {left, right} as 8 bytes */
    pair_record *records;
    size_t record_room;
    uint32_t record_count;
    min_heap heap;
    uint32_t *touched; /* pairs that came up in the merge at work */
    size_t touched_count, touched_room;
} learner;

static bool count_word(void *user, const unsigned char *piece, size_t size) {
    learner *l = user;
    uint32_t known = l->words.count, number = string_set_add(&l->words, piece, size);
    if (number == STRING_SET_NONE) return false;
    if (number == known) {
        uint32_t *counts = array_grown(l->word_counts, sizeof *counts, l->words.count, &l->word_room);
        if (!counts) return false;
        l->word_counts = counts;
        counts[number] = 0;
    }
    if (l->word_counts[number] < UINT32_MAX) l->word_counts[number]++;
    return true;
}

static pair_record *record_of(learner *l, uint32_t left, uint32_t right) {
    const uint32_t pair[2] = {left, right};
    uint32_t known = l->pairs.count, number = string_set_add(&l->pairs, pair, sizeof pair);
    if (number == STRING_SET_NONE) return NULL;
    if (number == known) {
        pair_record *records = array_grown(l->records, sizeof *records, l->pairs.count, &l->record_room);
        if (!records) return NULL;
        l->records = records;
        records[number] = (pair_record){0};
        l->record_count++;
    }
    return &l->records[number];
}

/* One more position of the pair that begins there. */
static bool add_position(learner *l, uint32_t position) {
    pair_record *r = record_of(l, l->token[position], l->token[l->next[position]]);
    if (!r) return false;
    uint32_t *positions =
        array_grown(r->positions, sizeof *positions, r->position_count + 1, &r->position_room);
    if (!positions) return false;
    r->positions = positions;
    positions[r->position_count++] = position;
    r->count += l->weight[position];
    uint32_t *touched = array_grown(l->touched, sizeof *touched, l->touched_count + 1, &l->touched_room);
    if (!touched) return false;
    l->touched = touched;
    touched[l->touched_count++] = (uint32_t)(r - l->records);
    return true;
}

static bool offer(learner *l, uint32_t pair) {
    int64_t count = l->records[pair].count;
    if (count < LEAST_COUNT) return true;
    size_t size;
    uint32_t tokens[2];
    memcpy(tokens, string_set_get(&l->pairs, pair, &size), sizeof tokens);
    return min_heap_push(&l->heap, (min_heap_entry){UINT64_MAX - (uint64_t)count,
                                                    (uint64_t)tokens[0] << 32 | tokens[1], pair});
}

static int by_number(const void *a, const void *b) {
    return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : *(const uint32_t *)a > *(const uint32_t *)b;
}

/* Offers every touched pair once, with the count that it has now. */
static bool offer_touched(learner *l) {
    if (l->touched_count) qsort(l->touched, l->touched_count, sizeof *l->touched, by_number);
    for (size_t i = 0; i < l->touched_count; i++)
        if ((i == 0 || l->touched[i] != l->touched[i - 1]) && !offer(l, l->touched[i])) return false;
    l->touched_count = 0;
    return true;
}

static bool lay_out(learner *l) {
    size_t positions = l->words.count ? l->words.ends[l->words.count - 1] : 0;
    if (positions >= NO_POSITION) return false;
    l->token = malloc((positions + 1) * sizeof *l->token);
    l->prev = malloc((positions + 1) * sizeof *l->prev);
    l->next = malloc((positions + 1) * sizeof *l->next);
    l->weight = malloc((positions + 1) * sizeof *l->weight);
    if (!l->token || !l->prev || !l->next || !l->weight) return false;
    uint32_t position = 0;
    for (uint32_t w = 0; w < l->words.count; w++) {
        size_t size;
        const unsigned char *word = string_set_get(&l->words, w, &size);
        for (size_t i = 0; i < size; i++, position++) {
            l->token[position] = string_set_find(&l->bpe->strings, word + i, 1);
            l->prev[position] = i ? position - 1 : NO_POSITION;
            l->next[position] = i + 1 < size ? position + 1 : NO_POSITION;
            l->weight[position] = l->word_counts[w];
        }
    }
    for (position = 0; position < positions; position++)
        if (l->next[position] != NO_POSITION && !add_position(l, position)) return false;
    return offer_touched(l);
}

/* Merges the pair wherever it still is. */
static bool merge(learner *l, uint32_t pair, uint32_t left, uint32_t right, uint32_t result) {
    uint32_t *positions = l->records[pair].positions;
    size_t count = l->records[pair].position_count;
    l->records[pair] = (pair_record){0};
    /* "aaa" is aa, a: from the left, in each word. */
    if (left == right && count) qsort(positions, count, sizeof *positions, by_number);
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        uint32_t position = positions[i], gone = l->next[position];
        if (l->token[position] != left || gone == NO_POSITION || l->token[gone] != right) continue;
        uint32_t before = l->prev[position], after = l->next[gone];
        pair_record *r = NULL;
        if (before != NO_POSITION && (r = record_of(l, l->token[before], left)))
            r->count -= l->weight[position];
        if (before != NO_POSITION && !r) good = false;
        r = NULL;
        if (after != NO_POSITION && (r = record_of(l, right, l->token[after])))
            r->count -= l->weight[position];
        if (after != NO_POSITION && !r) good = false;
        l->token[position] = result;
        l->token[gone] = STRING_SET_NONE;
        l->next[position] = after;
        if (after != NO_POSITION) l->prev[after] = position;
        good = good && (before == NO_POSITION || add_position(l, before)) &&
               (after == NO_POSITION || add_position(l, position));
    }
    free(positions);
    if (left == right) l->records[pair].count = 0;
    return good && offer_touched(l);
}

static bool learn(learner *l, uint32_t count) {
    while (l->bpe->count + 1 < count && l->heap.count) {
        progress_at(l->progress, l->bpe->count);
        min_heap_entry top = min_heap_pop(&l->heap);
        if (UINT64_MAX - top.first != (uint64_t)l->records[top.value].count) {
            if (!offer(l, top.value)) return false; /* it has become rarer since */
            continue;
        }
        uint32_t left = (uint32_t)(top.second >> 32), right = (uint32_t)top.second, result;
        if (!gpt_bpe_merge(l->bpe, left, right, &result) || !merge(l, top.value, left, right, result))
            return false;
    }
    return true;
}

bool gpt_bpe_train(const unsigned char *text, size_t size, uint32_t count, progress_bar *progress,
                   gpt_bpe *out) {
    learner l = {.bpe = out, .progress = progress};
    bool good = gpt_bpe_begin(out) && gpt_pieces_each(text, size, count_word, &l) && lay_out(&l) &&
                learn(&l, count) && gpt_bpe_finish(out);
    if (!good)
        fprintf(stderr,
                "byte-pair encoding can't be learned from %zu bytes: see above, or too little memory\n",
                size);
    for (uint32_t i = 0; i < l.record_count; i++) free(l.records[i].positions);
    string_set_free(&l.words);
    string_set_free(&l.pairs);
    free(l.word_counts);
    free(l.token);
    free(l.prev);
    free(l.next);
    free(l.weight);
    free(l.records);
    free(l.heap.entries);
    free(l.touched);
    if (!good) gpt_bpe_free(out);
    return good;
}
