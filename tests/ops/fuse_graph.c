/* See fuse_graph.h. */
#include "tests/ops/fuse_graph.h"

#include "tests/kit/random.h"

enum { POOL_MAX = 48 };

typedef struct maker {
    rota_tape *tape;
    fuse_graph *graph;
    uint64_t random;
    bool exact;
    rota_tensor pool[POOL_MAX]; /* whole tensors */
    uint32_t count;
} maker;

static rota_status new_tensor(maker *m, rota_buffer_kind kind, rota_dtype dtype, uint64_t rows,
                              uint64_t columns, rota_tensor *out) {
    const uint64_t shape[2] = {rows, columns};
    return rota_tape_tensor(m->tape, kind, NULL, dtype, 2, shape, out);
}

/* A whole tensor of the dtype: the newer ones are more likely. */
static bool pick(maker *m, rota_dtype dtype, rota_tensor *out) {
    for (uint32_t tries = 0; tries < 16; tries++) {
        uint32_t back = test_below(&m->random, test_below(&m->random, 2) ? 3 : m->count);
        *out = m->pool[m->count - 1 - (back < m->count ? back : 0)];
        if (out->dtype == dtype) return true;
    }
    return false;
}

/* A second operand of the dtype: a whole tensor, or one that repeats. */
static bool pick_operand(maker *m, rota_dtype dtype, rota_tensor *out) {
    const uint32_t kind = test_below(&m->random, 6);
    if (kind >= 3 || m->graph->inputs[2 + kind].dtype != dtype) return pick(m, dtype, out);
    *out = m->graph->inputs[2 + kind];
    return true;
}

static rota_value number(maker *m) {
    if (test_below(&m->random, 4) == 0) return ROTA_SLOT(m->graph->alpha);
    return ROTA_PLAIN((double)(int)test_below(&m->random, 9) / 4.0 - 1.0);
}

static rota_status unary(maker *m, rota_tensor x, rota_tensor *y) {
    static const char *const exact[] = {"neg", "relu", "abs", "sign", "floor", "ceil", "round"};
    static const char *const any[] = {"exp",     "gelu",  "silu",     "square",    "tanh",
                                      "sigmoid", "sin",   "gelu_erf", "softplus",  "hardswish",
                                      "cos",     "rsqrt", "log",      "reciprocal"};
    if (test_below(&m->random, 4) == 0) switch (test_below(&m->random, m->exact ? 3 : 5)) {
        case 0:
            return rota_op_affine(m->tape, x, number(m), number(m), y);
        case 1:
            return rota_op_clamp(m->tape, x, ROTA_PLAIN(-0.75), number(m), y);
        case 2:
            return rota_op_leaky_relu(m->tape, x, number(m), y);
        case 3:
            return rota_op_elu(m->tape, x, number(m), y);
        default:
            return rota_op_softcap(m->tape, x, ROTA_PLAIN(1.5), y);
        }
    const bool simple = m->exact || test_below(&m->random, 2);
    rota_op_use use = {
        .op = rota_op_find(simple ? exact[test_below(&m->random, 7)] : any[test_below(&m->random, 14)]),
        .input_count = 1,
        .output_count = 1,
        .inputs = {x},
        .outputs = {*y}};
    const rota_status status = rota_op_apply(m->tape, &use);
    *y = use.outputs[0];
    return status;
}

static rota_status binary(maker *m, rota_tensor a, rota_tensor b, rota_tensor *y) {
    static const char *const exact[] = {"add", "sub", "mul", "minimum", "maximum", "lt", "ge", "eq"};
    static const char *const any[] = {"div", "silu_mul", "bias_gelu", "div"};
    const bool simple = m->exact || test_below(&m->random, 3);
    rota_op_use use = {
        .op = rota_op_find(simple ? exact[test_below(&m->random, 8)] : any[test_below(&m->random, 4)]),
        .input_count = 2,
        .output_count = 1,
        .inputs = {a, b},
        .outputs = {*y}};
    if (test_below(&m->random, 5) == 0 && use.op->name[0] != 's' && use.op->name[0] != 'b') {
        use.inputs[0] = b; /* the one that repeats on the left */
        use.inputs[1] = a;
    }
    const rota_status status = rota_op_apply(m->tape, &use);
    *y = use.outputs[0];
    return status;
}

/* One more node; an empty *y is made, else it is written into. */
static rota_status step(maker *m, rota_tensor *y) {
    const rota_dtype dtype = m->pool[m->count - 1].dtype;
    rota_tensor x, other, third;
    if (!pick(m, dtype, &x) || !pick_operand(m, dtype, &other) || !pick_operand(m, dtype, &third))
        return rota_op_neg(m->tape, m->pool[m->count - 1], y);
    switch (test_below(&m->random, 10)) {
    case 0:
        return rota_op_cast(m->tape, x, dtype == ROTA_F32 ? m->graph->inputs[5].dtype : ROTA_F32, y);
    case 1:
        return rota_op_dropout(m->tape, x, 0.25f, ROTA_SLOT(m->graph->seed), ROTA_CONSTANT(3), y);
    case 2:
        return rota_op_where(m->tape, other, x, third, y);
    case 3:
        return rota_op_masked_fill(m->tape, x, other, 0.5f, y);
    case 4:
    case 5:
    case 6:
        return unary(m, x, y);
    default:
        return binary(m, x, other, y);
    }
}

/* Writes over a tensor that others may still read afterwards. */
static rota_status overwrite(maker *m) {
    rota_tensor a, b, y = m->pool[test_below(&m->random, m->count)];
    if (rota_buffer_get_kind(y.buffer) == ROTA_BUFFER_INPUT || !pick(m, y.dtype, &a) ||
        !pick_operand(m, y.dtype, &b))
        return ROTA_OK;
    switch (test_below(&m->random, 3)) {
    case 0:
        return rota_op_add_into(m->tape, a, b, y);
    case 1:
        return rota_op_relu_into(m->tape, a, y);
    default:
        return rota_op_mul_into(m->tape, y, b, y);
    }
}

/* What is no elementwise node, in between: part of a tensor moved, or all of it copied. */
static rota_status interrupt(maker *m, rota_tensor *y) {
    const rota_tensor x = m->pool[test_below(&m->random, m->count)];
    if (test_below(&m->random, 2)) return rota_op_copy(m->tape, x, y);
    return rota_op_broadcast(m->tape, m->graph->inputs[2], 2, x.shape, y);
}

rota_status fuse_graph_record(rota_tape *tape, uint64_t seed, bool exact, fuse_graph *out_graph) {
    maker m = {.tape = tape, .graph = out_graph, .random = seed, .exact = exact};
    *out_graph = (fuse_graph){0};
    const rota_dtype half = test_below(&m.random, 2) ? ROTA_F16 : ROTA_BF16;
    const rota_dtype most = test_below(&m.random, 4) ? ROTA_F32 : half;
    const uint64_t rows = 1 + test_below(&m.random, 40), columns = 1 + test_below(&m.random, 90);
    const rota_dtype last = most == ROTA_F32 ? half : ROTA_F32;
    out_graph->rows = rows;
    out_graph->columns = columns;
    ROTA_TRY(rota_graph_slot(rota_tape_graph(tape), "alpha", 4, &out_graph->alpha));
    ROTA_TRY(rota_graph_slot(rota_tape_graph(tape), "seed", 4, &out_graph->seed));
    ROTA_TRY(new_tensor(&m, ROTA_BUFFER_INPUT, most, rows, columns, &out_graph->inputs[0]));
    ROTA_TRY(new_tensor(&m, ROTA_BUFFER_INPUT, most, rows, columns, &out_graph->inputs[1]));
    ROTA_TRY(new_tensor(&m, ROTA_BUFFER_INPUT, most, 1, columns, &out_graph->inputs[2]));
    ROTA_TRY(new_tensor(&m, ROTA_BUFFER_INPUT, most, rows, 1, &out_graph->inputs[3]));
    ROTA_TRY(new_tensor(&m, ROTA_BUFFER_INPUT, most, 1, 1, &out_graph->inputs[4]));
    ROTA_TRY(new_tensor(&m, ROTA_BUFFER_INPUT, last, rows, columns, &out_graph->inputs[5]));
    m.pool[m.count++] = out_graph->inputs[5];
    m.pool[m.count++] = out_graph->inputs[0];
    m.pool[m.count++] = out_graph->inputs[1];
    const uint32_t steps = 3 + test_below(&m.random, 30);
    for (uint32_t s = 0; s < steps && m.count < POOL_MAX; s++) {
        rota_tensor y = ROTA_TENSOR_NONE;
        const uint32_t kind = test_below(&m.random, 16);
        if (kind == 0)
            ROTA_TRY(interrupt(&m, &y));
        else if (kind == 1)
            ROTA_TRY(overwrite(&m));
        else
            ROTA_TRY(step(&m, &y));
        if (y.buffer) m.pool[m.count++] = y;
    }
    const uint32_t outputs = 1 + test_below(&m.random, FUSE_OUTPUTS_MAX - 1);
    for (uint32_t o = 0; o < outputs; o++) {
        const rota_tensor x = o == 0 ? m.pool[m.count - 1] : m.pool[test_below(&m.random, m.count)];
        rota_tensor *y = &out_graph->outputs[out_graph->output_count++];
        ROTA_TRY(new_tensor(&m, ROTA_BUFFER_OUTPUT, x.dtype, rows, columns, y));
        ROTA_TRY(test_below(&m.random, 2) ? rota_op_copy_into(tape, x, *y) : rota_op_relu_into(tape, x, *y));
    }
    return ROTA_OK;
}
