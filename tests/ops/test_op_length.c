/* Ops whose results have a length that the contents decide, on every executor: random contents of all densities, sizes
 * about the edges of groups and chunks, against the rules that ops_length.h states, written here once more. Results are
 * the same bit for bit everywhere. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "tests/ops/op_kit.h"

static const char *const devices[] = {"cpu", "vk:0", "cuda:0"};
enum { DEVICES = sizeof devices / sizeof *devices };

#define assert_message(part)                                                                                 \
    do {                                                                                                     \
        if (!strstr(rota_last_error(), part)) fail_msg("'%s' is not in: %s", part, rota_last_error());       \
    } while (0)

static uint64_t seed = 1634;

/* Runs `test` on each device that is there. */
static void on_each_device(void (*test)(const char *device)) {
    for (int i = 0; i < DEVICES; i++)
        if (op_kit_use_device(devices[i])) test(devices[i]);
    assert_true(op_kit_use_device("cpu"));
}

static void *room(uint64_t bytes) {
    void *made = calloc(1, bytes + 8);
    assert_non_null(made);
    return made;
}

static const uint64_t sizes[] = {1,    2,    3,    255,  256,   257,   2047,   2048,
                                 2049, 4095, 4096, 4097, 12289, 65537, 1000000};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Contents of which `some` in 1000 are not zero; zeroes of real numbers have either sign, the others are any bits: NaN,
 * infinity and what is smaller than a normal number among them. Returns which are not. */
static bool *draw(void *x, uint64_t n, rota_dtype dtype, uint32_t some) {
    bool *is_some = room(n);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)test_random(&seed);
        is_some[i] = test_random(&seed) % 1000 < some;
        if (is_some[i])
            bits |= 1;
        else
            bits =
                rota_dtype_is_real(dtype) ? bits & (rota_dtype_bytes(dtype) == 2 ? 0x8000u : 0x80000000u) : 0;
        if (rota_dtype_bytes(dtype) == 2)
            ((uint16_t *)x)[i] = (uint16_t)bits;
        else
            ((uint32_t *)x)[i] = bits;
    }
    return is_some;
}

/* What nonzero gives; returns how many. */
static uint32_t partition(const bool *is_some, uint64_t n, int32_t *index) {
    uint32_t next = 0, count = 0;
    for (uint64_t i = 0; i < n; i++)
        if (is_some[i]) index[next++] = (int32_t)i;
    count = next;
    for (uint64_t i = 0; i < n; i++)
        if (!is_some[i]) index[next++] = (int32_t)i;
    return count;
}

/* ---- nonzero ---- */

static void check_nonzero(const char *device, uint64_t n, rota_dtype dtype, uint32_t some) {
    uint32_t *x = room(n * 4);
    bool *is_some = draw(x, n, dtype, some);
    int32_t *expected = room(n * 4);
    const uint32_t count = partition(is_some, n, expected);
    op_kit kit;
    rota_tensor index, found;
    op_kit_open(&kit);
    assert_ok(rota_op_nonzero(kit.tape, op_kit_input(&kit, dtype, ROTA_SHAPE(n), x), &index, &found));
    const uint32_t of_index = op_kit_output(&kit, index), of_count = op_kit_output(&kit, found);
    op_kit_run(&kit);
    const uint32_t got = *(const uint32_t *)kit.output_data[of_count];
    if (got != count || memcmp(expected, kit.output_data[of_index], n * 4) != 0)
        fail_msg("%s: nonzero of %llu %s, %u in 1000: %u are not zero, expected %u, or other indices", device,
                 (unsigned long long)n, rota_dtype_name(dtype), some, got, count);
    op_kit_close(&kit);
    free(x);
    free(is_some);
    free(expected);
}

static void nonzero_on(const char *device) {
    static const uint32_t some[] = {0, 1, 500, 999, 1000};
    for (int s = 0; s < SIZES; s++)
        for (uint32_t d = 0; d <= ROTA_U32; d++)
            for (int k = 0; k < 5; k++)
                if (sizes[s] < 10000 ? d == 0 || k == 2 : k == 2 && d < 2)
                    check_nonzero(device, sizes[s], (rota_dtype)d, some[k]);
    for (int i = 0; i < 40; i++)
        check_nonzero(device, 1 + test_random(&seed) % 9000,
                      (rota_dtype)(test_random(&seed) % (ROTA_U32 + 1)),
                      (uint32_t)(test_random(&seed) % 1001));
}

static void nonzero_finds_all_in_order(void **state) {
    (void)state;
    on_each_device(nonzero_on);
}

/* Also of a view that has to be copied, and of one element without axes. */
static void nonzero_takes_any_shape(void **state) {
    (void)state;
    const uint32_t x[] = {0, 5, 0, 0, 7, 9};
    const float one = -0.5f;
    op_kit kit;
    rota_tensor turned, index[2], count[2], wide;
    op_kit_open(&kit);
    const rota_tensor matrix = op_kit_input(&kit, ROTA_U32, ROTA_SHAPE(2, 3), x);
    assert_ok(rota_tensor_transpose(&matrix, 0, 1, &turned));
    assert_ok(rota_op_nonzero(kit.tape, turned, &index[0], &count[0]));
    assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "wide", ROTA_I32, ROTA_SHAPE(3), &wide));
    assert_ok(rota_op_fill_into(kit.tape, wide, 8));
    assert_ok(rota_tensor_slice(&wide, 0, 1, 1, &index[1]));
    assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "count", ROTA_I32, ROTA_SHAPE(1), &count[1]));
    assert_ok(
        rota_op_nonzero_into(kit.tape, op_kit_input(&kit, ROTA_F32, 0, NULL, &one), index[1], count[1]));
    const uint32_t outputs[] = {op_kit_output(&kit, index[0]), op_kit_output(&kit, count[0]),
                                op_kit_output(&kit, wide), op_kit_output(&kit, count[1])};
    op_kit_run(&kit);
    /* Turned: 0 0, 5 7, 0 9. */
    assert_memory_equal(kit.output_data[outputs[0]], ((const int32_t[]){2, 3, 5, 0, 1, 4}), 24);
    assert_int_equal(*(const uint32_t *)kit.output_data[outputs[1]], 3);
    assert_memory_equal(kit.output_data[outputs[2]], ((const int32_t[]){8, 0, 8}), 12);
    assert_int_equal(*(const uint32_t *)kit.output_data[outputs[3]], 1);
    op_kit_close(&kit);
}

/* ---- compact ---- */

static void check_compact(const char *device, uint64_t rows, uint64_t width, rota_dtype dtype,
                          rota_dtype of_mask, uint32_t some) {
    const uint64_t bytes = width * rota_dtype_bytes(dtype);
    uint8_t *x = room(rows * bytes), *expected = room(rows * bytes);
    uint32_t *mask = room(rows * 4);
    int32_t *index = room(rows * 4);
    for (uint64_t i = 0; i < rows * bytes; i++) x[i] = (uint8_t)test_random(&seed);
    bool *is_some = draw(mask, rows, of_mask, some);
    const uint32_t count = partition(is_some, rows, index);
    for (uint64_t j = 0; j < count; j++) memcpy(expected + j * bytes, x + (uint64_t)index[j] * bytes, bytes);
    op_kit kit;
    rota_tensor y, found;
    op_kit_open(&kit);
    assert_ok(rota_op_compact(kit.tape, op_kit_input(&kit, dtype, ROTA_SHAPE(rows, width), x),
                              op_kit_input(&kit, of_mask, ROTA_SHAPE(rows), mask), &y, &found));
    const uint32_t of_y = op_kit_output(&kit, y), of_count = op_kit_output(&kit, found);
    op_kit_run(&kit);
    const uint32_t got = *(const uint32_t *)kit.output_data[of_count];
    if (got != count || memcmp(expected, kit.output_data[of_y], rows * bytes) != 0)
        fail_msg("%s: compact of %llu rows of %llu %s, %u in 1000: %u stay, expected %u, or others", device,
                 (unsigned long long)rows, (unsigned long long)width, rota_dtype_name(dtype), some, got,
                 count);
    op_kit_close(&kit);
    free(x);
    free(expected);
    free(mask);
    free(index);
    free(is_some);
}

static void compact_on(const char *device) {
    static const uint32_t some[] = {0, 500, 1000};
    for (int s = 0; s < SIZES; s++)
        for (int k = 0; k < 3; k++)
            if (sizes[s] < 5000 || k == 1) check_compact(device, sizes[s], 1, ROTA_F32, ROTA_F32, some[k]);
    for (int i = 0; i < 40; i++)
        check_compact(device, 1 + test_random(&seed) % 5000, 1 + test_random(&seed) % 5,
                      (rota_dtype)(test_random(&seed) % (ROTA_U32 + 1)),
                      (rota_dtype)(test_random(&seed) % (ROTA_U32 + 1)),
                      (uint32_t)(test_random(&seed) % 1001));
}

static void compact_keeps_rows_in_order(void **state) {
    (void)state;
    on_each_device(compact_on);
}

/* A row's gradient comes back to where it was, and rows that went have 0. */
static void gradient_on(const char *device) {
    (void)device;
    const float x[] = {1, 2, 3, 4, 5, 6, 7, 8}, weight[] = {10, 20, 30, 40, 50, 60, 70, 80};
    const int32_t mask[] = {0, 3, -1, 0};
    op_kit kit;
    rota_tensor y, count, product, loss, gradient = ROTA_TENSOR_NONE;
    op_kit_open(&kit);
    const rota_tensor input = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(4, 2), x);
    assert_ok(
        rota_op_compact(kit.tape, input, op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(4), mask), &y, &count));
    assert_ok(rota_op_mul(kit.tape, y, op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(4, 2), weight), &product));
    assert_ok(rota_op_reshape(kit.tape, product, ROTA_SHAPE(8), &product));
    assert_ok(rota_op_sum(kit.tape, product, 0, true, &loss));
    assert_ok(rota_backward(kit.tape, loss, &input, 1, &gradient, NULL));
    const uint32_t output = op_kit_output(&kit, gradient);
    op_kit_run(&kit);
    assert_memory_equal(kit.output_data[output], ((const float[]){0, 0, 10, 20, 30, 40, 0, 0}), 32);
    op_kit_close(&kit);
}

static void compact_has_a_gradient(void **state) {
    (void)state;
    on_each_device(gradient_on);
}

/* ---- unique ---- */

typedef struct numbered {
    double x;
    uint64_t index;
} numbered;

/* NaN above all; of equal ones the first. */
static int rising(const void *left, const void *right) {
    const numbered *a = left, *b = right;
    if (isnan(a->x) != isnan(b->x)) return isnan(a->x) ? 1 : -1;
    if (!isnan(a->x) && a->x != b->x) return a->x < b->x ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}
static bool alike(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

/* Any bits, or small whole numbers of either sign, of which `kinds` are there. */
static uint32_t draw_number(rota_dtype dtype, uint32_t kinds) {
    static const uint32_t special[] = {0x7FC00000u, 0xFFC00001u, 0x7F800001u, 0x7F800000u, 0xFF800000u,
                                       0,           0x80000000u, 1,           0x80000001u};
    const uint64_t random = test_random(&seed);
    if (kinds == 0) return random % 4 ? (uint32_t)(random >> 32) : special[(random >> 32) % 9];
    const int32_t whole = (int32_t)(random % kinds) - (int32_t)(kinds / 2);
    const float real = (float)whole;
    uint32_t bits = (uint32_t)whole;
    if (dtype == ROTA_F32) memcpy(&bits, &real, 4);
    return bits;
}

static void check_unique(const char *device, uint64_t n, rota_dtype dtype, uint32_t kinds) {
    uint32_t *x = room(n * 4), count = 0;
    numbered *all = room(n * sizeof *all);
    for (uint64_t i = 0; i < n; i++) {
        x[i] = draw_number(dtype, kinds);
        all[i] = (numbered){element_load(dtype, x, i), i};
    }
    qsort(all, n, sizeof *all, rising);
    op_kit kit;
    rota_tensor y, found, inverse;
    op_kit_open(&kit);
    assert_ok(rota_op_unique(kit.tape, op_kit_input(&kit, dtype, ROTA_SHAPE(n), x), &y, &found, &inverse));
    const uint32_t of_y = op_kit_output(&kit, y), of_count = op_kit_output(&kit, found),
                   of_inverse = op_kit_output(&kit, inverse);
    op_kit_run(&kit);
    const uint32_t *got = kit.output_data[of_y];
    const int32_t *positions = kit.output_data[of_inverse];
    for (uint64_t i = 0; i < n; i++) {
        count += i == 0 || !alike(all[i].x, all[i - 1].x);
        const double value = element_load(dtype, got, count - 1);
        if (!alike(value, all[i].x) || positions[all[i].index] != (int32_t)count - 1)
            fail_msg("%s: unique of %llu %s: number %u is %g, and element %llu is said to be number %d, "
                     "expected %g",
                     device, (unsigned long long)n, rota_dtype_name(dtype), count - 1, value,
                     (unsigned long long)all[i].index, positions[all[i].index], all[i].x);
        /* One NaN and one 0. */
        if (isnan(value)) assert_int_equal(got[count - 1], 0x7FC00000u);
        if (value == 0) assert_int_equal(got[count - 1], 0);
    }
    assert_int_equal(*(const uint32_t *)kit.output_data[of_count], count);
    for (uint64_t i = count; i < n; i++) assert_int_equal(got[i], 0);
    op_kit_close(&kit);
    free(x);
    free(all);
}

static void unique_on(const char *device) {
    static const rota_dtype dtypes[] = {ROTA_F32, ROTA_I32, ROTA_U32};
    for (int s = 0; s < SIZES; s++)
        for (int d = 0; d < 3; d++)
            if (sizes[s] < 10000 || d == s % 3) check_unique(device, sizes[s], dtypes[d], d == 1 ? 0 : 999);
    for (int i = 0; i < 40; i++)
        check_unique(device, 1 + test_random(&seed) % 9000, dtypes[test_random(&seed) % 3],
                     i % 3 ? 1 + (uint32_t)(test_random(&seed) % 5000) : 0);
}

static void unique_numbers_ascend(void **state) {
    (void)state;
    on_each_device(unique_on);
}

/* How often each is there comes of the inverse; and it is not asked for, or written where it is said to be. */
static void inverses_on(const char *device) {
    (void)device;
    const int32_t x[] = {5, -1, 5, 5, 7, -1}, none[6] = {0};
    op_kit kit;
    rota_tensor y, count, inverse, whole;
    op_kit_open(&kit);
    const rota_tensor input = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(2, 3), x),
                      times = op_kit_variable(&kit, ROTA_I32, ROTA_SHAPE(6), none);
    assert_ok(rota_op_unique(kit.tape, input, &y, &count, NULL));
    assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "whole", ROTA_I32, ROTA_SHAPE(3, 3), &whole));
    assert_ok(rota_op_fill_into(kit.tape, whole, 9));
    assert_ok(rota_tensor_slice(&whole, 0, 1, 2, &inverse));
    assert_ok(rota_op_unique_into(kit.tape, input, y, count, inverse));
    assert_ok(rota_op_index_add(kit.tape, inverse, 1, times));
    const uint32_t outputs[] = {op_kit_output(&kit, y), op_kit_output(&kit, whole),
                                op_kit_output(&kit, times)};
    op_kit_run(&kit);
    assert_memory_equal(kit.output_data[outputs[0]], ((const int32_t[]){-1, 5, 7, 0, 0, 0}), 24);
    assert_memory_equal(kit.output_data[outputs[1]], ((const int32_t[]){9, 9, 9, 1, 0, 1, 1, 2, 0}), 36);
    assert_memory_equal(kit.output_data[outputs[2]], ((const int32_t[]){2, 3, 1, 0, 0, 0}), 24);
    op_kit_close(&kit);
}

static void inverses_count(void **state) {
    (void)state;
    on_each_device(inverses_on);
}

/* ---- top_p ---- */

static int falling(const void *left, const void *right) {
    const numbered *a = left, *b = right;
    if (a->x != b->x) return a->x > b->x ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

__extension__ typedef unsigned __int128 wide;

/* How many of n in falling order have the share, with whole numbers of another make: 2^-32ths and 2^-31ths of p. */
static uint32_t expected_count(const numbered *all, uint64_t n, float p) {
    wide sum = 0;
    uint64_t reached = 0;
    for (uint64_t i = 0; i < n; i++) sum += (uint64_t)fmin(all[i].x * 0x1p32, 0x1p32 - 1);
    const wide parts = (uint64_t)((double)p * 0x1p31);
    const uint64_t wanted = (uint64_t)((sum * parts + 0x7FFFFFFF) >> 31);
    for (uint32_t count = 0; count < n; count++) {
        reached += (uint64_t)fmin(all[count].x * 0x1p32, 0x1p32 - 1);
        if (reached >= wanted) return count + 1;
    }
    return (uint32_t)n;
}

/* Probabilities, many of them alike in some rows; others that are none: more than 1, less than 0, NaN. */
static float draw_probability(uint64_t row, uint64_t n) {
    const uint64_t random = test_random(&seed);
    const float uniform = (float)(random >> 40) * 0x1p-24f;
    switch (row % 4) {
    case 0:
        return uniform * uniform * uniform * uniform / (float)n;
    case 1:
        return (float)(random % 3) * 0.125f;
    case 2:
        return random % 50 ? 0 : uniform;
    default:
        return random % 8 ? uniform * 4 - 1 : random % 3 ? NAN : INFINITY;
    }
}

static void check_top_p(const char *device, uint64_t rows, uint64_t n, rota_dtype dtype, float p,
                        bool in_slot) {
    uint32_t *x = room(rows * n * 4);
    numbered *all = room(n * sizeof *all);
    for (uint64_t i = 0; i < rows * n; i++)
        element_store(dtype, x, i,
                      (double)draw_probability(i / n + (rows == 1 ? (uint64_t)(p * 100) : 0), n));
    op_kit kit;
    rota_tensor index, found;
    rota_slot slot;
    op_kit_open(&kit);
    if (in_slot) assert_ok(rota_graph_slot(kit.graph, "p", 4, &slot));
    assert_ok(rota_op_top_p(kit.tape, op_kit_input(&kit, dtype, ROTA_SHAPE(rows, n), x),
                            in_slot ? rota_value_slot(slot) : rota_value_plain((double)p), &index, &found));
    const uint32_t of_index = op_kit_output(&kit, index), of_count = op_kit_output(&kit, found);
    if (in_slot) op_kit_set_f32(&kit, slot, p);
    op_kit_run(&kit);
    for (uint64_t row = 0; row < rows; row++) {
        for (uint64_t i = 0; i < n; i++) {
            const double value = element_load(dtype, x, row * n + i);
            all[i] = (numbered){value > 0 ? value : 0, i};
        }
        qsort(all, n, sizeof *all, falling);
        const int32_t *got = (const int32_t *)kit.output_data[of_index] + row * n;
        for (uint64_t i = 0; i < n; i++)
            if (got[i] != (int32_t)all[i].index)
                fail_msg("%s: top_p of %llu %s: number %llu of row %llu is %d, expected %llu", device,
                         (unsigned long long)n, rota_dtype_name(dtype), (unsigned long long)i,
                         (unsigned long long)row, got[i], (unsigned long long)all[i].index);
        const int32_t count = ((const int32_t *)kit.output_data[of_count])[row];
        if (count != (int32_t)expected_count(all, n, p))
            fail_msg("%s: top_p %g of %llu %s: %d of row %llu, expected %u", device, (double)p,
                     (unsigned long long)n, rota_dtype_name(dtype), count, (unsigned long long)row,
                     expected_count(all, n, p));
    }
    op_kit_close(&kit);
    free(x);
    free(all);
}

static void top_p_on(const char *device) {
    static const float shares[] = {0.01f, 0.5f, 0.9f, 0.95f, 1};
    for (int s = 0; s < SIZES; s++)
        check_top_p(device, sizes[s] < 10000 ? 4 : 1, sizes[s], ROTA_F32, shares[s % 5], false);
    for (int i = 0; i < 30; i++)
        check_top_p(device, 1 + test_random(&seed) % 6, 1 + test_random(&seed) % 5000,
                    (rota_dtype)(test_random(&seed) % 3),
                    0.01f + 0.99f * (float)(test_random(&seed) % 100) / 99, i % 4 == 0);
}

static void top_p_reaches_its_share(void **state) {
    (void)state;
    on_each_device(top_p_on);
}

/* ---- Nothing, and errors ---- */

static void nothing_has_length_zero(const char *device) {
    (void)device;
    const float x = 1;
    op_kit kit;
    rota_tensor index, y, inverse, count[5];
    op_kit_open(&kit);
    rota_tensor some = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1), &x), none, narrow;
    assert_ok(rota_tensor_slice(&some, 0, 0, 0, &none));
    assert_ok(rota_tensor_reshape(&none, ROTA_SHAPE(1, 0), &narrow));
    assert_ok(rota_op_nonzero(kit.tape, none, &index, &count[0]));
    assert_int_equal(rota_tensor_count(&index), 0);
    assert_ok(rota_op_compact(kit.tape, none, none, &y, &count[1]));
    assert_int_equal(rota_tensor_count(&y), 0);
    /* Rows without columns are counted all the same. */
    assert_ok(rota_op_compact(kit.tape, narrow, some, &y, &count[2]));
    assert_ok(rota_op_unique(kit.tape, none, &y, &count[3], &inverse));
    assert_int_equal(rota_tensor_count(&inverse), 0);
    assert_ok(rota_op_top_p(kit.tape, narrow, rota_value_plain(0.5), &index, &count[4]));
    uint32_t outputs[5];
    for (int i = 0; i < 5; i++) outputs[i] = op_kit_output(&kit, count[i]);
    op_kit_run(&kit);
    for (uint32_t i = 0; i < 5; i++) assert_int_equal(*(const uint32_t *)kit.output_data[outputs[i]], i == 2);
    op_kit_close(&kit);
}

static void lengths_of_nothing(void **state) {
    (void)state;
    on_each_device(nothing_has_length_zero);
}

static void errors_say_what_was_expected(void **state) {
    (void)state;
    const float x[6] = {0};
    op_kit kit;
    rota_tensor y, count, huge, half;
    op_kit_open(&kit);
    const rota_tensor matrix = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(2, 3), x),
                      one = op_kit_input(&kit, ROTA_F32, 0, NULL, x),
                      row = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1), x);
    assert_ok(rota_tensor_broadcast(&row, ROTA_SHAPE(UINT64_C(1) << 31), &huge));
    assert_status(rota_op_nonzero(kit.tape, huge, &y, &count), ROTA_INVALID_ARGUMENT);
    assert_message("op 'nonzero': x is f32 [2147483648], 2147483648 to number; expected at most 2147483647");
    assert_status(rota_op_compact(kit.tape, matrix, row, &y, &count), ROTA_INVALID_ARGUMENT);
    assert_message("op 'compact': x is f32 [2, 3], mask is f32 [1]; expected [rows, ...] and [rows]");
    assert_status(rota_op_compact(kit.tape, one, row, &y, &count), ROTA_INVALID_ARGUMENT);
    assert_status(rota_op_compact(kit.tape, matrix, matrix, &y, &count), ROTA_INVALID_ARGUMENT);
    assert_status(rota_op_nonzero_into(kit.tape, matrix, ROTA_TENSOR_NONE, ROTA_TENSOR_NONE),
                  ROTA_INVALID_ARGUMENT);
    assert_message("op 'nonzero': the destination 'index' is missing");
    assert_status(rota_op_nonzero_into(kit.tape, matrix, matrix, matrix), ROTA_INVALID_ARGUMENT);
    assert_message("op 'nonzero': destination 'index' is f32 [2, 3], expected i32 [6]");
    assert_status(rota_op_unique(kit.tape, huge, &y, &count, NULL), ROTA_INVALID_ARGUMENT);
    assert_ok(rota_op_cast(kit.tape, row, ROTA_BF16, &half));
    assert_status(rota_op_unique(kit.tape, half, &y, &count, NULL), ROTA_INVALID_ARGUMENT);
    assert_message("op 'unique': x is bf16; expected f32, i32 or u32");
    assert_status(rota_op_top_p(kit.tape, matrix, rota_value_plain(0), &y, &count), ROTA_INVALID_ARGUMENT);
    assert_message("op 'top_p': p is 0, expected 0 < p <= 1");
    assert_status(rota_op_top_p(kit.tape, matrix, rota_value_constant(1.5), &y, &count),
                  ROTA_INVALID_ARGUMENT);
    assert_status(rota_op_top_p(kit.tape, matrix, rota_value_plain(NAN), &y, &count), ROTA_INVALID_ARGUMENT);
    assert_status(rota_op_top_p(kit.tape, one, rota_value_plain(1), &y, &count), ROTA_INVALID_ARGUMENT);
    assert_message("op 'top_p': x has no axis; expected [..., n]");
    op_kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nonzero_finds_all_in_order),   cmocka_unit_test(nonzero_takes_any_shape),
        cmocka_unit_test(compact_keeps_rows_in_order),  cmocka_unit_test(compact_has_a_gradient),
        cmocka_unit_test(unique_numbers_ascend),        cmocka_unit_test(inverses_count),
        cmocka_unit_test(top_p_reaches_its_share),      cmocka_unit_test(lengths_of_nothing),
        cmocka_unit_test(errors_say_what_was_expected),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
