/* attention_dropout against what it is made of: products, a softmax, and dropout of the probabilities, which draws the
 * same bits; on each device. */
#include <string.h>
#include "tests/ops/gradient_kit.h"

/* softmax(q k^T / sqrt(dim)) in memory, dropped. */
static rota_tensor composed(op_kit *kit, const rota_tensor x[3], bool causal, float p, rota_value seed,
                            rota_value step) {
    rota_tensor scores, y;
    const double scale = 1 / sqrt((double)x[0].shape[3]);
    assert_ok(rota_op_matmul(kit->tape, x[0], x[1], false, true, &scores));
    assert_ok(rota_op_scale(kit->tape, scores, ROTA_PLAIN(scale), &scores));
    if (causal) assert_ok(rota_op_causal_mask(kit->tape, scores, &scores));
    assert_ok(rota_op_softmax(kit->tape, scores, &scores));
    assert_ok(rota_op_dropout(kit->tape, scores, p, seed, step, &scores));
    assert_ok(rota_op_matmul(kit->tape, scores, x[2], false, false, &y));
    return y;
}

enum { B = 2, H = 3, MOST = 128, ELEMENTS = B * H * MOST * MOST };

typedef struct shapes {
    rota_dtype dtype;
    bool causal;
    uint64_t queries, keys, dim;
} shapes;

/* Two attentions of one tape and the gradients of the sum of both, weighted, by q, k and v. */
typedef struct results {
    float y[2][ELEMENTS], gradient[3][ELEMENTS];
} results;

static rota_tensor input(op_kit *kit, const shapes *s, uint64_t rows, const float *data) {
    static uint16_t narrow[ELEMENTS];
    const uint64_t shape[] = {B, H, rows, s->dim};
    if (s->dtype == ROTA_F32) return op_kit_input(kit, s->dtype, 4, shape, data);
    for (uint64_t i = 0; i < B * H * rows * s->dim; i++) element_store(s->dtype, narrow, i, (double)data[i]);
    return op_kit_input(kit, s->dtype, 4, shape, narrow);
}

static uint32_t output_f32(op_kit *kit, rota_tensor x) {
    if (x.dtype != ROTA_F32) assert_ok(rota_op_cast(kit->tape, x, ROTA_F32, &x));
    return op_kit_output(kit, x);
}

/* Values are the rows of an identity, where it has so many columns. */
static bool has_identity(const shapes *s) {
    return s->keys <= s->dim;
}

/* False: the device has no kernel for this dtype. */
static bool run(const shapes *s, bool fused, uint32_t steps, results *out) {
    static float random[ELEMENTS + 99], weights[ELEMENTS + 99], values[ELEMENTS];
    const uint64_t q_count = B * H * s->queries * s->dim, k_count = B * H * s->keys * s->dim;
    op_kit kit;
    op_kit_open(&kit);
    make_weights(ELEMENTS + 99, weights);
    for (uint64_t i = 0; i < ELEMENTS + 99; i++) random[i] = weights[ELEMENTS + 98 - i];
    memset(values, 0, sizeof values);
    for (uint64_t row = 0; row < B * H * s->keys && has_identity(s); row++)
        values[row * s->dim + row % s->keys] = 1;
    for (uint64_t i = 0; i < ELEMENTS && !has_identity(s); i++) values[i] = weights[i + 50];
    const rota_tensor x[3] = {input(&kit, s, s->queries, random), input(&kit, s, s->keys, random + 99),
                              input(&kit, s, s->keys, values)};
    rota_tensor y[2], loss[2], gradient[3] = {{0}};
    rota_slot step;
    assert_ok(rota_graph_slot(kit.graph, "step", 4, &step));
    uint32_t outputs[5];
    for (uint32_t i = 0; i < 2; i++) {
        const rota_value seed = ROTA_CONSTANT(0xC0FFEE);
        if (fused)
            assert_ok(rota_op_attention_dropout(kit.tape, x[0], x[1], x[2], s->causal, 0, 0.3f, seed,
                                                ROTA_SLOT(step), &y[i]));
        else
            y[i] = composed(&kit, x, s->causal, 0.3f, seed, ROTA_SLOT(step));
        loss[i] = weighted_sum(&kit, y[i], weights);
    }
    assert_ok(rota_op_add(kit.tape, loss[0], loss[1], &loss[0]));
    assert_ok(rota_backward(kit.tape, loss[0], x, 3, gradient, NULL));
    for (uint32_t i = 0; i < 2; i++) outputs[i] = output_f32(&kit, y[i]);
    for (uint32_t i = 0; i < 3; i++) outputs[2 + i] = output_f32(&kit, gradient[i]);
    op_kit_set_u32(&kit, step, steps);
    const rota_status status = op_kit_try_run(&kit);
    if (status != ROTA_OK) assert_int_equal(status, ROTA_UNSUPPORTED);
    for (uint32_t i = 0; i < 5 && status == ROTA_OK; i++)
        memcpy(i < 2 ? out->y[i] : out->gradient[i - 2], op_kit_f32(&kit, outputs[i]),
               (i < 3 ? q_count : k_count) * sizeof(float));
    op_kit_close(&kit);
    return status == ROTA_OK;
}

static void assert_near(const shapes *s, const char *what, const float *a, const float *b, uint64_t count) {
    /* Probabilities of the two are rounded to the dtype in other places, and results once more. */
    const double unit = s->dtype == ROTA_BF16 ? 0x1p-7 : s->dtype == ROTA_F16 ? 0x1p-10 : 1e-5;
    for (uint64_t i = 0; i < count; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= 4 * unit * (1 + fabs((double)b[i]))))
            fail_msg("%s of %s, %d keys, %s: element %d is %g, composed %g", what, rota_dtype_name(s->dtype),
                     (int)s->keys, s->causal ? "causal" : "all seen", (int)i, (double)a[i], (double)b[i]);
}

/* With values that are the rows of an identity a result is the dropped probabilities: they are 0 where, and only where,
 * those of the composed form are. Two dropouts of a tape draw otherwise, and so do two steps. */
static void compare(const char *device, const shapes *s) {
    static results fused, separate, again, next;
    if (!run(s, true, 12, &fused)) {
        print_message("%s: no attention of %s\n", device, rota_dtype_name(s->dtype));
        return;
    }
    assert_true(run(s, false, 12, &separate) && run(s, true, 12, &again) && run(s, true, 13, &next));
    const uint64_t q_count = B * H * s->queries * s->dim, k_count = B * H * s->keys * s->dim;
    uint64_t seen = 0, dropped = 0, by_second = 0, by_next = 0;
    for (uint64_t i = 0; i < q_count && has_identity(s); i++) {
        const uint64_t query = i / s->dim % s->queries, key = i % s->dim;
        if (key >= s->keys || (s->causal && key > query + s->keys - s->queries)) {
            assert_true(fused.y[0][i] == 0.0f);
            continue;
        }
        for (uint32_t k = 0; k < 2; k++)
            if ((fused.y[k][i] == 0.0f) != (separate.y[k][i] == 0.0f))
                fail_msg("%s, %s, %d keys: query %d, key %d of attention %u is %g, composed %g", device,
                         rota_dtype_name(s->dtype), (int)s->keys, (int)query, (int)key, k,
                         (double)fused.y[k][i], (double)separate.y[k][i]);
        seen++;
        dropped += fused.y[0][i] == 0.0f;
        by_second += (fused.y[0][i] == 0.0f) != (fused.y[1][i] == 0.0f);
        by_next += (fused.y[0][i] == 0.0f) != (next.y[0][i] == 0.0f);
    }
    /* 0.3 of all, and 2 * 0.3 * 0.7 drawn otherwise, within six standard deviations. */
    const double root = sqrt((double)seen);
    assert_true(fabs((double)dropped - 0.3 * (double)seen) <= 3 * root);
    assert_true(fabs((double)by_second - 0.42 * (double)seen) <= 3 * root);
    assert_true(fabs((double)by_next - 0.42 * (double)seen) <= 3 * root);
    for (uint32_t k = 0; k < 2; k++) assert_near(s, "result", fused.y[k], separate.y[k], q_count);
    static const char *const names[] = {"gradient by q", "gradient by k", "gradient by v"};
    for (uint32_t i = 0; i < 3; i++)
        assert_near(s, names[i], fused.gradient[i], separate.gradient[i], i == 0 ? q_count : k_count);
    assert_memory_equal(&fused, &again, sizeof fused);
}

static void is_the_composed_form_on(const char *device) {
    /* The last is so large that other kernels take its gradient on Hopper. */
    static const uint64_t sizes[][3] = {{37, 64, 64}, {37, 37, 40}, {37, 127, 128}, {256, 256, 64}};
    for (rota_dtype dtype = ROTA_F32; dtype <= ROTA_BF16; dtype = (rota_dtype)(dtype + 1))
        for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (uint32_t causal = 0; causal < 2; causal++) {
                if (sizes[i][0] > 37 && strncmp(device, "cuda", 4) != 0) continue; /* seconds */
                compare(device, &(shapes){dtype, causal, sizes[i][0], sizes[i][1], sizes[i][2]});
            }
}

static void is_the_composed_form(void **state) {
    (void)state;
    op_kit_on_each_device(is_the_composed_form_on);
}

/* Columns of one product, written beside one another; and keys and values of fewer heads. */
static void slices_and_groups(void **state) {
    (void)state;
    enum { ROWS = 2, LENGTH = 9, HEADS = 4, GROUPS = 2, DIM = 8, WIDE = (HEADS + 2 * GROUPS) * DIM };
    static float x[ROWS * LENGTH * WIDE], weights[ROWS * HEADS * LENGTH * DIM];
    make_weights(ROWS * LENGTH * WIDE, x);
    make_weights(ROWS * HEADS * LENGTH * DIM, weights);
    static float got[2][ROWS * LENGTH * WIDE];
    for (uint32_t form = 0; form < 2; form++) {
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(ROWS, LENGTH, WIDE), x), part[3], y,
                    gradient = ROTA_TENSOR_NONE;
        for (uint32_t i = 0, first = 0; i < 3; i++) {
            const uint64_t heads = i == 0 ? HEADS : GROUPS;
            assert_ok(rota_tensor_slice(&p, 2, first, heads * DIM, &part[i]));
            assert_ok(rota_tensor_reshape(&part[i], ROTA_SHAPE(ROWS, LENGTH, heads, DIM), &part[i]));
            assert_ok(rota_tensor_transpose(&part[i], 1, 2, &part[i]));
            first += (uint32_t)(heads * DIM);
        }
        if (form == 0) {
            assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, NULL, ROTA_F32,
                                       ROTA_SHAPE(ROWS, HEADS, LENGTH, DIM), &y));
            assert_ok(rota_op_attention_dropout_into(kit.tape, part[0], part[1], part[2], true, 0, 0.5f,
                                                     ROTA_CONSTANT(3), ROTA_CONSTANT(4), y));
        } else {
            for (uint32_t i = 1; i < 3; i++) {
                rota_tensor heads[HEADS];
                for (uint32_t h = 0; h < HEADS; h++)
                    assert_ok(rota_tensor_slice(&part[i], 1, h * GROUPS / HEADS, 1, &heads[h]));
                assert_ok(rota_op_concat(kit.tape, heads, HEADS, 1, &part[i]));
            }
            y = composed(&kit, part, true, 0.5f, ROTA_CONSTANT(3), ROTA_CONSTANT(4));
        }
        assert_ok(rota_backward(kit.tape, weighted_sum(&kit, y, weights), &p, 1, &gradient, NULL));
        const uint32_t output = op_kit_output(&kit, gradient);
        op_kit_run(&kit);
        memcpy(got[form], op_kit_f32(&kit, output), sizeof got[form]);
        op_kit_close(&kit);
    }
    for (uint32_t i = 0; i < ROWS * LENGTH * WIDE; i++) assert_true(fabsf(got[0][i] - got[1][i]) < 2e-5f);
}

static void refusals(void **state) {
    (void)state;
    op_kit kit;
    op_kit_open(&kit);
    static const float x[8];
    const rota_tensor q = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1, 1, 2, 4), x);
    rota_tensor y;
    assert_int_equal(
        rota_op_attention_dropout(kit.tape, q, q, q, true, 0, 1.0f, ROTA_CONSTANT(1), ROTA_CONSTANT(1), &y),
        ROTA_INVALID_ARGUMENT);
    assert_message("op 'attention_dropout': p is 1, expected 0 <= p < 1");
    assert_int_equal(
        rota_op_attention_dropout(kit.tape, q, q, q, true, 0, 0.5f, ROTA_CONSTANT(-1), ROTA_CONSTANT(1), &y),
        ROTA_INVALID_ARGUMENT);
    assert_message("seed");
    assert_ok(
        rota_op_attention_dropout(kit.tape, q, q, q, true, 0, 0.5f, ROTA_CONSTANT(1), ROTA_CONSTANT(1), &y));
    op_kit_output(&kit, y);
    op_kit_run(&kit);
    op_kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_composed_form),
        cmocka_unit_test(slices_and_groups),
        cmocka_unit_test(refusals),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof tests[0]);
}
