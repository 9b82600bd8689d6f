/* 8-bit floats: every code of both formats both ways, every rounding between two of them, what lies beyond, from each
 * real dtype; that they are moved at any byte, that no gradient passes through them unseen, and that other ops refuse
 * them. On each device there is. */
#include "tests/ops/op_kit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "ops/op.h"

static const rota_dtype formats[] = {ROTA_F8_E4M3FN, ROTA_F8_E5M2};
static const double largest_of[] = {448, 57344};

/* The nearest by the definition: the codes' own values compared, the even code where both are as near. */
static uint8_t nearest(int format, float value) {
    const uint8_t last = format == 0 ? 0x7E : 0x7B, sign = rota_f32_bits(value) >> 31 ? 0x80 : 0;
    uint8_t below = 0;
    if (isnan(value)) return sign | 0x7F;
    const double x = fabs((double)value);
    if (x >= largest_of[format]) return sign | last;
    for (uint8_t step = 64; step; step /= 2) {
        const uint8_t code = below + step;
        if (code <= last && element_load(formats[format], &code, 0) <= x) below = code;
    }
    const uint8_t above = below + 1;
    const double down = x - element_load(formats[format], &below, 0),
                 up = element_load(formats[format], &above, 0) - x;
    return sign | (down < up || (down == up && below % 2 == 0) ? below : above);
}

/* Casts `count` numbers of `dtype` and compares each code. */
static void check_to(const char *device, int format, rota_dtype dtype, const void *data, uint64_t count) {
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor x = op_kit_input(&kit, dtype, 1, &count, data), y;
    assert_ok(rota_op_cast(kit.tape, x, formats[format], &y));
    const uint32_t output = op_kit_output(&kit, y);
    op_kit_run(&kit);
    for (uint64_t i = 0; i < count; i++) {
        const float from = (float)element_load(dtype, data, i);
        const uint8_t got = ((const uint8_t *)kit.output_data[output])[i], want = nearest(format, from);
        if (got != want && !(isnan(from) && isnan(element_load(formats[format], &got, 0))))
            fail_msg("%s: %s of %s %.9g is %#x, expected %#x", device, rota_dtype_name(formats[format]),
                     rota_dtype_name(dtype), (double)from, got, want);
    }
    op_kit_close(&kit);
}

/* Between each two neighbours: both, the middle, and the next f32 on its either side; with both signs. */
static void roundings_on(const char *device) {
    enum { MOST = 256 * 2 * 5 + 64 };
    static float values[MOST];
    static const float others[] = {0,        1e-45f,   1e-40f,   1e-30f,   1e-10f,   3.4e38f,    INFINITY,
                                   NAN,      448.001f, 463.99f,  464,      465,      480,        512,
                                   57345,    61439,    61440,    61441,    65536,    1e10f,      0x1p-9f,
                                   0x1p-10f, 0x1p-11f, 0x1p-16f, 0x1p-17f, 0x1p-18f, 0x1.8p-10f, 0x1.8p-17f};
    for (int format = 0; format < 2; format++) {
        uint64_t count = 0;
        const uint8_t last = format == 0 ? 0x7E : 0x7B;
        for (int sign = 1; sign >= -1; sign -= 2) {
            for (uint8_t code = 0; code < last; code++) {
                const uint8_t next = code + 1;
                const float low = (float)element_load(formats[format], &code, 0),
                            high = (float)element_load(formats[format], &next, 0),
                            middle = low + (high - low) / 2;
                const float all[] = {low, rota_f32_of_bits(rota_f32_bits(middle) - 1), middle,
                                     rota_f32_of_bits(rota_f32_bits(middle) + 1), high};
                for (int i = 0; i < 5; i++) values[count++] = (float)sign * all[i];
            }
            for (uint32_t i = 0; i < sizeof others / sizeof *others; i++)
                values[count++] = (float)sign * others[i];
        }
        assert_true(count <= MOST);
        check_to(device, format, ROTA_F32, values, count);
    }
}

static void every_rounding_is_to_nearest_even(void **state) {
    (void)state;
    op_kit_on_each_device(roundings_on);
}

/* All 65536 numbers of each 16-bit type. */
static void from_halves_on(const char *device) {
    static uint16_t all[65536];
    for (uint32_t i = 0; i < 65536; i++) all[i] = (uint16_t)i;
    for (int format = 0; format < 2; format++) {
        check_to(device, format, ROTA_F16, all, 65536);
        check_to(device, format, ROTA_BF16, all, 65536);
    }
}

static void all_16_bit_floats_are_rounded(void **state) {
    (void)state;
    op_kit_on_each_device(from_halves_on);
}

/* To each real dtype, exactly, and back: the same code; a NaN a NaN, and infinity the largest. */
static void codes_on(const char *device) {
    uint8_t codes[256];
    for (uint32_t i = 0; i < 256; i++) codes[i] = (uint8_t)i;
    for (int format = 0; format < 2; format++)
        for (rota_dtype real = ROTA_F32; real <= ROTA_BF16; real++) {
            op_kit kit;
            op_kit_open(&kit);
            rota_tensor x = op_kit_input(&kit, formats[format], ROTA_SHAPE(256), codes), wide, back;
            assert_ok(rota_op_cast(kit.tape, x, real, &wide));
            assert_ok(rota_op_cast(kit.tape, wide, formats[format], &back));
            const uint32_t first = op_kit_output(&kit, wide), second = op_kit_output(&kit, back);
            op_kit_run(&kit);
            for (uint32_t i = 0; i < 256; i++) {
                const double want = element_load(formats[format], codes, i),
                             got = element_load(real, kit.output_data[first], i);
                const uint8_t again = ((const uint8_t *)kit.output_data[second])[i];
                const bool same = isnan(want) ? isnan(got) : want == got && !signbit(want) == !signbit(got);
                if (!same)
                    fail_msg("%s: %s %#x is %g as %s, expected %g", device, rota_dtype_name(formats[format]),
                             i, got, rota_dtype_name(real), want);
                if (isnan(want))
                    assert_true(isnan(element_load(formats[format], &again, 0)));
                else
                    assert_int_equal(again, isinf(want) ? i - 1 : i);
            }
            op_kit_close(&kit);
        }
}

static void every_code_comes_and_goes(void **state) {
    (void)state;
    op_kit_on_each_device(codes_on);
}

/* Parts that begin and end at any byte; what lies beside them stays. */
static void moved_on(const char *device) {
    enum { ROWS = 5, COLUMNS = 23 };
    uint8_t data[ROWS * COLUMNS];
    for (uint32_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 7 + 3);
    for (uint64_t from = 0; from < 5; from++)
        for (uint64_t to = 0; to < 5; to++)
            for (uint64_t length = 1; length < 8; length += 3) {
                op_kit kit;
                op_kit_open(&kit);
                rota_tensor x = op_kit_input(&kit, ROTA_F8_E5M2, ROTA_SHAPE(ROWS, COLUMNS), data), part, y,
                            into, turned;
                y = op_kit_variable(&kit, ROTA_F8_E5M2, 2, x.shape, data);
                assert_ok(rota_tensor_slice(&x, 1, from, length, &part));
                assert_ok(rota_tensor_slice(&y, 1, to, length, &into));
                assert_ok(rota_op_fill_into(kit.tape, into, 1.5));
                assert_ok(rota_op_copy_into(kit.tape, part, into));
                assert_ok(rota_op_transpose(kit.tape, part, 0, 1, &turned));
                const uint32_t first = op_kit_output(&kit, y), second = op_kit_output(&kit, turned);
                op_kit_run(&kit);
                const uint8_t *got = kit.output_data[first], *other = kit.output_data[second];
                for (uint64_t r = 0; r < ROWS; r++)
                    for (uint64_t c = 0; c < COLUMNS; c++) {
                        const bool moved = c >= to && c < to + length;
                        const uint8_t want = data[r * COLUMNS + (moved ? c - to + from : c)];
                        if (got[r * COLUMNS + c] != want)
                            fail_msg("%s: row %llu, column %llu is %#x, expected %#x", device,
                                     (unsigned long long)r, (unsigned long long)c, got[r * COLUMNS + c],
                                     want);
                        if (moved) assert_int_equal(other[(c - to) * ROWS + r], want);
                    }
                op_kit_close(&kit);
            }
}

static void they_are_moved_at_any_byte(void **state) {
    (void)state;
    op_kit_on_each_device(moved_on);
}

/* ---- What they are refused by ---- */

static bool takes_f8(const rota_op *op) {
    static const char *const names[] = {"copy", "transpose", "slice", "reshape", "stop_gradient", "cast"};
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op->name, names[i]) == 0) return true;
    return false;
}

/* Each op's examples with one input after the other of 8 bits: refused in a sentence, before anything is recorded. */
static void other_ops_refuse_them(void **state) {
    (void)state;
    uint32_t refused = 0;
    for (uint32_t o = 0; o < rota_op_count(); o++) {
        op_trial trial;
        for (uint32_t e = 0; op_trial_make(rota_op_at(o), e, &trial); e++) {
            for (uint32_t i = 0; i < trial.example.use.input_count && !takes_f8(rota_op_at(o)); i++) {
                if (trial.example.use.inputs[i].dtype == ROTA_DTYPE_COUNT) continue;
                for (int format = 0; format < 2; format++) {
                    op_kit kit;
                    op_kit_open(&kit);
                    rota_op_use use = op_trial_use(&kit, &trial);
                    const rota_tensor x = use.inputs[i];
                    if (x.buffer && (rota_dtype_is_f8(x.dtype) ||
                                     rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "f8", formats[format],
                                                      x.rank, x.shape, &use.inputs[i]) != ROTA_OK))
                        use.inputs[i] = ROTA_TENSOR_NONE;
                    if (use.inputs[i].buffer) {
                        const rota_status status = rota_op_apply(kit.tape, &use);
                        if (status != ROTA_INVALID_ARGUMENT && status != ROTA_UNSUPPORTED)
                            fail_msg("%s (%s) takes '%s' of 8 bits: %s", use.op->name, trial.example.label,
                                     use.op->input_names[i], rota_status_name(status));
                        refused++;
                    }
                    op_kit_close(&kit);
                }
            }
            op_trial_free(&trial);
        }
    }
    assert_true(refused > 500);
}

static void casts_that_there_are_not(void **state) {
    (void)state;
    const uint8_t codes[4] = {0};
    const int32_t numbers[4] = {0};
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor x = op_kit_input(&kit, ROTA_F8_E5M2, ROTA_SHAPE(4), codes),
                i = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(4), numbers), y;
    assert_int_equal(rota_op_cast(kit.tape, x, ROTA_I32, &y), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "from f8_e5m2 to i32"));
    assert_int_equal(rota_op_cast(kit.tape, i, ROTA_F8_E4M3FN, &y), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "goes by f32"));
    assert_int_equal(rota_op_cast(kit.tape, x, ROTA_U32, &y), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "f8_e4m3fn or f8_e5m2"));
    op_kit_close(&kit);
}

/* A parameter behind 8-bit floats: refused with the op that is the first to read them, moved or not; not where a
 * gradient was told to stop, nor where there is no parameter. */
static rota_status backward_through(bool moved, bool stopped, bool of_parameter) {
    const float data[6] = {1, 2, 3, 4, 5, 6};
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor w = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(2, 3), data),
                other = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(2, 3), data), x = of_parameter ? w : other,
                loss, dw = ROTA_TENSOR_NONE;
    if (stopped) assert_ok(rota_op_stop_gradient(kit.tape, x, &x));
    assert_ok(rota_op_cast(kit.tape, x, ROTA_F8_E4M3FN, &x));
    if (moved) assert_ok(rota_op_transpose(kit.tape, x, 0, 1, &x));
    if (moved) assert_ok(rota_op_transpose(kit.tape, x, 0, 1, &x));
    assert_ok(rota_op_cast(kit.tape, x, ROTA_F32, &x));
    assert_ok(rota_op_mul(kit.tape, x, w, &x));
    assert_ok(rota_op_reshape(kit.tape, x, ROTA_SHAPE(6), &x));
    assert_ok(rota_op_sum(kit.tape, x, 0, false, &loss));
    const rota_status status = rota_backward(kit.tape, loss, &w, 1, &dw, NULL);
    if (status == ROTA_OK) {
        const uint32_t output = op_kit_output(&kit, dw);
        op_kit_run(&kit);
        for (int i = 0; i < 6; i++) assert_true(op_kit_f32(&kit, output)[i] == data[i]);
    }
    op_kit_close(&kit);
    return status;
}

static void no_gradient_passes_unseen(void **state) {
    (void)state;
    for (int moved = 0; moved < 2; moved++) {
        assert_int_equal(backward_through(moved, false, true), ROTA_UNSUPPORTED);
        assert_non_null(strstr(rota_last_error(), "op 'cast'"));
        assert_non_null(strstr(rota_last_error(), "no gradient passes through 8-bit floats"));
        assert_ok(backward_through(moved, true, true));
        assert_ok(backward_through(moved, false, false));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rounding_is_to_nearest_even),
        cmocka_unit_test(all_16_bit_floats_are_rounded),
        cmocka_unit_test(every_code_comes_and_goes),
        cmocka_unit_test(they_are_moved_at_any_byte),
        cmocka_unit_test(other_ops_refuse_them),
        cmocka_unit_test(casts_that_there_are_not),
        cmocka_unit_test(no_gradient_passes_unseen),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof tests[0]);
}
