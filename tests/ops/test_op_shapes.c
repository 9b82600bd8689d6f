/* Every op in shapes that its examples don't have: random ones, and without elements, on the CPU and on
 * Vulkan, against the f64 references. */
#include "tests/ops/op_kit.h"

#include <stdlib.h>
#include <string.h>
#include "bench/ops_shapes.h"

/* The sanitizers' builds are slower, and don't see into shaders. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SEEDS 1
#define HAS_VULKAN false
#else
#define SEEDS 3
#define HAS_VULKAN true
#endif

#define assert_message(part)                                                                                 \
    do {                                                                                                     \
        if (!strstr(rota_last_error(), part)) fail_msg("'%s' is not in: %s", part, rota_last_error());       \
    } while (0)

/* Each op's examples in other shapes, `seeds` times; what recording says of those that the shape rule takes
 * goes to `judge`. An op whose shape rule takes none of them would not be tested: it is named. */
static void each_changed(shapes_kind kind, uint64_t first, uint64_t seeds,
                         void (*judge)(const op_trial *trial, rota_status status)) {
    uint32_t all = 0;
    for (uint32_t o = 0; o < rota_op_count(); o++) {
        const rota_op *op = rota_op_at(o);
        rota_op_example example;
        uint32_t taken = 0;
        for (uint32_t i = 0; rota_op_get_example(op, i, 0, &example); i++)
            for (uint64_t seed = first; seed < first + seeds; seed++) {
                op_trial trial;
                rota_op_example changed = example;
                if (!shapes_change(&changed, kind, kind == SHAPES_RANDOM ? 1000 * seed + i : seed)) break;
                if (!op_trial_of(&changed, 100 * seed + i, &trial)) continue;
                judge(&trial, op_trial_try(&trial));
                op_trial_free(&trial);
                taken++;
                all++;
            }
        if (taken == 0 && strcmp(op->name, "loss_scale") != 0)
            fail_msg("op '%s' took no changed shape", op->name);
    }
    print_message("%u shapes\n", all);
}

static void must_be_right(const op_trial *trial, rota_status status) {
    if (status != ROTA_OK)
        fail_msg("%s (%s): %s", trial->example.use.op->name, trial->example.label, rota_last_error());
}

static void in_random_shapes(void **state) {
    (void)state;
    assert_true(op_kit_use_device("cpu"));
    each_changed(SHAPES_RANDOM, 1, SEEDS, must_be_right);
}

static void in_random_shapes_on_vulkan(void **state) {
    (void)state;
    if (!HAS_VULKAN || !op_kit_use_device("vk:0")) skip();
    each_changed(SHAPES_RANDOM, 11, 1, must_be_right);
}

/* Right, or refused by a sentence that says what there is nothing of, or what was expected in its place. */
static void must_be_right_or_said(const op_trial *trial, rota_status status) {
    if (status == ROTA_OK) return;
    assert_status(status, ROTA_INVALID_ARGUMENT);
    assert_message(trial->example.use.op->name);
    if (!strstr(rota_last_error(), "; expected "))
        assert_message("has no elements: there is nothing to make");
}

static void of_nothing(void **state) {
    (void)state;
    assert_true(op_kit_use_device("cpu"));
    each_changed(SHAPES_EMPTY, 0, 16, must_be_right_or_said);
}

static void of_nothing_on_vulkan(void **state) {
    (void)state;
    if (!HAS_VULKAN || !op_kit_use_device("vk:0")) skip();
    each_changed(SHAPES_EMPTY, 0, 16, must_be_right_or_said);
}

/* What each kind of op makes of nothing. */
static void what_nothing_gives(void **state) {
    (void)state;
    for (int on = 0; on < 2; on++) {
        if ((on && !HAS_VULKAN) || !op_kit_use_device(on ? "vk:0" : "cpu")) continue;
        const float numbers[6] = {1, 2, 3, 4, 5, 6};
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor full = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(2, 3), numbers), none, left, right, y,
                    part, found;
        assert_ok(rota_tensor_slice(&full, 1, 3, 0, &none)); /* [2, 0] */
        const uint64_t before = rota_graph_node_count(kit.graph);
        assert_ok(rota_op_exp(kit.tape, none, &y));
        assert_ok(rota_op_add(kit.tape, none, none, &y));
        assert_ok(rota_op_copy_into(kit.tape, none, none));
        assert_int_equal(y.shape[1], 0);
        assert_ok(rota_op_softmax(kit.tape, none, &y));
        assert_ok(rota_op_sum(kit.tape, none, 0, false, &y)); /* [0] */
        assert_int_equal(rota_graph_node_count(kit.graph), before);
        uint32_t sum, product, prod, joined, norm, finite;
        assert_ok(rota_op_sum(kit.tape, none, 1, false, &y));
        sum = op_kit_output(&kit, y);
        assert_ok(rota_op_prod(kit.tape, none, 1, false, &y));
        prod = op_kit_output(&kit, y);
        assert_ok(
            rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "left", ROTA_F32, ROTA_SHAPE(2, 0), &left));
        assert_ok(
            rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "right", ROTA_F32, ROTA_SHAPE(0, 2), &right));
        assert_ok(rota_op_matmul(kit.tape, left, right, false, false, &y));
        product = op_kit_output(&kit, y);
        assert_ok(rota_op_concat(kit.tape, (const rota_tensor[]){none, full, none}, 3, 1, &part));
        joined = op_kit_output(&kit, part);
        assert_ok(rota_op_global_norm(kit.tape, (const rota_tensor[]){none, none}, 2, 1, &y));
        norm = op_kit_output(&kit, y);
        assert_ok(rota_op_check_finite(kit.tape, none, &found));
        finite = op_kit_output(&kit, found);
        assert_status(rota_op_max(kit.tape, none, 1, false, &y), ROTA_INVALID_ARGUMENT);
        assert_message(
            "op 'max': x is f32 [2, 0], which has no elements: there is nothing to make y, f32 [2], of");
        assert_status(rota_op_mean(kit.tape, none, 1, false, &y), ROTA_INVALID_ARGUMENT);
        assert_status(rota_op_mse(kit.tape, none, none, &y), ROTA_INVALID_ARGUMENT);
        assert_status(rota_op_argmax(kit.tape, none, 1, false, &y), ROTA_INVALID_ARGUMENT);
        op_kit_run(&kit);
        for (uint32_t i = 0; i < 2; i++) {
            assert_true(op_kit_f32(&kit, sum)[i] == 0);
            assert_true(op_kit_f32(&kit, prod)[i] == 1);
        }
        for (uint32_t i = 0; i < 4; i++) assert_true(op_kit_f32(&kit, product)[i] == 0);
        assert_memory_equal(op_kit_f32(&kit, joined), numbers, sizeof numbers);
        assert_true(op_kit_f32(&kit, norm)[0] == 0 && op_kit_f32(&kit, norm)[1] == 1);
        assert_int_equal(((const uint32_t *)kit.output_data[finite])[0], 0);
        op_kit_close(&kit);
    }
}

/* No gradient flows through no elements, and all around it they are as they were. */
static void gradients_pass_by_nothing(void **state) {
    (void)state;
    assert_true(op_kit_use_device("cpu"));
    const float numbers[6] = {1, 2, 3, 4, 5, 6};
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor p[2] = {op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(2, 3), numbers)}, grads[2] = {0}, none, y,
                nothing, loss;
    assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "none", ROTA_F32, ROTA_SHAPE(2, 0), &p[1]));
    assert_ok(rota_tensor_slice(&p[0], 1, 1, 0, &none));
    assert_ok(rota_op_mul(kit.tape, none, p[1], &none));
    assert_ok(rota_op_concat(kit.tape, (const rota_tensor[]){none, p[0], p[1]}, 3, 1, &y));
    assert_ok(rota_op_sum(kit.tape, none, 1, true, &nothing));
    assert_ok(rota_op_add(kit.tape, y, nothing, &y));
    assert_ok(rota_op_sum_squares(kit.tape, y, &loss));
    assert_ok(rota_backward(kit.tape, loss, p, 2, grads, NULL));
    assert_int_equal(grads[1].shape[1], 0);
    uint32_t dp = op_kit_output(&kit, grads[0]);
    op_kit_run(&kit);
    for (uint32_t i = 0; i < 6; i++) assert_true(op_kit_f32(&kit, dp)[i] == 2 * numbers[i]);
    op_kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_random_shapes),   cmocka_unit_test(in_random_shapes_on_vulkan),
        cmocka_unit_test(of_nothing),         cmocka_unit_test(of_nothing_on_vulkan),
        cmocka_unit_test(what_nothing_gives), cmocka_unit_test(gradients_pass_by_nothing),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
