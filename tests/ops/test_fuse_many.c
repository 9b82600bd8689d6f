/* Steps of AdamW next to one another, and conversions of small inputs, on CUDA devices: what becomes one node, by the
 * driver's stand-in beside the CPU, and what stays, where operands or options are others; and an embedding's gradient
 * that is added to another in place. */
#include "tests/kit/support.h"

#ifdef ROTA_HAVE_CUDA
#include <math.h>
#include "ops/cuda/many_cuda.h"
#include "ops/op.h"
#include "tests/ops/ops_stub.h"

enum { TENSORS = 15, MOST = 40, MEMBERS = 4 };

static uint32_t adamws, casts, tensors_updated, tensors_cast, halves;

/* Steps of some tensors also give what they come to in 16 bits. */
static bool has_half(uint32_t t) {
    return t % 3 == 1;
}

/* What the kernels of the CUDA image do, for the stand-in. */
static rota_status many_adamw(const rota_kernel_call *call) {
    const rota_cuda_many_adamw_params *p = call->params;
    adamws++;
    tensors_updated += p->tensors;
    for (uint32_t t = 0; t < p->tensors; t++) {
        void *const *of = &call->operands[(size_t)t * ROTA_MANY_ADAMW_EACH];
        float *w = of[0], *m = of[2], *v = of[3];
        const float *g = of[1], *rates = of[4];
        uint16_t *half = p->half_dtype[t] == ROTA_F32 ? NULL : of[5];
        halves += half != NULL;
        for (uint32_t i = 0; i < p->count[t]; i++) {
            const float d = g[i] * rates[0];
            m[i] = p->all.beta1 * m[i] + (1 - p->all.beta1) * d;
            v[i] = p->all.beta2 * v[i] + (1 - p->all.beta2) * d * d;
            w[i] = w[i] * (1 - rates[1] * p->all.weight_decay) -
                   rates[1] / (1 - powf(p->all.beta1, rates[2])) * m[i] /
                       (sqrtf(v[i] / (1 - powf(p->all.beta2, rates[2]))) + p->all.eps);
            if (half) half[i] = ops_stub_to_bf16(w[i]);
        }
    }
    return ROTA_OK;
}

static rota_status many_cast(const rota_kernel_call *call) {
    const rota_cuda_many_cast_params *p = call->params;
    casts++;
    tensors_cast += p->tensors;
    for (size_t t = 0; t < p->tensors; t++)
        for (uint32_t i = 0; i < p->count[t]; i++)
            ((uint16_t *)call->operands[2 * t + 1])[i] =
                ops_stub_to_bf16(((const float *)call->operands[2 * t])[i]);
    return ROTA_OK;
}

typedef struct values {
    float weight[TENSORS][MOST], narrow[TENSORS][MOST];
    uint16_t half[TENSORS][MOST];
} values;

/* In a graph of others the steps have different decays, and a sum stands between conversions of transient memory. */
static void record(rota_tape *tape, bool others, rota_tensor in[TENSORS][MEMBERS], rota_tensor rates,
                   rota_tensor out[3][TENSORS]) {
    rota_tensor state[TENSORS][3], narrow, wide;
    for (uint64_t t = 0; t < TENSORS; t++) {
        const uint64_t shape[] = {MOST - t};
        for (int k = 0; k < MEMBERS; k++)
            assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_INPUT, NULL, ROTA_F32, 1, shape, &in[t][k]));
        for (int k = 0; k < 3; k++) assert_ok(rota_op_copy(tape, in[t][k == 0 ? 0 : k + 1], &state[t][k]));
        for (int k = 0; k < 2; k++)
            assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_OUTPUT, NULL, ROTA_F32, 1, shape, &out[k][t]));
        assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_OUTPUT, NULL, ROTA_BF16, 1, shape, &out[2][t]));
        if (!has_half((uint32_t)t)) assert_ok(rota_op_fill_into(tape, out[2][t], 0));
        wide = in[t][0];
        if (others) assert_ok(rota_op_exp(tape, wide, &wide));
        assert_ok(rota_op_cast(tape, wide, ROTA_BF16, &narrow));
        assert_ok(rota_op_cast(tape, narrow, ROTA_F32, &wide));
        assert_ok(rota_op_copy_into(tape, wide, out[1][t]));
    }
    for (uint32_t t = 0; t < TENSORS; t++)
        assert_ok(rota_op_adamw(tape, state[t][0], in[t][1], state[t][1], state[t][2],
                                &ROTA_ADAMW(.lr = ROTA_CONSTANT(1), .step = ROTA_CONSTANT(1), .beta1 = 0.9f,
                                            .beta2 = 0.99f, .eps = 1e-8f,
                                            .weight_decay = others ? 0.01f * (float)t : 0.1f, .factor = rates,
                                            .half = has_half(t) ? out[2][t] : ROTA_TENSOR_NONE)));
    for (uint32_t t = 0; t < TENSORS; t++) assert_ok(rota_op_copy_into(tape, state[t][0], out[0][t]));
}

static void run(const ops_stub *stub, rota_device *device, bool others, values *out) {
    static float data[MEMBERS][TENSORS][MOST];
    static const float given[3] = {0.5f, 0.01f, 3.0f};
    ops_stub_graph g;
    rota_tensor in[TENSORS][MEMBERS], rates, go[3][TENSORS];
    for (int k = 0; k < MEMBERS; k++)
        for (uint32_t t = 0; t < TENSORS; t++)
            for (uint32_t i = 0; i < MOST; i++)
                data[k][t][i] = (float)((i * 7 + t * 3 + (uint32_t)k) % 31) * 0.125f - (k == 3 ? 0.0f : 1.5f);
    ops_stub_record(&g, &ROTA_TAPE_OPTIONS(.no_gradients = true));
    assert_ok(rota_tape_tensor(g.tape, ROTA_BUFFER_INPUT, "rates", ROTA_F32, ROTA_SHAPE(3), &rates));
    record(g.tape, others, in, rates, go);
    ops_stub_compile(&g, stub, device);
    assert_ok(rota_args_set_input(g.args, rates.buffer, given, sizeof given, false));
    for (uint32_t t = 0; t < TENSORS; t++) {
        for (int k = 0; k < MEMBERS; k++)
            assert_ok(
                rota_args_set_input(g.args, in[t][k].buffer, data[k][t], UINT64_C(4) * (MOST - t), false));
        assert_ok(rota_args_set_output(g.args, go[0][t].buffer, out->weight[t], UINT64_C(4) * (MOST - t)));
        assert_ok(rota_args_set_output(g.args, go[1][t].buffer, out->narrow[t], UINT64_C(4) * (MOST - t)));
        assert_ok(rota_args_set_output(g.args, go[2][t].buffer, out->half[t], UINT64_C(2) * (MOST - t)));
    }
    (void)ops_stub_replay(&g);
}

static void small_nodes_are_one(void **state) {
    (void)state;
    static const rota_kernel many[] = {{.name = "many_adamw",
                                        .operand_count = ROTA_MANY_ADAMW * ROTA_MANY_ADAMW_EACH,
                                        .param_bytes = sizeof(rota_cuda_many_adamw_params),
                                        .cpu = {.fn = many_adamw},
                                        .cuda = {.entry = "many_adamw"}},
                                       {.name = "many_cast",
                                        .operand_count = ROTA_MANY_CAST * ROTA_MANY_CAST_EACH,
                                        .param_bytes = sizeof(rota_cuda_many_cast_params),
                                        .cpu = {.fn = many_cast},
                                        .cuda = {.entry = "many_cast"}}};
    static values beside, is;
    ops_stub stub;
    if (!ops_stub_open(&stub, many, 2)) return;
    for (int others = 0; others < 2; others++) {
        adamws = casts = tensors_updated = tensors_cast = halves = 0;
        run(&stub, stub.cpu, others, &beside);
        run(&stub, stub.cuda, others, &is);
        assert_int_equal(adamws, others ? 0 : (TENSORS + ROTA_MANY_ADAMW - 1) / ROTA_MANY_ADAMW);
        assert_int_equal(tensors_updated, others ? 0 : TENSORS);
        assert_int_equal(halves, others ? 0 : TENSORS / 3);
        assert_int_equal(casts, others ? 0 : (TENSORS + ROTA_MANY_CAST - 1) / ROTA_MANY_CAST);
        assert_int_equal(tensors_cast, others ? 0 : TENSORS);
        for (uint32_t t = 0; t < TENSORS; t++)
            for (uint32_t i = 0; i < MOST - t; i++) {
                assert_true(fabsf(is.weight[t][i] - beside.weight[t][i]) < 1e-5f);
                assert_true(fabsf(is.narrow[t][i] - beside.narrow[t][i]) <=
                            0.01f * fabsf(beside.narrow[t][i]));
                assert_int_equal(is.half[t][i], has_half(t) ? ops_stub_to_bf16(is.weight[t][i]) : 0);
            }
    }
    ops_stub_close(&stub);
}

/* ---- A sum with an embedding's gradient ---- */

enum { CLASSES = 11, DIM = 6, ROWS = 9 };
/* The other operand comes second, or is read once more, so that it stays; or the sum is part of another with a second
 * gradient, which was made before or after the first: one of the two is added in place. */
enum { FIRST, SECOND, IS_READ, TWICE, TWICE_BACK, WAYS };

static uint64_t run_table(const ops_stub *stub, rota_device *device, int way, float out[CLASSES * DIM]) {
    static float table[CLASSES * DIM], dy[ROWS * DIM], again[CLASSES * DIM];
    static const int32_t rows[ROWS] = {3, 0, 3, 10, 7, 3, 0, 1, 9};
    ops_stub_graph g;
    rota_tensor in[3], other, sum, go[2], grads[ROTA_OP_INPUTS_MAX] = {0}, second[ROTA_OP_INPUTS_MAX] = {0};
    for (int i = 0; i < CLASSES * DIM; i++) table[i] = (float)(i % 13) * 0.5f;
    for (int i = 0; i < ROWS * DIM; i++) dy[i] = (float)(i % 7) - 3.0f;
    ops_stub_record(&g, &ROTA_TAPE_OPTIONS(.no_gradients = true));
    assert_ok(rota_tape_tensor(g.tape, ROTA_BUFFER_INPUT, NULL, ROTA_F32, ROTA_SHAPE(CLASSES, DIM), &in[0]));
    assert_ok(rota_tape_tensor(g.tape, ROTA_BUFFER_INPUT, NULL, ROTA_I32, ROTA_SHAPE(ROWS), &in[1]));
    assert_ok(rota_tape_tensor(g.tape, ROTA_BUFFER_INPUT, NULL, ROTA_F32, ROTA_SHAPE(ROWS, DIM), &in[2]));
    for (int k = 0; k < 2; k++)
        assert_ok(
            rota_tape_tensor(g.tape, ROTA_BUFFER_OUTPUT, NULL, ROTA_F32, ROTA_SHAPE(CLASSES, DIM), &go[k]));
    rota_op_use use = {.op = rota_op_at(ROTA_OP_embedding), .input_count = 2, .output_count = 1};
    use.inputs[0] = in[0];
    use.inputs[1] = in[1];
    assert_ok(rota_op_cumulative_sum(g.tape, in[0], 0, &other));
    if (way == TWICE_BACK) assert_ok(rota_op_gradient(g.tape, &use, in[2], 1, second));
    assert_ok(rota_op_gradient(g.tape, &use, in[2], 1, grads));
    if (way == TWICE) assert_ok(rota_op_gradient(g.tape, &use, in[2], 1, second));
    assert_ok(rota_op_add(g.tape, way == SECOND ? grads[0] : other, way == SECOND ? other : grads[0], &sum));
    if (way >= TWICE) assert_ok(rota_op_add(g.tape, sum, second[0], &sum));
    assert_ok(rota_op_copy_into(g.tape, way == IS_READ ? other : sum, go[1]));
    assert_ok(rota_op_copy_into(g.tape, sum, go[0]));
    ops_stub_compile(&g, stub, device);
    assert_ok(rota_args_set_input(g.args, in[0].buffer, table, sizeof table, false));
    assert_ok(rota_args_set_input(g.args, in[1].buffer, rows, sizeof rows, false));
    assert_ok(rota_args_set_input(g.args, in[2].buffer, dy, sizeof dy, false));
    assert_ok(rota_args_set_output(g.args, go[0].buffer, out, sizeof again));
    assert_ok(rota_args_set_output(g.args, go[1].buffer, again, sizeof again));
    return ops_stub_replay(&g);
}

static void an_embeddings_gradient_is_added_in_place(void **state) {
    (void)state;
    float beside[CLASSES * DIM], is[CLASSES * DIM];
    ops_stub stub;
    if (!ops_stub_open(&stub, NULL, 0)) return;
    for (int way = 0; way < WAYS; way++) {
        const uint64_t plain = run_table(&stub, stub.cpu, way, beside),
                       merged = run_table(&stub, stub.cuda, way, is);
        if (way < TWICE) assert_int_equal(merged - plain, way != IS_READ);
        for (int i = 0; i < CLASSES * DIM; i++) assert_true(fabsf(is[i] - beside[i]) < 1e-5f);
    }
    ops_stub_close(&stub);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_nodes_are_one),
                                       cmocka_unit_test(an_embeddings_gradient_is_added_in_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
    return 77; /* built without CUDA's headers */
}

#endif
