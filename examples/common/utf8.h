/* UTF-8, one code point at a time. */
#ifndef ROTA_EXAMPLES_COMMON_UTF8_H
#define ROTA_EXAMPLES_COMMON_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* A byte that is not part of valid UTF-8 reads as UTF8_RAW_BYTE + its value. */
#define UTF8_RAW_BYTE 0x110000u

/* The code point at s[0..left), left above 0, and its length in bytes. */
static inline uint32_t utf8_decode(const unsigned char *s, size_t left, size_t *out_length) {
    static const struct {
        unsigned char mask, lead;
        size_t length;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 1, 0}, {0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};
    *out_length = 1;
    for (size_t f = 0; f < 4; f++) {
        if ((s[0] & forms[f].mask) != forms[f].lead || left < forms[f].length) continue;
        uint32_t code = s[0] & (unsigned char)~forms[f].mask;
        for (size_t i = 1; i < forms[f].length; i++) {
            if ((s[i] & 0xc0) != 0x80) return UTF8_RAW_BYTE + s[0];
            code = code << 6 | (s[i] & 0x3fu);
        }
        if (code < forms[f].least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
            return UTF8_RAW_BYTE + s[0];
        *out_length = forms[f].length;
        return code;
    }
    return UTF8_RAW_BYTE + s[0];
}

/* Writes 1 to 4 bytes and returns how many; a raw byte is itself. */
static inline size_t utf8_encode(uint32_t code, unsigned char out[4]) {
    if (code >= UTF8_RAW_BYTE || code < 0x80) {
        out[0] = (unsigned char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length; i-- > 1; code >>= 6) out[i] = (unsigned char)(0x80 | (code & 0x3f));
    out[0] = (unsigned char)(leads[length] | code);
    return length;
}

#endif
