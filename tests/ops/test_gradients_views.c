/* rota_backward: views of one memory that lie among and beside one another, what is written over there, and what the
 * loss does not depend on. */
#include "tests/ops/gradient_parts.h"

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
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
