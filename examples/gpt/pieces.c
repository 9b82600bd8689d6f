/* Cutting a text into pieces by GPT-2's pattern; PCRE2 knows what a letter is. */
#include "examples/gpt/pieces.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include "examples/common/utf8.h"

/* White space is Unicode's property White_Space, which PCRE2's \s is not quite. */
#define SPACE                                                                                                \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{" \
    "3000}"

static const char pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE
                              "\\p{L}\\p{N}]+|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+";

static size_t valid_run(const unsigned char *text, size_t size) {
    size_t offset = 0, length;
    while (offset < size && utf8_decode(text + offset, size - offset, &length) < UTF8_RAW_BYTE)
        offset += length;
    return offset;
}

static bool fail(const char *what, int error) {
    PCRE2_UCHAR message[128];
    pcre2_get_error_message(error, message, sizeof message);
    fprintf(stderr, "%s: %s\n", what, (const char *)message);
    return false;
}

bool gpt_pieces_each(const unsigned char *text, size_t size, gpt_piece_fn fn, void *user) {
    int error;
    PCRE2_SIZE error_at;
    pcre2_code *code =
        pcre2_compile((PCRE2_SPTR)pattern, sizeof pattern - 1, PCRE2_UTF, &error, &error_at, NULL);
    if (!code) return fail("GPT-2's pattern can't be compiled", error);
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* where it can't, matching is slower */
    pcre2_match_data *match = pcre2_match_data_create_from_pattern(code, NULL);
    bool good = match != NULL;
    if (!match) fprintf(stderr, "no memory to match a pattern\n");
    for (size_t offset = 0; offset < size && good;) {
        /* Runs are checked here, once: PCRE2 would check all that is left at each match. */
        size_t end = offset + valid_run(text + offset, size - offset);
        while (offset < end && good) {
            int found =
                pcre2_match(code, text, end, offset, PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, match, NULL);
            if (found < 0) {
                good = fail("GPT-2's pattern can't be matched", found);
                break;
            }
            size_t next = pcre2_get_ovector_pointer(match)[1];
            good = fn(user, text + offset, next - offset);
            offset = next;
        }
        if (good && offset < size) good = fn(user, text + offset, 1), offset++;
    }
    pcre2_match_data_free(match);
    pcre2_code_free(code);
    return good;
}
