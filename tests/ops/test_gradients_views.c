/* rota_backward: views of one memory that lie among, upon and beside one another, and what is written over
 * there. */
#include <stdlib.h>
#include <string.h>
#include "tests/ops/gradient_kit.h"

static rota_tensor part(rota_tensor of, uint64_t offset, uint32_t rank, const uint64_t *shape,
                        const uint64_t *stride) {
    rota_tensor x = {.buffer = of.buffer,
                     .offset_bytes = of.offset_bytes + offset * rota_dtype_bytes(of.dtype),
                     .dtype = of.dtype,
                     .rank = rank};
    memcpy(x.shape, shape, rank * sizeof *shape);
    memcpy(x.stride, stride, rank * sizeof *stride);
    return x;
}
#define PART(of, offset, shape, ...) part(of, offset, ROTA_SHAPE shape, (const uint64_t[]){__VA_ARGS__})

/* A parameter of N values, and the gradient of a loss by it. */
static rota_tensor parameter(op_kit *kit, float *x) {
    fill_values(x);
    return op_kit_variable(kit, ROTA_F32, ROTA_SHAPE(N), x);
}

static void check_loss(op_kit *kit, rota_tensor loss, rota_tensor p, double (*f)(const double *x),
                       const float *x, const char *what) {
    rota_tensor grad = ROTA_TENSOR_NONE;
    assert_ok(rota_backward(kit->tape, loss, &p, 1, &grad, NULL));
    const uint32_t output = op_kit_output(kit, grad);
    op_kit_run(kit);
    check_function(f, x, op_kit_f32(kit, output), what);
    op_kit_close(kit);
}

static rota_tensor sum_of(op_kit *kit, rota_tensor a, rota_tensor b) {
    rota_tensor y;
    assert_ok(rota_op_add(kit->tape, total(kit, a), total(kit, b), &y));
    return y;
}

/* Values that f16 has. */
static rota_tensor half_parameter(op_kit *kit, float *x) {
    uint16_t halves[N];
    for (int i = 0; i < N; i++) {
        element_store(ROTA_F16, halves, (uint64_t)i, (double)(i + 3) / 8);
        x[i] = (float)element_load(ROTA_F16, halves, (uint64_t)i);
    }
    return op_kit_input(kit, ROTA_F16, ROTA_SHAPE(N), halves);
}

/* ---- What is written over ---- */

static double doubled(const double *x) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += i % 4 == 1 ? 2 * x[i] + x[i] * x[i] : x[i];
    return sum;
}

/* A column is read, and changed in place. */
static void a_view_with_gaps_is_changed_after_it_was_read(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), all, column, squares;
    assert_ok(rota_op_copy(kit.tape, p, &all));
    column = PART(all, 1, (3), 4);
    assert_ok(rota_op_copy(kit.tape, column, &squares));
    assert_ok(rota_op_mul(kit.tape, squares, squares, &squares));
    assert_ok(rota_op_scale_into(kit.tape, column, ROTA_PLAIN(2), column));
    check_loss(&kit, sum_of(&kit, all, squares), p, doubled, x, "changed in place");
}

static double overwritten(const double *x) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += i % 4 == 1 ? x[i] * x[i] + x[i + 1] : x[i];
    return sum;
}

static void a_view_with_gaps_is_overwritten_after_it_was_read(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), all, squares;
    assert_ok(rota_op_copy(kit.tape, p, &all));
    assert_ok(rota_op_copy(kit.tape, PART(all, 1, (3), 4), &squares));
    assert_ok(rota_op_mul(kit.tape, squares, squares, &squares));
    assert_ok(rota_op_copy_into(kit.tape, PART(all, 2, (3), 4), PART(all, 1, (3), 4)));
    check_loss(&kit, sum_of(&kit, all, squares), p, overwritten, x, "overwritten");
}

static double half_lost(const double *x) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += i % 2 ? 3 * x[i] : x[i / 2] * x[i / 2];
    return sum;
}

/* Nobody read what was there; but the op that wrote it has a gradient too. */
static void what_an_op_wrote_is_overwritten_in_part(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), all, squares;
    assert_ok(rota_op_mul(kit.tape, p, p, &squares));
    assert_ok(rota_op_scale(kit.tape, p, ROTA_PLAIN(3), &all));
    assert_ok(rota_op_copy_into(kit.tape, PART(squares, 0, (6), 1), PART(all, 0, (6), 2)));
    check_loss(&kit, total(&kit, all), p, half_lost, x, "overwritten in part");
}

static double first_four(const double *x) {
    double sum = 0;
    for (int i = 0; i < 4; i++) sum += i == 3 ? 0 : x[i] * x[i];
    return sum;
}

/* A step through which nothing flows writes elements of which some have no gradient at all. */
static void what_stops_gradients_writes_where_there_are_none(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), squares, used;
    assert_ok(rota_op_mul(kit.tape, p, p, &squares));
    assert_ok(rota_op_exp(kit.tape, squares, &used)); /* reads it, for no loss */
    assert_ok(rota_op_stop_gradient_into(kit.tape, PART(p, 0, (4), 1), PART(squares, 3, (4), 2)));
    check_loss(&kit, total(&kit, PART(squares, 0, (4), 1)), p, first_four, x, "stopped");
}

static double three_sums(const double *x) {
    double sum = x[5];
    for (int i = 2; i <= 5; i++) sum += x[i] * 2;
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 2; c++) sum += 5 * x[3 * r + c];
    return sum;
}

/* The second is added to what the first gave, in part; the third begins where the second did. */
static void later_views_are_added_to_all_before(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), a, b, c;
    assert_ok(rota_op_scale(kit.tape, PART(p, 0, (3, 2), 3, 1), ROTA_PLAIN(5), &c));
    assert_ok(rota_op_scale(kit.tape, PART(p, 2, (4), 1), ROTA_PLAIN(2), &b));
    assert_ok(rota_op_scale(kit.tape, PART(p, 5, (1), 1), ROTA_PLAIN(1), &a));
    rota_tensor losses[] = {total(&kit, a), total(&kit, b), total(&kit, c)}, grad = ROTA_TENSOR_NONE;
    assert_ok(rota_backward_losses(kit.tape, losses, 3, &p, 1, &grad, NULL));
    const uint32_t output = op_kit_output(&kit, grad);
    op_kit_run(&kit);
    check_function(three_sums, x, op_kit_f32(&kit, output), "three views");
    op_kit_close(&kit);
}

enum { MANY = 200 };

/* More views than a region remembers: every other element by itself, and once more. */
static void more_views_than_are_remembered_add_up(void **state) {
    (void)state;
    float x[MANY];
    for (int i = 0; i < MANY; i++) x[i] = (float)i / 64;
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(MANY), x), all, sum, grad = ROTA_TENSOR_NONE;
    assert_ok(rota_op_copy(kit.tape, p, &all));
    sum = total(&kit, PART(all, 0, (1), 1));
    for (uint64_t i = 2; i < 2 * MANY; i += 2)
        assert_ok(rota_op_add(kit.tape, sum, total(&kit, PART(all, i % MANY, (1), 1)), &sum));
    assert_ok(rota_backward(kit.tape, sum, &p, 1, &grad, NULL));
    const uint32_t output = op_kit_output(&kit, grad);
    op_kit_run(&kit);
    for (int i = 0; i < MANY; i++)
        if (op_kit_f32(&kit, output)[i] != (i % 2 ? 0 : 2))
            fail_msg("gradient %d is %g", i, (double)op_kit_f32(&kit, output)[i]);
    op_kit_close(&kit);
}

static double used_around(const double *x) {
    return 3 * x[6] + 2 * x[0] + x[6] + x[2] + x[3] + x[4] + x[5];
}

/* An element lies in the gaps of what is cleared: it still has what was added to it. */
static void cleared_views_leave_their_gaps_as_they_were(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), all, a, b;
    assert_ok(rota_op_copy(kit.tape, p, &all));
    assert_ok(rota_op_scale(kit.tape, PART(all, 6, (1), 1), ROTA_PLAIN(3), &a));
    assert_ok(rota_op_scale(kit.tape, PART(all, 0, (1), 1), ROTA_PLAIN(2), &b));
    assert_ok(rota_op_copy_into(kit.tape, PART(p, 2, (4), 1), PART(all, 5, (4), 2)));
    assert_ok(rota_op_add(kit.tape, a, b, &a));
    assert_ok(rota_op_add(kit.tape, a, total(&kit, PART(all, 6, (1), 1)), &a));
    check_loss(&kit, sum_of(&kit, a, PART(all, 5, (4), 2)), p, used_around, x, "used around");
}

static double gap_twice(const double *x) {
    double sum = 5 * x[1];
    for (int i = 0; i < N; i += 2) sum += x[i];
    return sum;
}

/* An element in the gaps of a view is none of it. */
static void gaps_of_a_view_are_not_of_it(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), a, b;
    assert_ok(rota_op_scale(kit.tape, PART(p, 1, (1), 1), ROTA_PLAIN(2), &a));
    assert_ok(rota_op_scale(kit.tape, PART(p, 1, (1), 1), ROTA_PLAIN(3), &b));
    rota_tensor sums[] = {total(&kit, a), total(&kit, b), total(&kit, PART(p, 0, (6), 2))},
                grad = ROTA_TENSOR_NONE;
    assert_ok(rota_backward_losses(kit.tape, sums, 3, &p, 1, &grad, NULL));
    const uint32_t output = op_kit_output(&kit, grad);
    op_kit_run(&kit);
    check_function(gap_twice, x, op_kit_f32(&kit, output), "in the gap");
    op_kit_close(&kit);
}

static double partly_overwritten(const double *x) {
    return 3 * x[0] + x[1] + 2 * x[0];
}

/* A view that begins before what is cleared, and ends in it. */
static void views_that_are_cleared_in_part_stay(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), all, a, b;
    assert_ok(rota_op_copy(kit.tape, p, &all));
    assert_ok(rota_op_scale(kit.tape, PART(all, 0, (1), 1), ROTA_PLAIN(3), &a));
    assert_ok(rota_op_copy_into(kit.tape, PART(p, 0, (2), 1), PART(all, 2, (2), 1)));
    assert_ok(rota_op_copy(kit.tape, PART(all, 0, (3), 1), &b));
    check_loss(&kit, sum_of(&kit, a, b), p, partly_overwritten, x, "cleared in part");
}

/* ---- What the loss does not depend on ---- */

static double all_of_it(const double *x) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += x[i];
    return sum;
}

/* Beside a value that is used lies another, whose op could have no gradient any more. */
static void neighbours_are_not_gone_through(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), pair, squares;
    assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "pair", ROTA_F32, ROTA_SHAPE(2 * N), &pair));
    assert_ok(rota_op_copy_into(kit.tape, p, PART(pair, 0, (N), 1)));
    assert_ok(rota_op_copy(kit.tape, p, &squares));
    assert_ok(rota_op_relu_into(kit.tape, squares, PART(pair, N, (N), 1)));
    assert_ok(rota_op_fill_into(kit.tape, squares, 0)); /* which relu needs */
    check_loss(&kit, total(&kit, PART(pair, 0, (N), 1)), p, all_of_it, x, "beside");
}

/* An op without a gradient reads what gradients don't flow through, and what comes from no parameter. */
static void ops_without_gradients_read_constants(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_op plain = *rota_op_find("sum_squares");
    plain.name = "plain";
    plain.gradient = NULL;
    plain.differentiable = plain.saved_inputs = 0;
    rota_tensor p = parameter(&kit, x), c = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(N), x), stopped, sum;
    assert_ok(rota_op_stop_gradient(kit.tape, p, &stopped));
    assert_ok(rota_op_exp(kit.tape, c, &c));
    rota_op_use of_stopped = {.op = &plain, .input_count = 1, .output_count = 1, .inputs = {stopped}};
    rota_op_use of_constant = {.op = &plain, .input_count = 1, .output_count = 1, .inputs = {c}};
    rota_op_use of_parameter = {.op = &plain, .input_count = 1, .output_count = 1, .inputs = {p}};
    assert_ok(rota_op_apply(kit.tape, &of_stopped));
    assert_ok(rota_op_apply(kit.tape, &of_constant));
    assert_ok(rota_op_apply(kit.tape, &of_parameter));
    assert_ok(rota_op_add(kit.tape, of_stopped.outputs[0], of_constant.outputs[0], &sum));
    assert_ok(rota_op_add(kit.tape, total(&kit, p), sum, &sum));
    rota_tensor grad = ROTA_TENSOR_NONE, with;
    assert_ok(rota_op_add(kit.tape, sum, of_parameter.outputs[0], &with));
    assert_status(rota_backward(kit.tape, with, &p, 1, &grad, &ROTA_BACKWARD_OPTIONS(.keep = true)),
                  ROTA_UNSUPPORTED);
    assert_message("op 'plain': the loss depends on it, and it has no gradient");
    check_loss(&kit, sum, p, all_of_it, x, "constants");
}

/* Of the parameters of a call that kept the ops the next one knows nothing. */
static void calls_know_their_own_parameters_alone(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), q = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), x), powers, sum;
    rota_tensor first = ROTA_TENSOR_NONE, second = ROTA_TENSOR_NONE;
    assert_ok(rota_op_scale(kit.tape, q, ROTA_PLAIN(2), &powers));
    assert_ok(rota_op_exp(kit.tape, powers, &powers));
    sum = sum_of(&kit, powers, p);
    assert_ok(rota_backward(kit.tape, sum, &q, 1, &first, &ROTA_BACKWARD_OPTIONS(.keep = true)));
    assert_ok(rota_op_fill_into(kit.tape, powers, 0)); /* which q's gradient needs */
    assert_ok(rota_backward(kit.tape, sum, &p, 1, &second, &ROTA_BACKWARD_OPTIONS(.keep = true)));
    const uint32_t output = op_kit_output(&kit, second);
    rota_tensor third = ROTA_TENSOR_NONE;
    assert_status(rota_backward(kit.tape, sum, &q, 1, &third, NULL), ROTA_WRONG_STATE);
    assert_message("op 'exp' needs its 'y'");
    op_kit_run(&kit);
    check_function(all_of_it, x, op_kit_f32(&kit, output), "the second call");
    op_kit_close(&kit);
}

/* A result lies in the buffer of the parameter that it comes from: their gradients are two. */
static void a_result_lies_beside_its_parameter(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor all = parameter(&kit, x), p = PART(all, 0, (4), 1), y = PART(all, 4, (4), 1),
                grad = ROTA_TENSOR_NONE;
    assert_ok(rota_op_mul_into(kit.tape, p, p, y));
    assert_ok(rota_op_scale(kit.tape, y, ROTA_PLAIN(2), &y));
    assert_ok(rota_backward(kit.tape, total(&kit, y), &p, 1, &grad, NULL));
    const uint32_t output = op_kit_output(&kit, grad);
    op_kit_run(&kit);
    for (int i = 0; i < 4; i++) assert_true(fabsf(op_kit_f32(&kit, output)[i] - 4 * x[i]) < 1e-5f);
    op_kit_close(&kit);
}

/* A slot's size may be no multiple of a word's: its gradient has room for all of it. */
static void buffers_of_half_words_have_gradients(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_buffer *slot;
    rota_tensor p = half_parameter(&kit, x), y, wide, grad = ROTA_TENSOR_NONE;
    assert_ok(rota_graph_buffer(kit.graph, ROTA_BUFFER_SLOT, "slot", 6, &slot));
    assert_ok(rota_tensor_of(slot, 0, ROTA_F16, ROTA_SHAPE(3), &y));
    assert_ok(rota_op_square_into(kit.tape, PART(p, 0, (3), 1), y));
    assert_ok(rota_op_cast(kit.tape, y, ROTA_F32, &wide));
    assert_ok(rota_backward(kit.tape, total(&kit, wide), &p, 1, &grad, NULL));
    op_kit_close(&kit);
}

/* ---- Views that hold an element several times ---- */

static double windows(const double *x) {
    double sum = 0;
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 5; c++) sum += x[r + c] * x[r + c] * (1 + c);
    return sum;
}

static void windows_that_overlap_add_up(void **state) {
    (void)state;
    const float weights[5] = {1, 2, 3, 4, 5};
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(5), weights), y;
    assert_ok(rota_op_square(kit.tape, PART(p, 0, (8, 5), 1, 1), &y));
    assert_ok(rota_op_mul(kit.tape, y, w, &y));
    check_loss(&kit, total(&kit, y), p, windows, x, "windows");
}

static double repeated_product(const double *x) {
    double sum = 0;
    for (int r = 0; r < 2; r++)
        for (int j = 0; j < 4; j++) {
            double y = 0;
            for (int k = 0; k < 3; k++) y += x[r * 3 + k] * x[6 + j];
            sum += y * y;
        }
    return sum;
}

static double window_product(const double *x) {
    double sum = 0;
    for (int r = 0; r < 2; r++)
        for (int j = 0; j < 4; j++) {
            double y = 0;
            for (int k = 0; k < 3; k++) y += x[r * 3 + k] * x[6 + k + j];
            sum += y * y;
        }
    return sum;
}

/* A weight whose rows are one, and one whose rows are windows. */
static void products_with_repeating_weights(void **state) {
    (void)state;
    for (int form = 0; form < 4; form++) {
        float x[N];
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor p = parameter(&kit, x), left = PART(p, 0, (2, 3), 3, 1), y;
        rota_tensor weight = form % 2 ? PART(p, 6, (3, 4), 1, 1) : PART(p, 6, (3, 4), 0, 1);
        if (form < 2)
            assert_ok(rota_op_linear(kit.tape, left, weight, NULL, &y));
        else
            assert_ok(rota_op_matmul(kit.tape, left, weight, false, false, &y));
        assert_ok(rota_op_square(kit.tape, y, &y));
        check_loss(&kit, total(&kit, y), p, form % 2 ? window_product : repeated_product, x,
                   form < 2 ? "linear" : "matmul");
    }
}

static double attended(const double *x) {
    double sum = 0;
    for (int q = 0; q < 3; q++) {
        double weight[3], all = 0, y[2] = {0};
        for (int k = 0; k < 3; k++) {
            weight[k] = exp((x[q] * x[2 * k] + x[q + 1] * x[2 * k + 1]) / sqrt(2));
            all += weight[k];
        }
        for (int k = 0; k < 3; k++)
            for (int d = 0; d < 2; d++) y[d] += weight[k] / all * x[6 + 2 * k + d];
        sum += y[0] * y[0] + y[1] * y[1];
    }
    return sum;
}

static void attention_of_windows(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), y;
    assert_ok(rota_op_attention(kit.tape, PART(p, 0, (1, 1, 3, 2), 1, 1, 1, 1),
                                PART(p, 0, (1, 1, 3, 2), 6, 6, 2, 1), PART(p, 6, (1, 1, 3, 2), 6, 6, 2, 1),
                                false, 0, &y));
    assert_ok(rota_op_square(kit.tape, y, &y));
    check_loss(&kit, total(&kit, y), p, attended, x, "attention");
}

/* A window across two parameters can't have its gradient in either. */
static void windows_across_parameters_are_refused(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor all = parameter(&kit, x), y, params[2], grads[2] = {ROTA_TENSOR_NONE, ROTA_TENSOR_NONE};
    params[0] = PART(all, 0, (4), 1);
    params[1] = PART(all, 6, (4), 1);
    assert_ok(rota_op_square(kit.tape, PART(all, 0, (4, 3), 1, 1), &y));
    assert_status(rota_backward(kit.tape, total(&kit, y), params, 2, grads, NULL), ROTA_UNSUPPORTED);
    assert_message("lies only partly in a parameter");
    op_kit_close(&kit);
}

/* ---- Weights that are part of one another ---- */

static double shared_bias(const double *x) {
    double sum = 0;
    for (int r = 0; r < 2; r++)
        for (int j = 0; j < 3; j++) {
            double y = x[8 + j];
            for (int k = 0; k < 2; k++) y += x[r * 2 + k] * x[4 + k * 3 + j];
            sum += y * y;
        }
    return sum;
}

/* The bias is the weight's last elements, and some more. */
static void a_bias_may_lie_in_its_weight(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), y;
    const rota_linear options = ROTA_LINEAR(.bias = PART(p, 8, (3), 1));
    assert_ok(rota_op_linear(kit.tape, PART(p, 0, (2, 2), 2, 1), PART(p, 4, (2, 3), 3, 1), &options, &y));
    assert_ok(rota_op_square(kit.tape, y, &y));
    check_loss(&kit, total(&kit, y), p, shared_bias, x, "bias in the weight");
}

/* ---- 16 bits ---- */

/* A gradient in f16 at an odd element of memory of N + 1, as f32. */
static void check_half(op_kit *kit, rota_tensor loss, rota_tensor p, double (*f)(const double *x),
                       const float *x) {
    const uint16_t before[N + 2] = {[0] = 0x3c00, [N + 1] = 0x3c00};
    rota_tensor memory = op_kit_variable(kit, ROTA_F16, ROTA_SHAPE(N + 2), before),
                grad = PART(memory, 1, (N), 1), wide;
    assert_ok(rota_backward(kit->tape, loss, &p, 1, &grad, NULL));
    rota_tape_remember(kit->tape, false);
    assert_ok(rota_op_cast(kit->tape, memory, ROTA_F32, &wide));
    const uint32_t output = op_kit_output(kit, wide);
    op_kit_run(kit);
    const float *got = op_kit_f32(kit, output);
    assert_true(got[0] == 1 && got[N + 1] == 1); /* what lies beside it stays */
    double values[N];
    for (int i = 0; i < N; i++) values[i] = (double)x[i];
    for (int i = 0; i < N; i++) {
        const double kept = values[i];
        values[i] = kept + 1e-5;
        const double above = f(values);
        values[i] = kept - 1e-5;
        const double expected = (above - f(values)) / 2e-5;
        values[i] = kept;
        if (fabs(expected - (double)got[i + 1]) > 0.01 * fmax(1, fabs(expected)))
            fail_msg("gradient %d is %g, expected %g", i, (double)got[i + 1], expected);
    }
    op_kit_close(kit);
}

static double rows_chosen(const double *x) {
    double sum = 0;
    for (int c = 0; c < 3; c++) sum += 2 * x[3 + c] * x[3 + c] + x[9 + c] * x[9 + c];
    for (int i = 0; i < N; i++) sum += x[i];
    return sum;
}

static void an_embedding_has_its_gradient_at_an_odd_element(void **state) {
    (void)state;
    const int32_t rows[3] = {1, 3, 1};
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = half_parameter(&kit, x), index = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(3), rows), y;
    assert_ok(rota_op_embedding(kit.tape, PART(p, 0, (4, 3), 3, 1), index, &y));
    assert_ok(rota_op_square(kit.tape, y, &y));
    assert_ok(rota_op_cast(kit.tape, y, ROTA_F32, &y));
    assert_ok(rota_op_cast(kit.tape, p, ROTA_F32, &index));
    check_half(&kit, sum_of(&kit, y, index), p, rows_chosen, x);
}

static double normalized(const double *x) {
    double sum = 0;
    for (int r = 0; r < 3; r++) {
        double mean = 0, variance = 0;
        for (int c = 0; c < 4; c++) mean += x[r * 4 + c] / 4;
        for (int c = 0; c < 4; c++) variance += (x[r * 4 + c] - mean) * (x[r * 4 + c] - mean) / 4;
        for (int c = 0; c < 4; c++)
            sum += (x[r * 4 + c] - mean) / sqrt(variance + 0.5) * (c == 1) + x[r * 4 + c];
    }
    return sum;
}

static void a_norm_has_its_gradient_at_an_odd_element(void **state) {
    (void)state;
    const float columns[4] = {0, 1, 0, 0};
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = half_parameter(&kit, x), w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(4), columns), y, z;
    assert_ok(
        rota_op_layernorm(kit.tape, PART(p, 0, (3, 4), 4, 1), ROTA_TENSOR_NONE, ROTA_TENSOR_NONE, 0.5f, &y));
    assert_ok(rota_op_cast(kit.tape, y, ROTA_F32, &y));
    assert_ok(rota_op_mul(kit.tape, y, w, &y));
    assert_ok(rota_op_cast(kit.tape, p, ROTA_F32, &z));
    check_half(&kit, sum_of(&kit, y, z), p, normalized, x);
}

static double norm_with(const double *x, const double *weight, const double *bias) {
    double sum = 0, mean = 0, variance = 0;
    for (int c = 0; c < 4; c++) mean += x[c] / 4;
    for (int c = 0; c < 4; c++) variance += (x[c] - mean) * (x[c] - mean) / 4;
    for (int c = 0; c < 4; c++) sum += ((x[c] - mean) / sqrt(variance + 0.5) * weight[c] + bias[c]) * (c + 1);
    return sum;
}
static double weight_first(const double *x) {
    return norm_with(x, x + 4, x + 8);
}
static double bias_first(const double *x) {
    return norm_with(x, x + 8, x + 4);
}

/* Nodes of a norm's gradient by all of one memory, which is checked. */
static uint64_t nodes_of_norm(double (*f)(const double *x), uint64_t weight, uint64_t bias) {
    const float columns[4] = {1, 2, 3, 4};
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(4), columns), y;
    assert_ok(rota_op_layernorm(kit.tape, PART(p, 0, (1, 4), 4, 1), PART(p, weight, (4), 1),
                                PART(p, bias, (4), 1), 0.5f, &y));
    assert_ok(rota_op_mul(kit.tape, y, w, &y));
    rota_tensor grad = ROTA_TENSOR_NONE;
    assert_ok(rota_backward(kit.tape, total(&kit, y), &p, 1, &grad, NULL));
    const uint32_t output = op_kit_output(&kit, grad);
    op_kit_run(&kit);
    check_function(f, x, op_kit_f32(&kit, output), "a norm");
    const uint64_t count = rota_graph_node_count(kit.graph);
    op_kit_close(&kit);
    return count;
}

/* The two gradients' partial sums are added up by one node where they lie one after the other. */
static void the_gradients_of_weight_and_bias_are_neighbours(void **state) {
    (void)state;
    assert_int_equal(nodes_of_norm(weight_first, 4, 8) + 1, nodes_of_norm(bias_first, 8, 4));
}

static double attended_by_windows(const double *x) {
    double sum = 0;
    for (int q = 0; q < 3; q++) {
        double weight[3], all = 0;
        for (int k = 0; k < 3; k++) all += weight[k] = exp((x[0] * x[2 * k] + x[1] * x[2 * k + 1]) / sqrt(2));
        for (int k = 0; k < 3; k++)
            for (int d = 0; d < 2; d++) sum += weight[k] / all * x[2 * k + d] * (d + 1);
    }
    return sum;
}

/* The gradients of keys and values are copied to where they belong, and that of queries, which are all one,
 * is added there. */
static void attention_has_its_gradients_at_an_odd_element(void **state) {
    (void)state;
    const float columns[2] = {1, 2};
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = half_parameter(&kit, x), w = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(2), columns), y;
    const rota_tensor rows = PART(p, 0, (1, 1, 3, 2), 6, 6, 2, 1);
    assert_ok(rota_op_attention(kit.tape, PART(p, 0, (1, 1, 3, 2), 6, 6, 0, 1), rows, rows, false, 0, &y));
    assert_ok(rota_op_cast(kit.tape, y, ROTA_F32, &y));
    assert_ok(rota_op_mul(kit.tape, y, w, &y));
    check_half(&kit, total(&kit, y), p, attended_by_windows, x);
}

/* ---- Losses that are gone through again ---- */

static const int32_t labels[3] = {1, 3, 0};

static double cross_entropy(const double *x) {
    double sum = 0;
    for (int r = 0; r < 3; r++) {
        double z = 0;
        for (int c = 0; c < 4; c++) z += exp(x[r * 4 + c]);
        sum += log(z) - x[r * 4 + labels[r]];
    }
    return sum / 3;
}

/* A classifier's gradient takes no place while the tape keeps its ops; and at the last call it does. */
static void a_classifier_is_gone_through_twice(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), index = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(3), labels), logits,
                loss;
    rota_tensor grads[3] = {ROTA_TENSOR_NONE, ROTA_TENSOR_NONE, ROTA_TENSOR_NONE};
    uint32_t outputs[3];
    assert_ok(rota_op_copy(kit.tape, PART(p, 0, (3, 4), 4, 1), &logits));
    const rota_classifier options = ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .in_place = true);
    assert_ok(rota_op_classifier(kit.tape, logits, index, &options, &loss));
    for (int i = 0; i < 3; i++)
        assert_ok(rota_backward(kit.tape, loss, &p, 1, &grads[i], &ROTA_BACKWARD_OPTIONS(.keep = i < 2)));
    for (int i = 0; i < 3; i++) outputs[i] = op_kit_output(&kit, grads[i]);
    const uint32_t taken = op_kit_output(&kit, logits);
    op_kit_run(&kit);
    for (int i = 0; i < 3; i++) check_function(cross_entropy, x, op_kit_f32(&kit, outputs[i]), "a call");
    check_function(cross_entropy, x, op_kit_f32(&kit, taken), "the logits' place");
    op_kit_close(&kit);
}

static double both(const double *x) {
    double sum = cross_entropy(x);
    for (int i = 0; i < N; i++) sum += x[i] * x[i];
    return sum;
}

static void logits_that_others_read_stay_until_they_did(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), index = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(3), labels), logits,
                loss, squares;
    assert_ok(rota_op_copy(kit.tape, PART(p, 0, (3, 4), 4, 1), &logits));
    const rota_classifier options = ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .in_place = true);
    assert_ok(rota_op_classifier(kit.tape, logits, index, &options, &loss));
    assert_ok(rota_op_mul(kit.tape, logits, logits, &squares));
    check_loss(&kit, sum_of(&kit, loss, squares), p, both, x, "two uses");
}

static double some_logits(const double *x) {
    double sum = cross_entropy(x);
    for (int i = 0; i < N; i++) sum += 2 * x[i];
    return sum;
}

/* Logits that are a part of a buffer, of which others have the whole: the first, and the last. */
static void logits_among_others_keep_their_place(void **state) {
    (void)state;
    for (uint64_t before = 0; before < 2; before++) {
        float x[N];
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor p = parameter(&kit, x), index = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(3), labels), all,
                    loss, sum;
        assert_ok(
            rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "all", ROTA_F32, ROTA_SHAPE(N + 4), &all));
        assert_ok(rota_op_fill_into(kit.tape, all, 1));
        assert_ok(rota_op_copy_into(kit.tape, p, PART(all, 4 * before, (N), 1)));
        assert_ok(rota_op_scale(kit.tape, all, ROTA_PLAIN(2), &sum));
        const rota_classifier options = ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .in_place = true);
        assert_ok(rota_op_classifier(kit.tape, PART(all, 4 * before, (3, 4), 4, 1), index, &options, &loss));
        check_loss(&kit, sum_of(&kit, sum, loss), p, some_logits, x, before ? "the last" : "the first");
    }
}

/* Three logits of 16 bits, of whose buffer's words others have a fourth element. */
static void logits_share_a_word_with_others(void **state) {
    (void)state;
    const int32_t label = 1;
    const float expected[4] = {1.18632f, 0.30724f, 1.50644f,
                               1}; /* softmax(0, 0.5, 1), less the label, and 1 */
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = half_parameter(&kit, x), index = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(1), &label), all,
                wide;
    rota_tensor loss, grad = ROTA_TENSOR_NONE;
    assert_ok(rota_op_scale(kit.tape, PART(p, 0, (4), 1), ROTA_PLAIN(4), &all));
    assert_ok(rota_op_cast(kit.tape, all, ROTA_F32, &wide));
    const rota_classifier options = ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .in_place = true);
    assert_ok(rota_op_classifier(kit.tape, PART(all, 0, (1, 3), 3, 1), index, &options, &loss));
    assert_ok(rota_op_add(kit.tape, total(&kit, wide), loss, &loss));
    assert_ok(rota_backward(kit.tape, loss, &p, 1, &grad, NULL));
    assert_ok(rota_op_cast(kit.tape, grad, ROTA_F32, &grad));
    const uint32_t output = op_kit_output(&kit, grad);
    op_kit_run(&kit);
    for (int i = 0; i < 4; i++)
        if (fabsf(op_kit_f32(&kit, output)[i] - 4 * expected[i]) > 0.02f)
            fail_msg("gradient %d is %g, expected %g", i, (double)op_kit_f32(&kit, output)[i],
                     4 * (double)expected[i]);
    op_kit_close(&kit);
}

/* Logits in memory of the caller's are still there. */
static void logits_of_others_stay(void **state) {
    (void)state;
    float x[N];
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p = parameter(&kit, x), index = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(3), labels), logits,
                loss;
    rota_tensor grad = ROTA_TENSOR_NONE;
    assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_OUTPUT, "logits", ROTA_F32, ROTA_SHAPE(3, 4), &logits));
    const uint32_t output = kit.output_count++;
    kit.outputs[output] = logits.buffer;
    kit.output_bytes[output] = N * sizeof(float);
    assert_non_null(kit.output_data[output] = calloc(N, sizeof(float)));
    assert_ok(rota_op_copy_into(kit.tape, PART(p, 0, (3, 4), 4, 1), logits));
    const rota_classifier options = ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .in_place = true);
    assert_ok(rota_op_classifier(kit.tape, logits, index, &options, &loss));
    assert_ok(rota_backward(kit.tape, loss, &p, 1, &grad, NULL));
    const uint32_t gradient = op_kit_output(&kit, grad);
    op_kit_run(&kit);
    assert_memory_equal(kit.output_data[output], x, sizeof x);
    check_function(cross_entropy, x, op_kit_f32(&kit, gradient), "logits of others");
    op_kit_close(&kit);
}

/* What a classifier's gradient needs, and what another one has put in its place. */
static void overwritten_logits_and_labels_are_refused(void **state) {
    (void)state;
    for (int form = 0; form < 3; form++) {
        float x[N];
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor p = parameter(&kit, x), index = op_kit_variable(&kit, ROTA_I32, ROTA_SHAPE(3), labels),
                    logits, loss;
        rota_tensor other, grad = ROTA_TENSOR_NONE;
        assert_ok(rota_op_copy(kit.tape, PART(p, 0, (3, 4), 4, 1), &logits));
        const rota_classifier options = ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .in_place = true);
        assert_ok(rota_op_classifier(kit.tape, logits, index, &options, &loss));
        if (form == 0) assert_ok(rota_op_fill_into(kit.tape, logits, 0));
        if (form == 1) assert_ok(rota_op_fill_into(kit.tape, index, 0));
        if (form == 2) {
            assert_ok(rota_op_classifier(kit.tape, logits, index, &options, &other));
            assert_ok(rota_op_add(kit.tape, loss, other, &loss));
        }
        assert_status(rota_backward(kit.tape, loss, &p, 1, &grad, NULL), ROTA_WRONG_STATE);
        assert_message(form == 1 ? "needs its 'labels'" : "needs its 'logits'");
        op_kit_close(&kit);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_view_with_gaps_is_changed_after_it_was_read),
        cmocka_unit_test(a_view_with_gaps_is_overwritten_after_it_was_read),
        cmocka_unit_test(what_an_op_wrote_is_overwritten_in_part),
        cmocka_unit_test(what_stops_gradients_writes_where_there_are_none),
        cmocka_unit_test(later_views_are_added_to_all_before),
        cmocka_unit_test(more_views_than_are_remembered_add_up),
        cmocka_unit_test(cleared_views_leave_their_gaps_as_they_were),
        cmocka_unit_test(gaps_of_a_view_are_not_of_it),
        cmocka_unit_test(views_that_are_cleared_in_part_stay),
        cmocka_unit_test(neighbours_are_not_gone_through),
        cmocka_unit_test(ops_without_gradients_read_constants),
        cmocka_unit_test(calls_know_their_own_parameters_alone),
        cmocka_unit_test(a_result_lies_beside_its_parameter),
        cmocka_unit_test(buffers_of_half_words_have_gradients),
        cmocka_unit_test(a_norm_has_its_gradient_at_an_odd_element),
        cmocka_unit_test(the_gradients_of_weight_and_bias_are_neighbours),
        cmocka_unit_test(logits_among_others_keep_their_place),
        cmocka_unit_test(logits_share_a_word_with_others),
        cmocka_unit_test(logits_of_others_stay),
        cmocka_unit_test(overwritten_logits_and_labels_are_refused),
        cmocka_unit_test(windows_that_overlap_add_up),
        cmocka_unit_test(products_with_repeating_weights),
        cmocka_unit_test(attention_of_windows),
        cmocka_unit_test(windows_across_parameters_are_refused),
        cmocka_unit_test(a_bias_may_lie_in_its_weight),
        cmocka_unit_test(an_embedding_has_its_gradient_at_an_odd_element),
        cmocka_unit_test(attention_has_its_gradients_at_an_odd_element),
        cmocka_unit_test(a_classifier_is_gone_through_twice),
        cmocka_unit_test(logits_that_others_read_stay_until_they_did),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
