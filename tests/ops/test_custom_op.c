/* Ops of one's own: examples/basics/custom_op.c's gradient against finite differences of its formula, its
 * training, and what is said of ops that are not complete. */
#include "tests/ops/op_kit.h"

#include <string.h>

/* The example as it is, its main called like any function. */
#define main custom_op_main
#include "examples/basics/custom_op.c"
#undef main
#undef TRY

enum { N = 12 };

static double snake(double x, double alpha) {
    return x + sin(alpha * x) * sin(alpha * x) / alpha;
}

/* Of sum(w snake(x)^2), through a transposed view too, which the op must copy. */
static double loss_of(const double *x, double alpha) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += (1 + i) * snake(x[i], alpha) * snake(x[i], alpha);
    return sum;
}

static void gradient_is_the_difference(void) {
    for (int turned = 0; turned < 2; turned++) {
        float x[N], weights[N];
        double values[N];
        op_kit kit;
        op_kit_open(&kit);
        for (int i = 0; i < N; i++) x[i] = -1.5f + 0.27f * (float)i, values[i] = (double)x[i];
        /* weight of x[r][c] is 1 + 4 r + c, whichever way it is read */
        for (int i = 0; i < N; i++) weights[i] = (float)(turned ? 1 + i % 3 * 4 + i / 3 : 1 + i);
        rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(3, 4), x), y, w, loss, grad[1] = {{0}},
                    view = p;
        if (turned) assert_ok(rota_tensor_transpose(&p, 0, 1, &view));
        w = op_kit_input(&kit, ROTA_F32, 2, view.shape, weights);
        assert_ok(op_snake(kit.tape, view, 1.75f, &y));
        assert_ok(rota_op_square(kit.tape, y, &y));
        assert_ok(rota_op_mul(kit.tape, y, w, &y));
        assert_ok(rota_op_reshape(kit.tape, y, ROTA_SHAPE(N), &y));
        assert_ok(rota_op_sum(kit.tape, y, 0, false, &loss));
        assert_ok(rota_backward(kit.tape, loss, &p, 1, grad, NULL));
        const uint32_t output = op_kit_output(&kit, grad[0]);
        op_kit_run(&kit);
        for (int i = 0; i < N; i++) {
            const double kept = values[i], got = (double)op_kit_f32(&kit, output)[i];
            values[i] = kept + 1e-5;
            const double above = loss_of(values, 1.75);
            values[i] = kept - 1e-5;
            const double expected = (above - loss_of(values, 1.75)) / 2e-5;
            values[i] = kept;
            if (fabs(expected - got) > 1e-4 * fmax(1, fabs(expected)))
                fail_msg("gradient %d is %.9g, expected %.9g", i, got, expected);
        }
        op_kit_close(&kit);
    }
}

static void its_gradient_and_training_on(const char *id) {
    char program[] = "custom_op", device[16];
    char *arguments[] = {program, device, NULL};
    strcpy(device, id);
    gradient_is_the_difference();
    assert_int_equal(custom_op_main(2, arguments), 0);
}

static void an_op_of_ones_own_on_the_cpu(void **state) {
    (void)state;
    its_gradient_and_training_on("cpu");
}

static void an_op_of_ones_own_on_vulkan(void **state) {
    (void)state;
    if (!op_kit_use_device("vk:0")) skip();
    its_gradient_and_training_on("vk:0");
    assert_true(op_kit_use_device("cpu"));
}

static rota_status shapeless(const rota_op_use *use, rota_tensor *out_outputs) {
    (void)use;
    (void)out_outputs;
    return ROTA_OK;
}

static void incomplete_ops_are_refused(void **state) {
    (void)state;
    op_kit kit;
    op_kit_open(&kit);
    const float x[N] = {0};
    rota_tensor p = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(N), x);
    rota_op op = snake_op;
    rota_op_use use = {.op = &op, .input_count = 1, .output_count = 1, .inputs = {p}};
    const rota_op_use fresh = use;
#define REFUSED(SENTENCE)                                                                                    \
    use = fresh;                                                                                             \
    assert_int_equal(rota_op_apply(kit.tape, &use), ROTA_INVALID_ARGUMENT);                                  \
    assert_non_null(strstr(rota_last_error(), SENTENCE));                                                    \
    op = snake_op
    op.name = NULL;
    REFUSED("the op has no name");
    op.record = NULL;
    REFUSED("op 'snake': it has no function `record`");
    op.shape = NULL;
    REFUSED("it has no function `shape`");
    op.shape = shapeless;
    REFUSED("gives 'y' no dtype, shape");
    op.input_names[0] = NULL;
    REFUSED("input 0 has no name");
    op.differentiable = 0;
    REFUSED("`differentiable` says that no input gets one");
    op.saved_inputs = 2;
    REFUSED("has a bit past its 1 inputs and 1 outputs");
    op.input_count = 7;
    REFUSED("7 inputs and 1 outputs; at most 6 and 3");
    const int32_t whole[N] = {0};
    rota_tensor integers = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(N), whole), y;
    assert_int_equal(op_snake(kit.tape, integers, 1, &y), ROTA_INVALID_ARGUMENT);
    assert_non_null(strstr(rota_last_error(), "op 'snake': x is i32 [12]; expected f32"));
    op_kit_close(&kit);
}

/* An op of optional inputs alone, whose shape rule asks for the dtype of those that are there. */
static rota_status shape_of_any(const rota_op_use *use, rota_tensor *out_outputs) {
    rota_dtype dtype;
    ROTA_TRY(rota_shape_require_real(use, use->attributes.flags, &dtype));
    return rota_tensor_of(NULL, 0, dtype, ROTA_SHAPE(N), out_outputs);
}

static rota_status record_nothing(rota_tape *tape, rota_op_use *use) {
    (void)tape;
    (void)use;
    return ROTA_OK;
}

static void none_of_the_optional_inputs(void **state) {
    (void)state;
    static const rota_op_attribute flags[] = {
        {"flags", ROTA_ATTRIBUTE_U32, offsetof(rota_op_attributes, flags)}, {0}};
    static const rota_op any = {.name = "any",
                                .input_count = 2,
                                .optional_inputs = 3,
                                .output_count = 1,
                                .input_names = {"x", "w"},
                                .output_names = {"y"},
                                .attributes = flags,
                                .shape = shape_of_any,
                                .record = record_nothing};
    op_kit kit;
    op_kit_open(&kit);
    const float x[N] = {0};
    rota_tensor there = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(N), x);
    static const struct {
        uint32_t mask;
        const char *sentence;
    } cases[] = {
        {3, "op 'any': of the inputs 'x', 'w' none is there; expected one, of f32, f16 or bf16"},
        {1, "op 'any': of the inputs 'x' none is there"},
        {0, "op 'any': of the inputs of an empty mask none is there"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rota_op_use use = {.op = &any, .input_count = 2, .output_count = 1};
        use.attributes.flags = cases[i].mask;
        assert_status(rota_op_apply(kit.tape, &use), ROTA_INVALID_ARGUMENT);
        if (!strstr(rota_last_error(), cases[i].sentence)) fail_msg("%s", rota_last_error());
    }
    rota_op_use use = {.op = &any, .input_count = 2, .output_count = 1, .inputs = {ROTA_TENSOR_NONE, there}};
    use.attributes.flags = 3;
    assert_ok(rota_op_apply(kit.tape, &use));
    use.outputs[0] = ROTA_TENSOR_NONE;
    use.attributes.flags = 1; /* the one that is there is not asked about */
    assert_status(rota_op_apply(kit.tape, &use), ROTA_INVALID_ARGUMENT);
    op_kit_close(&kit);
}

/* y = x + w, whose gradient asks where to write both inputs' gradients, wanted or not. */
static rota_status shape_of_sum(const rota_op_use *use, rota_tensor *out_outputs) {
    (void)use;
    return rota_tensor_of(NULL, 0, ROTA_F32, ROTA_SHAPE(N), out_outputs);
}

static rota_status record_sum(rota_tape *tape, rota_op_use *use) {
    return rota_op_add_into(tape, use->inputs[0], use->inputs[1], use->outputs[0]);
}

static rota_status status_of_unwanted;
static char sentence_of_unwanted[256];

static rota_status gradient_of_sum(rota_tape *tape, const rota_op_use *use) {
    for (uint32_t i = 0; i < 2; i++) {
        rota_tensor dx;
        bool fresh;
        const rota_status status = rota_gradient_target(tape, &use->inputs[i], &dx, &fresh);
        if (!rota_gradient_wanted(tape, &use->inputs[i])) {
            status_of_unwanted = status;
            snprintf(sentence_of_unwanted, sizeof sentence_of_unwanted, "%s", rota_last_error());
            continue;
        }
        if (status != ROTA_OK) return status;
        if (!fresh) return rota_fail(ROTA_INTERNAL, "nothing was added before");
        const rota_status copied = rota_op_copy_into(tape, *rota_gradient_output(tape, 0), dx);
        if (copied != ROTA_OK) return copied;
    }
    return ROTA_OK;
}

static void an_unwanted_gradient_has_no_place(void **state) {
    (void)state;
    static const rota_op sum = {.name = "sum of two",
                                .input_count = 2,
                                .output_count = 1,
                                .input_names = {"x", "w"},
                                .output_names = {"y"},
                                .differentiable = 3,
                                .shape = shape_of_sum,
                                .record = record_sum,
                                .gradient = gradient_of_sum};
    op_kit kit;
    op_kit_open(&kit);
    const float x[N] = {1, 2, 3};
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x),
                w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(N), x), loss, grad[1] = {{0}};
    rota_op_use use = {.op = &sum, .input_count = 2, .output_count = 1, .inputs = {p, w}};
    assert_ok(rota_op_apply(kit.tape, &use));
    assert_ok(rota_op_sum(kit.tape, use.outputs[0], 0, false, &loss));
    status_of_unwanted = ROTA_OK;
    assert_ok(rota_backward(kit.tape, loss, &p, 1, grad, NULL));
    assert_status(status_of_unwanted, ROTA_INTERNAL);
    assert_non_null(strstr(sentence_of_unwanted, "no gradient of buffer '"));
    assert_non_null(strstr(sentence_of_unwanted, rota_buffer_name(w.buffer)));
    const uint32_t output = op_kit_output(&kit, grad[0]);
    op_kit_run(&kit);
    for (int i = 0; i < N; i++) assert_true(op_kit_f32(&kit, output)[i] == 1);
    op_kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_op_of_ones_own_on_the_cpu),      cmocka_unit_test(an_op_of_ones_own_on_vulkan),
        cmocka_unit_test(incomplete_ops_are_refused),        cmocka_unit_test(none_of_the_optional_inputs),
        cmocka_unit_test(an_unwanted_gradient_has_no_place),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
