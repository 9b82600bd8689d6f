/* Which products rota-bench matmul does. */
#ifndef ROTA_BENCH_MATMUL_SHAPES_H
#define ROTA_BENCH_MATMUL_SHAPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MATMUL_SHAPES_MAX 128
#define MATMUL_TEXT_MAX 96
#define MATMUL_FORM "[Bx]MxNxK[:nn|nt|tn|tt][+PAD]"

/* c [batch, m, n] = a times b: a is [m, k], or with transpose_a [k, m] in memory, b [k, n], or [n, k]. Rows in memory
 * are `pad` elements longer than what they hold. */
typedef struct matmul_shape {
    uint64_t batch, m, n, k, pad;
    bool transpose_a, transpose_b;
} matmul_shape;

/* A matrix in memory: rows of it, elements that a row holds, and how far rows are apart. */
typedef struct matmul_extent {
    uint64_t rows, columns, stride;
} matmul_extent;

static inline matmul_extent matmul_extent_a(const matmul_shape *s) {
    const uint64_t columns = s->transpose_a ? s->m : s->k;
    return (matmul_extent){s->transpose_a ? s->k : s->m, columns, columns + s->pad};
}
static inline matmul_extent matmul_extent_b(const matmul_shape *s) {
    const uint64_t columns = s->transpose_b ? s->k : s->n;
    return (matmul_extent){s->transpose_b ? s->n : s->k, columns, columns + s->pad};
}
static inline matmul_extent matmul_extent_c(const matmul_shape *s) {
    return (matmul_extent){s->m, s->n, s->n + s->pad};
}
/* Elements of all matrices of a batch. */
static inline uint64_t matmul_extent_count(const matmul_shape *s, matmul_extent e) {
    return s->batch * e.rows * e.stride;
}

/* "4096x4096x4096", "12x1024x64x1024:nt+1" and so on with commas; "gpt2" in the place of one: the twelve products of
 * GPT-2's layers with 124M, 350M and 1.5B parameters, 8192 tokens, each forward and with both gradients. Extents are
 * from 1 to 65536. False for anything else, or more than there is room for. */
bool matmul_shapes_parse(const char *text, matmul_shape *out, uint32_t capacity, uint32_t *out_count);

/* `count` of them from a seed: sizes from 64 to 16384, as many small as large ones by their logarithm, every other
 * product's all multiples of 8, transposed in all ways. */
void matmul_shapes_draw(uint64_t seed, uint32_t count, matmul_shape *out);

/* As it is parsed. Returns text. */
const char *matmul_shape_text(const matmul_shape *shape, char text[MATMUL_TEXT_MAX]);

#endif
