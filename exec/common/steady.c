/* Argument words that stay the same: see steady.h. */
#include "exec/common/steady.h"
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MOST 1024u

/* ---- Who reads what ---- */

typedef void (*read_fn)(rota_readers *readers, uint32_t word, uint32_t position);

static void for_each_read(const rota_exec_program_desc *desc, const rota_exec_segment *segment, read_fn fn,
                          rota_readers *readers) {
    for (uint32_t i = 0; i < segment->command_count; i++) {
        const rota_exec_command *command = &desc->commands[segment->first_command + i];
        for (uint32_t o = 0; o < command->operand_count; o++)
            if (desc->operands[command->first_operand + o].is_slot)
                fn(readers, desc->operands[command->first_operand + o].memory, i);
        for (uint32_t b = 0; b < command->binding_count; b++)
            fn(readers, desc->bindings[command->first_binding + b].word, i);
    }
}

static void count_read(rota_readers *readers, uint32_t word, uint32_t position) {
    (void)position;
    readers->first[word + 2]++;
}

static void keep_read(rota_readers *readers, uint32_t word, uint32_t position) {
    readers->reader[readers->first[word + 1]++] = position;
}

rota_status rota_readers_create(const rota_exec_program_desc *desc, const rota_exec_segment *segment,
                                rota_readers *out_readers) {
    const uint32_t words = desc->block_words;
    out_readers->first = calloc(words + (size_t)2, sizeof *out_readers->first);
    if (out_readers->first) {
        for_each_read(desc, segment, count_read, out_readers);
        for (uint32_t w = 2; w <= words + 1; w++) out_readers->first[w] += out_readers->first[w - 1];
        out_readers->reader = calloc(out_readers->first[words + 1] + (size_t)1, sizeof *out_readers->reader);
    }
    if (!out_readers->reader)
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for program '%s'", desc->name);
    for_each_read(desc, segment, keep_read, out_readers);
    return ROTA_OK;
}

void rota_readers_free(rota_readers *readers) {
    free(readers->first);
    free(readers->reader);
    *readers = (rota_readers){0};
}

/* ---- What stays ---- */

rota_status rota_steady_create(uint32_t word_count, const uint32_t *first_reader,
                               const rota_steady_rules *rules, rota_steady *out_steady) {
    rota_steady s = {.word_count = word_count, .first_reader = first_reader, .rules = *rules};
    s.values = calloc(word_count + (size_t)1, sizeof *s.values);
    s.words = calloc(word_count + (size_t)1, sizeof *s.words);
    s.turned = calloc(word_count + (size_t)1, sizeof *s.turned);
    if (!s.values || !s.words || !s.turned) {
        rota_steady_free(&s);
        return rota_fail(ROTA_OUT_OF_MEMORY, "out of host memory for %u argument words", word_count);
    }
    for (uint32_t w = 0; w < word_count; w++) {
        s.words[w].patience = rules->patience;
        s.words[w].steady = first_reader[w + 1] == first_reader[w];
        s.read_count += !s.words[w].steady;
    }
    s.loose_count = s.read_count;
    *out_steady = s;
    return ROTA_OK;
}

void rota_steady_free(rota_steady *steady) {
    free(steady->values);
    free(steady->words);
    free(steady->turned);
    *steady = (rota_steady){0};
}

static void turn(rota_steady *s, uint32_t word, bool steady) {
    s->words[word].steady = steady;
    s->words[word].turned = s->launches;
    s->loose_count += steady ? UINT32_MAX : 1u;
    s->turned[s->turned_count++] = word;
}

static void change(rota_steady *s, uint32_t w, uint64_t value) {
    rota_steady_word *word = &s->words[w];
    s->values[w] = value;
    word->since = s->launches;
    if (!word->steady || s->first_reader[w + 1] == s->first_reader[w]) return;
    if (s->launches - word->turned >= s->rules.pays)
        word->patience = s->rules.patience;
    else if (word->patience < PATIENCE_MOST)
        word->patience *= 2;
    turn(s, w, false);
}

void rota_steady_look(rota_steady *s, const uint64_t *block) {
    const bool first = s->launches++ == 0;
    s->turned_count = 0;
    const bool same = memcmp(s->values, block, (size_t)s->word_count * sizeof *block) == 0;
    if (same && s->loose_count == 0) return;
    uint32_t left = s->first_reader[s->word_count] / s->rules.readers_share;
    if (left < s->rules.readers_least) left = s->rules.readers_least;
    const uint32_t all = left;
    for (uint32_t w = 0; w < s->word_count; w++) {
        if (first || s->values[w] != block[w]) {
            change(s, w, block[w]);
            continue;
        }
        if (s->words[w].steady || s->launches - s->words[w].since < s->words[w].patience) continue;
        const uint32_t readers = s->first_reader[w + 1] - s->first_reader[w];
        if (readers > left && left < all) continue; /* but one word alone may have them all */
        left -= readers < left ? readers : left;
        turn(s, w, true);
    }
}
