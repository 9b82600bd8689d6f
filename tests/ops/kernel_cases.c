/* The cases of every built-in kernel on a GPU against its CPU kernel: odd sizes, broadcasts, strides, in
 * place, operands at addresses that are multiples of 4 only, with operands and parameters given directly and
 * through argument words. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "ops/update_params.h"
#include "tests/ops/kernel_case.h"

static const uint32_t counts[] = {1, 3, 4, 63, 257, 1027, 70001};
#define FOR_COUNT(n)                                                                                         \
    for (uint32_t at_ = 0, n; at_ < 7 && (n = counts[at_], true); at_++)                                     \
        if (!kernel_case_is_short || n == 3 || n == 1027)

/* What two correct roundings to a dtype may be apart, over what the f32 results are. */
static double rounded(rota_dtype dtype, double tolerance) {
    return tolerance + (dtype == ROTA_F16 ? 0x1p-10 : dtype == ROTA_BF16 ? 0x1p-7 : 0);
}
#define FOR_REAL(dtype) for (rota_dtype dtype = ROTA_F32; dtype <= ROTA_BF16; dtype++)
#define FOR_F8(dtype) for (rota_dtype dtype = ROTA_F8_E4M3FN; dtype <= ROTA_F8_E5M2; dtype++)
/* Of 16 bits, which are other types for the same code, the sizes less than and beyond a vector and a group.
 */
#define FOR_COUNT_OF(dtype, n)                                                                               \
    FOR_COUNT(n)                                                                                             \
    if (dtype == ROTA_F32 || (n == 3 && !kernel_case_is_short) || n == 1027 || n == 70001)
#define IN_AS(dtype, count, low, high)                                                                       \
    { dtype, ROTA_READ, (count), (low), (high), 0 }
#define OUT_AS(dtype, count)                                                                                 \
    { dtype, ROTA_WRITE, (count), 0, 0, 0 }
#define OUT_AS_ON(dtype, count, operand)                                                                     \
    { dtype, ROTA_WRITE, (count), 0, 0, 1 + (operand) }

static void test_unary(void **state) {
    (void)state;
    FOR_REAL(dtype)
    FOR_COUNT_OF(dtype, n) for (uint32_t op = 0; op < ROTA_UNARY_COUNT; op++) {
        const rota_unary_params p = {.count = n, .op = op, .alpha = 1.5f, .beta = 2.25f, .dtype = dtype};
        const bool positive = op == ROTA_UNARY_LOG || op == ROTA_UNARY_SQRT || op == ROTA_UNARY_RSQRT ||
                              op == ROTA_UNARY_RECIPROCAL || op == ROTA_UNARY_POW;
        const double low = positive ? 0.01 : -12, high = 12,
                     tolerance = rounded(dtype, op == ROTA_UNARY_AFFINE ? 0 : 3e-6);
        /* f16 operands are smaller than 1, of either sign: see kernel_case.c */
        if (positive && dtype == ROTA_F16) continue;
        CHECK(unary, &p, tolerance, IN_AS(dtype, n, low, high), OUT_AS(dtype, n));
        CHECK(unary, &p, tolerance, IN_AS(dtype, n, low, high), OUT_AS_ON(dtype, n, 0));
        if (op == ROTA_UNARY_AFFINE || op == ROTA_UNARY_NEG) continue;
        const double slope = rounded(dtype, op == ROTA_UNARY_RSQRT || op == ROTA_UNARY_POW ? 3e-5 : 1e-5);
        CHECK(unary_backward, &p, slope, IN_AS(dtype, n, low, high), IN_AS(dtype, n, -2, 2),
              OUT_AS(dtype, n));
        CHECK(unary_backward, &p, slope, IN_AS(dtype, n, low, high), IN_AS(dtype, n, -2, 2),
              OUT_AS_ON(dtype, n, 1));
    }
}

/* Shapes with the innermost last; a stride of 0 repeats. */
static void test_binary(void **state) {
    (void)state;
    FOR_REAL(dtype)
    FOR_COUNT_OF(dtype, n) for (uint32_t op = 0; op < ROTA_BINARY_COUNT; op++) {
        rota_binary_params p = {n, op, {1, 1, 1, 1, 1, n}, {0, 0, 0, 0, 0, 1}, dtype};
        const bool divides = op == ROTA_BINARY_DIV || op == ROTA_BINARY_RDIV;
        const bool curved = op >= ROTA_BINARY_POW && op <= ROTA_BINARY_ADD_GELU;
        const double tolerance = rounded(dtype, divides ? 1e-6 : curved ? 4e-6 : 0);
        if (op == ROTA_BINARY_POW && dtype == ROTA_F16) continue;
        CHECK(binary, &p, tolerance, IN_AS(dtype, n, 0.5, 2), IN_AS(dtype, n, 0.5, 2), OUT_AS(dtype, n));
        CHECK(binary, &p, tolerance, IN_AS(dtype, n, 0.5, 2), IN_AS(dtype, n, 0.5, 2),
              OUT_AS_ON(dtype, n, 0));
        p.b_stride[5] = 0;
        CHECK(binary, &p, tolerance, IN_AS(dtype, n, 0.5, 2), IN_AS(dtype, 1, 0.5, 2), OUT_AS(dtype, n));
        if (op < ROTA_BINARY_MINIMUM || op > ROTA_BINARY_ADD_GELU) continue;
        for (uint32_t flags = 1; flags < 4; flags++) {
            rota_binary_backward_params back = {n, op, flags, dtype, {1, 1, 1, 1, 1, n}, {0, 0, 0, 0, 0, 1}};
            const double slope = rounded(dtype, 1e-5);
            kernel_array arrays[] = {IN_AS(dtype, n, 0.5, 2), IN_AS(dtype, n, 0.5, 2), IN_AS(dtype, n, -2, 2),
                                     OUT_AS(dtype, n), OUT_AS(dtype, n)};
            for (uint32_t k = 0; k < 2; k++)
                if (!(flags & 1u << k)) arrays[3 + k] = (kernel_array){dtype, ROTA_READ, n, -2, 2, 3};
            kernel_check(&rota_kernel_binary_backward, &back, arrays, 5, slope);
            back.b_stride[5] = 0;
            arrays[1].count = 1;
            if (flags & 1) arrays[3].same_as = 3;
            kernel_check(&rota_kernel_binary_backward, &back, arrays, 5, slope);
        }
    }
    FOR_REAL(dtype) {
        const double tolerance = rounded(dtype, 0);
        const rota_binary_params bias = {
            37 * 128, ROTA_BINARY_ADD, {1, 1, 1, 1, 37, 128}, {0, 0, 0, 0, 0, 1}, dtype};
        CHECK(binary, &bias, tolerance, IN_AS(dtype, 37 * 128, -2, 2), IN_AS(dtype, 128, -2, 2),
              OUT_AS(dtype, 37 * 128));
        const rota_binary_params deep = {
            3 * 2 * 4 * 3 * 5 * 2, ROTA_BINARY_SUB, {3, 2, 4, 3, 5, 2}, {40, 0, 10, 0, 2, 1}, dtype};
        CHECK(binary, &deep, tolerance, IN_AS(dtype, 720, -2, 2), IN_AS(dtype, 3 * 40, -2, 2),
              OUT_AS(dtype, 720));
    }
    const rota_binary_params bias = {
        37 * 129, ROTA_BINARY_ADD, {1, 1, 1, 1, 37, 129}, {0, 0, 0, 0, 0, 1}, ROTA_F32};
    CHECK(binary, &bias, 0, IN(37 * 129), IN(129), OUT(37 * 129));
    const rota_binary_params column = {
        37 * 129, ROTA_BINARY_MUL, {1, 1, 1, 1, 37, 129}, {0, 0, 0, 0, 1, 0}, ROTA_F32};
    CHECK(binary, &column, 0, IN(37 * 129), IN(37), OUT_ON(37 * 129, 0));
    const rota_binary_params deep = {
        3 * 2 * 4 * 3 * 5 * 2, ROTA_BINARY_SUB, {3, 2, 4, 3, 5, 2}, {40, 0, 10, 0, 2, 1}, ROTA_F32};
    CHECK(binary, &deep, 0, IN(720), IN(3 * 40), OUT(720));
}

static void test_where(void **state) {
    (void)state;
    FOR_REAL(dtype)
    FOR_COUNT_OF(dtype, n) for (uint32_t flags = 0; flags < 4; flags++) {
        rota_where_params p = {
            n, flags, 0.75f, dtype, {1, 1, 1, 1, 1, n}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 1}};
        const kernel_array b = flags & ROTA_WHERE_NUMBER ? (kernel_array){dtype, ROTA_READ, n, 0, 0.5, 1}
                                                         : (kernel_array){dtype, ROTA_READ, n, -2, 2, 0};
        /* Small numbers as conditions: some of them are 0 only as bits of another dtype would be. */
        CHECK(where, &p, 0, IN_AS(dtype, n, 0, 0), IN_AS(dtype, n, -2, 2), b, OUT_AS(dtype, n));
        CHECK(where, &p, 0, IN_AS(dtype, n, 0.5, 1), IN_AS(dtype, n, -2, 2), b, OUT_AS_ON(dtype, n, 1));
        p.c_stride[5] = 0;
        CHECK(where, &p, 0, IN_AS(dtype, n, 0.5, 1), IN_AS(dtype, n, -2, 2), b, OUT_AS(dtype, n));
    }
    FOR_REAL(dtype) {
        const rota_where_params deep = {
            720, 0, 0, dtype, {3, 2, 4, 3, 5, 2}, {40, 0, 10, 0, 2, 1}, {0, 1, 0, 2, 0, 0}};
        CHECK(where, &deep, 0, IN_AS(dtype, 3 * 40, -1, 1), IN_AS(dtype, 720, -2, 2), IN_AS(dtype, 6, -2, 2),
              OUT_AS(dtype, 720));
    }
}

static void test_copy(void **state) {
    (void)state;
    FOR_COUNT(n) {
        rota_copy_strided_params p = {
            n, 0, 1, ROTA_F32, 0, 0, {1, 1, 1, 1, 1, n}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 1}};
        CHECK(copy_strided, &p, 0, IN(n), OUT(n));
        FOR_REAL(dtype) {
            p.dtype = dtype;
            p.flags = ROTA_COPY_SCALE, p.alpha = 0.75f;
            CHECK(copy_strided, &p, 0, IN_AS(dtype, n, -2, 2), OUT_AS(dtype, n));
            p.flags = ROTA_COPY_ACCUMULATE;
            CHECK(copy_strided, &p, rounded(dtype, 1e-6), IN_AS(dtype, n, -2, 2),
                  {dtype, ROTA_READWRITE, n, -2, 2, 0});
            p.flags |= ROTA_COPY_SCALE;
            CHECK(copy_strided, &p, rounded(dtype, 1e-6), IN_AS(dtype, n, -2, 2),
                  {dtype, ROTA_READWRITE, n, -2, 2, 0});
        }
        p.x_stride[5] = 0, p.flags = 0, p.dtype = ROTA_F16, p.x_offset = 1, p.y_offset = 1;
        CHECK(copy_strided, &p, 0, {ROTA_F16, ROTA_READ, 2, -1, 1, 0},
              {ROTA_F16, ROTA_READWRITE, n + 1, -1, 1, 0});
        p.x_stride[5] = 1, p.x_offset = 0, p.flags = ROTA_COPY_ACCUMULATE | ROTA_COPY_SCALE;
        CHECK(copy_strided, &p, rounded(ROTA_F16, 1e-6), {ROTA_F16, ROTA_READ, n, -1, 1, 0},
              {ROTA_F16, ROTA_READWRITE, n + 1, -1, 1, 0});
    }
    /* A transpose of [7, 33, 65], and one into rows with gaps. */
    const uint32_t count = 7 * 33 * 65;
    rota_copy_strided_params t = {
        count, 0, 1, ROTA_F32, 0, 0, {1, 1, 1, 7, 65, 33}, {0, 0, 0, 2145, 1, 65}, {0, 0, 0, 2145, 33, 1}};
    CHECK(copy_strided, &t, 0, IN(count), OUT(count));
    t.y_stride[4] = 40, t.y_stride[3] = 65 * 40;
    CHECK(copy_strided, &t, 0, IN(count), INOUT(7 * 65 * 40));
    t.dtype = ROTA_BF16;
    CHECK(copy_strided, &t, 0, {ROTA_BF16, ROTA_READ, count, -1, 1, 0},
          {ROTA_BF16, ROTA_READWRITE, 7 * 65 * 40, -1, 1, 0});
    FOR_F8(dtype) {
        t.dtype = dtype;
        CHECK(copy_strided, &t, 0, {dtype, ROTA_READ, count, -1, NAN, 0},
              {dtype, ROTA_READWRITE, 7 * 65 * 40, -1, NAN, 0});
        t.x_offset = 1, t.y_offset = 3;
        CHECK(copy_strided, &t, 0, {dtype, ROTA_READ, count + 1, -1, NAN, 0},
              {dtype, ROTA_READWRITE, 7 * 65 * 40 + 3, -1, NAN, 0});
        t.x_offset = t.y_offset = 0;
    }
    FOR_COUNT(n) FOR_F8(dtype) {
        const rota_copy_strided_params p = {
            n, 0, 1, dtype, 0, 0, {1, 1, 1, 1, 1, n}, {0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 1}};
        CHECK(copy_strided, &p, 0, {dtype, ROTA_READ, n, -1, NAN, 0}, OUT_AS(dtype, n));
    }
    const rota_copy_strided_params six = {
        720, 0, 1, ROTA_F32, 0, 0, {3, 2, 4, 3, 5, 2}, {1, 3, 6, 24, 72, 360}, {240, 120, 30, 10, 2, 1}};
    CHECK(copy_strided, &six, 0, IN(720), OUT(720));
    /* Of narrow matrices: windows of a convolution by channels last and back, an image's planes, pairs, and two axes
     * one of which has gaps. */
    static const uint32_t narrow[][3] = {{5, 70, 9},   {5, 9, 70}, {2, 3, 1500}, {2, 1500, 3},
                                         {3, 2, 2100}, {4, 16, 8}, {4, 8, 16},   {1, 33, 16}};
    for (uint32_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        for (uint32_t gap = 0; gap < 3; gap += 2) FOR_REAL(dtype) {
                const uint32_t *s = narrow[i], n = s[0] * s[1] * s[2], x_pitch = s[2] + gap,
                               y_pitch = s[1] + gap;
                const rota_copy_strided_params p = {.count = n,
                                                    .alpha = 1,
                                                    .dtype = dtype,
                                                    .shape = {1, 1, 1, s[0], s[2], s[1]},
                                                    .x_stride = {0, 0, 0, s[1] * x_pitch, 1, x_pitch},
                                                    .y_stride = {0, 0, 0, s[2] * y_pitch, y_pitch, 1}};
                CHECK(copy_strided, &p, 0, IN_AS(dtype, s[0] * s[1] * x_pitch, -2, 2),
                      {dtype, ROTA_READWRITE, s[0] * s[2] * y_pitch, -2, 2, 0});
            }
}

static void test_cast(void **state) {
    (void)state;
    const double ranges[][2] = {{-2, 2}, {-1e5, 1e5}, {-1e-4, 1e-4}, {-1e-7, 1e-7}};
    FOR_COUNT(n)
    for (uint32_t from = ROTA_F32; from <= ROTA_BF16; from++)
        for (uint32_t to = ROTA_F32; to <= ROTA_BF16; to++)
            for (uint32_t r = 0; r < 4; r++) {
                const rota_cast_params p = {n, from, to};
                CHECK(cast, &p, 0, {(rota_dtype)from, ROTA_READ, n, ranges[r][0], ranges[r][1], 0},
                      {(rota_dtype)to, ROTA_WRITE, n, 0, 0, 0});
            }
    /* Among them all rounded, beyond the largest, and below the smallest; and every code, NaNs too. */
    const double f8[][2] = {{-2, 2}, {-1e5, 1e5}, {-500, 500}, {-0.02, 0.02}, {-1e-4, 1e-4}};
    FOR_COUNT(n) FOR_F8(narrow) for (uint32_t real = ROTA_F32; real <= ROTA_BF16; real++) {
        const rota_cast_params to = {n, real, narrow}, from = {n, narrow, real};
        for (uint32_t r = 0; r < sizeof f8 / sizeof *f8; r++)
            CHECK(cast, &to, 0, {(rota_dtype)real, ROTA_READ, n, f8[r][0], f8[r][1], 0}, OUT_AS(narrow, n));
        CHECK(cast, &from, 0, {narrow, ROTA_READ, n, -1, NAN, 0}, OUT_AS((rota_dtype)real, n));
    }
    FOR_COUNT(n) FOR_F8(one) FOR_F8(other) {
        const rota_cast_params p = {n, one, other};
        CHECK(cast, &p, 0, {one, ROTA_READ, n, -1, NAN, 0}, OUT_AS(other, n));
    }
    const double wide[][2] = {{-3, 3}, {-3e9, 3e9}, {2147483000, 2147484000}};
    FOR_COUNT(n) for (uint32_t real = ROTA_F32; real <= ROTA_BF16; real++) for (uint32_t r = 0; r < 3; r++) {
        const rota_cast_params to = {n, real, ROTA_I32}, from = {n, ROTA_I32, real};
        CHECK(cast, &to, 0, {(rota_dtype)real, ROTA_READ, n, wide[r][0], wide[r][1], 0},
              {ROTA_I32, ROTA_WRITE, n, 0, 0, 0});
        if (r == 0)
            CHECK(cast, &from, 0, {ROTA_I32, ROTA_READ, n, -2e9, 2e9, 0},
                  {(rota_dtype)real, ROTA_WRITE, n, 0, 0, 0});
    }
}

static void test_reduce(void **state) {
    (void)state;
    const uint32_t shapes[][4] = {
        /* outer, n, inner, chunk */
        {1, 1, 1, 1},       {1, 1000, 1, 1000}, {3, 4099, 1, 512}, {5, 70, 3, 70},      {2, 33, 129, 33},
        {1, 300, 257, 64},  {17, 5, 1, 5},      {40, 65, 1, 65},   {1, 70001, 1, 1024}, {3, 200, 260, 64},
        {3, 2048, 1, 2048}, {2, 90, 31, 40},    {7, 1100, 1, 100}};
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t op = 0; op < ROTA_REDUCE_COUNT; op++)
            FOR_REAL(from) for (uint32_t narrow = 0; narrow < (from == ROTA_F32 ? 3u : 2u); narrow++) {
                const uint32_t *s = shapes[i];
                const bool picks = op == ROTA_REDUCE_MAX || op == ROTA_REDUCE_MIN;
                /* f32 to all, and 16 bits to the same and to f32 */
                const rota_dtype to = from == ROTA_F32 ? (rota_dtype)narrow : narrow ? from : ROTA_F32;
                const rota_reduce_params p = {op, s[0], s[1], s[2], s[3], picks ? 1.0f : 0.5f, from, to};
                const uint64_t count = (uint64_t)s[0] * s[1] * s[2],
                               results = (uint64_t)s[0] * s[2] * ((s[1] + s[3] - 1) / s[3]);
                CHECK(reduce, &p, rounded(to, picks ? 0 : 2e-5), IN_AS(from, count, -2, 2),
                      OUT_AS(to, results));
                if (op != ROTA_REDUCE_MAX || s[3] < s[1] || from != to) continue;
                const rota_max_backward_params back = {s[0], s[1], s[2], from};
                /* y within x's values only by chance for most columns: with n 1 x and y are one operand */
                CHECK(max_backward, &back, 0, IN_AS(from, count, 1, 1), IN_AS(from, results, 1, 1),
                      IN_AS(from, results, -2, 2), OUT_AS(from, count));
            }
}

/* Few columns of many places: one, then some threads a column; and all at few of the places. */
static void test_scatter_long(void **state) {
    (void)state;
    const uint32_t shapes[][5] = {/* outer, n, inner, m, places */
                                  {1, 1, 1, 500, 1},       {1, 5, 1, 500, 5},       {1, 20000, 1, 501, 20000},
                                  {1, 20000, 1, 607, 3},   {3, 9000, 1, 300, 9000}, {2, 700, 5, 200, 700},
                                  {1, 100, 8191, 10, 100}, {5, 3, 1640, 9, 3}};
    for (uint32_t i = 0; i < 8; i++) FOR_REAL(dtype) {
            const uint32_t *s = shapes[i], rows = s[0] * s[2], beside = rows * s[3];
            const rota_gather_params g = {s[0], s[1], s[3], s[2], dtype};
            CHECK(scatter_add, &g, 0, IN_AS(dtype, beside, -2, 2), INDEX(beside, s[4]), INOUT(rows * s[1]));
        }
}

static void test_along(void **state) {
    (void)state;
    for (uint32_t words = 1; words < 5000; words = words * 7 + 2) {
        const uint32_t rows = 5, step = words + 3;
        const rota_copy_row_params from = {words, rows, step, 0}, to = {words, rows, 0, step};
        CHECK(copy_row, &from, 0, INDEX(1, rows), IN(rows * step), OUT(words));
        CHECK(copy_row, &to, 0, INDEX(1, rows), IN(words), INOUT(rows * step));
    }
    const uint32_t shapes[][4] = {/* outer, n, inner, m */
                                  {1, 1, 1, 1},   {3, 300, 1, 5},  {70, 33, 1, 40},
                                  {2, 17, 70, 3}, {1, 9, 700, 11}, {2, 1030, 3, 2}};
    for (uint32_t i = 0; i < 6; i++) FOR_REAL(dtype) {
            const uint32_t *s = shapes[i], rows = s[0] * s[2], count = rows * s[1], beside = rows * s[3];
            const rota_gather_params g = {s[0], s[1], s[3], s[2], dtype};
            CHECK(gather, &g, 0, IN_AS(dtype, count, -2, 2), INDEX(beside, s[1]), OUT_AS(dtype, beside));
            CHECK(scatter_add, &g, 0, IN_AS(dtype, beside, -2, 2), INDEX(beside, s[1]), INOUT(count));
            const rota_one_hot_params hot = {rows, s[1], dtype};
            CHECK(one_hot, &hot, 0, INDEX(rows, s[1]), OUT_AS(dtype, count));
            /* bf16 has few values, so some of these are equal */
            const uint32_t most = s[1] < 4 ? s[1] : 4;
            const rota_top_k_params top = {s[0], s[1], s[2], most, dtype};
            CHECK(top_k, &top, 0, IN_AS(dtype, count, -2, 2), OUT_AS(dtype, rows * most),
                  {ROTA_I32, ROTA_WRITE, rows * most, 0, 0, 0});
            for (uint32_t reverse = 0; reverse < 2; reverse++) {
                const rota_cumulative_sum_params sum = {s[0], s[1], s[2], reverse, dtype};
                CHECK(cumulative_sum, &sum, rounded(dtype, 0x1p-24 * s[1] * 4), IN_AS(dtype, count, -2, 2),
                      OUT_AS(dtype, count));
            }
            const rota_variance_params v = {s[0], s[1], s[2], 1.0f / (float)s[1], dtype};
            CHECK(variance, &v, rounded(dtype, 0x1p-24 * (16 + s[1] / 2)), IN_AS(dtype, count, -2, 2),
                  OUT_AS(dtype, rows), OUT(rows));
            CHECK(variance_backward, &v, rounded(dtype, 1e-6), IN_AS(dtype, count, -2, 2), IN(rows),
                  IN_AS(dtype, rows, -2, 2), OUT_AS(dtype, count));
        }
}

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

static void test_matmul(void **state) {
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
static void test_matmul_fine(void **state) {
    (void)state;
    const uint32_t one[3] = {1, 1, 1};
    for (uint32_t flags = 0; flags < 4; flags++) {
        matmul_case(64, 96, 256, flags, one, 0, 0);
        matmul_case(35, 33, 263, flags, one, 1, 0);
    }
}

/* Enough large tiles that the shader with large tiles is taken, with edges and without. */
static void test_matmul_large(void **state) {
    (void)state;
    const uint32_t many[3] = {2, 6, 8}, some[3] = {1, 3, 8};
    for (uint32_t flags = 0; flags < 4; flags++) {
        matmul_case(128, 256, 32, flags, many, 0, 1);
        matmul_case(131, 257, 19, flags | (flags & 1 ? ROTA_MATMUL_ACCUMULATE : 0), some, 1, 1);
    }
}

/* The dtypes of kernels that take any: tolerance of results that were rounded to one. */
#define FOR_DTYPE(type) for (rota_dtype type = ROTA_F32; type <= ROTA_BF16; type = (rota_dtype)(type + 1))
static double rounding(rota_dtype type, double tolerance) {
    return type == ROTA_F32 ? tolerance : tolerance + (type == ROTA_F16 ? 0x1p-10 : 0x1p-7);
}
#define IN_TYPE(type, count)                                                                                 \
    { (type), ROTA_READ, (count), -2, 2, 0 }
#define IN_TYPE_RANGE(type, count, low, high)                                                                \
    { (type), ROTA_READ, (count), (low), (high), 0 }
#define OUT_TYPE(type, count)                                                                                \
    { (type), ROTA_WRITE, (count), 0, 0, 0 }
#define OUT_TYPE_ON(type, count, operand)                                                                    \
    { (type), ROTA_WRITE, (count), 0, 0, 1 + (operand) }
#define INOUT_TYPE(type, count)                                                                              \
    { (type), ROTA_READWRITE, (count), -2, 2, 0 }

static const uint32_t embedding_shapes[][3] = {
    {1, 1, 1},          {70, 33, 9},   {300, 130, 65},   {129, 1300, 4},    {5000, 40, 3000},
    {2100, 300, 10000}, {9000, 24, 5}, {20001, 16, 700}, {1100, 24, 17000}, {9000, 264, 600}};
enum {
    EMBEDDING_SHAPES = sizeof embedding_shapes / sizeof *embedding_shapes,
    EMBEDDING_SMALL = 4 /* the first ones */
};

static void embedding_case(const uint32_t *shape, rota_dtype type) {
    rota_embedding_params p = {shape[0], shape[1], shape[2], 0, type, 0, 0};
    const uint64_t rows = (uint64_t)p.rows * p.dim, table = (uint64_t)p.classes * p.dim;
    /* A sum of many rows, rounded again each 5632 of them; some thousand elements add up to some
     * hundred. In f32, the order of so many rows is worth 2e-5, by which the CPU's is off the sum in
     * f64; a GPU's may be another. */
    const double sums =
        rounding(type, p.rows / p.classes > 1000 ? 4e-5 : 1e-5) * (type == ROTA_F32 ? 1 : 1 + p.rows / 5632);
    CHECK(embedding, &p, 0, IN_TYPE(type, table), INDEX(p.rows, p.classes), OUT_TYPE(type, rows));
    CHECK(embedding_backward, &p, sums, IN_TYPE(type, rows), INDEX(p.rows, p.classes), OUT_TYPE(type, table));
    p.accumulate = 1;
    CHECK(embedding_backward, &p, sums, IN_TYPE(type, rows), INDEX(p.rows, p.classes),
          INOUT_TYPE(type, table));
    const uint32_t few = 1 + p.classes / 100; /* of which each has some hundred rows, or thousands */
    /* Elements are up to 2: partial sums of n of them stray to about sqrt(n), and each rounding of them is worth 2^-25
     * of that: n 3.5e-8 at one deviation in a difference of two such sums, five of which none of 10^5 exceeds. */
    const double strayed = fmin(3e-4, 1.75e-7 * (p.rows / few));
    CHECK(embedding_backward, &p, fmax(sums, strayed), IN_TYPE(type, rows), INDEX(p.rows, few),
          INOUT_TYPE(type, table));
    /* The table is a part of one with more classes, of which the index has all. */
    p.accumulate = 0;
    p.first = 1 + p.classes / 3;
    p.all = 2 * p.classes + 5;
    CHECK(embedding, &p, 0, IN_TYPE(type, table), INDEX(p.rows, p.all), OUT_TYPE(type, rows));
    CHECK(embedding_backward, &p, sums, IN_TYPE(type, rows), INDEX(p.rows, p.all), OUT_TYPE(type, table));
}

static void test_embedding(void **state) {
    (void)state;
    for (uint32_t i = 0; i < EMBEDDING_SHAPES; i++) {
        FOR_DTYPE(type)
        if (i < EMBEDDING_SMALL || type == ROTA_F32) embedding_case(embedding_shapes[i], type);
        const uint32_t *s = embedding_shapes[i];
        const rota_index_add_params add = {s[0], s[2], 3};
        CHECK(index_add, &add, 0, INDEX(add.rows, add.size),
              {ROTA_I32, ROTA_ACCUMULATE, add.size, 0, 100, 0});
    }
}

/* The large shapes in the other dtypes: what takes a software device a minute. */
static void test_embedding_more(void **state) {
    (void)state;
    for (uint32_t i = EMBEDDING_SMALL; i < EMBEDDING_SHAPES; i++) FOR_DTYPE(type)
    if (type != ROTA_F32) embedding_case(embedding_shapes[i], type);
}

static void test_softmax(void **state) {
    (void)state;
    const uint32_t shapes[][3] = {{1, 1, 1},     {12, 5, 4},   {33, 64, 33},
                                  {40, 130, 20}, {6, 1111, 3}, {9, 3000, 9}};
    for (uint32_t i = 0; i < 6; i++)
        for (uint32_t form = 0; form < 3; form++) FOR_DTYPE(type) {
                const uint32_t causal = form == 1, logarithm = form == 2;
                const rota_softmax_params p = {shapes[i][0], shapes[i][1], causal, shapes[i][2],
                                               0.7f,         logarithm,    type};
                const uint64_t n = (uint64_t)p.rows * p.n;
                const double forward = rounding(type, 2e-6),
                             backward = rounding(type, 2e-5) * (logarithm ? 4 : 1);
                const double low = logarithm ? -6 : 0, high = logarithm ? -1 : 1;
                CHECK(softmax, &p, forward, IN_TYPE_RANGE(type, n, -20, 20), OUT_TYPE(type, n));
                CHECK(softmax, &p, forward, IN_TYPE_RANGE(type, n, -20, 20), OUT_TYPE_ON(type, n, 0));
                CHECK(softmax_backward, &p, backward, IN_TYPE_RANGE(type, n, low, high), IN_TYPE(type, n),
                      OUT_TYPE(type, n));
                CHECK(softmax_backward, &p, backward, IN_TYPE_RANGE(type, n, low, high), IN_TYPE(type, n),
                      OUT_TYPE_ON(type, n, 1));
                if (logarithm) continue;
                const rota_causal_mask_params mask = {p.rows, p.n, p.queries, -INFINITY, type};
                CHECK(causal_mask, &mask, 0, IN_TYPE(type, n), OUT_TYPE(type, n));
                CHECK(causal_mask, &mask, 0, IN_TYPE(type, n), OUT_TYPE_ON(type, n, 0));
            }
}

static void test_scaled_matmul(void **state) {
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

static void test_linear_gelu_gradient(void **state) {
    (void)state;
    /* among them rows that end within a block's columns, and chunks with rows for some of its warps */
    static const uint32_t shapes[][3] = {{1, 8, 8}, {37, 264, 16}, {130, 520, 64}, {9, 256, 8}, {70, 24, 70}};
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (rota_dtype type = ROTA_F16; type <= ROTA_BF16; type++) {
            const rota_linear_params p = {
                .m = shapes[i][0], .n = shapes[i][1], .dtype = type, .chunk = shapes[i][2]};
            const uint64_t n = (uint64_t)p.m * p.n, chunks = (p.m + p.chunk - 1) / p.chunk;
            if (!kernel_case_is_one(&rota_kernel_linear_gelu_gradient, &p)) continue;
            const double tolerance = rounding(type, 1e-5);
            CHECK(linear_gelu_gradient, &p, tolerance, IN_TYPE_RANGE(type, n, -6, 6), IN_TYPE(type, n),
                  OUT_TYPE(type, n), OUT(chunks * p.n));
            CHECK(linear_gelu_gradient, &p, tolerance, IN_TYPE_RANGE(type, n, -6, 6), IN_TYPE(type, n),
                  OUT_TYPE_ON(type, n, 1), OUT(chunks * p.n));
        }
}

static void norm_case(const rota_norm_params *given, rota_dtype type) {
    const rota_norm_params p = *given;
    const uint64_t n = (uint64_t)p.rows * p.dim, chunks = (p.rows + p.chunk - 1) / p.chunk;
    const double forward = rounding(type, 1e-5), backward = rounding(type, 3e-5);
    const kernel_array x = IN_TYPE(type, n), w = IN_TYPE(type, p.dim), y = OUT_TYPE(type, n);
    const kernel_array stats = OUT(2ull * p.rows), given_stats = IN_RANGE(2ull * p.rows, 0.1, 1);
    CHECK(layernorm, &p, forward, x, w, w, y, stats);
    /* where the sum rounds differently by one, so does y; the two add in the same order here */
    CHECK(residual_layernorm, &p, forward, x, x, w, w, y, y, stats);
    CHECK(residual_layernorm, &p, forward, x, x, w, w, OUT_TYPE_ON(type, n, 0), y, stats);
    CHECK(layernorm_backward, &p, backward, x, w, given_stats, x, y);
    CHECK(layernorm_backward, &p, backward, x, w, given_stats, x, OUT_TYPE_ON(type, n, 3));
    CHECK(layernorm_backward_weight, &p, 1e-5, x, given_stats, x, OUT(2 * chunks * p.dim));
    rota_norm_params add = p;
    add.flags |= ROTA_NORM_ACCUMULATE;
    CHECK(layernorm_backward, &add, backward, x, w, given_stats, x, INOUT_TYPE(type, n));
    if (kernel_case_is_one(&rota_kernel_layernorm_gradient, &p)) {
        const kernel_array partial = OUT(2 * chunks * p.dim);
        CHECK(layernorm_gradient, &p, backward, x, w, given_stats, x, y, partial);
        CHECK(layernorm_gradient, &p, backward, x, w, given_stats, x, OUT_TYPE_ON(type, n, 3), partial);
        CHECK(layernorm_gradient, &add, backward, x, w, given_stats, x, INOUT_TYPE(type, n), partial);
    }
    if (p.flags & ROTA_NORM_BIAS) return;
    const kernel_array rms = OUT(p.rows), given_rms = IN_RANGE(p.rows, 0.1, 1);
    CHECK(rmsnorm, &p, forward, x, w, y, rms);
    CHECK(rmsnorm_backward, &p, backward, x, w, given_rms, x, y);
    CHECK(rmsnorm_backward, &p, backward, x, w, given_rms, x, OUT_TYPE_ON(type, n, 3));
    CHECK(rmsnorm_backward, &add, backward, x, w, given_rms, x, INOUT_TYPE(type, n));
    CHECK(rmsnorm_backward_weight, &p, 1e-5, x, given_rms, x, OUT(chunks * p.dim));
    if (!kernel_case_is_one(&rota_kernel_rmsnorm_gradient, &p)) return;
    CHECK(rmsnorm_gradient, &p, backward, x, w, given_rms, x, y, OUT(chunks * p.dim));
    CHECK(rmsnorm_gradient, &add, backward, x, w, given_rms, x, INOUT_TYPE(type, n), OUT(chunks * p.dim));
}

static void test_norm(void **state) {
    (void)state;
    /* among them rows that end within a warp's last vectors, and more rows than warps */
    const uint32_t shapes[][3] = {{1, 1, 1},    {7, 33, 3},   {130, 128, 32}, {5, 1031, 2},
                                  {9, 2052, 4}, {3, 9000, 2}, {1, 768, 8},    {18, 776, 8},
                                  {9, 1024, 4}, {16, 520, 8}, {19, 264, 64},  {8200, 8, 32}};
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t flags = 0; flags < 4; flags++) FOR_DTYPE(type) {
                const rota_norm_params p = {shapes[i][0], shapes[i][1], flags, 1e-2f, shapes[i][2], type};
                norm_case(&p, type);
            }
}

static void test_batch_norm(void **state) {
    (void)state;
    const uint32_t shapes[][4] = {/* outer, channels, inner, chunk */
                                  {2, 1, 1, 1},
                                  {301, 16, 1, 128},
                                  {3, 5, 42, 50},
                                  {1, 3, 700, 128},
                                  {40, 33, 7, 9}};
    for (uint32_t i = 0; i < 5; i++) FOR_DTYPE(type) {
            const uint32_t *s = shapes[i], flags = i % 4;
            rota_batch_norm_params p = {s[0], s[1], s[2], 0, s[3], 1e-2f, 0.1f, type};
            const uint64_t n = (uint64_t)s[0] * s[2], count = n * s[1], chunks = (n + s[3] - 1) / s[3];
            const kernel_array x = IN_TYPE(type, count), mean = IN(s[1]), spread = IN_RANGE(s[1], 0.5, 2);
            const kernel_array w = IN_TYPE(type, s[1]), y = OUT_TYPE(type, count);
            const kernel_array moments = IN_RANGE(2 * chunks * s[1], 0.5, 2);
            CHECK(batch_norm_moments, &p, 2e-5, x, OUT(2 * chunks * s[1]));
            CHECK(batch_norm_finish, &p, 2e-5, moments, INOUT(s[1]), INOUT(s[1]), OUT(2 * s[1]));
            for (uint32_t evaluate = 0; evaluate < 2; evaluate++) {
                const uint32_t variance = evaluate ? ROTA_BATCH_NORM_VARIANCE : 0;
                p.flags = variance;
                CHECK(batch_norm_sums, &p, 5e-5, x, mean, spread, x, OUT(2 * chunks * s[1]));
                p.flags = flags | variance;
                CHECK(batch_norm, &p, rounding(type, 1e-5), x, mean, spread, w, w, y);
                CHECK(batch_norm, &p, rounding(type, 1e-5), x, mean, spread, w, w,
                      OUT_TYPE_ON(type, count, 0));
                CHECK(batch_norm_backward, &p, rounding(type, 2e-5), x, mean, spread, w, x, IN(2 * s[1]), y);
                CHECK(batch_norm_backward, &p, rounding(type, 2e-5), x, mean, spread, w, x, IN(2 * s[1]),
                      OUT_TYPE_ON(type, count, 4));
            }
        }
}

static void test_rope(void **state) {
    (void)state;
    const uint32_t shapes[][4] = {
        /* rows, sequence, dim, rotary */ {1, 1, 2, 2}, {21, 7, 8, 8}, {300, 100, 65, 32}};
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t flags = 0; flags < 4; flags++) FOR_DTYPE(type) {
                const uint32_t *s = shapes[i];
                const rota_rope_params p = {s[0], s[1], s[2], s[3], flags, 10000.0f, 5 * flags, type};
                const uint64_t n = (uint64_t)s[0] * s[2];
                /* angles of up to 115 in f32 */
                CHECK(rope, &p, rounding(type, 5e-5), IN_TYPE(type, n), OUT_TYPE(type, n));
                CHECK(rope, &p, rounding(type, 5e-5), IN_TYPE(type, n), OUT_TYPE_ON(type, n, 0));
            }
}

static void test_cross_entropy(void **state) {
    (void)state;
    const uint32_t shapes[][3] = {{1, 1, 1},       {9, 3, 8},       {130, 65, 65},
                                  {7, 3001, 3008}, {5, 4104, 4104}, {3, 20000, 20001}};
    for (uint32_t i = 0; i < 6; i++)
        for (uint32_t smooth = 0; smooth < 2; smooth++) FOR_DTYPE(type) {
                rota_cross_entropy_params p = {.rows = shapes[i][0],
                                               .classes = shapes[i][1],
                                               .ignored = smooth ? 1 : -100,
                                               .smoothing = smooth ? 0.125f : 0,
                                               .dtype = type,
                                               .pitch = shapes[i][2]};
                const uint64_t n = (uint64_t)p.rows * p.pitch;
                const double backward = rounding(type, 1e-5);
                CHECK(cross_entropy, &p, 3e-6, IN_TYPE_RANGE(type, n, -9, 9), INDEX(p.rows, p.classes),
                      OUT(p.rows), OUT(p.rows));
                CHECK(cross_entropy_backward, &p, backward, IN_TYPE(type, n), INDEX(p.rows, p.classes),
                      IN_RANGE(p.rows, 2, 5), IN(1), IN(1), OUT_TYPE(type, n));
                CHECK(cross_entropy_backward, &p, backward, IN_TYPE(type, n), INDEX(p.rows, p.classes),
                      IN_RANGE(p.rows, 2, 5), IN(1), IN(1), OUT_TYPE_ON(type, n, 0));
                /* Some of twice as many classes, of which the labels have all. */
                p.first = 1 + p.classes / 3;
                p.all = 2 * p.classes + 1;
                CHECK(cross_entropy, &p, 3e-6, IN_TYPE_RANGE(type, n, -9, 9), INDEX(p.rows, p.all),
                      OUT(p.rows), OUT(p.rows));
                CHECK(cross_entropy_backward, &p, backward, IN_TYPE(type, n), INDEX(p.rows, p.all),
                      IN_RANGE(p.rows, 2, 5), IN(1), IN(1), OUT_TYPE(type, n));
                const rota_cross_entropy_join_params join = {p.rows, 1 + 2 * i, 1};
                CHECK(cross_entropy_join, &join, 3e-6, IN_RANGE(2 * join.ranks * join.rows, -9, 9),
                      INDEX(p.rows, p.classes), OUT(p.rows), OUT(p.rows));
                const rota_cross_entropy_params mean = {4099, 1000, 7, 0, ROTA_F32, 1000, 0, 0};
                CHECK(cross_entropy_mean, &mean, 1e-5, IN(4099), INDEX(4099, 1000), OUT(1), OUT(1));
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

static void test_attention(void **state) {
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
static void test_attention_half(void **state) {
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

static void test_dropout(void **state) {
    (void)state;
    FOR_REAL(dtype) FOR_COUNT(n) {
        rota_dropout_params p = {n, 0x40000000u, 4.0f / 3, 5, 1234567, 89, 0, dtype, n % 3 ? 0 : 0xFFFFFFFEu};
        CHECK(dropout, &p, 0, IN_AS(dtype, n, -2, 2), {dtype, ROTA_READ, n, -2, 2, 1}, OUT_AS(dtype, n));
        CHECK(dropout, &p, 0, IN_AS(dtype, n, -2, 2), {dtype, ROTA_READ, n, -2, 2, 1},
              OUT_AS_ON(dtype, n, 0));
        p.has_residual = 1;
        CHECK(dropout, &p, 0, IN_AS(dtype, n, -2, 2), IN_AS(dtype, n, -2, 2), OUT_AS(dtype, n));
        CHECK(dropout, &p, 0, IN_AS(dtype, n, -2, 2), IN_AS(dtype, n, -2, 2), OUT_AS_ON(dtype, n, 1));
    }
}

static void test_optimizer(void **state) {
    (void)state;
    FOR_COUNT(n) {
        const kernel_array second = {ROTA_F32, ROTA_READWRITE, n, 0.1, 1, 0};
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t steps[] = {1, 2, 1000, 100000}, flags = i == 2 ? ROTA_UPDATE_COUPLED : 0;
            rota_adamw_params p = {
                n, flags | ROTA_UPDATE_FACTOR, 1e-2f, steps[i], 0.9f, 0.999f, 1e-8f, 0.1f, ROTA_F32, 0};
            CHECK(adamw, &p, 1e-5, INOUT(n), IN(n), INOUT(n), second, IN_RANGE(1, 0.5, 2), IN(1));
            /* the rate and the step beside the factor */
            rota_adamw_params held = p;
            held.flags |= ROTA_UPDATE_RATES;
            held.lr = 0.5f;
            held.step = 77;
            CHECK(adamw, &held, 1e-5, INOUT(n), IN(n), INOUT(n), second, IN_RANGE(3, 1, 2), IN(1));
            /* a negative factor: nothing changes but the copy */
            CHECK(adamw, &p, 0, INOUT(n), IN(n), INOUT(n), second, IN_RANGE(1, -2, -1), IN(1));
        }
        for (rota_dtype half = ROTA_F16; half <= ROTA_BF16; half = (rota_dtype)(half + 1)) {
            const rota_adamw_params p = {n,   ROTA_UPDATE_HALF, 1e-2f, 7, 0.9f, 0.999f, 1e-8f, 0.1f, half,
                                         half};
            CHECK(adamw, &p, rounding(half, 0), INOUT(n), IN_TYPE(half, n), INOUT(n), second, IN(1),
                  OUT_TYPE(half, n));
        }
        for (uint32_t form = 0; form < 3; form++) {
            const uint32_t flags[] = {0, ROTA_UPDATE_NESTEROV, ROTA_UPDATE_SIGN};
            rota_momentum_params p = {n, flags[form] | ROTA_UPDATE_FACTOR, 1e-2f, 0.9f, 0.99f, 0.1f, ROTA_F32,
                                      0};
            CHECK(momentum, &p, 1e-5, INOUT(n), IN(n), INOUT(n), IN_RANGE(1, 0.5, 2), IN(1));
            CHECK(momentum, &p, 0, INOUT(n), IN(n), INOUT(n), IN_RANGE(1, -2, -1), IN(1));
            p.g_dtype = p.half_dtype = ROTA_BF16;
            p.flags = flags[form] | ROTA_UPDATE_HALF;
            CHECK(momentum, &p, rounding(ROTA_BF16, 0), INOUT(n), IN_TYPE(ROTA_BF16, n), INOUT(n), IN(1),
                  OUT_TYPE(ROTA_BF16, n));
        }
        const rota_global_norm_params norm = {n, 1.5f};
        CHECK(global_norm, &norm, 2e-5, IN_RANGE(n, 0, 1), OUT(2));
        const rota_check_finite_params finite = {n, ROTA_F32}, half = {n, ROTA_F16}, brain = {n, ROTA_BF16};
        CHECK(check_finite, &finite, 0, IN(n), {ROTA_U32, ROTA_READWRITE, 2, 0, 9, 0});
        CHECK(check_finite, &half, 0, IN_TYPE(ROTA_F16, n), {ROTA_U32, ROTA_READWRITE, 2, 0, 9, 0});
        CHECK(check_finite, &brain, 0, IN_TYPE(ROTA_BF16, n), {ROTA_U32, ROTA_READWRITE, 2, 0, 9, 0});
    }
}

static void test_loss_scale(void **state) {
    (void)state;
    const rota_loss_scale_params clips = {3, 2.0f, 0.5f, 0.125f}, grows = {1, 2.0f, 0.5f, 8.0f};
    CHECK(loss_scale, &clips, 1e-6, IN_RANGE(1, 1, 2), {ROTA_F32, ROTA_READWRITE, 2, 1, 1, 0}, OUT(1));
    CHECK(loss_scale, &grows, 1e-6, IN_RANGE(1, 1, 2), {ROTA_F32, ROTA_READWRITE, 2, 1, 4, 0}, OUT(1));
    CHECK(loss_scale, &grows, 1e-6, IN_RANGE(1, INFINITY, INFINITY), {ROTA_F32, ROTA_READWRITE, 2, 1, 4, 0},
          OUT(1));
}

/* More than 65535 workgroups, folded into y (softmax and matmul), and more than 2^24 elements, beyond what an f32
 * counts. */
static void test_large_counts(void **state) {
    (void)state;
    const uint32_t rows = 70001, n = (1u << 24) + 4097;
    const rota_softmax_params softmax = {rows, 3, 0, rows, 1.0f, 0, ROTA_F32};
    CHECK(softmax, &softmax, 2e-6, IN(3 * rows), OUT(3 * rows));
    const rota_norm_params norm = {rows, 2, 0, 1e-2f, rows, ROTA_F32};
    CHECK(rmsnorm, &norm, 1e-5, IN(2 * rows), IN(2), OUT(2 * rows), OUT(rows));
    const rota_embedding_params embedding = {5, 2, rows, 0, ROTA_F32, 0, 0};
    CHECK(embedding_backward, &embedding, 1e-5, IN(10), INDEX(5, rows), OUT(2 * rows));
    const rota_matmul_params products = {
        1, 1, 2, 2, 1, 1, 0, ROTA_F32, 1, {1, 1, rows}, {0, 0, 2}, {0, 0, 0}, {0, 0, 1}};
    CHECK(matmul, &products, 1e-6, IN(2 * rows), IN(2), OUT(rows));
    const rota_binary_params row = {n, ROTA_BINARY_ADD, {1, 1, 1, 1, n / 3, 3}, {0, 0, 0, 0, 0, 1}, ROTA_F32};
    assert_int_equal(n % 3, 0);
    const rota_binary_params halves = {
        n, ROTA_BINARY_MAXIMUM, {1, 1, 1, 1, 1, n}, {0, 0, 0, 0, 0, 1}, ROTA_BF16};
    CHECK(binary, &halves, 0, IN_AS(ROTA_BF16, n, -2, 2), IN_AS(ROTA_BF16, n, -2, 2), OUT_AS(ROTA_BF16, n));
    const rota_reduce_params least = {ROTA_REDUCE_MIN, 1, n, 1, 1024, 1, ROTA_BF16, ROTA_F32};
    CHECK(reduce, &least, 0, IN_AS(ROTA_BF16, n, -2, 2), OUT((n + 1023) / 1024));
    CHECK(binary, &row, 0, IN(n), IN(3), OUT(n));
}

const struct CMUnitTest kernel_cases[] = {
    KERNEL_CASE(test_unary),          KERNEL_CASE(test_binary),
    KERNEL_CASE(test_where),          KERNEL_CASE(test_along),
    KERNEL_CASE(test_copy),           KERNEL_CASE(test_cast),
    KERNEL_CASE(test_reduce),         KERNEL_CASE(test_matmul),
    KERNEL_CASE(test_matmul_large),   KERNEL_CASE(test_scaled_matmul),
    KERNEL_CASE(test_scatter_long),   KERNEL_CASE(test_matmul_fine),
    KERNEL_CASE(test_embedding),      KERNEL_CASE(test_softmax),
    KERNEL_CASE(test_norm),           KERNEL_CASE(test_linear_gelu_gradient),
    KERNEL_CASE(test_cross_entropy),  KERNEL_CASE(test_attention),
    KERNEL_CASE(test_attention_half), KERNEL_CASE(test_dropout),
    KERNEL_CASE(test_optimizer),      KERNEL_CASE(test_loss_scale),
    KERNEL_CASE(test_batch_norm),     KERNEL_CASE(test_rope),
    KERNEL_CASE(test_large_counts),   KERNEL_CASE(test_conv),
    KERNEL_CASE(test_pool),           KERNEL_CASE(test_embedding_more),
    KERNEL_CASE(test_length),         KERNEL_CASE(test_sort),
};
const size_t kernel_case_count = sizeof kernel_cases / sizeof *kernel_cases;
