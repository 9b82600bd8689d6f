/* Ops on the CPU executor: against f64 references, destinations of every kind, operands in place, views,
 * errors. */
#include "tests/ops/op_kit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "ops/op.h"
#include "tests/kit/random.h"

static const double poison = -999;

/* Runs each example of each op through `test`. */
static void each_trial(void (*test)(const op_trial *trial)) {
    uint32_t ran = 0;
    for (uint32_t o = 0; o < rota_op_count(); o++) {
        op_trial trial;
        for (uint32_t i = 0; op_trial_make(rota_op_at(o), i, &trial); i++) {
            test(&trial);
            op_trial_free(&trial);
            ran++;
        }
    }
    assert_true(ran > 100);
}

/* ---- Against the reference ---- */

static void every_op_gives_its_reference(void **state) {
    (void)state;
    each_trial(op_trial_check);
}

/* No kernel of the library's does what it does not declare, and watched ones give the same. */
static void every_op_runs_watched(void **state) {
    (void)state;
    op_kit_watch(true);
    each_trial(op_trial_check);
    op_kit_watch(false);
}

/* Nor does one that is several on a device of Vulkan's, and leaves what those hand to one another on others. */
static void check_long_axes(void) {
    enum { LENGTH = 70000, FEWER = 4096, MANY = 257 }; /* keys of chunks; MANY: each element with all others */
    static float data[LENGTH];
    for (uint32_t i = 0; i < LENGTH; i++) data[i] = (float)(i * 2654435761u >> 20);
    data[LENGTH - 3] = 5000;
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor x = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(LENGTH), data), index, sums, variance, fewer, top[2];
    assert_ok(rota_op_argmax(kit.tape, x, 0, true, &index));
    assert_ok(rota_op_cumulative_sum(kit.tape, x, 0, &sums));
    assert_ok(rota_op_variance(kit.tape, x, 0, 0, true, &variance));
    assert_ok(rota_tensor_slice(&x, 0, LENGTH - FEWER, FEWER, &fewer));
    assert_ok(rota_op_top_k(kit.tape, fewer, 0, MANY, &top[0], &top[1]));
    const uint32_t found = op_kit_output(&kit, index), first = op_kit_output(&kit, top[1]),
                   last = op_kit_output(&kit, sums), spread = op_kit_output(&kit, variance);
    op_kit_run(&kit);
    double total = 0, squares = 0;
    for (uint32_t i = 0; i < LENGTH; i++) total += data[i];
    for (uint32_t i = 0; i < LENGTH; i++) squares += (data[i] - total / LENGTH) * (data[i] - total / LENGTH);
    assert_int_equal(*(const int32_t *)kit.output_data[found], LENGTH - 3);
    assert_int_equal(*(const int32_t *)kit.output_data[first], FEWER - 3);
    assert_true(fabs(op_kit_f32(&kit, last)[LENGTH - 1] - total) <= 1e-5 * total);
    assert_true(fabs(op_kit_f32(&kit, spread)[0] - squares / LENGTH) <= 1e-5 * squares / LENGTH);
    op_kit_close(&kit);
}

static void long_axes_run_watched(void **state) {
    (void)state;
    op_kit_watch(true);
    check_long_axes();
    if (op_kit_use_device("vk:0")) check_long_axes();
    if (op_kit_use_device("cuda:0")) check_long_axes();
    op_kit_watch(false);
    assert_true(op_kit_use_device("cpu"));
}

/* ---- Destinations (S3) ---- */

/* The first output goes into the middle columns of a wider tensor, all of it -999 before: it is the same as
 * the result that the op makes, bit for bit, and the columns beside it stay. */
static void check_into_slice(const op_trial *trial) {
    if (trial->example.use.output_count == 0) return;
    op_kit kit;
    op_kit_open(&kit);
    rota_op_use made = op_trial_use(&kit, trial), into = made;
    for (uint32_t i = 0; i < made.output_count; i++) made.outputs[i] = trial->example.use.outputs[i];
    assert_ok(rota_op_apply(kit.tape, &made));
    const rota_tensor *y = &made.outputs[0];
    uint64_t shape[ROTA_RANK_MAX] = {1};
    uint32_t rank = y->rank ? y->rank : 1;
    for (uint32_t i = 0; i < y->rank; i++) shape[i] = y->shape[i];
    /* An odd number of 16-bit elements: the destination begins between words. */
    const uint64_t columns = shape[rank - 1], edge = rota_dtype_bytes(y->dtype) == 2 ? 3 : 4;
    shape[rank - 1] += 2 * edge;
    rota_tensor wide, dense;
    assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "wide", y->dtype, rank, shape, &wide));
    assert_ok(rota_op_fill_into(kit.tape, wide, y->dtype == ROTA_U32 ? 7 : poison));
    into.outputs[0] = wide;
    assert_ok(rota_tensor_slice(&wide, rank - 1, edge, columns, &into.outputs[0]));
    into.outputs[0].rank = y->rank;
    assert_ok(rota_op_apply(kit.tape, &into));
    /* A dense destination, prefilled too. */
    assert_ok(
        rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "dense", y->dtype, y->rank, y->shape, &dense));
    assert_ok(rota_op_fill_into(kit.tape, dense, y->dtype == ROTA_U32 ? 7 : poison));
    rota_op_use again = into;
    again.outputs[0] = dense;
    again.outputs[1] = ROTA_TENSOR_NONE;
    assert_ok(rota_op_apply(kit.tape, &again));
    assert_ptr_equal(again.outputs[0].buffer, dense.buffer);
    uint32_t first = op_kit_output(&kit, made.outputs[0]), second = op_kit_output(&kit, wide),
             third = op_kit_output(&kit, dense);
    op_kit_run(&kit);
    const uint32_t size = rota_dtype_bytes(y->dtype);
    const uint8_t *plain = kit.output_data[first], *framed = kit.output_data[second];
    const double outside = element_load(y->dtype, framed, 0);
    assert_memory_equal(plain, kit.output_data[third], kit.output_bytes[first]);
    for (uint64_t r = 0; r < rota_tensor_count(y) / columns; r++) {
        const uint8_t *row = framed + r * (columns + 2 * edge) * size;
        assert_memory_equal(row + edge * size, plain + r * columns * size, columns * size);
        for (uint64_t c = 0; c < edge; c++) {
            assert_true(element_load(y->dtype, row, c) == outside);
            assert_true(element_load(y->dtype, row, edge + columns + c) == outside);
        }
    }
    op_kit_close(&kit);
}

static void every_op_writes_into_destinations(void **state) {
    (void)state;
    each_trial(check_into_slice);
}

/* An op that may work in place gives in place what it gives elsewhere, bit for bit. */
static void check_in_place(const op_trial *trial) {
    const rota_op *op = trial->example.use.op;
    for (uint32_t i = 0; i < trial->example.use.input_count; i++) {
        const rota_tensor *x = &trial->example.use.inputs[i];
        if (!(op->inplace_inputs & 1u << i) || x->rank != trial->result[0].rank ||
            memcmp(x->shape, trial->result[0].shape, x->rank * sizeof x->shape[0]) != 0)
            continue;
        op_kit kit;
        op_kit_open(&kit);
        rota_op_use made = op_trial_use(&kit, trial), within;
        assert_ok(rota_op_apply(kit.tape, &made));
        within = made;
        within.inputs[i] = op_kit_variable(&kit, x->dtype, x->rank, x->shape, trial->data[i]);
        within.outputs[0] = within.inputs[i];
        assert_ok(rota_op_apply(kit.tape, &within));
        uint32_t first = op_kit_output(&kit, made.outputs[0]),
                 second = op_kit_output(&kit, within.outputs[0]);
        op_kit_run(&kit);
        assert_memory_equal(kit.output_data[first], kit.output_data[second], kit.output_bytes[first]);
        op_kit_close(&kit);
    }
}

static void ops_in_place_are_ops_elsewhere(void **state) {
    (void)state;
    each_trial(check_in_place);
}

/* Inputs whose axes lie in memory in the opposite order. */
static void check_strided_inputs(const op_trial *trial) {
    op_kit kit;
    op_kit_open(&kit);
    rota_op_use use = trial->example.use;
    for (uint32_t i = 0; i < use.input_count; i++) {
        const rota_tensor *x = &trial->example.use.inputs[i];
        if (!trial->data[i]) continue;
        if (use.op->input_modes[i] != ROTA_READ) {
            op_kit_close(&kit);
            return;
        }
        uint64_t shape[ROTA_RANK_MAX];
        uint32_t order[ROTA_RANK_MAX];
        for (uint32_t d = 0; d < x->rank; d++) {
            order[d] = x->rank - 1 - d;
            shape[d] = x->shape[order[d]];
        }
        void *turned = calloc(rota_tensor_count(x), 4);
        assert_non_null(turned);
        for (uint64_t e = 0; e < rota_tensor_count(x); e++) {
            uint64_t rest = e, index[ROTA_RANK_MAX], to = 0;
            for (uint32_t d = x->rank; d-- > 0; rest /= x->shape[d]) index[d] = rest % x->shape[d];
            for (uint32_t d = 0; d < x->rank; d++) to = to * shape[d] + index[order[d]];
            memcpy((uint8_t *)turned + to * rota_dtype_bytes(x->dtype),
                   (uint8_t *)trial->data[i] + e * rota_dtype_bytes(x->dtype), rota_dtype_bytes(x->dtype));
        }
        rota_tensor memory = op_kit_input(&kit, x->dtype, x->rank, shape, turned);
        assert_ok(rota_tensor_permute(&memory, order, &use.inputs[i]));
        free(turned);
    }
    assert_ok(rota_op_apply(kit.tape, &use));
    uint32_t output = op_kit_output(&kit, use.outputs[0]);
    op_kit_run(&kit);
    op_trial_reference(trial);
    op_trial_compare(trial, 0, kit.output_data[output], "strided inputs");
    op_kit_close(&kit);
}

static void every_op_reads_strided_views(void **state) {
    (void)state;
    each_trial(check_strided_inputs);
}

static void overlapping_operands_mean_what_they_say(void **state) {
    (void)state;
    float data[64], two[1] = {2};
    for (int i = 0; i < 64; i++) data[i] = (float)i;
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor x = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(64), data), y, front, back;
    assert_ok(rota_op_add_into(kit.tape, x, x, x));
    uint32_t doubled = op_kit_output(&kit, x);
    /* One element further: a plain loop would copy its own results. */
    assert_ok(rota_tensor_slice(&x, 0, 0, 63, &front));
    assert_ok(rota_tensor_slice(&x, 0, 1, 63, &back));
    assert_ok(rota_op_copy_into(kit.tape, front, back));
    uint32_t shifted = op_kit_output(&kit, x);
    /* A square matrix onto its own transpose. */
    rota_tensor square, turned;
    assert_ok(rota_tensor_reshape(&x, ROTA_SHAPE(8, 8), &square));
    assert_ok(rota_tensor_transpose(&square, 0, 1, &turned));
    assert_ok(rota_op_sub_into(kit.tape, square, turned, square));
    uint32_t difference = op_kit_output(&kit, square);
    /* S3: add(a, b) into a, ten times. */
    rota_tensor a, b = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1), two);
    assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "a", ROTA_F32, ROTA_SHAPE(300), &a));
    assert_ok(rota_op_fill_into(kit.tape, a, 1));
    for (int i = 0; i < 10; i++) assert_ok(rota_op_add_into(kit.tape, a, b, a));
    uint32_t sum = op_kit_output(&kit, a);
    /* S3: 1 to 16 from [4, 4] into [2, 8]. */
    rota_tensor from = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(4, 4), data + 1), to;
    assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "to", ROTA_F32, ROTA_SHAPE(2, 8), &to));
    assert_ok(rota_op_fill_into(kit.tape, to, poison));
    assert_ok(rota_op_reshape_into(kit.tape, from, to));
    uint32_t reshaped = op_kit_output(&kit, to);
    (void)y;
    op_kit_run(&kit);
    for (int i = 0; i < 64; i++) {
        float shift = i == 0 ? 0 : 2 * (float)(i - 1);
        int other = i % 8 * 8 + i / 8;
        assert_true(op_kit_f32(&kit, doubled)[i] == 2 * data[i]);
        assert_true(op_kit_f32(&kit, shifted)[i] == shift);
        assert_true(op_kit_f32(&kit, difference)[i] == shift - (other == 0 ? 0 : 2 * (float)(other - 1)));
    }
    for (int i = 0; i < 300; i++) assert_true(op_kit_f32(&kit, sum)[i] == 21);
    for (int i = 0; i < 16; i++) assert_true(op_kit_f32(&kit, reshaped)[i] == (float)(i + 1));
    op_kit_close(&kit);
}

/* ---- Ops made of others ---- */

static void parts_are_put_together(void **state) {
    (void)state;
    float data[60], got[60];
    for (int i = 0; i < 60; i++) data[i] = (float)i;
    for (rota_dtype dtype = ROTA_F32; dtype <= ROTA_BF16; dtype++) {
        uint8_t contents[240];
        for (uint64_t i = 0; i < 60; i++) element_store(dtype, contents, i, (double)data[i]);
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor x = op_kit_input(&kit, dtype, ROTA_SHAPE(4, 15), contents), part[3], y, wide, sums;
        /* Odd columns: of 16 bits the parts begin between words. */
        assert_ok(rota_tensor_split(&x, 1, 3, part));
        const rota_tensor turned[3] = {part[2], part[0], part[1]};
        assert_ok(rota_op_concat(kit.tape, turned, 3, 1, &y));
        assert_ok(rota_tensor_slice(&x, 0, 1, 1, &wide));
        assert_ok(rota_op_broadcast(kit.tape, wide, ROTA_SHAPE(3, 15), &wide));
        assert_ok(rota_op_column_sums(kit.tape, x, &sums));
        uint32_t whole = op_kit_output(&kit, y), repeated = op_kit_output(&kit, wide),
                 sum = op_kit_output(&kit, sums);
        assert_status(rota_tensor_split(&x, 1, 4, part), ROTA_INVALID_ARGUMENT);
        assert_status(rota_op_concat(kit.tape, (const rota_tensor[]){x, part[0]}, 2, 1, &y), ROTA_OK);
        assert_status(rota_op_concat(kit.tape, (const rota_tensor[]){x, part[0]}, 2, 0, &y),
                      ROTA_INVALID_ARGUMENT);
        op_kit_run(&kit);
        for (uint64_t i = 0; i < 60; i++) got[i] = (float)element_load(dtype, kit.output_data[whole], i);
        for (int i = 0; i < 60; i++) assert_true(got[i] == data[i / 15 * 15 + (i % 15 + 10) % 15]);
        for (uint64_t i = 0; i < 45; i++)
            assert_true(element_load(dtype, kit.output_data[repeated], i) == (double)(15 + i % 15));
        for (uint64_t i = 0; i < 15; i++)
            assert_true(element_load(dtype, kit.output_data[sum], i) == (double)(90 + 4 * i));
        op_kit_close(&kit);
    }
}

/* More elements than f32 counts: indices stay whole. The sanitizers' builds take too long over it.
 */
static void check_counts(void) {
    enum { COUNT = (1 << 24) + 5 };
    uint16_t *data = malloc(COUNT * sizeof *data);
    assert_non_null(data);
    for (uint32_t i = 0; i < COUNT; i++)
        data[i] = (uint16_t)(0x3F80 + (i * 2654435761u >> 26)); /* 1 to 1.5 */
    data[COUNT - 2] = 0x4000;                                   /* 2 */
    const int32_t indices[3] = {COUNT - 2, 0, COUNT - 1};
    double total = 0, magnitude = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        const double value = element_load(ROTA_BF16, data, i);
        total += value * value;
        magnitude += fabs(value * value);
    }
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor x = op_kit_input(&kit, ROTA_BF16, ROTA_SHAPE(COUNT), data), index, odd, top, doubled, picked,
                squares;
    rota_tensor chosen = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(3), indices);
    assert_ok(rota_op_argmax(kit.tape, x, 0, true, &index));
    assert_ok(rota_op_max(kit.tape, x, 0, true, &top));
    assert_ok(rota_tensor_slice(&x, 0, 1, COUNT - 1, &odd));
    assert_ok(rota_op_add(kit.tape, odd, top, &doubled));
    assert_ok(rota_op_gather(kit.tape, x, 0, chosen, &picked));
    assert_ok(rota_op_sum_squares(kit.tape, x, &squares));
    uint32_t found = op_kit_output(&kit, index), sum = op_kit_output(&kit, doubled),
             picks = op_kit_output(&kit, picked), square = op_kit_output(&kit, squares);
    op_kit_run(&kit);
    assert_int_equal(*(const int32_t *)kit.output_data[found], COUNT - 2);
    for (uint64_t i = 0; i + 1 < COUNT; i++) {
        const double expected = element_load(ROTA_BF16, data, i + 1) + 2;
        if (fabs(element_load(ROTA_BF16, kit.output_data[sum], i) - expected) > 0x1p-8 * expected)
            fail_msg("element %llu", (unsigned long long)i);
    }
    for (uint64_t i = 0; i < 3; i++)
        assert_true(element_load(ROTA_BF16, kit.output_data[picks], i) ==
                    element_load(ROTA_BF16, data, (uint64_t)indices[i]));
    /* In pieces of 1024 and trees of them: each term passes through some thousand roundings at the most. */
    assert_true(fabs((double)op_kit_f32(&kit, square)[0] - total) <= 2048 * 0x1p-24 * magnitude);
    op_kit_close(&kit);
    free(data);
}

static void counts_pass_what_f32_counts(void **state) {
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const bool takes_too_long = true;
#else
    const bool takes_too_long = false;
#endif
    if (takes_too_long) return;
    check_counts();
    if (op_kit_use_device("vk:0")) check_counts();
    assert_true(op_kit_use_device("cpu"));
}

/* ---- Tensors ---- */

static void views_walk_the_same_memory(void **state) {
    (void)state;
    rota_buffer *buffer;
    rota_tensor x, view;
    assert_ok(rota_buffer_create("b", 4096, &buffer));
    assert_ok(rota_tensor_of(buffer, 64, ROTA_F32, ROTA_SHAPE(4, 6, 8), &x));
    assert_true(rota_tensor_is_contiguous(&x) && rota_tensor_is_dense(&x));
    assert_int_equal(rota_tensor_extent_bytes(&x), 4 * 6 * 8 * 4);
    assert_ok(rota_tensor_slice(&x, 2, 2, 4, &view));
    assert_int_equal(view.offset_bytes, 64 + 2 * 4);
    assert_false(rota_tensor_is_contiguous(&view) || rota_tensor_is_dense(&view));
    /* The last axis of the slice splits; the first two, which still lie evenly, merge. */
    assert_ok(rota_tensor_reshape(&view, ROTA_SHAPE(24, 2, 2), &view));
    assert_int_equal(view.stride[0], 8);
    assert_int_equal(view.stride[1], 2);
    assert_ok(rota_tensor_slice(&x, 2, 2, 4, &view));
    assert_status(rota_tensor_reshape(&view, ROTA_SHAPE(96), &view), ROTA_INVALID_ARGUMENT);
    assert_ok(rota_tensor_permute(&x, (const uint32_t[]){2, 0, 1}, &view));
    assert_true(rota_tensor_is_dense(&view) && !rota_tensor_is_contiguous(&view));
    assert_int_equal(view.shape[0], 8);
    assert_int_equal(view.stride[0], 1);
    assert_ok(rota_tensor_slice(&x, 0, 0, 1, &view));
    assert_ok(rota_tensor_broadcast(&view, ROTA_SHAPE(3, 5, 6, 8), &view));
    assert_int_equal(view.stride[0], 0);
    assert_int_equal(view.stride[1], 0);
    assert_status(rota_tensor_broadcast(&x, ROTA_SHAPE(4, 6, 9), &view), ROTA_INVALID_ARGUMENT);
    assert_status(rota_tensor_permute(&x, (const uint32_t[]){0, 0, 1}, &view), ROTA_INVALID_ARGUMENT);
    assert_status(rota_tensor_slice(&x, 1, 4, 3, &view), ROTA_OUT_OF_RANGE);
    assert_status(rota_tensor_slice(&x, 3, 0, 1, &view), ROTA_INVALID_ARGUMENT);
    assert_status(rota_tensor_of(buffer, 0, ROTA_F32, ROTA_SHAPE(1025), &view), ROTA_OUT_OF_RANGE);
    assert_status(rota_tensor_of(buffer, 2, ROTA_F32, ROTA_SHAPE(1), &view), ROTA_MISALIGNED);
    assert_ok(rota_tensor_of(buffer, 4096, ROTA_F32, ROTA_SHAPE(3, 0), &view));
    assert_int_equal(rota_tensor_extent_bytes(&view), 0);
    assert_true(rota_tensor_is_contiguous(&view) && rota_tensor_is_dense(&view));
    assert_ok(rota_tensor_reshape(&view, ROTA_SHAPE(0, 7), &view));
    assert_status(rota_tensor_reshape(&view, ROTA_SHAPE(7), &view), ROTA_INVALID_ARGUMENT);
    assert_status(rota_tensor_of(buffer, 0, ROTA_F32, ROTA_SHAPE(1u << 31, 2), &view), ROTA_INVALID_ARGUMENT);
    char text[16];
    assert_string_equal(rota_tensor_describe(&x, text, sizeof text), "f32 [4, 6, 8]");
    assert_string_equal(rota_tensor_describe(&x, text, 9), "f32 [4, ");
    rota_buffer_release(buffer);
}

/* ---- Errors ---- */

#define assert_message(part)                                                                                 \
    do {                                                                                                     \
        if (!strstr(rota_last_error(), part)) fail_msg("'%s' is not in: %s", part, rota_last_error());       \
    } while (0)

static void wrong_operands_are_named(void **state) {
    (void)state;
    op_kit kit;
    float data[256] = {0};
    op_kit_open(&kit);
    rota_tensor a = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(3, 4), data),
                b = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(3, 5), data),
                n = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(3), data), y, found;
    uint64_t before = rota_graph_node_count(kit.graph);
    assert_status(rota_op_add(kit.tape, a, b, &y), ROTA_INVALID_ARGUMENT);
    assert_message("op 'add'");
    assert_message("f32 [3, 4]");
    assert_message("f32 [3, 5]");
    assert_status(rota_op_matmul(kit.tape, a, b, false, false, &y), ROTA_INVALID_ARGUMENT);
    assert_message("op 'matmul'");
    assert_message("f32 [3, 5]");
    assert_status(rota_op_mul(kit.tape, a, n, &y), ROTA_INVALID_ARGUMENT);
    assert_message("b is i32 [3]; expected f32, f16 or bf16");
    rota_tensor half = op_kit_input(&kit, ROTA_BF16, ROTA_SHAPE(3, 4), data);
    before = rota_graph_node_count(kit.graph);
    assert_status(rota_op_mul(kit.tape, half, a, &y), ROTA_INVALID_ARGUMENT);
    assert_message("a is bf16 [3, 4], b is f32 [3, 4]; expected one dtype: cast one of them");
    assert_status(rota_op_where(kit.tape, a, half, half, &y), ROTA_INVALID_ARGUMENT);
    assert_status(rota_op_masked_fill(kit.tape, a, b, 0, &y), ROTA_INVALID_ARGUMENT);
    assert_message("mask is f32 [3, 5]");
    assert_status(rota_op_gather(kit.tape, a, 1, b, &y), ROTA_INVALID_ARGUMENT);
    assert_message("op 'gather': index is f32 [3, 5]; expected i32");
    assert_status(rota_op_gather(kit.tape, a, 0, n, &y), ROTA_INVALID_ARGUMENT);
    assert_status(rota_op_top_k(kit.tape, a, 1, 5, &y, &found), ROTA_INVALID_ARGUMENT);
    assert_message("k is 5, expected 1 to 4");
    assert_status(rota_op_variance(kit.tape, a, 0, 3, false, &y), ROTA_INVALID_ARGUMENT);
    assert_message("correction is 3, expected 0 to 2");
    assert_status(rota_op_exp_into(kit.tape, a, b), ROTA_INVALID_ARGUMENT);
    assert_message("destination 'y' is f32 [3, 5], expected f32 [3, 4]");
    assert_status(rota_op_exp_into(kit.tape, a, ROTA_TENSOR_NONE), ROTA_INVALID_ARGUMENT);
    assert_message("destination is missing");
    assert_status(rota_op_exp(kit.tape, ROTA_TENSOR_NONE, &y), ROTA_INVALID_ARGUMENT);
    assert_message("op 'exp': input 'x' is missing");
    assert_status(rota_op_sum(kit.tape, a, 2, false, &y), ROTA_INVALID_ARGUMENT);
    assert_message("axis 2");
    assert_status(rota_op_layernorm(kit.tape, a, b, ROTA_TENSOR_NONE, 1e-5f, &y), ROTA_INVALID_ARGUMENT);
    assert_message("expected f32 [4]");
    assert_status(rota_op_cross_entropy(kit.tape, a, b, &y), ROTA_INVALID_ARGUMENT);
    assert_message("op 'cross_entropy'");
    assert_status(rota_op_embedding(kit.tape, a, b, &y), ROTA_INVALID_ARGUMENT);
    assert_status(rota_op_attention(kit.tape, a, a, a, true, 0, &y), ROTA_INVALID_ARGUMENT);
    assert_message("op 'attention'");
    assert_status(rota_op_weighted_matmul(kit.tape, a, b, &y), ROTA_INVALID_ARGUMENT);
    assert_status(rota_op_causal_mask(kit.tape, n, &y), ROTA_INVALID_ARGUMENT);
    assert_status(rota_op_slice(kit.tape, a, 1, 3, 2, &y), ROTA_OUT_OF_RANGE);
    assert_status(rota_op_transpose(kit.tape, a, 0, 5, &y), ROTA_INVALID_ARGUMENT);
    assert_status(rota_op_reshape_into(kit.tape, a, b), ROTA_INVALID_ARGUMENT);
    assert_status(rota_op_cast(kit.tape, n, ROTA_U32, &y), ROTA_INVALID_ARGUMENT);
    assert_message("op 'cast': from i32 to u32; expected f32, f16, bf16, i32, f8_e4m3fn or f8_e5m2");
    assert_status(rota_op_dropout(kit.tape, a, 1.0f, ROTA_CONSTANT(1), ROTA_CONSTANT(1), &y),
                  ROTA_INVALID_ARGUMENT);
    assert_status(rota_op_index_add(kit.tape, n, 1, a), ROTA_INVALID_ARGUMENT);
    assert_status(rota_op_fill_into(kit.tape, n, 2147483648.0), ROTA_INVALID_ARGUMENT);
    assert_message("op 'fill': 2147483648 is no i32");
    assert_status(rota_op_fill_into(kit.tape, n, NAN), ROTA_INVALID_ARGUMENT);
    assert_status(rota_op_check_finite(kit.tape, n, &found), ROTA_INVALID_ARGUMENT);
    assert_status(rota_op_global_norm(kit.tape, &n, 1, 1, &y), ROTA_INVALID_ARGUMENT);
    rota_tensor past = a;
    past.offset_bytes = 4;
    assert_status(rota_op_exp(kit.tape, past, &y), ROTA_OUT_OF_RANGE);
    assert_message("buffer");
    rota_tensor repeated;
    assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, NULL, ROTA_F32, ROTA_SHAPE(1, 4), &repeated));
    assert_ok(rota_tensor_broadcast(&repeated, ROTA_SHAPE(3, 4), &repeated));
    assert_status(rota_op_exp_into(kit.tape, a, repeated), ROTA_INVALID_ARGUMENT);
    assert_message("repeats axis 0");
    assert_int_equal(rota_graph_node_count(kit.graph), before);
    op_kit_close(&kit);
}

static void what_varies_by_step_is_no_plain_number(void **state) {
    (void)state;
    op_kit kit;
    float data[4] = {0};
    op_kit_open(&kit);
    rota_tensor p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(4), data),
                g = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(4), data),
                m = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(4), data),
                v = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(4), data), y;
    rota_adamw options =
        ROTA_ADAMW(.lr = ROTA_PLAIN(0.1), .step = ROTA_CONSTANT(1), .beta1 = 0.9f, .beta2 = 0.99f);
    assert_status(rota_op_adamw(kit.tape, p, g, m, v, &options), ROTA_INVALID_ARGUMENT);
    assert_message("lr");
    options.lr = ROTA_CONSTANT(0.1);
    options.step = ROTA_PLAIN(1);
    assert_status(rota_op_adamw(kit.tape, p, g, m, v, &options), ROTA_INVALID_ARGUMENT);
    assert_message("step");
    const double no_counts[] = {-1, 4294967296.0, 1e300, NAN};
    for (int i = 0; i < 4; i++) {
        options.step = ROTA_CONSTANT(no_counts[i]);
        assert_status(rota_op_adamw(kit.tape, p, g, m, v, &options), ROTA_INVALID_ARGUMENT);
        assert_message("op 'adamw': step is ");
        assert_status(rota_op_dropout(kit.tape, p, 0.5f, ROTA_CONSTANT(1), ROTA_CONSTANT(no_counts[i]), &y),
                      ROTA_INVALID_ARGUMENT);
        assert_message("op 'dropout': step is ");
    }
    options.step = ROTA_CONSTANT(1);
    assert_ok(rota_op_adamw(kit.tape, p, g, m, v, &options));
    assert_status(rota_op_dropout(kit.tape, p, 0.5f, ROTA_PLAIN(1), ROTA_CONSTANT(1), &y),
                  ROTA_INVALID_ARGUMENT);
    assert_message("seed");
    /* The table says the same. */
    assert_int_equal(rota_op_find("adamw")->varies_by_step, 3);
    assert_int_equal(rota_op_find("dropout")->varies_by_step, 3);
    assert_null(rota_op_find("no such op"));
    op_kit_close(&kit);
}

/* NaN is the largest, and of equal values the first; an index outside is named. */
static void ties_and_bad_indices(void **state) {
    (void)state;
    const float values[6] = {1, 3, -0.0f, 3, 0, -1}, odd[4] = {1, NAN, INFINITY, NAN};
    op_kit kit;
    op_kit_open(&kit);
    rota_tensor top, index, first, x = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(6), values);
    assert_ok(rota_op_top_k(kit.tape, x, 0, 6, &top, &index));
    assert_ok(rota_op_argmax(kit.tape, op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(4), odd), 0, true, &first));
    uint32_t order = op_kit_output(&kit, index), nan = op_kit_output(&kit, first);
    op_kit_run(&kit);
    const int32_t expected[6] = {1, 3, 0, 2, 4, 5};
    assert_memory_equal(kit.output_data[order], expected, sizeof expected);
    assert_int_equal(*(const int32_t *)kit.output_data[nan], 1);
    op_kit_close(&kit);
    static const char *const messages[] = {"gather: index 1 is 6, expected 0 to 5",
                                           "scatter_add: index 1 is 6, expected 0 to 5",
                                           "one_hot: index 1 is 6, expected 0 to 5"};
    const int32_t bad[2] = {2, 6};
    for (int which = 0; which < 3; which++) {
        op_kit_open(&kit);
        rota_tensor y, indices = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(2), bad);
        if (which < 2) x = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(6), values);
        if (which == 0) assert_ok(rota_op_gather(kit.tape, x, 0, indices, &y));
        if (which == 1)
            assert_ok(rota_op_scatter_add(kit.tape, x, 0, indices,
                                          op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(2), odd), &y));
        if (which == 2) assert_ok(rota_op_one_hot(kit.tape, indices, 6, ROTA_BF16, &y));
        (void)op_kit_output(&kit, y);
        assert_status(op_kit_try_run(&kit), ROTA_NODE_FAILED);
        assert_message(messages[which]);
        op_kit_close(&kit);
    }
}

static void bad_contents_fail_the_node(void **state) {
    (void)state;
    float table[12] = {0}, values[20001] = {0};
    int32_t index[3] = {1, 2, 4};
    for (int bad = 0; bad < 4; bad++) {
        op_kit kit;
        op_kit_open(&kit);
        rota_tensor y, rows, indices;
        values[20000] = NAN;
        index[1] = bad == 2 ? -7 : 2;
        if (bad < 2) rows = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(3, 4), table);
        if (bad < 3) indices = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(3), index);
        if (bad == 0) assert_ok(rota_op_embedding(kit.tape, rows, indices, &y));
        if (bad == 1) assert_ok(rota_op_cross_entropy(kit.tape, rows, indices, &y));
        if (bad == 2) {
            y = op_kit_variable(&kit, ROTA_I32, ROTA_SHAPE(3), table);
            assert_ok(rota_op_index_add(kit.tape, indices, 1, y));
        }
        if (bad == 3)
            assert_ok(
                rota_op_check_finite(kit.tape, op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(20001), values), &y));
        (void)op_kit_output(&kit, y);
        assert_status(op_kit_try_run(&kit), ROTA_NODE_FAILED);
        static const char *const expected[] = {"embedding: index 2 is 4, expected 0 to 2",
                                               "cross_entropy: label 2 is 4, expected 0 to 3",
                                               "index_add: index 1 is -7", "check_finite: element 20000"};
        assert_message(expected[bad]);
        op_kit_close(&kit);
    }
}

static void every_kernel_is_found_by_its_name(void **state) {
    (void)state;
    static const char *const names[] = {
#define KERNEL(NAME, ...) #NAME,
#define COMPOSITE(NAME) #NAME,
#include "ops/kernels.def"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_non_null(rota_kernel_find(names[i]));
        assert_string_equal(rota_kernel_find(names[i])->name, names[i]);
    }
    uint32_t count = 0;
    const rota_kernel *const *table = rota_kernel_table(&count);
    for (uint32_t i = 0; i < count; i++) assert_ptr_equal(rota_kernel_find(table[i]->name), table[i]);
    assert_null(rota_kernel_find("matmul_"));
    assert_null(rota_kernel_find(""));
    assert_null(rota_kernel_find(NULL));
}

/* The list from which indices come, and the arrays that it counts through, say the same. */
static void ops_stand_where_the_list_says(void **state) {
    (void)state;
    static const char *const names[] = {
#define FAMILY(NAME)
#define OP(FAMILY, NAME) #NAME,
#include "ops/ops.def"
    };
    const uint32_t count = sizeof names / sizeof *names;
    assert_int_equal(rota_op_count(), count);
    assert_null(rota_op_at(count));
    for (uint32_t i = 0; i < count; i++) {
        assert_string_equal(rota_op_at(i)->name, names[i]);
        assert_ptr_equal(rota_op_find(names[i]), rota_op_at(i));
    }
    assert_null(rota_op_find("ad"));
    assert_null(rota_op_find(NULL));
    uint32_t in_arrays = 0;
#define FAMILY(NAME)                                                                                         \
    for (const rota_op *op = rota_ops_##NAME; op->name; op++) in_arrays++;
#define OP(FAMILY, NAME)
#include "ops/ops.def"
    assert_int_equal(in_arrays, count);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_is_found_by_its_name),
        cmocka_unit_test(ops_stand_where_the_list_says),
        cmocka_unit_test(views_walk_the_same_memory),
        cmocka_unit_test(every_op_gives_its_reference),
        cmocka_unit_test(every_op_runs_watched),
        cmocka_unit_test(long_axes_run_watched),
        cmocka_unit_test(every_op_writes_into_destinations),
        cmocka_unit_test(ops_in_place_are_ops_elsewhere),
        cmocka_unit_test(every_op_reads_strided_views),
        cmocka_unit_test(overlapping_operands_mean_what_they_say),
        cmocka_unit_test(parts_are_put_together),
        cmocka_unit_test(counts_pass_what_f32_counts),
        cmocka_unit_test(wrong_operands_are_named),
        cmocka_unit_test(what_varies_by_step_is_no_plain_number),
        cmocka_unit_test(ties_and_bad_indices),
        cmocka_unit_test(bad_contents_fail_the_node),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
