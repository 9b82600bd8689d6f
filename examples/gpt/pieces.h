/* Cutting a text into the pieces inside which byte-pair encoding merges, as GPT-2 does: contractions, words
 * with the space before them, numbers, other signs, white space. */
#ifndef ROTA_EXAMPLES_GPT_PIECES_H
#define ROTA_EXAMPLES_GPT_PIECES_H

#include <stdbool.h>
#include <stddef.h>

/* Called for each piece in order; false ends the walk. */
typedef bool (*gpt_piece_fn)(void *user, const unsigned char *piece, size_t size);

/* The pieces are the whole text, end to end: a byte that is not UTF-8 is a piece of its own. False where fn
 * was, or, with a sentence on stderr, where the pattern can't be matched. */
bool gpt_pieces_each(const unsigned char *text, size_t size, gpt_piece_fn fn, void *user);

#endif
