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
        for (uint32_t d = 0; d < ROTA_DTYPE_COUNT; d++)
            for (int k = 0; k < 5; k++)
                if (sizes[s] < 10000 ? d == 0 || k == 2 : k == 2 && d < 2)
                    check_nonzero(device, sizes[s], (rota_dtype)d, some[k]);
    for (int i = 0; i < 40; i++)
        check_nonzero(device, 1 + test_random(&seed) % 9000,
                      (rota_dtype)(test_random(&seed) % ROTA_DTYPE_COUNT),
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
                      (rota_dtype)(test_random(&seed) % ROTA_DTYPE_COUNT),
                      (rota_dtype)(test_random(&seed) % ROTA_DTYPE_COUNT),
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

/* ---- Nothing, and errors ---- */

static void nothing_has_length_zero(const char *device) {
    (void)device;
    const float x = 1;
    op_kit kit;
    rota_tensor index, y, count[3];
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
    uint32_t outputs[3];
    for (int i = 0; i < 3; i++) outputs[i] = op_kit_output(&kit, count[i]);
    op_kit_run(&kit);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(*(const uint32_t *)kit.output_data[outputs[i]], i == 2);
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
    rota_tensor y, count, huge;
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
    op_kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nonzero_finds_all_in_order),  cmocka_unit_test(nonzero_takes_any_shape),
        cmocka_unit_test(compact_keeps_rows_in_order), cmocka_unit_test(compact_has_a_gradient),
        cmocka_unit_test(lengths_of_nothing),          cmocka_unit_test(errors_say_what_was_expected),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
