/* Token files as llm.c writes them: 256 little-endian 32-bit words, of which the first are 20240520, version
 * 1 and the number of tokens, then the tokens, 16 bits each. */
#ifndef ROTA_EXAMPLES_GPT_TOKENS_H
#define ROTA_EXAMPLES_GPT_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Appends the file's tokens to *tokens [*count], from malloc. False with one sentence: unreadable, no such
 * file, truncated. */
bool gpt_tokens_read(const char *path, int32_t **tokens, size_t *count);
/* Under a temporary name, renamed. False with one sentence; a token above 65535 is one (its position and value).
 */
bool gpt_tokens_write(const char *path, const int32_t *tokens, size_t count);

#endif
