/* Which products rota-bench matmul does: by name, by size, or at random. */
#include "bench/matmul_shapes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXTENT_MAX 65536u
#define PAD_MAX 4096u
#define DRAWN_LEAST 64.0
#define DRAWN_MOST 16384.0

/* A number from `least` to `most` at *text, which is moved behind it. */
static bool read_number(const char **text, uint64_t least, uint64_t most, uint64_t *out) {
    char *end;
    if (**text < '0' || **text > '9') return false;
    *out = strtoull(*text, &end, 10);
    *text = end;
    return *out >= least && *out <= most;
}

/* Up to a comma or the end. */
static bool read_shape(const char **text, matmul_shape *out) {
    uint64_t extents[4];
    uint32_t count = 0;
    do {
        if (count == 4 || !read_number(text, 1, EXTENT_MAX, &extents[count++])) return false;
    } while (**text == 'x' && ++*text);
    if (count < 3) return false;
    const uint64_t *own = &extents[count - 3];
    *out = (matmul_shape){.batch = count == 4 ? extents[0] : 1, .m = own[0], .n = own[1], .k = own[2]};
    if (**text == ':') {
        const char *ways = *text + 1;
        if ((ways[0] != 'n' && ways[0] != 't') || (ways[1] != 'n' && ways[1] != 't')) return false;
        out->transpose_a = ways[0] == 't';
        out->transpose_b = ways[1] == 't';
        *text += 3;
    }
    if (**text != '+') return true;
    ++*text;
    return read_number(text, 1, PAD_MAX, &out->pad);
}

/* The products of GPT-2's layers (Radford et al. 2019), weights as [in, out]: y = x w, dx = dy w^T, dw = x^T dy. */
static bool add_gpt2(matmul_shape *out, uint32_t capacity, uint32_t *count) {
    enum { TOKENS = 8192 };
    static const uint64_t widths[] = {768, 1024, 1600};
    static const uint64_t layers[][2] = {{1, 3}, {1, 1}, {1, 4}, {4, 1}}; /* in, out, times the width */
    for (uint32_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (uint32_t l = 0; l < sizeof layers / sizeof *layers; l++) {
            const uint64_t in = widths[w] * layers[l][0], to = widths[w] * layers[l][1];
            const matmul_shape three[] = {
                {.batch = 1, .m = TOKENS, .n = to, .k = in},
                {.batch = 1, .m = TOKENS, .n = in, .k = to, .transpose_b = true},
                {.batch = 1, .m = in, .n = to, .k = TOKENS, .transpose_a = true},
            };
            if (capacity - *count < 3) return false;
            memcpy(&out[*count], three, sizeof three);
            *count += 3;
        }
    return true;
}

bool matmul_shapes_parse(const char *text, matmul_shape *out, uint32_t capacity, uint32_t *out_count) {
    static const char gpt2[] = "gpt2";
    *out_count = 0;
    for (;;) {
        if (strncmp(text, gpt2, sizeof gpt2 - 1) == 0) {
            if (!add_gpt2(out, capacity, out_count)) return false;
            text += sizeof gpt2 - 1;
        } else {
            if (*out_count == capacity || !read_shape(&text, &out[*out_count])) return false;
            ++*out_count;
        }
        if (*text == 0) return true;
        if (*text++ != ',') return false;
    }
}

static uint64_t draw_extent(unsigned short state[3], bool is_aligned) {
    const uint64_t drawn = (uint64_t)(DRAWN_LEAST * exp(erand48(state) * log(DRAWN_MOST / DRAWN_LEAST)));
    return is_aligned ? (drawn + 7) / 8 * 8 : drawn;
}

void matmul_shapes_draw(uint64_t seed, uint32_t count, matmul_shape *out) {
    unsigned short state[3] = {(unsigned short)seed, (unsigned short)(seed >> 16),
                               (unsigned short)(seed >> 32)};
    for (uint32_t i = 0; i < count; i++) {
        const bool is_aligned = i % 2 == 0;
        const uint32_t way = i / 2 % 4;
        out[i] = (matmul_shape){.batch = 1, .transpose_a = way & 1, .transpose_b = way & 2};
        out[i].m = draw_extent(state, is_aligned);
        out[i].n = draw_extent(state, is_aligned);
        out[i].k = draw_extent(state, is_aligned);
    }
}

const char *matmul_shape_text(const matmul_shape *shape, char text[MATMUL_TEXT_MAX]) {
    int length = 0;
    if (shape->batch > 1) length = snprintf(text, MATMUL_TEXT_MAX, "%" PRIu64 "x", shape->batch);
    length += snprintf(text + length, MATMUL_TEXT_MAX - (size_t)length, "%" PRIu64 "x%" PRIu64 "x%" PRIu64,
                       shape->m, shape->n, shape->k);
    if (shape->transpose_a || shape->transpose_b)
        length += snprintf(text + length, MATMUL_TEXT_MAX - (size_t)length, ":%c%c",
                           shape->transpose_a ? 't' : 'n', shape->transpose_b ? 't' : 'n');
    if (shape->pad) (void)snprintf(text + length, MATMUL_TEXT_MAX - (size_t)length, "+%" PRIu64, shape->pad);
    return text;
}
