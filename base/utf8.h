/* What is UTF-8 and what isn't: names come from anywhere, and what is written as JSON must be. Internal; not
 * installed. */
#ifndef ROTA_BASE_UTF8_H
#define ROTA_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* U+FFFD, for each byte that is not UTF-8. */
#define ROTA_UTF8_REPLACEMENT "\xEF\xBF\xBD"

/* The length of the character at s[0..left), left above 0: 1 to 4; 0 where there is none. Overlong forms,
 * surrogates and what lies above U+10FFFF are none. Wait-free. */
static inline size_t rota_utf8_length(const unsigned char *s, size_t left) {
    static const struct {
        uint8_t mask, lead;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t length = 1; length <= 4 && length <= left; length++) {
        if ((s[0] & forms[length - 1].mask) != forms[length - 1].lead) continue;
        uint32_t code = s[0] & (uint32_t)~forms[length - 1].mask & 0xffu;
        for (size_t i = 1; i < length; i++) {
            if ((s[i] & 0xc0) != 0x80) return 0;
            code = code << 6 | (s[i] & 0x3fu);
        }
        return code < forms[length - 1].least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)
                   ? 0
                   : length;
    }
    return 0;
}

#endif
