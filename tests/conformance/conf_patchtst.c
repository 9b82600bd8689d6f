/* S3: a small forecaster learns. Fifteen windows of a ramp, one pre-norm layer over two patches, 945
 * parameters; what it has to reach tells learning from a constant, and from a loss that merely falls. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/hash.h"
#include "tests/conformance/conformance.h"

enum {
    SAMPLES = 15,
    INPUT = 8,
    PATCH = 4,
    PATCHES = 2,
    DIM = 8,
    HEADS = 2,
    WIDE = 4 * DIM,
    EPOCHS = 200,
    PARAMETERS = 945
};
#define NORM_EPS 1e-5f

/* Name, rows (0: a vector), columns, and what it starts with: normal of this deviation; 0: zeroes; below:
 * ones. */
#define XAVIER(in, out) sqrt(2.0 / ((in) + (out)))
#define PARAMETER_LIST(X)                                                                                    \
    X(EMBED, PATCH, DIM, XAVIER(PATCH, DIM))                                                                 \
    X(EMBED_BIAS, 0, DIM, 0)                                                                                 \
    X(POSITIONS, PATCHES, DIM, sqrt(2.0 / DIM) * 0.02)                                                       \
    X(NORM1, 0, DIM, -1)                                                                                     \
    X(NORM1_BIAS, 0, DIM, 0)                                                                                 \
    X(QUERY, DIM, DIM, XAVIER(DIM, DIM))                                                                     \
    X(QUERY_BIAS, 0, DIM, 0)                                                                                 \
    X(KEY, DIM, DIM, XAVIER(DIM, DIM))                                                                       \
    X(KEY_BIAS, 0, DIM, 0)                                                                                   \
    X(VALUE, DIM, DIM, XAVIER(DIM, DIM))                                                                     \
    X(VALUE_BIAS, 0, DIM, 0)                                                                                 \
    X(PROJECT, DIM, DIM, XAVIER(DIM, DIM))                                                                   \
    X(PROJECT_BIAS, 0, DIM, 0)                                                                               \
    X(NORM2, 0, DIM, -1)                                                                                     \
    X(NORM2_BIAS, 0, DIM, 0)                                                                                 \
    X(WIDEN, DIM, WIDE, XAVIER(DIM, WIDE))                                                                   \
    X(WIDEN_BIAS, 0, WIDE, 0)                                                                                \
    X(NARROW, WIDE, DIM, XAVIER(WIDE, DIM))                                                                  \
    X(NARROW_BIAS, 0, DIM, 0)                                                                                \
    X(HEAD, PATCHES *DIM, 1, XAVIER(PATCHES *DIM, 1))                                                        \
    X(HEAD_BIAS, 0, 1, 0)

enum {
#define NAME(name, rows, columns, deviation) name,
    PARAMETER_LIST(NAME)
#undef NAME
        WEIGHTS
};

static const struct {
    const char *name;
    uint64_t rows, columns;
} parameters[WEIGHTS] = {
#define DESCRIBE(name, rows, columns, deviation) {#name, rows, columns},
    PARAMETER_LIST(DESCRIBE)
#undef DESCRIBE
};

static uint64_t count_of(uint32_t weight) {
    return (parameters[weight].rows ? parameters[weight].rows : 1) * parameters[weight].columns;
}

/* ---- Data and first values ---- */

static double normal(uint64_t *random) {
    const double u = ((double)(test_random(random) >> 11) + 1) * 0x1p-53,
                 v = (double)(test_random(random) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(2 * 3.141592653589793 * v);
}

static void first_values(uint64_t seed, float *out) {
    uint64_t random = seed;
    static const uint32_t count = WEIGHTS;
    const double deviations[] = {
#define DEVIATION(name, rows, columns, deviation) deviation,
        PARAMETER_LIST(DEVIATION)
#undef DEVIATION
    };
    for (uint32_t p = 0; p < count; p++)
        for (uint64_t i = 0; i < count_of(p); i++)
            *out++ = deviations[p] < 0   ? 1.0f
                     : deviations[p] > 0 ? (float)(deviations[p] * normal(&random))
                                         : 0.0f;
}

/* x[s][i] = 0.01 (8 s + i), standardised for each i over the samples; label 0.08 s + 0.035. */
static void make_samples(float *x, float *labels) {
    for (int i = 0; i < INPUT; i++) {
        double mean = 0, variance = 0;
        for (int s = 0; s < SAMPLES; s++) mean += 0.01 * (8 * s + i) / SAMPLES;
        for (int s = 0; s < SAMPLES; s++) variance += pow(0.01 * (8 * s + i) - mean, 2) / SAMPLES;
        for (int s = 0; s < SAMPLES; s++)
            x[s * INPUT + i] = (float)((0.01 * (8 * s + i) - mean) / sqrt(variance));
    }
    for (int s = 0; s < SAMPLES; s++) labels[s] = (float)(0.08 * s + 0.035);
}

/* ---- The graph of one epoch ---- */

typedef struct training {
    rota_tensor x, labels, all, m, v; /* all: the parameters, side by side */
    rota_tensor weights[WEIGHTS];
    rota_slot step;
    rota_buffer *loss;
} training;

static rota_status linear(rota_tape *tape, const training *t, rota_tensor x, uint32_t weight,
                          rota_tensor *out_y) {
    ROTA_TRY(rota_op_matmul(tape, x, t->weights[weight], false, false, out_y));
    return rota_op_add(tape, *out_y, t->weights[weight + 1], out_y);
}

static rota_status heads_of(rota_tape *tape, const training *t, rota_tensor h, uint32_t weight,
                            rota_tensor *out) {
    ROTA_TRY(linear(tape, t, h, weight, out));
    ROTA_TRY(rota_tensor_reshape(out, ROTA_SHAPE(SAMPLES, PATCHES, HEADS, DIM / HEADS), out));
    return rota_tensor_transpose(out, 1, 2, out);
}

static rota_status forward(rota_tape *tape, const training *t, rota_tensor *out_loss) {
    const rota_tensor *w = t->weights;
    rota_tensor x, h, q, k, v;
    ROTA_TRY(rota_tensor_reshape(&t->x, ROTA_SHAPE(SAMPLES, PATCHES, PATCH), &x));
    ROTA_TRY(linear(tape, t, x, EMBED, &x));
    ROTA_TRY(rota_op_add(tape, x, w[POSITIONS], &x));
    ROTA_TRY(rota_op_layernorm(tape, x, w[NORM1], w[NORM1_BIAS], NORM_EPS, &h));
    ROTA_TRY(heads_of(tape, t, h, QUERY, &q));
    ROTA_TRY(heads_of(tape, t, h, KEY, &k));
    ROTA_TRY(heads_of(tape, t, h, VALUE, &v));
    ROTA_TRY(rota_op_attention(tape, q, k, v, false, 0, &h));
    ROTA_TRY(rota_tensor_transpose(&h, 1, 2, &h));
    ROTA_TRY(rota_op_reshape(tape, h, ROTA_SHAPE(SAMPLES, PATCHES, DIM), &h));
    ROTA_TRY(linear(tape, t, h, PROJECT, &h));
    ROTA_TRY(rota_op_add(tape, x, h, &x));
    ROTA_TRY(rota_op_layernorm(tape, x, w[NORM2], w[NORM2_BIAS], NORM_EPS, &h));
    ROTA_TRY(linear(tape, t, h, WIDEN, &h));
    ROTA_TRY(rota_op_gelu(tape, h, &h));
    ROTA_TRY(linear(tape, t, h, NARROW, &h));
    ROTA_TRY(rota_op_add(tape, x, h, &x));
    ROTA_TRY(rota_op_reshape(tape, x, ROTA_SHAPE(SAMPLES, PATCHES * DIM), &x));
    ROTA_TRY(linear(tape, t, x, HEAD, &x));
    return rota_op_mse(tape, x, t->labels, out_loss);
}

/* The loss before the update, then AdamW, the gradient clipped to a norm of 1. */
static rota_status record(rota_tape *tape, training *t) {
    rota_tensor loss, out, gradient, grads[WEIGHTS], norm_factor, factor;
    ROTA_TRY(rota_graph_slot(rota_tape_graph(tape), "step", 4, &t->step));
    ROTA_TRY(forward(tape, t, &loss));
    ROTA_TRY(rota_tape_tensor(tape, ROTA_BUFFER_OUTPUT, "loss", ROTA_F32, ROTA_SHAPE(1), &out));
    t->loss = out.buffer;
    ROTA_TRY(rota_op_copy_into(tape, loss, out));
    ROTA_TRY(rota_tape_tensor(tape, ROTA_BUFFER_TRANSIENT, "gradient", ROTA_F32, ROTA_SHAPE(PARAMETERS),
                              &gradient));
    for (uint32_t p = 0; p < WEIGHTS; p++)
        ROTA_TRY(rota_tensor_of(gradient.buffer, t->weights[p].offset_bytes, ROTA_F32, t->weights[p].rank,
                                t->weights[p].shape, &grads[p]));
    ROTA_TRY(rota_backward(tape, loss, t->weights, WEIGHTS, grads, NULL));
    ROTA_TRY(rota_op_global_norm(tape, &gradient, 1, 1.0f, &norm_factor));
    ROTA_TRY(rota_tensor_slice(&norm_factor, 0, 1, 1, &factor));
    return rota_op_adamw(tape, t->all, gradient, t->m, t->v,
                         &ROTA_ADAMW(.lr = ROTA_CONSTANT(1e-3), .step = ROTA_SLOT(t->step), .beta1 = 0.9f,
                                     .beta2 = 0.999f, .eps = 1e-8f, .factor = factor));
}

static bool make_tensors(conf *c, rota_device *device, uint64_t seed, training *t, float first[PARAMETERS]) {
    rota_runtime *runtime = rota_device_runtime(device);
    float x[SAMPLES * INPUT], labels[SAMPLES];
    make_samples(x, labels);
    first_values(seed, first);
    CONF_TRY(conf_tensor(c, runtime, device, "x", ROTA_SHAPE(SAMPLES, INPUT), 0, 0, &t->x));
    CONF_TRY(conf_tensor(c, runtime, device, "labels", ROTA_SHAPE(SAMPLES, 1), 0, 0, &t->labels));
    CONF_TRY(conf_tensor(c, runtime, device, "weights", ROTA_SHAPE(PARAMETERS), 0, 0, &t->all));
    CONF_TRY(conf_tensor(c, runtime, device, "m", ROTA_SHAPE(PARAMETERS), 0, 0, &t->m));
    CONF_TRY(conf_tensor(c, runtime, device, "v", ROTA_SHAPE(PARAMETERS), 0, 0, &t->v));
    CONF_TRY(conf_write_f32(c, &t->x, device, x));
    CONF_TRY(conf_write_f32(c, &t->labels, device, labels));
    CONF_TRY(conf_write_f32(c, &t->all, device, first));
    uint64_t offset = 0;
    for (uint32_t p = 0; p < WEIGHTS; offset += 4 * count_of(p++)) {
        const uint64_t shape[] = {parameters[p].rows ? parameters[p].rows : parameters[p].columns,
                                  parameters[p].columns};
        CONF_OK(c, rota_tensor_of(t->all.buffer, offset, ROTA_F32, parameters[p].rows ? 2 : 1, shape,
                                  &t->weights[p]));
    }
    CONF_CHECK(c, offset == 4 * PARAMETERS, "%llu bytes of parameters, not those of 945",
               (unsigned long long)offset);
    return true;
}

/* ---- Training ---- */

/* Every epoch's loss; every tensor of parameters differs after ten. */
static bool train(conf *c, rota_device *device, float losses[EPOCHS]) {
    float first[PARAMETERS], then[PARAMETERS];
    training t;
    conf_graph graph;
    rota_plan *plan;
    rota_args *args;
    rota_ticket ticket = {0};
    CONF_TRY(make_tensors(c, device, c->seed, &t, first));
    CONF_TRY(conf_graph_begin(c, &graph));
    CONF_OK(c, record(graph.tape, &t));
    rota_buffer *loss = t.loss;
    CONF_TRY(conf_graph_end(c, &graph, device, NULL, &plan));
    CONF_OK(c, rota_args_create(plan, &args));
    for (uint32_t e = 0; e < EPOCHS; e++) {
        CONF_OK(c, rota_args_set_u32(args, t.step, e + 1));
        CONF_OK(c, rota_args_set_output(args, loss, &losses[e], sizeof losses[e]));
        CONF_OK(c, rota_submit_wait(plan, args, CONF_PATIENCE_NS, &ticket));
        if (e != 9) continue;
        CONF_TRY(conf_read_f32(c, &t.all, then));
        const float *a = first, *b = then;
        for (uint32_t p = 0; p < WEIGHTS; a += count_of(p), b += count_of(p), p++)
            CONF_CHECK(c, memcmp(a, b, count_of(p) * sizeof *a) != 0, "%s is after 10 epochs what it was",
                       parameters[p].name);
    }
    CONF_OK(c, rota_wait(ticket, CONF_PATIENCE_NS));
    rota_args_release(args);
    rota_plan_release(plan);
    const rota_tensor *const tensors[] = {&t.x, &t.labels, &t.all, &t.m, &t.v};
    for (uint32_t i = 0; i < 5; i++) rota_buffer_release(tensors[i]->buffer);
    return true;
}

bool conf_patchtst(conf *c) {
    rota_runtime *runtime;
    rota_device *device, *cpu;
    float got[EPOCHS], again[EPOCHS], want[EPOCHS];
    CONF_TRY(conf_open(c, NULL, &runtime, &device));
    CONF_OK(c, rota_device_open(runtime, "cpu", &cpu));
    CONF_TRY(train(c, device, got));
    CONF_CHECK(c, got[9] < 0.75f * got[0], "loss %g after 10 epochs, of %g", (double)got[9], (double)got[0]);
    CONF_CHECK(c, got[49] < 0.15f, "loss %g after 50 epochs", (double)got[49]);
    CONF_CHECK(c, got[EPOCHS - 1] < 0.01f, "loss %g after 200 epochs", (double)got[EPOCHS - 1]);
    CONF_TRY(train(c, cpu, want));
    for (uint32_t e = 0; e < EPOCHS; e++)
        CONF_CHECK(c, fabsf(got[e] - want[e]) <= 1e-3f * want[e], "epoch %u: loss %.9g, on the CPU %.9g",
                   e + 1, (double)got[e], (double)want[e]);
    if (c->full) { /* what another process comes to is seen by conformance_processes.sh */
        CONF_TRY(train(c, device, again));
        CONF_CHECK(c, memcmp(got, again, sizeof got) == 0, "the same seed gave other losses");
    }
    c->digest = rota_hash_bytes(ROTA_HASH_BEGIN, got, sizeof got);
    return conf_close(c, runtime);
}
