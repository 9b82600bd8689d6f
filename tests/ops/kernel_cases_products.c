/* The cases of products: of matrices, with scales, with what a layer adds to them, and attention's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ops/attention.h"
#include "tests/ops/kernel_case.h"

static void matmul_case(uint32_t m, uint32_t n, uint32_t k, uint32_t flags, const uint32_t batch[3],
                        uint32_t pad, uint32_t b_repeats) {
    const bool ta = flags & ROTA_MATMUL_TRANSPOSE_A, tb = flags & ROTA_MATMUL_TRANSPOSE_B;
    const bool add = flags & ROTA_MATMUL_ACCUMULATE;
    const uint32_t lda = (ta ? m : k) + pad, ldb = (tb ? k : n) + pad, ldc = n + pad;
    const uint32_t a_size = lda * (ta ? k : m), b_size = ldb * (tb ? n : k), c_size = ldc * m;
    const uint32_t all = batch[0] * batch[1] * batch[2], inner = batch[1] * batch[2];
    rota_matmul_params p = {m,
                            n,
                            k,
                            lda,
                            ldb,
                            ldc,
                            flags,
                            ROTA_F32,
                            0.5f,
                            {batch[0], batch[1], batch[2]},
                            {inner * a_size, batch[2] * a_size, a_size},
                            {inner * b_size, batch[2] * b_size, b_size},
                            {inner * c_size, batch[2] * c_size, c_size}};
    if (b_repeats) memset(p.b_batch_stride, 0, sizeof p.b_batch_stride);
    const uint64_t a_count = (uint64_t)all * a_size, c_count = (uint64_t)all * c_size;
    const uint64_t b_count = b_repeats ? b_size : (uint64_t)all * b_size;
    const rota_access_mode mode = pad || add ? ROTA_READWRITE : ROTA_WRITE;
    const double tolerance = 1.2e-6 * sqrt(k) + 1e-6;
    const kernel_array floats[3] = {IN(a_count), IN(b_count), {ROTA_F32, mode, c_count, -1, 1, 0}};
    kernel_check_variants(&rota_kernel_matmul, &p, floats, 3, tolerance);
    for (uint32_t half = ROTA_F16; half <= ROTA_BF16; half++) {
        const rota_dtype type = (rota_dtype)half;
        const rota_kernel *kernel = type == ROTA_F16 ? &rota_kernel_matmul_f16 : &rota_kernel_matmul_bf16;
        kernel_array arrays[3] = {{type, ROTA_READ, a_count, -1, 1, 0},
                                  {type, ROTA_READ, b_count, -1, 1, 0},
                                  {ROTA_F32, mode, c_count, -1, 1, 0}};
        p.c_dtype = ROTA_F32;
        kernel_check_variants(kernel, &p, arrays, 3, tolerance);
        if (add) continue;
        arrays[2].dtype = type;
        p.c_dtype = half;
        kernel_check_variants(kernel, &p, arrays, 3, type == ROTA_F16 ? 2e-3 : 1e-2);
    }
}

void test_matmul(void **state) {
    (void)state;
    const uint32_t one[3] = {1, 1, 1}, batches[3] = {2, 1, 3};
    const uint32_t shapes[][3] = {{1, 1, 1},      {3, 5, 7},     {64, 64, 16},  {65, 63, 17},
                                  {128, 192, 64}, {130, 70, 34}, {136, 72, 200}};
    for (uint32_t i = 0; i < 7; i++)
        for (uint32_t flags = 0; flags < 8; flags++) {
            matmul_case(shapes[i][0], shapes[i][1], shapes[i][2], flags, one, 0, 0);
            if (flags < 4)
                matmul_case(shapes[i][0], shapes[i][1], shapes[i][2], flags, one, i < 5 ? 3 : 8, 0);
            if (i < 4) matmul_case(shapes[i][0], shapes[i][1], shapes[i][2], flags, batches, 0, flags & 1);
        }
}

/* So few tiles, and so long sums, that a GPU takes the finest. */
void test_matmul_fine(void **state) {
    (void)state;
    const uint32_t one[3] = {1, 1, 1};
    for (uint32_t flags = 0; flags < 4; flags++) {
        matmul_case(64, 96, 256, flags, one, 0, 0);
        matmul_case(35, 33, 263, flags, one, 1, 0);
    }
}

/* Enough large tiles that the shader with large tiles is taken, with edges and without. */
void test_matmul_large(void **state) {
    (void)state;
    const uint32_t many[3] = {2, 6, 8}, some[3] = {1, 3, 8};
    for (uint32_t flags = 0; flags < 4; flags++) {
        matmul_case(128, 256, 32, flags, many, 0, 1);
        matmul_case(131, 257, 19, flags | (flags & 1 ? ROTA_MATMUL_ACCUMULATE : 0), some, 1, 1);
    }
}

void test_scaled_matmul(void **state) {
    (void)state;
    static const uint32_t shapes[][3] = {
        /* m, n, k */ {1, 1, 1}, {7, 5, 9}, {65, 130, 33}, {64, 64, 64}, {129, 63, 300}};
    uint32_t seen = 0;
    for (uint32_t s = 0; s < sizeof shapes / sizeof *shapes; s++) FOR_F8(a) FOR_F8(b) FOR_REAL(y) {
            const uint32_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
            const bool by_rows = seen & 1, biased = seen & 2 && y != ROTA_F32, gaps = seen++ & 4;
            if (kernel_case_is_short && s != 2) continue;
            const rota_scaled_matmul_params p = {
                .m = m,
                .n = n,
                .k = k,
                .lda = k + (gaps ? 3 : 0),
                .ldb = k + (gaps ? 5 : 0),
                .flags = (by_rows ? ROTA_SCALED_BY_ROWS : 0) | (biased ? ROTA_SCALED_BIAS : 0),
                .a_dtype = a,
                .b_dtype = b,
                .y_dtype = y,
            };
            CHECK(scaled_matmul, &p, rounded(y, 1e-5), IN_AS(a, m * p.lda, -2, 2), IN_AS(b, n * p.ldb, -2, 2),
                  IN_RANGE(by_rows ? m : 1, 0.5, 2), IN_RANGE(by_rows ? n : 1, 0.5, 2), IN_AS(y, n, -2, 2),
                  OUT_AS(y, m * n));
        }
}

void test_linear_gelu_gradient(void **state) {
    (void)state;
    /* among them rows that end within a block's columns, and chunks with rows for some of its warps */
    static const uint32_t shapes[][3] = {{1, 8, 8}, {37, 264, 16}, {130, 520, 64}, {9, 256, 8}, {70, 24, 70}};
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (rota_dtype type = ROTA_F16; type <= ROTA_BF16; type++) {
            const rota_linear_params p = {
                .m = shapes[i][0], .n = shapes[i][1], .dtype = type, .chunk = shapes[i][2]};
            const uint64_t n = (uint64_t)p.m * p.n, chunks = (p.m + p.chunk - 1) / p.chunk;
            if (!kernel_case_is_one(&rota_kernel_linear_gelu_gradient, &p)) continue;
            const double tolerance = rounded(type, 1e-5);
            CHECK(linear_gelu_gradient, &p, tolerance, IN_AS(type, n, -6, 6), IN_AS(type, n, -2, 2),
                  OUT_AS(type, n), OUT(chunks * p.n));
            CHECK(linear_gelu_gradient, &p, tolerance, IN_AS(type, n, -6, 6), IN_AS(type, n, -2, 2),
                  OUT_AS_ON(type, n, 1), OUT(chunks * p.n));
        }
}

/* Strides of [batch, heads, sequence, dim], or of [batch, sequence, heads, dim] seen so. */
static void attention_strides(const uint32_t *shape, uint32_t sequence, bool interleaved, uint32_t out[3]) {
    const uint32_t heads = shape[1], dim = shape[4];
    out[0] = heads * sequence * dim;
    out[1] = interleaved ? dim : sequence * dim;
    out[2] = interleaved ? heads * dim : dim;
}

static void attention_params(const uint32_t *s, bool causal, bool interleaved, rota_dtype dtype,
                             rota_attention_params *p, rota_attention_backward_params *b) {
    const uint32_t flags = (causal ? ROTA_ATTENTION_CAUSAL : 0u) | (uint32_t)dtype
                                                                       << ROTA_ATTENTION_DTYPE_SHIFT;
    const float scale = 1.0f / sqrtf((float)s[4]);
    *p = (rota_attention_params){s[0], s[1], s[2], s[3], s[4], flags, scale, {0}, {0}, {0}, {0}};
    *b = (rota_attention_backward_params){s[0], s[1], s[2], s[3], s[4], flags, scale, {0}, {0}, {0}};
    attention_strides(s, s[2], interleaved, p->q_stride);
    attention_strides(s, s[3], interleaved, p->k_stride);
    memcpy(p->out_stride, p->q_stride, sizeof p->q_stride);
    memcpy(b->q_stride, p->q_stride, sizeof p->q_stride);
    memcpy(b->out_stride, p->q_stride, sizeof p->q_stride);
    memcpy(p->v_stride, p->k_stride, sizeof p->k_stride);
    memcpy(b->kv_stride, p->k_stride, sizeof p->k_stride);
}

void test_attention(void **state) {
    (void)state;
    const uint32_t shapes[][5] = {/* batch, heads, queries, keys, dim */
                                  {1, 1, 1, 1, 1},     {1, 2, 4, 4, 8},    {2, 3, 17, 33, 32},
                                  {1, 2, 70, 130, 64}, {1, 1, 9, 66, 300}, {2, 2, 65, 191, 96}};
    for (uint32_t i = 0; i < 6; i++)
        for (uint32_t variant = 0; variant < 4; variant++) {
            const uint32_t *s = shapes[i], rows = s[0] * s[1] * s[2];
            const uint32_t q_count = rows * s[4], k_count = s[0] * s[1] * s[3] * s[4];
            rota_attention_params p;
            rota_attention_backward_params b;
            attention_params(s, variant & 1, variant >> 1, ROTA_F32, &p, &b);
            CHECK(attention, &p, 1e-5, IN(q_count), IN(k_count), IN(k_count), OUT(q_count), OUT(rows));
            /* A sum of dim products of either sign, each addition rounded at the size of the sum so far. */
            CHECK(attention_backward_prepare, &b, 1e-5 + 0x1p-24 * s[4], IN(q_count), IN(q_count), IN(rows),
                  OUT(2 * rows));
            CHECK(attention_backward_query, &b, 5e-5, IN(q_count), IN(k_count), IN(k_count), IN(q_count),
                  IN_RANGE(2 * rows, 4, 6), OUT(q_count));
            CHECK(attention_backward_key_value, &b, 5e-5, IN(q_count), IN(k_count), IN(k_count), IN(q_count),
                  IN_RANGE(2 * rows, 4, 6), OUT(k_count), OUT(k_count));
        }
}

/* A GPU rounds probabilities and their gradients to the dtype before the second product, the CPU does not:
 * half a unit in the last place of each, weighted like what they weigh, and the result's own. Operands are
 * below 2, probabilities below 1, and a gradient's sums take as many signs as there are. */
void test_attention_half(void **state) {
    (void)state;
    const uint32_t shapes[][5] = {{1, 1, 1, 1, 2},       {1, 2, 4, 4, 8},     {2, 3, 17, 33, 32},
                                  {1, 2, 70, 130, 64},   {2, 2, 65, 191, 96}, {1, 2, 200, 200, 64},
                                  {1, 1, 130, 257, 128}, {1, 2, 33, 65, 50},  {1, 3, 64, 64, 21}};
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t variant = 0; variant < 8; variant++) {
            const uint32_t *s = shapes[i], rows = s[0] * s[1] * s[2];
            const uint32_t q_count = rows * s[4], k_count = s[0] * s[1] * s[3] * s[4];
            const rota_dtype dtype = variant >> 2 ? ROTA_BF16 : ROTA_F16;
            const double unit = dtype == ROTA_BF16 ? 0x1p-8 : 0x1p-11;
            rota_attention_params p;
            rota_attention_backward_params b;
            attention_params(s, variant & 1, variant >> 1 & 1, dtype, &p, &b);
            CHECK(attention, &p, 2 * unit, IN_AS(dtype, q_count, -1, 1), IN_AS(dtype, k_count, -1, 1),
                  IN_AS(dtype, k_count, -1, 1), OUT_AS(dtype, q_count), OUT(rows));
            CHECK(attention_backward_prepare, &b, 1e-5 + 0x1p-24 * s[4], IN_AS(dtype, q_count, -1, 1),
                  IN_AS(dtype, q_count, -1, 1), IN(rows), OUT(2 * rows));
            CHECK(attention_backward_query, &b, 4 * unit, IN_AS(dtype, q_count, -1, 1),
                  IN_AS(dtype, k_count, -1, 1), IN_AS(dtype, k_count, -1, 1), IN_AS(dtype, q_count, -1, 1),
                  IN_RANGE(2 * rows, 4, 6), OUT_AS(dtype, q_count));
            CHECK(attention_backward_key_value, &b, 4 * unit, IN_AS(dtype, q_count, -1, 1),
                  IN_AS(dtype, k_count, -1, 1), IN_AS(dtype, k_count, -1, 1), IN_AS(dtype, q_count, -1, 1),
                  IN_RANGE(2 * rows, 4, 6), OUT_AS(dtype, k_count), OUT_AS(dtype, k_count));
        }
}

void test_attention_draw(void **state) {
    (void)state;
    const rota_attention_draw draw = {0x40000000u, 4.0f / 3, 5, 1234567, 89, 0.125f, 0xFFFFFFFEu, 0};
    CHECK(attention_draw, &draw, 0, {ROTA_I32, ROTA_WRITE, sizeof draw / 4, 0, 0, 0});
}

/* Operands of attention with dropout, and what its forward pass makes of them: a gradient is asked for at
 * probabilities that are some, which add up to 1. */
typedef struct drop_case {
    rota_dtype dtype;
    uint32_t shape[5]; /* batch, heads, queries, keys, dim */
    rota_attention_params all;
    rota_attention_drop_params forward;
    rota_attention_drop_backward_params backward;
    rota_attention_draw draw;
    void *q, *k, *v, *dout, *out;
    float *lse, *stats;
} drop_case;

static void *filled(rota_dtype dtype, uint64_t count) {
    const kernel_array array = IN_AS(dtype, count, -1, 1);
    void *contents = malloc(count * rota_dtype_bytes(dtype));
    assert_non_null(contents);
    kernel_case_fill(&array, contents);
    return contents;
}

static uint64_t rows_of(const drop_case *c) {
    return (uint64_t)c->shape[0] * c->shape[1] * c->shape[2];
}

static drop_case drop_case_of(const uint32_t *s, uint32_t variant, rota_dtype dtype) {
    drop_case c = {.dtype = dtype};
    rota_attention_backward_params b;
    memcpy(c.shape, s, sizeof c.shape);
    attention_params(s, variant & 1, variant >> 1 & 1, dtype, &c.all, &b);
    c.forward = (rota_attention_drop_params){s[0], s[1], s[2], s[3], (uint16_t)s[4], (uint16_t)c.all.flags,
                                             {0},  {0},  {0},  {0}};
    memcpy(c.forward.q_stride, c.all.q_stride, sizeof c.all.q_stride);
    memcpy(c.forward.k_stride, c.all.k_stride, sizeof c.all.k_stride);
    memcpy(c.forward.v_stride, c.all.v_stride, sizeof c.all.v_stride);
    memcpy(c.forward.out_stride, c.all.out_stride, sizeof c.all.out_stride);
    rota_attention_drop_backward_params_of(&b, &c.backward);
    c.draw = (rota_attention_draw){0x40000000u, 4.0f / 3, 5, 1234567, 89, c.all.scale, 0, 0};
    const uint64_t rows = rows_of(&c), q = rows * s[4], k = (uint64_t)s[0] * s[1] * s[3] * s[4];
    c.q = filled(dtype, q), c.k = filled(dtype, k), c.v = filled(dtype, k);
    c.dout = filled(dtype, q), c.out = calloc(q, rota_dtype_bytes(dtype));
    c.lse = calloc(rows, sizeof(float)), c.stats = calloc(2 * rows, sizeof(float));
    assert_true(c.out && c.lse && c.stats);
    const kernel_array in_q = IN_AS(dtype, q, -1, 1), in_k = IN_AS(dtype, k, -1, 1),
                       draw = {ROTA_I32, ROTA_READ, sizeof c.draw / 4, 0, 0, 0};
    void *forward[] = {c.q, c.k, c.v, c.out, c.lse, &c.draw};
    kernel_case_on_cpu(&rota_kernel_attention_dropout, &c.forward,
                       (kernel_array[]){in_q, in_k, in_k, OUT_AS(dtype, q), OUT(rows), draw}, forward, 6);
    void *prepare[] = {c.out, c.dout, c.lse, c.stats};
    kernel_case_on_cpu(&rota_kernel_attention_backward_prepare, &b,
                       (kernel_array[]){in_q, in_q, IN(rows), OUT(2 * rows)}, prepare, 4);
    return c;
}

static void drop_case_free(drop_case *c) {
    free(c->q), free(c->k), free(c->v), free(c->dout), free(c->out), free(c->lse), free(c->stats);
}

/* What roundings of the factors of a gradient's terms add up to: the root of the sum of the terms' squares, the largest
 * of all rows, with operands taken for 1, which none exceeds but an f16's by 2. What is dropped is taken for kept. */
typedef struct drop_sizes {
    double dq, dk, dv;
} drop_sizes;

static uint64_t first_of(const uint32_t stride[3], uint64_t batch, uint64_t head, uint64_t row) {
    return batch * stride[0] + head * stride[1] + row * stride[2];
}

static double dot(const drop_case *c, const void *x, uint64_t first_x, const void *y, uint64_t first_y) {
    double sum = 0;
    for (uint32_t d = 0; d < c->shape[4]; d++)
        sum += kernel_case_element(c->dtype, x, first_x + d) * kernel_case_element(c->dtype, y, first_y + d);
    return sum;
}

static drop_sizes drop_sizes_of(const drop_case *c) {
    const uint32_t *s = c->shape, queries = s[2], keys = s[3];
    drop_sizes all = {0, 0, 0};
    double *dk = malloc(2 * keys * sizeof *dk), *dv = dk + keys;
    assert_non_null(dk);
    for (uint32_t head = 0; head < s[0] * s[1]; head++) {
        memset(dk, 0, 2 * keys * sizeof *dk);
        for (uint32_t i = 0; i < queries; i++) {
            const float *stats = c->stats + 2 * ((uint64_t)head * queries + i);
            const uint64_t q = first_of(c->all.q_stride, head / s[1], head % s[1], i);
            double dq = 0;
            for (uint32_t j = 0; j < keys; j++) {
                if ((c->all.flags & ROTA_ATTENTION_CAUSAL) && j + queries > i + keys) break;
                const uint64_t k = first_of(c->all.k_stride, head / s[1], head % s[1], j);
                const double p = exp((double)c->all.scale * dot(c, c->q, q, c->k, k) - (double)stats[0]);
                const double kept = (double)c->draw.kept;
                const double ds = p * (kept * fabs(dot(c, c->dout, q, c->v, k)) + fabs((double)stats[1]));
                dq += ds * ds;
                dk[j] += ds * ds;
                dv[j] += kept * p * kept * p;
            }
            all.dq = fmax(all.dq, (double)c->all.scale * sqrt(dq));
        }
        for (uint32_t j = 0; j < keys; j++) {
            all.dk = fmax(all.dk, (double)c->all.scale * sqrt(dk[j]));
            all.dv = fmax(all.dv, sqrt(dv[j]));
        }
    }
    free(dk);
    return all;
}

/* A quarter is dropped. Forward bounds as without dropout. Of a gradient's terms a GPU rounds one factor to the dtype,
 * by up to `unit` of it, so that a sum strays by 0.6 units of the root of their squares, of which five are exceeded by
 * none of 10^6 sums; the result is rounded by a unit of itself, which is below five of that root. */
void test_attention_dropout(void **state) {
    (void)state;
    const uint32_t shapes[][5] = {{1, 1, 1, 1, 2},      {1, 2, 4, 4, 8},     {2, 3, 17, 33, 32},
                                  {1, 2, 70, 132, 64},  {2, 2, 65, 191, 96}, {1, 2, 200, 200, 64},
                                  {1, 1, 130, 257, 128}};
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t variant = 0; variant < 12; variant++) {
            const rota_dtype dtypes[] = {ROTA_F32, ROTA_F16, ROTA_BF16}, dtype = dtypes[variant / 4];
            const double units[] = {5e-6, 0x1p-11, 0x1p-8}, unit = units[variant / 4];
            drop_case c = drop_case_of(shapes[i], variant, dtype);
            const drop_sizes sizes = drop_sizes_of(&c);
            const uint64_t rows = rows_of(&c), q = rows * shapes[i][4],
                           k = (uint64_t)shapes[i][0] * shapes[i][1] * shapes[i][3] * shapes[i][4];
            const kernel_array in_q = IN_AS(dtype, q, -1, 1), in_k = IN_AS(dtype, k, -1, 1),
                               draw = {ROTA_I32, ROTA_READ, sizeof c.draw / 4, 0, 0, 0};
            const void *forward[] = {c.q, c.k, c.v, NULL, NULL, &c.draw};
            kernel_check_given(&rota_kernel_attention_dropout, &c.forward,
                               (kernel_array[]){in_q, in_k, in_k, OUT_AS(dtype, q), OUT(rows), draw}, forward,
                               6, 2 * unit);
            const void *query[] = {c.q, c.k, c.v, c.dout, c.stats, NULL, &c.draw};
            kernel_check_given(&rota_kernel_attention_dropout_backward_query, &c.backward,
                               (kernel_array[]){in_q, in_k, in_k, in_q, IN(2 * rows), OUT_AS(dtype, q), draw},
                               query, 7, 8 * unit * sizes.dq);
            const void *key_value[] = {c.q, c.k, c.v, c.dout, c.stats, NULL, NULL, &c.draw};
            kernel_check_given(&rota_kernel_attention_dropout_backward_key_value, &c.backward,
                               (kernel_array[]){in_q, in_k, in_k, in_q, IN(2 * rows), OUT_AS(dtype, k),
                                                OUT_AS(dtype, k), draw},
                               key_value, 8, 8 * unit * fmax(sizes.dk, sizes.dv));
            drop_case_free(&c);
        }
}
