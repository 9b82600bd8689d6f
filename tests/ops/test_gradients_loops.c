/* Gradients through loops: those of the loop unrolled, bit for bit on the CPU, and those of differences, whatever is in
 * the loops and however often they run. */
#include <stdlib.h>
#include <string.h>
#include "graph/conditional.h"
#include "ops/kernel_objects.h"
#include "tests/exec/cuda/cuda_stub.h"
#include "tests/ops/ops_stub.h"
#include "tests/ops/gradient_parts.h"
#include "tests/ops/loop_program.h"

/* ---- Against the same unrolled ---- */

static void fill_program(float values[LOOP_OPERANDS * N]) {
    for (int i = 0; i < LOOP_OPERANDS * N; i++)
        values[i] = 0.2f + 0.013f * (float)(i * 7 % 53) * (i % 3 ? 1.0f : -1.0f);
}

static void compare_differences(const loop_steps *program, const float *values, const float *got) {
    double held[LOOP_OPERANDS * N];
    for (int i = 0; i < LOOP_OPERANDS * N; i++) held[i] = (double)values[i];
    for (int i = 0; i < LOOP_OPERANDS * N; i++) {
        const double kept = held[i];
        held[i] = kept + 1e-5;
        const double above = loop_program_loss(program, held);
        held[i] = kept - 1e-5;
        const double expected = (above - loop_program_loss(program, held)) / 2e-5;
        held[i] = kept;
        if (fabs(expected - (double)got[i]) <= 2e-4 * fmax(1, fabs(expected))) continue;
        loop_program_print(program, 0);
        fail_msg("gradient %d is %.9g, expected %.9g", i, (double)got[i], expected);
    }
}

static void check_program(const loop_steps *program, float tolerance) {
    float values[LOOP_OPERANDS * N], with[LOOP_RESULTS], without[LOOP_RESULTS];
    fill_program(values);
    loop_program_run(program, LOOP_UNROLLED, values, without);
    loop_program_run(program, LOOP_NODES, values, with);
    for (int i = 0; i < LOOP_RESULTS; i++) {
        if (fabsf(with[i] - without[i]) <= tolerance * fmaxf(1, fabsf(without[i]))) continue;
        loop_program_print(program, 0);
        fail_msg("%d is %.9g, unrolled %.9g", i, (double)with[i], (double)without[i]);
    }
    compare_differences(program, values, with);
}

/* x = tanh(x * w + x), and s = s * x. */
#define RECURRENCE                                                                                           \
    {                                                                                                        \
        .count = 3, .steps = {                                                                               \
            {.kind = LOOP_MUL, .to = 1, .a = 0, .b = 3},                                                     \
            {.kind = LOOP_MIX, .to = 0, .a = 0, .b = 1},                                                     \
            {.kind = LOOP_MUL, .to = 2, .a = 2, .b = 0}                                                      \
        }                                                                                                    \
    }

static void loops_are_what_they_are_unrolled(void **state) {
    (void)state;
    for (uint32_t kind = LOOP_FOR; kind <= LOOP_WHILE; kind++)
        for (uint32_t times = 0; times <= 7; times++) {
            loop_steps body = RECURRENCE;
            const loop_steps program = {
                .count = 1,
                .steps = {{.kind = (loop_step_kind)kind, .value = times, .max = 7, .bodies = {&body, NULL}}}};
            check_program(&program, 0);
        }
}

static void nested_ones_are(void **state) {
    (void)state;
    loop_steps body = RECURRENCE, sine = {.count = 1, .steps = {{.kind = LOOP_SINE, .to = 0, .a = 0}}};
    /* A loop as long as the number of the iteration around it, behind a choice by that. */
    loop_steps inner = {.count = 3,
                        .steps = {{.kind = LOOP_IF, .by_index = true, .bodies = {&sine, &body}},
                                  {.kind = LOOP_FOR, .by_index = true, .max = 5, .bodies = {&body, NULL}},
                                  {.kind = LOOP_WHILE, .value = 2, .max = 5, .bodies = {&sine, NULL}}}};
    loop_steps loop = {.count = 1,
                       .steps = {{.kind = LOOP_FOR, .value = 4, .max = 5, .bodies = {&inner, NULL}}}};
    check_program(&loop, 0);
    const loop_steps chosen = {.count = 1,
                               .steps = {{.kind = LOOP_IF, .value = 1, .bodies = {&loop, &body}}}};
    check_program(&chosen, 0);
}

static void any_are(void **state) {
    (void)state;
    uint64_t random = 11;
    for (uint32_t i = 0; i < 150; i++) {
        loop_steps *program = loop_program_draw(&random, 1 + i % 3);
        check_program(program, 0);
        loop_program_free(program);
    }
}

static void check_on(const char *device, uint32_t programs, float tolerance) {
    if (!op_kit_use_device(device)) skip();
    loop_steps body = RECURRENCE, inner = RECURRENCE;
    for (uint32_t times = 0; times <= 3; times++) {
        inner.steps[2] = (loop_step){.kind = LOOP_WHILE, .value = times, .max = 3, .bodies = {&body, NULL}};
        loop_steps outer = {.count = 1,
                            .steps = {{.kind = LOOP_FOR, .value = 3, .max = 3, .bodies = {&inner, NULL}}}};
        check_program(&outer, tolerance);
    }
    uint64_t random = 5;
    for (uint32_t i = 0; i < programs; i++) {
        loop_steps *program = loop_program_draw(&random, 1 + i % 2);
        check_program(program, tolerance);
        loop_program_free(program);
    }
    assert_true(op_kit_use_device("cpu"));
}

static void on_vulkan(void **state) {
    (void)state;
    check_on("vk:0", 6, 1e-6f);
}

/* A GPU's, or with --cuda-stub the stand-in's, where kernels are the CPU's. */
static bool is_stub;
static void on_cuda(void **state) {
    (void)state;
    check_on("cuda:0", 12, is_stub ? 0 : 1e-5f);
}

/* Kernels that are watched write what they say, in what is kept, too. */
static void watched(void **state) {
    (void)state;
    loop_steps body = RECURRENCE;
    const loop_steps program = {.count = 1,
                                .steps = {{.kind = LOOP_FOR, .value = 2, .max = 3, .bodies = {&body, NULL}}}};
    op_kit_watch(true);
    check_program(&program, 0);
    op_kit_watch(false);
}

/* ---- A recurrent network: h = tanh(h U + x[i] V), and U outside of it ---- */

enum { ROWS = 3, WIDE = 4, STEPS = 5, GRADIENTS = 2 * WIDE * WIDE + STEPS * WIDE + ROWS * WIDE };

typedef struct network {
    rota_tensor params[4]; /* u, v, x, h before */
    rota_tensor h, index;
} network;

static void record_cell(rota_tape *tape, const network *n, rota_tensor to) {
    rota_tensor hu, row, xv, sum;
    assert_ok(rota_op_embedding(tape, n->params[2], n->index, &row));
    assert_ok(rota_op_matmul(tape, n->h, n->params[0], false, false, &hu));
    assert_ok(rota_op_matmul(tape, row, n->params[1], false, false, &xv));
    assert_ok(rota_op_add(tape, hu, xv, &sum));
    assert_ok(rota_op_tanh_into(tape, sum, to));
}

static void open_network(op_kit *kit, network *n) {
    const uint64_t shapes[4][2] = {{WIDE, WIDE}, {WIDE, WIDE}, {STEPS, WIDE}, {ROWS, WIDE}};
    float values[STEPS * WIDE];
    op_kit_open(kit);
    for (uint32_t p = 0; p < 4; p++) {
        for (uint32_t i = 0; i < STEPS * WIDE; i++) values[i] = sinf((float)(i * 5 + p * 3)) * 0.7f;
        n->params[p] = op_kit_variable(kit, ROTA_F32, 2, shapes[p], values);
    }
    assert_ok(rota_tape_tensor(kit->tape, ROTA_BUFFER_TRANSIENT, "h", ROTA_F32, 2, shapes[3], &n->h));
    assert_ok(
        rota_tape_tensor(kit->tape, ROTA_BUFFER_TRANSIENT, "index", ROTA_I32, ROTA_SHAPE(1), &n->index));
    assert_ok(rota_op_copy_into(kit->tape, n->params[3], n->h));
    assert_ok(rota_op_fill_into(kit->tape, n->index, 0));
}

/* The outputs of gradients. */
static void close_network(op_kit *kit, const network *n, const rota_backward_options *options,
                          uint32_t outputs[4]) {
    rota_tensor again, loss, grads[4] = {{0}};
    assert_ok(rota_op_matmul(kit->tape, n->h, n->params[0], false, false, &again));
    loss = sum_of(kit, again, n->h);
    assert_ok(rota_backward(kit->tape, loss, n->params, 4, grads, options));
    for (uint32_t i = 0; i < 4; i++) outputs[i] = op_kit_output(kit, grads[i]);
}

static void take_gradients(const op_kit *kit, const network *n, const uint32_t outputs[4], float *out) {
    for (uint32_t i = 0; i < 4; i++) {
        const uint64_t count = rota_tensor_count(&n->params[i]);
        memcpy(out, op_kit_f32(kit, outputs[i]), count * sizeof *out);
        out += count;
    }
}

static void run_unrolled(uint32_t count, float out[GRADIENTS]) {
    op_kit kit;
    network n;
    uint32_t outputs[4];
    open_network(&kit, &n);
    for (uint32_t i = 0; i < count; i++) {
        rota_tensor made;
        assert_ok(
            rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "index", ROTA_I32, ROTA_SHAPE(1), &n.index));
        assert_ok(rota_op_fill_into(kit.tape, n.index, i));
        assert_ok(
            rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "h", ROTA_F32, ROTA_SHAPE(ROWS, WIDE), &made));
        record_cell(kit.tape, &n, made);
        n.h = made;
    }
    close_network(&kit, &n, NULL, outputs);
    op_kit_run(&kit);
    take_gradients(&kit, &n, outputs, out);
    op_kit_close(&kit);
}

static rota_graph *make_cell(const op_kit *kit, const network *n) {
    rota_graph *body;
    rota_recorder *lane;
    rota_tape *tape;
    assert_ok(rota_graph_create_body(kit->graph, "cell", &body));
    assert_ok(rota_recorder_open(body, 0, NULL, &lane));
    assert_ok(rota_tape_create(lane, NULL, &tape));
    record_cell(tape, n, n->h);
    rota_tape_destroy(tape);
    rota_recorder_close(lane);
    return body;
}

/* One plan, replayed as often as each number of iterations says, which is an input. */
static void replays_have_other_counts(void **state) {
    (void)state;
    for (uint32_t twice = 0; twice < 2; twice++) {
        op_kit kit;
        network n;
        uint32_t outputs[4], count = 0;
        float with[GRADIENTS], without[GRADIENTS];
        open_network(&kit, &n);
        const rota_tensor times = op_kit_input(&kit, ROTA_U32, ROTA_SHAPE(1), &count);
        assert_ok(
            rota_record_for(kit.recorder,
                            &ROTA_FOR_NODE(.name = "network", .count = times.buffer, .index = n.index.buffer,
                                           .body = make_cell(&kit, &n), .iterations_max = STEPS),
                            NULL));
        if (twice) /* what is kept serves both */
            close_network(&kit, &n, &ROTA_BACKWARD_OPTIONS(.keep = true), outputs);
        close_network(&kit, &n, NULL, outputs);
        static const uint32_t counts[] = {STEPS, 0, 1, 3, STEPS, 2, 0, 4};
        for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            memcpy(kit.input_data[kit.input_count - 1], &counts[i], sizeof count);
            op_kit_run(&kit);
            take_gradients(&kit, &n, outputs, with);
            run_unrolled(counts[i], without);
            if (memcmp(with, without, sizeof with) != 0)
                for (int g = 0; g < GRADIENTS; g++)
                    if (with[g] != without[g])
                        fail_msg("%u iterations: gradient %d is %.9g, unrolled %.9g", counts[i], g,
                                 (double)with[g], (double)without[g]);
        }
        op_kit_close(&kit);
    }
}

/* ---- A condition that is computed: x = x * w while x < 2 ---- */

static double grown(const double *w) {
    double sum = 0, x[N], first = 0.5;
    for (int i = 0; i < N; i++) x[i] = 0.5;
    while (first < 2) {
        for (int i = 0; i < N; i++) x[i] *= w[i];
        first = x[0];
    }
    for (int i = 0; i < N; i++) sum += x[i] * w[i];
    return sum;
}

static void record_below(rota_tape *tape, rota_tensor x, rota_tensor two, rota_tensor more) {
    rota_tensor below, first = x;
    first.shape[0] = 1;
    assert_ok(rota_op_lt(tape, first, two, &below));
    assert_ok(rota_op_cast_into(tape, below, more));
}

static void a_condition_is_computed(void **state) {
    (void)state;
    static const char *const devices[] = {"cpu", "vk:0"};
    for (uint32_t d = 0; d < 2; d++) {
        if (!op_kit_use_device(devices[d])) continue;
        op_kit kit;
        rota_graph *body;
        rota_recorder *lane;
        rota_tape *tape;
        float values[N], halves[N];
        rota_tensor w, x, two, more, product;
        const float limit = 2;
        for (int i = 0; i < N; i++) values[i] = 1.15f + 0.03f * (float)i, halves[i] = 0.5f;
        op_kit_open(&kit);
        w = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), values);
        x = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), halves);
        two = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(1), &limit);
        assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "more", ROTA_I32, ROTA_SHAPE(1), &more));
        record_below(kit.tape, x, two, more);
        assert_ok(rota_graph_create_body(kit.graph, NULL, &body));
        assert_ok(rota_recorder_open(body, 0, NULL, &lane));
        assert_ok(rota_tape_create(lane, NULL, &tape));
        assert_ok(rota_op_mul_into(tape, x, w, x));
        record_below(tape, x, two, more);
        rota_tape_destroy(tape);
        rota_recorder_close(lane);
        assert_ok(rota_record_while(
            kit.recorder, &ROTA_WHILE_NODE(.condition = more.buffer, .body = body, .iterations_max = 50),
            NULL));
        assert_ok(rota_op_mul(kit.tape, x, w, &product));
        check_loss(&kit, total(&kit, product), w, grown, values, devices[d]);
    }
    assert_true(op_kit_use_device("cpu"));
}

/* ---- Checkpoints: a loop in a loop keeps less than one as long as both ---- */

enum { LONG = 8, STATE = 4096 };

/* x = sin(x), `times` times, in a loop; or as often as `around` says in another one. */
static rota_graph *make_sines(rota_graph *outer, rota_tensor x, rota_tensor times, uint32_t most,
                              bool is_inner) {
    rota_graph *body;
    rota_recorder *lane;
    rota_tape *tape;
    assert_ok(rota_graph_create_body(outer, NULL, &body));
    assert_ok(rota_recorder_open(body, 0, NULL, &lane));
    assert_ok(rota_tape_create(lane, NULL, &tape));
    if (is_inner)
        assert_ok(rota_op_sin_into(tape, x, x));
    else
        assert_ok(rota_record_for(lane,
                                  &ROTA_FOR_NODE(.count = times.buffer,
                                                 .body = make_sines(body, x, times, most, true),
                                                 .iterations_max = most),
                                  NULL));
    rota_tape_destroy(tape);
    rota_recorder_close(lane);
    return body;
}

static uint64_t run_sines(bool nested, float *out) {
    op_kit kit;
    static float values[STATE];
    rota_tensor p, x, times, grad = ROTA_TENSOR_NONE;
    for (int i = 0; i < STATE; i++) values[i] = 0.001f * (float)i;
    op_kit_open(&kit);
    const uint32_t count = nested ? LONG : LONG * LONG;
    p = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(STATE), values);
    times = op_kit_input(&kit, ROTA_U32, ROTA_SHAPE(1), &count);
    assert_ok(rota_op_copy(kit.tape, p, &x));
    assert_ok(rota_record_for(kit.recorder,
                              &ROTA_FOR_NODE(.count = times.buffer, .iterations_max = count,
                                             .body = make_sines(kit.graph, x, times, count, !nested)),
                              NULL));
    assert_ok(rota_backward(kit.tape, total(&kit, x), &p, 1, &grad, NULL));
    const uint32_t output = op_kit_output(&kit, grad);
    op_kit_run(&kit);
    memcpy(out, op_kit_f32(&kit, output), STATE * sizeof *out);
    rota_plan_stats stats = ROTA_PLAN_STATS();
    assert_ok(rota_plan_get_stats(kit.plan, &stats));
    op_kit_close(&kit);
    return stats.arena_bytes;
}

static void nested_loops_keep_less(void **state) {
    (void)state;
    static float flat[STATE], nested[STATE];
    const uint64_t of_flat = run_sines(false, flat), of_nested = run_sines(true, nested);
    assert_memory_equal(flat, nested, sizeof flat);
    assert_true(of_flat >= (uint64_t)LONG * LONG * STATE * 4);
    if (of_nested * 2 > of_flat)
        fail_msg("%llu bytes, and %llu nested", (unsigned long long)of_flat, (unsigned long long)of_nested);
}

/* s = s + p * p: a sum's gradient reads nothing, so nothing of s is kept, though each iteration overwrites it. */
static void sums_are_not_kept(void **state) {
    (void)state;
    op_kit kit;
    rota_graph *body;
    rota_recorder *lane;
    rota_tape *tape;
    static float values[STATE];
    rota_tensor p, s, squared, grad = ROTA_TENSOR_NONE;
    const uint32_t count = LONG * LONG;
    for (int i = 0; i < STATE; i++) values[i] = 0.25f * (float)(i % 7);
    op_kit_open(&kit);
    p = op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(STATE), values);
    const rota_tensor times = op_kit_input(&kit, ROTA_U32, ROTA_SHAPE(1), &count);
    assert_ok(rota_op_copy(kit.tape, p, &s));
    assert_ok(rota_graph_create_body(kit.graph, NULL, &body));
    assert_ok(rota_recorder_open(body, 0, NULL, &lane));
    assert_ok(rota_tape_create(lane, NULL, &tape));
    assert_ok(rota_op_square(tape, p, &squared));
    assert_ok(rota_op_add_into(tape, s, squared, s));
    rota_tape_destroy(tape);
    rota_recorder_close(lane);
    assert_ok(rota_record_for(
        kit.recorder, &ROTA_FOR_NODE(.count = times.buffer, .iterations_max = count, .body = body), NULL));
    assert_ok(rota_backward(kit.tape, total(&kit, s), &p, 1, &grad, NULL));
    const uint32_t output = op_kit_output(&kit, grad);
    op_kit_run(&kit);
    rota_plan_stats stats = ROTA_PLAN_STATS();
    assert_ok(rota_plan_get_stats(kit.plan, &stats));
    assert_true(stats.arena_bytes < 16 * sizeof values);
    for (int i = 0; i < STATE; i++)
        assert_true(op_kit_f32(&kit, output)[i] == 1 + 2 * values[i] * (float)count);
    op_kit_close(&kit);
}

/* ---- What has none ---- */

typedef enum obstacle { TOO_MANY, PLAIN_NODE, PLAIN_CONDITION, OBSTACLES } obstacle;

/* x = x * w, and what stands in the way. */
static rota_graph *make_hindered(op_kit *kit, rota_graph *outer, const rota_tensor *operands, obstacle what,
                                 bool within) {
    rota_graph *body, *inner;
    rota_recorder *lane;
    rota_tape *tape;
    (void)kit;
    assert_ok(rota_graph_create_body(outer, within ? "inner" : "hindered", &body));
    assert_ok(rota_recorder_open(body, 0, NULL, &lane));
    assert_ok(rota_tape_create(lane, NULL, &tape));
    assert_ok(rota_op_mul_into(tape, operands[0], operands[1], operands[0]));
    if (what == PLAIN_NODE) assert_ok(rota_record_fill(lane, operands[1].buffer, 0, ROTA_WHOLE, 0, NULL));
    if (what == PLAIN_CONDITION && within)
        assert_ok(rota_record_fill(lane, operands[2].buffer, 0, 4, 0, NULL));
    if (what == PLAIN_CONDITION && !within) {
        inner = make_hindered(kit, body, operands, what, true);
        assert_ok(rota_record_while(lane,
                                    &ROTA_WHILE_NODE(.name = "within", .condition = operands[2].buffer,
                                                     .body = inner, .iterations_max = 3),
                                    NULL));
    }
    rota_tape_destroy(tape);
    rota_recorder_close(lane);
    return body;
}

static void what_has_none_is_refused(void **state) {
    (void)state;
    static const struct {
        rota_status status;
        const char *said;
    } expected[OBSTACLES] = {
        [TOO_MANY] = {ROTA_OUT_OF_RANGE,
                      "body 'hindered' of node 'again': its gradient keeps 48 bytes of each iteration, of "
                      "which there may be 4294967296; expected a lower iterations_max"},
        [PLAIN_NODE] = {ROTA_UNSUPPORTED,
                        "node 'fill', which is no op of the body's tape, writes buffer 'variable', which an "
                        "op of the body reads as it was before"},
        [PLAIN_CONDITION] = {ROTA_UNSUPPORTED,
                             "a body of node 'within' within it writes beside or onto its condition, in "
                             "buffer 'flag', by a node that is no op of its tape"},
    };
    for (obstacle what = 0; what < OBSTACLES; what++) {
        op_kit kit;
        float values[N];
        rota_tensor operands[3], grad = ROTA_TENSOR_NONE;
        op_kit_open(&kit);
        operands[1] = parameter(&kit, values);
        operands[0] = parameter(&kit, values);
        assert_ok(
            rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "flag", ROTA_I32, ROTA_SHAPE(1), &operands[2]));
        assert_ok(rota_op_fill_into(kit.tape, operands[2], 1));
        rota_graph *body = make_hindered(&kit, kit.graph, operands, what, false);
        assert_ok(rota_record_for(kit.recorder,
                                  &ROTA_FOR_NODE(.name = "again", .count = operands[2].buffer, .body = body,
                                                 .iterations_max = what == TOO_MANY ? UINT32_MAX + 1ull : 2),
                                  NULL));
        assert_status(rota_backward(kit.tape, total(&kit, operands[0]), &operands[1], 1, &grad, NULL),
                      expected[what].status);
        assert_message(expected[what].said);
        op_kit_close(&kit);
    }
}

/* Over the stand-in for a driver for this version of CUDA. */
static int run_over_stub(const struct CMUnitTest *tests, size_t count, int version) {
#ifdef ROTA_HAVE_CUDA
    char text[256];
    if (!rota_kernels_have_cuda_images()) return 77;
    ops_stub_start(5);
    cuda_stub_version(version);
    is_stub = true;
    const int failed = op_kit_run_tests(tests, count);
    if (cuda_stub_violations(text, sizeof text)) {
        print_error("violated: %s\n", text);
        return 1;
    }
    cuda_stub_stop();
    return failed;
#else
    (void)tests, (void)count, (void)version;
    return 77;
#endif
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(loops_are_what_they_are_unrolled),
                                       cmocka_unit_test(nested_ones_are),
                                       cmocka_unit_test(any_are),
                                       cmocka_unit_test(on_vulkan),
                                       cmocka_unit_test(on_cuda),
                                       cmocka_unit_test(watched),
                                       cmocka_unit_test(replays_have_other_counts),
                                       cmocka_unit_test(a_condition_is_computed),
                                       cmocka_unit_test(nested_loops_keep_less),
                                       cmocka_unit_test(sums_are_not_kept),
                                       cmocka_unit_test(what_has_none_is_refused)};
    if (argc == 3 && strcmp(argv[1], "--cuda-stub") == 0)
        return run_over_stub(&tests[4], 1, (int)strtol(argv[2], NULL, 10));
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
