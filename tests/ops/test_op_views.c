/* Every op on views that begin at an odd element of their buffer, as a tensor's offset and as a buffer's,
 * with its gradients: what the op table's references and the same op on whole buffers give, and nothing
 * written beside a view. Under the undefined-behaviour sanitizer this judges alignment too. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/kit/todays.h"
#include "tests/ops/op_kit.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_VULKAN false /* they don't see into shaders */
#else
#define HAS_VULKAN true
#endif

enum { WHOLE, BY_TENSOR, BY_BUFFER, KINDS }; /* no view; an offset of the tensor; of its buffer */
enum { AFTER = 3, GUARD = 0xA5 };

typedef struct placed {
    rota_tensor whole, view; /* whole: one axis of `odd` elements, the view's, and AFTER */
    uint64_t odd;
    rota_buffer *held; /* a view of the whole's buffer, or NULL */
} placed;

/* An operand with these contents, or (NULL) to be written. */
static placed lay_out(op_kit *kit, const rota_tensor *like, const void *data, bool written, int kind,
                      uint64_t odd) {
    const uint64_t size = rota_dtype_bytes(like->dtype), bytes = rota_tensor_count(like) * size,
                   count = rota_tensor_count(like) + odd + AFTER;
    uint8_t *all = malloc(count * size);
    assert_non_null(all);
    memset(all, GUARD, count * size);
    if (data) memcpy(all + odd * size, data, bytes);
    placed p = {.odd = odd};
    p.whole = (written ? op_kit_variable : op_kit_input)(kit, like->dtype, 1, &count, all);
    free(all);
    if (kind == BY_BUFFER) {
        assert_ok(rota_buffer_create_view(p.whole.buffer, odd * size, bytes, &p.held));
        assert_ok(rota_tensor_of(p.held, 0, like->dtype, like->rank, like->shape, &p.view));
    } else {
        assert_ok(rota_tensor_of(p.whole.buffer, odd * size, like->dtype, like->rank, like->shape, &p.view));
    }
    return p;
}

typedef struct results {
    op_kit kit;
    placed inputs[ROTA_OP_INPUTS_MAX], outputs[ROTA_OP_OUTPUTS_MAX];
    uint32_t of_inputs[ROTA_OP_INPUTS_MAX], of_outputs[ROTA_OP_OUTPUTS_MAX], guards[ROTA_OP_INPUTS_MAX],
        output_guards[ROTA_OP_OUTPUTS_MAX];
    uint32_t gradient_count, of_gradients[ROTA_OP_INPUTS_MAX];
    rota_dtype gradient_dtypes[ROTA_OP_INPUTS_MAX];
    rota_op_use use;
} results;

/* The gradients of the sum of the results, those of real numbers, each times a number of its own. */
static void put_gradients(results *r, const rota_op_use *use) {
    op_kit *kit = &r->kit;
    rota_tensor loss = ROTA_TENSOR_NONE, params[ROTA_OP_INPUTS_MAX], gradients[ROTA_OP_INPUTS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < use->input_count; i++)
        if (use->op->differentiable & 1u << i && use->inputs[i].buffer) {
            gradients[count] = ROTA_TENSOR_NONE;
            params[count++] = use->inputs[i];
        }
    for (uint32_t o = 0; o < use->output_count; o++) {
        rota_tensor y = use->outputs[o], sum;
        if (!rota_dtype_is_real(y.dtype)) continue;
        if (y.dtype != ROTA_F32) assert_ok(rota_op_cast(kit->tape, y, ROTA_F32, &y));
        assert_ok(rota_op_reshape(kit->tape, y, ROTA_SHAPE(rota_tensor_count(&y)), &y));
        float *weights = malloc(y.shape[0] * sizeof *weights);
        assert_non_null(weights);
        for (uint64_t i = 0; i < y.shape[0]; i++) weights[i] = (float)((i * 37 + o) % 16) / 8 - 1;
        assert_ok(rota_op_mul(kit->tape, y, op_kit_input(kit, ROTA_F32, 1, y.shape, weights), &y));
        free(weights);
        assert_ok(rota_op_sum(kit->tape, y, 0, true, &sum));
        if (loss.buffer) assert_ok(rota_op_add(kit->tape, loss, sum, &sum));
        loss = sum;
    }
    if (!count || !loss.buffer) return;
    if (rota_backward(kit->tape, loss, params, count, gradients, NULL) != ROTA_OK)
        return; /* of some none flows */
    r->gradient_count = count;
    for (uint32_t i = 0; i < count; i++) {
        r->gradient_dtypes[i] = gradients[i].dtype;
        r->of_gradients[i] = op_kit_output(kit, gradients[i]);
    }
}

static void run(const op_trial *trial, int kind, uint64_t odd, results *r) {
    op_kit *kit = &r->kit;
    *r = (results){.use = trial->example.use};
    rota_op_use *use = &r->use;
    op_kit_open(kit);
    if (kind == WHOLE) odd = 0;
    for (uint32_t i = 0; i < use->input_count; i++) {
        if (!trial->data[i]) continue;
        r->inputs[i] = lay_out(kit, &trial->example.use.inputs[i], trial->data[i],
                               use->op->input_modes[i] != ROTA_READ, kind, odd);
        use->inputs[i] = r->inputs[i].view;
    }
    for (uint32_t o = 0; o < use->output_count; o++) {
        r->outputs[o] = lay_out(kit, &trial->result[o], NULL, true, kind, odd);
        use->outputs[o] = r->outputs[o].view;
    }
    if (rota_op_apply(kit->tape, use) != ROTA_OK)
        fail_msg("%s (%s): %s", use->op->name, trial->example.label, rota_last_error());
    for (uint32_t o = 0; o < use->output_count; o++) {
        r->of_outputs[o] = op_kit_output(kit, use->outputs[o]);
        r->output_guards[o] = op_kit_output(kit, r->outputs[o].whole);
    }
    for (uint32_t i = 0; i < use->input_count; i++) {
        if (!trial->data[i] || use->op->input_modes[i] == ROTA_READ) continue;
        r->of_inputs[i] = op_kit_output(kit, use->inputs[i]);
        r->guards[i] = op_kit_output(kit, r->inputs[i].whole);
    }
    put_gradients(r, use);
    op_kit_run(kit);
}

static void finish(results *r) {
    for (uint32_t i = 0; i < ROTA_OP_INPUTS_MAX; i++) rota_buffer_release(r->inputs[i].held);
    for (uint32_t o = 0; o < ROTA_OP_OUTPUTS_MAX; o++) rota_buffer_release(r->outputs[o].held);
    op_kit_close(&r->kit);
}

static void check_guard(const op_trial *trial, const results *r, const placed *p, uint32_t output,
                        const char *name) {
    const uint64_t size = rota_dtype_bytes(p->view.dtype), begin = p->odd * size,
                   end = begin + rota_tensor_count(&p->view) * size;
    const uint8_t *data = r->kit.output_data[output];
    for (uint64_t i = 0; i < end + AFTER * size; i++)
        if ((i < begin || i >= end) && data[i] != GUARD)
            fail_msg("%s (%s): byte %lld beside '%s' was written", trial->example.use.op->name,
                     trial->example.label, (long long)i - (long long)begin, name);
}

/* 16-bit results may differ by the last bit where sums are taken in another order. */
static void check(const op_trial *trial, rota_dtype dtype, const char *name, uint64_t e, const void *got_data,
                  const void *expected_data) {
    const double unit = dtype == ROTA_F32    ? 1e-5
                        : dtype == ROTA_F16  ? 0x1p-9
                        : dtype == ROTA_BF16 ? 0x1p-6
                                             : 0;
    const double got = element_load(dtype, got_data, e), expected = element_load(dtype, expected_data, e);
    if (got == expected || fabs(got - expected) <= unit * fmax(1, fabs(expected))) return;
    if (isnan(got) && isnan(expected)) return;
    fail_msg("%s (%s): '%s'[%llu] is %.9g, expected %.9g", trial->example.use.op->name, trial->example.label,
             name, (unsigned long long)e, got, expected);
}

static void compare(const op_trial *trial, const results *whole, const results *r) {
    const rota_op *op = trial->example.use.op;
    for (uint32_t o = 0; o < r->use.output_count; o++) {
        const rota_tensor *y = &r->use.outputs[o];
        for (uint64_t e = 0; e < rota_tensor_count(y); e++)
            check(trial, y->dtype, op->output_names[o], e, r->kit.output_data[r->of_outputs[o]],
                  whole->kit.output_data[whole->of_outputs[o]]);
        check_guard(trial, r, &r->outputs[o], r->output_guards[o], op->output_names[o]);
    }
    for (uint32_t i = 0; i < r->use.input_count; i++) {
        if (!trial->data[i] || op->input_modes[i] == ROTA_READ) continue;
        check_guard(trial, r, &r->inputs[i], r->guards[i], op->input_names[i]);
        const rota_tensor *x = &r->use.inputs[i];
        for (uint64_t e = 0; e < rota_tensor_count(x); e++)
            check(trial, x->dtype, op->input_names[i], e, r->kit.output_data[r->of_inputs[i]],
                  whole->kit.output_data[whole->of_inputs[i]]);
    }
    assert_int_equal(r->gradient_count, whole->gradient_count);
    for (uint32_t g = 0; g < r->gradient_count; g++) {
        const rota_dtype dtype = r->gradient_dtypes[g];
        const uint64_t bytes = r->kit.output_bytes[r->of_gradients[g]];
        assert_int_equal(bytes, whole->kit.output_bytes[whole->of_gradients[g]]);
        for (uint64_t e = 0; e < bytes / rota_dtype_bytes(dtype); e++)
            check(trial, dtype, "gradient", e, r->kit.output_data[r->of_gradients[g]],
                  whole->kit.output_data[whole->of_gradients[g]]);
    }
}

/* `sparse`: of an op's examples every other one, by turns in one kind of view. */
static void every_op(const char *device, bool sparse) {
    const int except[2] = {sparse ? BY_TENSOR : KINDS, sparse ? BY_BUFFER : KINDS};
    assert_true(op_kit_use_device(device));
    uint32_t ran = 0, gradients = 0;
    const test_todays todays = test_todays_part();
    for (uint32_t o = (uint32_t)todays.part; o < rota_op_count(); o += (uint32_t)todays.parts) {
        rota_op_example example;
        for (uint32_t i = 0; rota_op_get_example(rota_op_at(o), i, 0, &example); i += sparse ? 2 : 1) {
            op_trial trial;
            results whole;
            assert_true(op_trial_of(&example, 100 + i, &trial));
            run(&trial, WHOLE, 0, &whole);
            for (int kind = BY_TENSOR; kind < KINDS; kind++) {
                if (kind == except[i / 2 % 2]) continue;
                results views;
                run(&trial, kind, (i + (uint32_t)kind) % 2 ? 1 : 3, &views);
                compare(&trial, &whole, &views);
                gradients += views.gradient_count;
                ran++;
                finish(&views);
            }
            finish(&whole);
            op_trial_free(&trial);
        }
    }
    print_message("%u views, %u gradients\n", ran, gradients);
    const uint64_t least = rota_op_count() / todays.parts;
    assert_true(ran >= least && gradients >= least);
}

static void on_the_cpu(void **state) {
    (void)state;
    every_op("cpu", false);
}

/* Two elements of 16 bits that share a word, or views that do, are operand and result of one op. */
static void operands_and_results_share_a_word(void **state) {
    (void)state;
    enum { COUNT = 6, PAIRS = 3 };
    static const uint64_t copies[PAIRS][3] = {{1, 0, 1}, {0, 1, 1}, {3, 0, 3}}; /* to, from, elements */
    const char *const names[] = {"copy", "neg", "stop_gradient", "add"};
    for (uint32_t n = 0; n < 4; n++)
        for (uint32_t k = 0; k < PAIRS; k++) {
            uint16_t data[COUNT];
            for (uint64_t e = 0; e < COUNT; e++) element_store(ROTA_F16, data, e, (double)(e + 1));
            op_kit kit;
            op_kit_open(&kit);
            rota_tensor all = op_kit_variable(&kit, ROTA_F16, ROTA_SHAPE(COUNT), data), from, to;
            assert_ok(rota_tensor_slice(&all, 0, copies[k][1], copies[k][2], &from));
            assert_ok(rota_tensor_slice(&all, 0, copies[k][0], copies[k][2], &to));
            rota_op_use use = {.op = rota_op_find(names[n]), .output_count = 1, .inputs = {from, from}};
            use.input_count = use.op->input_count;
            use.outputs[0] = to;
            assert_ok(rota_op_apply(kit.tape, &use));
            const uint32_t output = op_kit_output(&kit, all);
            op_kit_run(&kit);
            for (uint64_t e = 0; e < COUNT; e++) {
                const bool written = e >= copies[k][0] && e < copies[k][0] + copies[k][2];
                double expected = (double)(e + 1);
                if (written)
                    expected = (double)(e - copies[k][0] + copies[k][1] + 1) * (n == 1 ? -1 : n == 3 ? 2 : 1);
                assert_true(element_load(ROTA_F16, kit.output_data[output], e) == expected);
            }
            op_kit_close(&kit);
        }
}

static void on_vulkan(void **state) {
    (void)state;
    if (!HAS_VULKAN || !op_kit_use_device("vk:0")) skip();
    every_op("vk:0", true);
}

static void on_cuda(void **state) {
    (void)state;
    if (!op_kit_use_device("cuda:0")) skip();
    every_op("cuda:0", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_cpu),
        cmocka_unit_test(operands_and_results_share_a_word),
        cmocka_unit_test(on_vulkan),
        cmocka_unit_test(on_cuda),
    };
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
