/* The cases of built-in kernels on a GPU against their CPU kernels: odd sizes, broadcasts, strides, in place, operands
 * at addresses that are multiples of 4 only, with operands and parameters given directly and through argument words.
 * Here those of elements, copies and reductions, along an axis and of optimizers; others in kernel_cases_*.c. */
#include <math.h>
#include "ops/update_params.h"
#include "tests/ops/kernel_case.h"

static const uint32_t counts[] = {1, 3, 4, 63, 257, 1027, 70001};
#define FOR_COUNT(n)                                                                                         \
    for (uint32_t at_ = 0, n; at_ < 7 && (n = counts[at_], true); at_++)                                     \
        if (!kernel_case_is_short || n == 3 || n == 1027)

/* Of 16 bits, which are other types for the same code, the sizes less than and beyond a vector and a group.
 */
#define FOR_COUNT_OF(dtype, n)                                                                               \
    FOR_COUNT(n)                                                                                             \
    if (dtype == ROTA_F32 || (n == 3 && !kernel_case_is_short) || n == 1027 || n == 70001)

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
            CHECK(adamw, &p, rounded(half, 0), INOUT(n), IN_AS(half, n, -2, 2), INOUT(n), second, IN(1),
                  OUT_AS(half, n));
        }
        for (uint32_t form = 0; form < 3; form++) {
            const uint32_t flags[] = {0, ROTA_UPDATE_NESTEROV, ROTA_UPDATE_SIGN};
            rota_momentum_params p = {n, flags[form] | ROTA_UPDATE_FACTOR, 1e-2f, 0.9f, 0.99f, 0.1f, ROTA_F32,
                                      0};
            CHECK(momentum, &p, 1e-5, INOUT(n), IN(n), INOUT(n), IN_RANGE(1, 0.5, 2), IN(1));
            CHECK(momentum, &p, 0, INOUT(n), IN(n), INOUT(n), IN_RANGE(1, -2, -1), IN(1));
            p.g_dtype = p.half_dtype = ROTA_BF16;
            p.flags = flags[form] | ROTA_UPDATE_HALF;
            CHECK(momentum, &p, rounded(ROTA_BF16, 0), INOUT(n), IN_AS(ROTA_BF16, n, -2, 2), INOUT(n), IN(1),
                  OUT_AS(ROTA_BF16, n));
        }
        const rota_global_norm_params norm = {n, 1.5f};
        CHECK(global_norm, &norm, 2e-5, IN_RANGE(n, 0, 1), OUT(2));
        const rota_check_finite_params finite = {n, ROTA_F32}, half = {n, ROTA_F16}, brain = {n, ROTA_BF16};
        CHECK(check_finite, &finite, 0, IN(n), {ROTA_U32, ROTA_READWRITE, 2, 0, 9, 0});
        CHECK(check_finite, &half, 0, IN_AS(ROTA_F16, n, -2, 2), {ROTA_U32, ROTA_READWRITE, 2, 0, 9, 0});
        CHECK(check_finite, &brain, 0, IN_AS(ROTA_BF16, n, -2, 2), {ROTA_U32, ROTA_READWRITE, 2, 0, 9, 0});
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
    KERNEL_CASE(test_unary),
    KERNEL_CASE(test_binary),
    KERNEL_CASE(test_where),
    KERNEL_CASE(test_along),
    KERNEL_CASE(test_copy),
    KERNEL_CASE(test_cast),
    KERNEL_CASE(test_reduce),
    KERNEL_CASE(test_matmul),
    KERNEL_CASE(test_matmul_large),
    KERNEL_CASE(test_scaled_matmul),
    KERNEL_CASE(test_scatter_long),
    KERNEL_CASE(test_matmul_fine),
    KERNEL_CASE(test_embedding),
    KERNEL_CASE(test_softmax),
    KERNEL_CASE(test_norm),
    KERNEL_CASE(test_linear_gelu_gradient),
    KERNEL_CASE(test_cross_entropy),
    KERNEL_CASE(test_attention),
    KERNEL_CASE(test_attention_half),
    KERNEL_CASE(test_attention_draw),
    KERNEL_CASE(test_attention_dropout),
    KERNEL_CASE(test_dropout),
    KERNEL_CASE(test_optimizer),
    KERNEL_CASE(test_loss_scale),
    KERNEL_CASE(test_batch_norm),
    KERNEL_CASE(test_rope),
    KERNEL_CASE(test_large_counts),
    KERNEL_CASE(test_conv),
    KERNEL_CASE(test_pool),
    KERNEL_CASE(test_embedding_more),
    KERNEL_CASE(test_length),
    KERNEL_CASE(test_sort),
};
const size_t kernel_case_count = sizeof kernel_cases / sizeof *kernel_cases;
