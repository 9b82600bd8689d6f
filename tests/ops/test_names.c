/* What nodes are called: every op's, its gradient's, those of ops that are made of others, and of ops from
 * outside; and which nodes an op has recorded. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "rota.h"
#include "tests/kit/support.h"

/* A graph with one tape, whose tensors lie side by side in it. */
typedef struct fixture {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_plan_command *commands;
    uint64_t count;
    rota_plan *plan;
} fixture;

static void open_graph(fixture *f) {
    *f = (fixture){0};
    assert_ok(rota_graph_create(NULL, &f->graph));
    assert_ok(rota_recorder_open(f->graph, 0, NULL, &f->recorder));
    assert_ok(rota_tape_create(f->recorder, NULL, &f->tape));
}

/* On a device, or none. */
static void compile_on(fixture *f, rota_runtime *runtime, rota_device *device) {
    rota_tape_destroy(f->tape);
    rota_recorder_close(f->recorder);
    f->tape = NULL;
    assert_ok(rota_compile(runtime, f->graph,
                           &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = device != NULL,
                                                 .allow_undefined_reads = true),
                           &f->plan));
    rota_plan_stats stats = ROTA_PLAN_STATS();
    assert_ok(rota_plan_get_stats(f->plan, &stats));
    f->count = stats.commands;
    f->commands = calloc(f->count + 1, sizeof *f->commands);
    assert_non_null(f->commands);
    f->commands[0].struct_size = sizeof *f->commands;
    assert_ok(rota_plan_get_commands(f->plan, f->commands, f->count + 1));
}

static void compile(fixture *f) {
    compile_on(f, NULL, NULL);
}

static void close_graph(fixture *f) {
    rota_plan_release(f->plan);
    rota_tape_destroy(f->tape);
    rota_graph_release(f->graph);
    free(f->commands);
}

/* Nodes [from, to) are called so. */
static void expect_names(const fixture *f, uint64_t from, uint64_t to, const char *name) {
    assert_true(to <= f->count);
    for (uint64_t i = from; i < to; i++)
        if (strcmp(f->commands[i].name, name) != 0)
            fail_msg("node %llu of '%s' is called '%s'", (unsigned long long)i, name, f->commands[i].name);
}

static uint64_t nodes_of(const fixture *f) {
    rota_node node;
    return rota_recorder_last_node(f->recorder, &node) == ROTA_OK ? node.index + 1u : 0;
}

static rota_tensor tensor_of(fixture *f, const rota_tensor *like) {
    rota_tensor made = ROTA_TENSOR_NONE;
    if (like->dtype != ROTA_DTYPE_COUNT)
        assert_ok(rota_tape_tensor(f->tape, ROTA_BUFFER_TRANSIENT, "operand", like->dtype, like->rank,
                                   like->shape, &made));
    return made;
}

/* Records an example of an op. */
static rota_op_use record(fixture *f, const rota_op_example *example) {
    rota_op_use use = example->use;
    for (uint32_t i = 0; i < use.input_count; i++) use.inputs[i] = tensor_of(f, &example->use.inputs[i]);
    for (uint32_t i = 0; i < use.output_count; i++)
        use.outputs[i] =
            example->use.outputs[i].rank ? tensor_of(f, &example->use.outputs[i]) : example->use.outputs[i];
    assert_ok(rota_op_apply(f->tape, &use));
    return use;
}

/* The gradient of an op's result by what its inputs are; false: it has none. */
static bool record_gradient(fixture *f, const rota_op_use *use) {
    const rota_op *op = use->op;
    rota_tensor loss = use->outputs[0], gradient = ROTA_TENSOR_NONE;
    uint32_t wanted = 0;
    while (wanted < use->input_count &&
           (!(op->differentiable & 1u << wanted) || !use->inputs[wanted].buffer ||
            !rota_dtype_is_real(use->inputs[wanted].dtype)))
        wanted++;
    if (wanted == use->input_count || use->output_count == 0 || !rota_dtype_is_real(loss.dtype)) return false;
    if (rota_tensor_is_empty(&use->inputs[wanted]) || rota_tensor_is_empty(&loss)) return false;
    assert_ok(rota_op_cast(f->tape, loss, ROTA_F32, &loss));
    assert_ok(rota_op_reshape(f->tape, loss, ROTA_SHAPE(rota_tensor_count(&loss)), &loss));
    assert_ok(rota_op_mse(f->tape, loss, loss, &loss));
    assert_ok(rota_backward(f->tape, loss, &use->inputs[wanted], 1, &gradient, NULL));
    return true;
}

/* ---- Every op of the table ---- */

/* Returns how many nodes of its gradient there were. */
static uint64_t check_example(const rota_op *op, const rota_op_example *example) {
    static const char *const of_loss[] = {"cast", "cast_backward", "reshape",
                                          "mse",  "mse_backward",  "backward"};
    char name[128];
    fixture f;
    open_graph(&f);
    const rota_op_use use = record(&f, example);
    const uint64_t forward = nodes_of(&f);
    (void)record_gradient(&f, &use);
    const uint64_t nodes = nodes_of(&f);
    compile(&f);
    expect_names(&f, 0, forward, op->name);
    (void)snprintf(name, sizeof name, "%s_backward", op->name);
    uint64_t own = 0;
    for (uint64_t i = forward; i < f.count; i++) {
        const char *is = f.commands[i].name;
        bool known = strcmp(is, name) == 0;
        own += known;
        /* A node in several steps is as many commands. */
        if (f.count > nodes) known = known || strcmp(is, op->name) == 0;
        for (size_t k = 0; k < sizeof of_loss / sizeof *of_loss; k++)
            known = known || strcmp(is, of_loss[k]) == 0;
        if (!known) fail_msg("a node of the gradient of '%s' is called '%s'", op->name, is);
    }
    close_graph(&f);
    return own;
}

static void every_op_names_its_nodes(void **state) {
    (void)state;
    uint32_t with_gradient = 0;
    for (uint32_t o = 0; o < rota_op_count(); o++) {
        const rota_op *op = rota_op_at(o);
        rota_op_example example;
        uint64_t own = 0;
        for (uint32_t i = 0; rota_op_get_example(op, i, 0, &example); i++) own += check_example(op, &example);
        with_gradient += own > 0;
        if (own == 0 && op->gradient) print_message("no node of the gradient of '%s'\n", op->name);
    }
    assert_true(with_gradient > 50);
}

/* Whatever kernels a device takes for it: commands of a plan that is compiled for it. */
static void check_device(const char *id) {
    rota_runtime *runtime;
    rota_device *device;
    assert_ok(rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.worker_threads = 1, .cache_dir = ""), &runtime));
    if (rota_device_open(runtime, id, &device) != ROTA_OK) {
        print_message("'%s' left out: %s\n", id, rota_last_error());
        assert_ok(rota_runtime_close(runtime, 0));
        return;
    }
    uint32_t looked_at = 0;
    for (uint32_t o = 0; o < rota_op_count(); o++) {
        rota_op_example example;
        fixture f;
        if (!rota_op_get_example(rota_op_at(o), 0, 0, &example)) continue;
        open_graph(&f);
        (void)record(&f, &example);
        compile_on(&f, runtime, device);
        expect_names(&f, 0, f.count, rota_op_at(o)->name);
        looked_at += f.count > 0;
        close_graph(&f);
    }
    assert_true(looked_at > 70);
    assert_ok(rota_runtime_close(runtime, 0));
}

static void on_every_executor(void **state) {
    (void)state;
    check_device("cpu");
    check_device("vk:0");
    check_device("cuda:0");
}

/* ---- Ops that are made of others ---- */

static void what_is_made_of_others_has_one_name(void **state) {
    (void)state;
    fixture f;
    rota_tensor x, y, z, out, more, heads, twice[2];
    uint64_t first[24];
    const char *names[24];
    uint32_t count = 0;
    open_graph(&f);
#define OP(NAME, CALL)                                                                                       \
    do {                                                                                                     \
        names[count] = NAME;                                                                                 \
        assert_ok(CALL);                                                                                     \
        first[count++] = nodes_of(&f);                                                                       \
    } while (0)
    assert_ok(rota_tape_tensor(f.tape, ROTA_BUFFER_TRANSIENT, "x", ROTA_F32, ROTA_SHAPE(6, 6), &x));
    assert_ok(rota_tape_tensor(f.tape, ROTA_BUFFER_TRANSIENT, "y", ROTA_F32, ROTA_SHAPE(6, 6), &y));
    assert_ok(rota_tape_tensor(f.tape, ROTA_BUFFER_TRANSIENT, "z", ROTA_F32, ROTA_SHAPE(6, 6), &z));
    assert_ok(rota_tape_tensor(f.tape, ROTA_BUFFER_TRANSIENT, "q", ROTA_F32, ROTA_SHAPE(1, 2, 6, 8), &heads));
    twice[0] = x;
    twice[1] = y;
    OP("scale", rota_op_scale(f.tape, x, ROTA_PLAIN(2), &out));
    OP("mse", rota_op_mse(f.tape, x, y, &out));
    OP("l1", rota_op_l1(f.tape, x, y, &out));
    OP("huber", rota_op_huber(f.tape, x, y, 1, &out));
    OP("prod", rota_op_prod(f.tape, x, 0, true, &out));
    OP("column_sums", rota_op_column_sums(f.tape, x, &out));
    OP("concat", rota_op_concat(f.tape, twice, 2, 1, &out));
    OP("concat", rota_op_concat_into(f.tape, twice, 2, 1, out));
    OP("broadcast", rota_op_broadcast(f.tape, x, ROTA_SHAPE(3, 6, 6), &out));
    OP("group_norm", rota_op_group_norm(f.tape, x, 2, ROTA_TENSOR_NONE, ROTA_TENSOR_NONE, 1e-5f, &out));
    OP("attention", rota_op_attention(f.tape, heads, heads, heads, true, 0, &out));
    OP("attention", rota_op_attention_into(f.tape, heads, heads, heads, true, 0, out));
    OP("attention_dropout", rota_op_attention_dropout(f.tape, heads, heads, heads, true, 0, 0.5f,
                                                      ROTA_CONSTANT(1), ROTA_CONSTANT(2), &out));
    OP("attention_dropout", rota_op_attention_dropout_into(f.tape, heads, heads, heads, true, 0, 0.5f,
                                                           ROTA_CONSTANT(1), ROTA_CONSTANT(2), out));
    OP("attention_separate", rota_op_attention_separate(f.tape, heads, heads, heads, true, 0, &out));
    OP("attention_residual",
       rota_op_attention_residual(f.tape, heads, heads, heads, ROTA_TENSOR_NONE, 0, &out, &more));
    OP("global_norm", rota_op_global_norm(f.tape, twice, 2, 1, &out));
    OP("clip_global_norm", rota_op_clip_global_norm(f.tape, twice, 2, 1, &out));
    OP("sgd", rota_op_sgd(f.tape, x, y, z, &ROTA_SGD(.lr = ROTA_CONSTANT(1))));
    assert_ok(rota_tensor_transpose(&x, 0, 1, &more));
    OP("contiguous", rota_op_contiguous(f.tape, more, &out));
    OP("reshape", rota_op_reshape(f.tape, more, ROTA_SHAPE(36), &out));
    OP("fill", rota_op_fill_into(f.tape, x, 3));
    /* The last: a node of it is several commands. */
    OP("linear",
       rota_op_linear(f.tape, x, y, &ROTA_LINEAR(.residual = x, .activation = ROTA_ACTIVATION_GELU), &out));
#undef OP
    compile(&f);
    uint64_t from = 0;
    first[count - 1] = f.count;
    for (uint32_t i = 0; i < count; from = first[i++]) {
        if (first[i] == from) fail_msg("'%s' has no node", names[i]);
        expect_names(&f, from, first[i], names[i]);
    }
    close_graph(&f);
}

/* ---- Names that callers give ---- */

static void a_tapes_name_comes_first(void **state) {
    (void)state;
    fixture f;
    rota_tensor x, y, loss, gradient = ROTA_TENSOR_NONE;
    open_graph(&f);
    assert_ok(rota_tape_tensor(f.tape, ROTA_BUFFER_TRANSIENT, "x", ROTA_F32, ROTA_SHAPE(6, 6), &x));
    char name[] = "block 3";
    assert_ok(rota_tape_name(f.tape, name));
    memset(name, '?', sizeof name - 1); /* it was copied */
    assert_ok(rota_op_fill_into(f.tape, x, 2));
    assert_ok(rota_op_gelu(f.tape, x, &y));
    const uint64_t named = nodes_of(&f);
    assert_ok(rota_tape_name(f.tape, NULL));
    assert_ok(rota_op_mse(f.tape, y, x, &loss));
    const uint64_t forward = nodes_of(&f);
    assert_ok(rota_backward(f.tape, loss, &x, 1, &gradient, NULL));
    const uint64_t backward = nodes_of(&f);
    assert_ok(rota_op_exp(f.tape, x, &y));
    const uint64_t all = nodes_of(&f);
    compile(&f);
    expect_names(&f, 0, named, "block 3");
    expect_names(&f, named, forward, "mse");
    uint32_t of_mse = 0, of_block = 0;
    for (uint64_t i = forward; i < backward; i++) {
        of_mse += strcmp(f.commands[i].name, "mse_backward") == 0;
        of_block += strcmp(f.commands[i].name, "block 3") == 0;
    }
    assert_true(of_mse > 0 && of_block > 0);
    expect_names(&f, backward, all, "exp");
    close_graph(&f);
}

/* An op of somebody's, made of others, which is gone when its nodes are looked at. */
static rota_status twice_shape(const rota_op_use *use, rota_tensor *out_outputs) {
    return rota_shape_like(&use->inputs[0], use->inputs[0].dtype, &out_outputs[0]);
}
static rota_status twice_record(rota_tape *tape, rota_op_use *use) {
    return rota_op_add_into(tape, use->inputs[0], use->inputs[0], use->outputs[0]);
}
static rota_status twice_gradient(rota_tape *tape, const rota_op_use *use) {
    rota_tensor scaled;
    ROTA_TRY(rota_op_scale(tape, *rota_gradient_output(tape, 0), ROTA_PLAIN(2), &scaled));
    return rota_gradient_add(tape, &use->inputs[0], &scaled, 1);
}

static void an_op_from_outside_may_be_gone(void **state) {
    (void)state;
    fixture f;
    rota_tensor x, loss, gradient = ROTA_TENSOR_NONE;
    open_graph(&f);
    rota_op *op = malloc(sizeof *op);
    char *name = malloc(6);
    assert_true(op && name);
    *op = (rota_op){.name = name,
                    .input_count = 1,
                    .output_count = 1,
                    .input_names = {"x"},
                    .output_names = {"y"},
                    .shape = twice_shape,
                    .record = twice_record,
                    .gradient = twice_gradient,
                    .differentiable = 1};
    assert_ok(rota_tape_tensor(f.tape, ROTA_BUFFER_TRANSIENT, "x", ROTA_F32, ROTA_SHAPE(8), &x));
    uint64_t first[3];
    for (uint32_t i = 0; i < 2; i++) { /* another op in the same place */
        (void)snprintf(name, 6, "mine%u", i);
        rota_op_use use = {.op = op, .input_count = 1, .output_count = 1, .inputs = {x}};
        assert_ok(rota_op_apply(f.tape, &use));
        first[i] = nodes_of(&f);
        loss = use.outputs[0];
    }
    assert_ok(rota_op_mse(f.tape, loss, x, &loss));
    first[2] = nodes_of(&f);
    assert_ok(rota_backward(f.tape, loss, &x, 1, &gradient, NULL));
    memset(name, '?', 5);
    free(name);
    free(op);
    compile(&f);
    expect_names(&f, 0, first[0], "mine0");
    expect_names(&f, first[0], first[1], "mine1");
    uint32_t own = 0;
    for (uint64_t i = first[2]; i < f.count; i++) {
        const char *is = f.commands[i].name;
        own += strcmp(is, "mine1_backward") == 0;
        assert_true(!strstr(is, "add") && !strstr(is, "scale"));
    }
    assert_int_equal(own, 2); /* made, and put in its place */
    close_graph(&f);
}

/* ---- Where names are seen, and which node an op's is ---- */

static void an_ops_node_can_be_asked_about(void **state) {
    (void)state;
    fixture f;
    rota_tensor x, y, z;
    rota_node none, first, second, same;
    char text[512];
    open_graph(&f);
    assert_status(rota_recorder_last_node(f.recorder, &none), ROTA_NOT_FOUND);
    assert_ok(rota_tape_tensor(f.tape, ROTA_BUFFER_TRANSIENT, "x", ROTA_F32, ROTA_SHAPE(4, 4), &x));
    assert_ok(rota_op_add(f.tape, x, x, &y));
    assert_ok(rota_recorder_last_node(f.recorder, &first));
    assert_ok(rota_op_reshape(f.tape, y, ROTA_SHAPE(16), &y)); /* a view */
    assert_ok(rota_recorder_last_node(f.recorder, &same));
    assert_memory_equal(&first, &same, sizeof first);
    assert_ok(rota_op_sum(f.tape, y, 0, false, &z));
    assert_ok(rota_recorder_last_node(f.recorder, &second));
    assert_int_equal(second.index, first.index + 1);
    assert_int_equal(second.lane, first.lane);
    rota_recorder *recorder = f.recorder;
    compile(&f);
    assert_ok(rota_recorder_last_node(recorder, &same));
    assert_memory_equal(&second, &same, sizeof second);
    assert_ok(rota_plan_explain(f.plan, second, text, sizeof text, NULL));
    if (!strstr(text, "'sum'") || !strstr(text, "'add'")) fail_msg("explained as: %s", text);
    close_graph(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_names_its_nodes),
        cmocka_unit_test(on_every_executor),
        cmocka_unit_test(what_is_made_of_others_has_one_name),
        cmocka_unit_test(a_tapes_name_comes_first),
        cmocka_unit_test(an_op_from_outside_may_be_gone),
        cmocka_unit_test(an_ops_node_can_be_asked_about),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
