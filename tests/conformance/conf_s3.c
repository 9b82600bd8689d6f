/* S3: destinations and in-place. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "tests/conformance/conformance.h"
#include "tests/conformance/examples.h"

/* ---- Every op into a destination ---- */

typedef struct op_result {
    uint8_t *data[ROTA_OP_OUTPUTS_MAX + ROTA_OP_INPUTS_MAX]; /* outputs, then inputs that the op changes */
    uint64_t count[ROTA_OP_OUTPUTS_MAX + ROTA_OP_INPUTS_MAX];
    rota_dtype dtype[ROTA_OP_OUTPUTS_MAX + ROTA_OP_INPUTS_MAX];
    uint32_t total;
} op_result;

static bool take(conf *c, const rota_tensor *tensor, op_result *result) {
    uint64_t count = rota_tensor_count(tensor), bytes = count * rota_dtype_bytes(tensor->dtype);
    uint8_t *data = malloc(bytes);
    CONF_CHECK(c, data, "out of memory");
    result->data[result->total] = data;
    result->count[result->total] = count;
    result->dtype[result->total++] = tensor->dtype;
    CONF_OK(c, rota_buffer_read(tensor->buffer, 0, data, bytes));
    return true;
}

/* Runs an example into destinations; handle and address of each must be what they were. */
static bool run_example(conf *c, rota_device *device, example_run *run, op_result *out_result) {
    rota_runtime *runtime = rota_device_runtime(device);
    memset(out_result, 0, sizeof *out_result);
    CONF_TRY(example_write(c, run, runtime, device, true));
    uint64_t address[ROTA_OP_OUTPUTS_MAX], now;
    rota_buffer *handle[ROTA_OP_OUTPUTS_MAX];
    for (uint32_t o = 0; o < run->op->output_count; o++) {
        handle[o] = run->use.outputs[o].buffer;
        CONF_OK(c, rota_buffer_address(handle[o], device, &address[o]));
    }
    conf_graph graph;
    rota_plan *plan;
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_TRY(example_record(c, run, graph.tape));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    CONF_TRY(conf_replay(c, plan, NULL, 1));
    for (uint32_t o = 0; o < run->op->output_count; o++) {
        CONF_CHECK(c, run->use.outputs[o].buffer == handle[o], "the destination's handle changed");
        CONF_OK(c, rota_buffer_address(handle[o], device, &now));
        CONF_CHECK(c, now == address[o], "the destination's address changed");
        CONF_TRY(take(c, &run->use.outputs[o], out_result));
    }
    for (uint32_t i = 0; i < run->use.input_count; i++)
        if (run->inputs[i] && run->op->input_modes[i] != ROTA_READ)
            CONF_TRY(take(c, &run->use.inputs[i], out_result));
    rota_plan_release(plan);
    return true;
}

/* matrix_units: of a product of 8-bit floats whose sums have some 14 bits, as those of NVIDIA's have; the examples'
 * rows come to 72 at the most. */
static bool same_result(conf *c, const char *label, const op_result *got, const op_result *want, bool exact,
                        bool matrix_units) {
    for (uint32_t t = 0; t < got->total; t++)
        for (uint64_t i = 0; i < got->count[t]; i++) {
            double a = example_value(got->dtype[t], got->data[t], i),
                   b = example_value(want->dtype[t], want->data[t], i);
            double tolerance = exact ? 0 : rota_dtype_bytes(got->dtype[t]) == 2 ? 2e-2 : 2e-4;
            if (matrix_units) tolerance = fmax(tolerance, 72 * 0x1p-13);
            bool integer = got->dtype[t] == ROTA_I32 || got->dtype[t] == ROTA_U32;
            if (integer && !exact) tolerance = 0;
            bool equal = isnan(a) && isnan(b);
            if (isinf(a) || isinf(b)) equal = a == b;
            if (!equal && !(fabs(a - b) <= tolerance + tolerance * fabs(b)))
                return conf_fail(c, "%s: output %u, element %llu is %.9g, on the CPU %.9g", label, t,
                                 (unsigned long long)i, a, b);
        }
    return true;
}

static void free_result(op_result *result) {
    for (uint32_t t = 0; t < result->total; t++) free(result->data[t]);
}

/* Each example on the device against the CPU executor, whose kernels have references of their own (test_ops);
 * on the CPU itself against a second run, so that what was in the destination before plays no part. */
static bool every_op(conf *c) {
    rota_runtime *runtime;
    rota_device *device, *cpu;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    CONF_OK(c, rota_device_open(runtime, "cpu", &cpu));
    const rota_exec_kind kind = rota_device_get_info(device)->kind;
    bool exact = kind == ROTA_EXEC_CPU;
    uint32_t ops = rota_op_count();
    CONF_CHECK(c, ops > 0, "the op table is empty");
    for (uint32_t o = c->part; o < ops; o += c->parts ? c->parts : 1) {
        const rota_op *op = rota_op_at(o);
        const bool matrix_units = kind == ROTA_EXEC_CUDA && strcmp(op->name, "scaled_matmul") == 0;
        rota_op_example example;
        for (uint32_t e = 0; rota_op_get_example(op, e, 0, &example); e++) {
            char label[128];
            snprintf(label, sizeof label, "%s, example '%s'", op->name, example.label);
            example_run first, second;
            op_result got, want;
            CONF_TRY(example_prepare(c, op, &example, c->seed + e, &first));
            CONF_TRY(example_prepare(c, op, &example, c->seed + e, &second));
            bool good = run_example(c, device, &first, &got);
            good = good && run_example(c, cpu, &second, &want);
            CONF_CHECK(c, good, "%s: %s", label, c->why);
            CONF_TRY(same_result(c, label, &got, &want, exact, matrix_units));
            example_release(&first);
            example_release(&second);
            example_free(&first);
            example_free(&second);
            free_result(&got);
            free_result(&want);
        }
    }
    return conf_close(c, runtime);
}

/* ---- The named cases ---- */

static bool reshape_into(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    rota_tensor x, y;
    CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(4, 4), 1, 1, &x));
    CONF_TRY(conf_tensor(c, runtime, device, "y", ROTA_SHAPE(2, 8), -999, 0, &y));
    conf_graph graph;
    rota_plan *plan;
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, rota_op_reshape_into(graph.tape, x, y));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    for (uint32_t round = 0; round < 2; round++) {
        CONF_TRY(conf_replay(c, plan, NULL, 1));
        float got[16];
        CONF_TRY(conf_read_f32(c, &y, got));
        for (uint32_t i = 0; i < 16; i++)
            CONF_CHECK(c, got[i] == (float)(i + 1), "element %u is %g", i, (double)got[i]);
    }
    return CONF_END(c, runtime, plan, x, y);
}

enum { INPLACE_COUNT = 65536 };

static bool add_in_place(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    rota_tensor a, b;
    CONF_TRY(conf_tensor(c, runtime, device, "a", ROTA_SHAPE(INPLACE_COUNT), 1, 0, &a));
    CONF_TRY(conf_tensor(c, runtime, device, "b", ROTA_SHAPE(INPLACE_COUNT), 2, 0, &b));
    float *got = malloc(INPLACE_COUNT * sizeof *got), *one = malloc(INPLACE_COUNT * sizeof *one);
    CONF_CHECK(c, got && one, "out of memory");
    for (uint32_t i = 0; i < INPLACE_COUNT; i++) one[i] = 1;
    /* Ten nodes of one graph, then one node replayed ten times. */
    for (uint32_t nodes = 10; nodes >= 1; nodes -= 9) {
        conf_graph graph;
        rota_plan *plan;
        uint64_t before, after;
        CONF_TRY(conf_write_f32(c, &a, device, one));
        CONF_OK(c, rota_buffer_address(a.buffer, device, &before));
        CONF_TRY(conf_graph_begin(c, &graph));
        for (uint32_t i = 0; i < nodes; i++) CONF_OK(c, rota_op_add_into(graph.tape, a, b, a));
        CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
        CONF_TRY(conf_replay(c, plan, NULL, 10 / nodes));
        CONF_TRY(conf_read_f32(c, &a, got));
        CONF_OK(c, rota_buffer_address(a.buffer, device, &after));
        CONF_CHECK(c, before == after, "the address changed");
        for (uint32_t i = 0; i < INPLACE_COUNT; i++)
            CONF_CHECK(c, got[i] == 21.0f, "element %u is %g, expected 21", i, (double)got[i]);
        rota_plan_release(plan);
        if (nodes == 1) break;
    }
    free(got);
    free(one);
    rota_buffer_release(a.buffer);
    rota_buffer_release(b.buffer);
    return conf_close(c, runtime);
}

typedef struct preseeded {
    rota_tensor x, w, y[4];
} preseeded;

static bool run_preseeded(conf *c, rota_device *device, float *out_values) {
    rota_runtime *runtime = rota_device_runtime(device);
    preseeded p;
    CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(96, 64), -0.3, 1e-4, &p.x));
    CONF_TRY(conf_tensor(c, runtime, device, "w", ROTA_SHAPE(64, 96), 0.2, -6e-5, &p.w));
    for (uint32_t i = 0; i < 4; i++)
        CONF_TRY(conf_tensor(c, runtime, device, "y", ROTA_SHAPE(96, 96), i % 2 ? NAN : -999.0, 0, &p.y[i]));
    rota_tensor wide, tall;
    CONF_OK(c, rota_tensor_of(p.y[0].buffer, 0, ROTA_F32, ROTA_SHAPE(64, 96), &wide));
    CONF_OK(c, rota_tensor_of(p.y[3].buffer, 0, ROTA_F32, ROTA_SHAPE(96, 64), &tall));
    conf_graph graph;
    rota_plan *plan;
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, rota_op_transpose_into(graph.tape, p.x, 0, 1, wide));
    CONF_OK(c, rota_op_fill_into(graph.tape, p.y[1], 0));
    CONF_OK(c, rota_op_matmul_into(graph.tape, p.x, p.w, false, false, p.y[2]));
    CONF_OK(c, rota_op_add_into(graph.tape, p.x, p.x, tall));
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    CONF_TRY(conf_replay(c, plan, NULL, 3));
    CONF_TRY(conf_read_f32(c, &wide, out_values));
    CONF_TRY(conf_read_f32(c, &p.y[1], out_values + 6144));
    CONF_TRY(conf_read_f32(c, &p.y[2], out_values + 6144 + 9216));
    CONF_TRY(conf_read_f32(c, &tall, out_values + 6144 + 2 * 9216));
    rota_plan_release(plan);
    rota_buffer_release(p.x.buffer);
    rota_buffer_release(p.w.buffer);
    for (uint32_t i = 0; i < 4; i++) rota_buffer_release(p.y[i].buffer);
    return true;
}

static bool into_preseeded(conf *c) {
    enum { TOTAL = 2 * 6144 + 2 * 9216 };
    rota_runtime *runtime;
    rota_device *device, *cpu;
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    CONF_OK(c, rota_device_open(runtime, "cpu", &cpu));
    float *got = malloc(TOTAL * sizeof *got), *want = malloc(TOTAL * sizeof *want);
    CONF_CHECK(c, got && want, "out of memory");
    CONF_TRY(run_preseeded(c, device, got));
    CONF_TRY(run_preseeded(c, cpu, want));
    CONF_TRY(conf_near(c, "into preseeded destinations", got, want, TOTAL, 1e-5, 1e-5));
    for (uint32_t i = 0; i < 96; i++) /* And what no executor decides: the transpose. */
        CONF_CHECK(c, got[i] == (float)(-0.3 + 1e-4 * (double)(i * 64)), "transpose: element %u is %g", i,
                   (double)got[i]);
    free(got);
    free(want);
    return conf_close(c, runtime);
}

const conf_case conf_cases_s3[] = {
    {"s3.every_op", every_op},         {"s3.reshape_into", reshape_into},
    {"s3.add_in_place", add_in_place}, {"s3.into_preseeded", into_preseeded},
    {"s3.patchtst", conf_patchtst},    {NULL, NULL},
};
