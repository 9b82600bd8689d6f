/* Programs of loops and choices: as nodes, unrolled, and in f64. Unrolled, each result is a tensor of its own. */
#include "tests/ops/loop_program.h"

#include <stdlib.h>
#include <string.h>
#include "graph/conditional.h"

/* ---- As they are recorded ---- */

typedef struct recording {
    op_kit *kit;
    rota_tape *tape;
    rota_graph *graph; /* the tape's */
    rota_tensor held[LOOP_OPERANDS];
    rota_tensor index; /* of the innermost for */
} recording;

static rota_tensor half_of(rota_tensor x) {
    x.shape[0] = N / 2;
    return x;
}

/* Into the state's own memory. */
static void record_op(const recording *r, const loop_step *step) {
    const rota_tensor a = r->held[step->a], b = r->held[step->b], to = r->held[step->to];
    rota_tensor sum;
    switch (step->kind) {
    case LOOP_MUL:
        assert_ok(rota_op_mul_into(r->tape, a, b, to));
        return;
    case LOOP_MIX:
        assert_ok(rota_op_add(r->tape, a, b, &sum));
        assert_ok(rota_op_tanh_into(r->tape, sum, to));
        return;
    case LOOP_SINE:
        assert_ok(rota_op_sin_into(r->tape, a, to));
        return;
    case LOOP_MEAN:
        assert_ok(rota_op_add(r->tape, a, b, &sum));
        assert_ok(rota_op_scale_into(r->tape, sum, ROTA_PLAIN(0.5), to));
        return;
    default:
        assert_ok(rota_op_scale_into(r->tape, half_of(a), ROTA_PLAIN(0.5), half_of(to)));
        return;
    }
}

static rota_tensor make_word(const recording *r, const char *name) {
    rota_tensor made;
    assert_ok(rota_tape_tensor(r->tape, ROTA_BUFFER_TRANSIENT, name, ROTA_I32, ROTA_SHAPE(1), &made));
    return made;
}

static rota_tensor word_of(const recording *r, uint32_t value) {
    const rota_tensor made = make_word(r, "word");
    assert_ok(rota_op_fill_into(r->tape, made, value));
    return made;
}

static void record_nodes(recording *r, const loop_steps *steps);

/* With what is left of a while counted down in it. */
static rota_graph *make_body(const recording *r, const loop_steps *steps, const rota_tensor *index,
                             const rota_tensor *left, const rota_tensor *zero) {
    rota_graph *body;
    rota_recorder *lane;
    recording inner = *r;
    assert_ok(rota_graph_create_body(r->graph, NULL, &body));
    assert_ok(rota_recorder_open(body, 0, NULL, &lane));
    assert_ok(rota_tape_create(lane, NULL, &inner.tape));
    inner.graph = body;
    if (index) inner.index = *index;
    if (steps) record_nodes(&inner, steps);
    if (left) assert_ok(rota_op_index_add(inner.tape, *zero, -1, *left));
    rota_tape_destroy(inner.tape);
    rota_recorder_close(lane);
    return body;
}

static void record_node(const recording *r, const loop_step *step) {
    rota_recorder *lane = rota_tape_recorder(r->tape);
    const rota_tensor word = step->by_index ? r->index : word_of(r, step->value);
    rota_tensor index, zero;
    rota_graph *bodies[2] = {NULL, NULL};
    switch (step->kind) {
    case LOOP_FOR:
        index = word_of(r, 0);
        bodies[0] = make_body(r, step->bodies[0], &index, NULL, NULL);
        assert_ok(rota_record_for(lane,
                                  &ROTA_FOR_NODE(.count = word.buffer, .index = index.buffer,
                                                 .body = bodies[0], .iterations_max = step->max),
                                  NULL));
        return;
    case LOOP_WHILE: /* a word of its own, which the body writes */
        index = word_of(r, 0);
        zero = word_of(r, 0);
        assert_ok(rota_op_copy_into(r->tape, word, index));
        bodies[0] = make_body(r, step->bodies[0], NULL, &index, &zero);
        assert_ok(rota_record_while(
            lane, &ROTA_WHILE_NODE(.condition = index.buffer, .body = bodies[0], .iterations_max = step->max),
            NULL));
        return;
    default:
        for (uint32_t i = 0; i < 2; i++)
            if (step->bodies[i] || i == 0) bodies[i] = make_body(r, step->bodies[i], NULL, NULL, NULL);
        if (step->kind == LOOP_IF)
            assert_ok(rota_record_if(
                lane, &ROTA_IF_NODE(.condition = word.buffer, .body = bodies[0], .otherwise = bodies[1]),
                NULL));
        else
            assert_ok(rota_record_switch(
                lane, &ROTA_SWITCH_NODE(.condition = word.buffer, .bodies = bodies, .body_count = 2), NULL));
        return;
    }
}

/* What a node read nothing may overwrite later, so the next one has copies. */
static void copy_states(recording *r) {
    for (uint32_t i = 0; i < LOOP_STATES; i++) assert_ok(rota_op_copy(r->tape, r->held[i], &r->held[i]));
}

static void record_nodes(recording *r, const loop_steps *steps) {
    for (uint32_t i = 0; i < steps->count; i++)
        if (steps->steps[i].kind < LOOP_OPS)
            record_op(r, &steps->steps[i]);
        else {
            if (i && r->tape == r->kit->tape) copy_states(r);
            record_node(r, &steps->steps[i]);
        }
}

/* ---- Unrolled, and in f64 ---- */

/* What a step does with the innermost for's number known: how often it runs which of its bodies. */
static uint32_t times_of(const loop_step *step, uint32_t index, const loop_steps **out_body) {
    const uint32_t value = step->by_index ? index : step->value;
    *out_body = step->bodies[0];
    if (step->kind == LOOP_FOR || step->kind == LOOP_WHILE) return value;
    if (step->kind == LOOP_IF) *out_body = step->bodies[value ? 0 : 1];
    if (step->kind == LOOP_SWITCH) *out_body = value < 2 ? step->bodies[value] : NULL;
    return 1;
}

static void unroll(recording *r, const loop_steps *steps, uint32_t index) {
    for (uint32_t i = 0; i < steps->count; i++) {
        const loop_step *step = &steps->steps[i];
        const loop_steps *body;
        if (step->kind < LOOP_OPS) {
            const loop_step by = {.kind = step->kind, .a = 0, .b = 1, .to = 2};
            recording apart = {.tape = r->tape, .held = {r->held[step->a], r->held[step->b]}};
            rota_tensor made;
            assert_ok(
                rota_tape_tensor(r->tape, ROTA_BUFFER_TRANSIENT, "unrolled", ROTA_F32, ROTA_SHAPE(N), &made));
            if (step->kind == LOOP_HALF) assert_ok(rota_op_copy_into(r->tape, r->held[step->to], made));
            apart.held[2] = made;
            record_op(&apart, &by);
            r->held[step->to] = made;
            continue;
        }
        const uint32_t times = times_of(step, index, &body);
        for (uint32_t t = 0; t < times && body; t++) unroll(r, body, step->kind == LOOP_FOR ? t : index);
    }
}

static void compute(double held[LOOP_OPERANDS][N], const loop_steps *steps, uint32_t index) {
    for (uint32_t i = 0; i < steps->count; i++) {
        const loop_step *step = &steps->steps[i];
        const loop_steps *body;
        if (step->kind < LOOP_OPS) {
            double made[N];
            for (int n = 0; n < N; n++) {
                const double a = held[step->a][n], b = held[step->b][n];
                made[n] = step->kind == LOOP_MUL    ? a * b
                          : step->kind == LOOP_MIX  ? tanh(a + b)
                          : step->kind == LOOP_SINE ? sin(a)
                          : step->kind == LOOP_MEAN ? (a + b) / 2
                          : n < N / 2               ? 0.5 * a
                                                    : held[step->to][n];
            }
            memcpy(held[step->to], made, sizeof made);
            continue;
        }
        const uint32_t times = times_of(step, index, &body);
        for (uint32_t t = 0; t < times && body; t++) compute(held, body, step->kind == LOOP_FOR ? t : index);
    }
}

/* ---- The loss: of all states, and of a parameter itself ---- */

double loop_program_loss(const loop_steps *program, const double *values) {
    double held[LOOP_OPERANDS][N], loss = 0;
    memcpy(held, values, sizeof held);
    compute(held, program, 0);
    for (int n = 0; n < N; n++) {
        for (int s = 0; s < LOOP_STATES; s++) loss += held[s][n] * (1 + 0.5 * s) * held[LOOP_STATES][n];
        loss += held[LOOP_STATES + 1][n];
    }
    return loss;
}

static rota_tensor record_loss(const recording *r) {
    rota_tensor sum = r->held[LOOP_STATES + 1], scaled, product;
    for (int s = 0; s < LOOP_STATES; s++) {
        assert_ok(rota_op_scale(r->tape, r->held[s], ROTA_PLAIN(1 + 0.5 * s), &scaled));
        assert_ok(rota_op_mul(r->tape, scaled, r->held[LOOP_STATES], &product));
        assert_ok(rota_op_add(r->tape, sum, product, &sum));
    }
    return total(r->kit, sum);
}

void loop_program_run(const loop_steps *program, loop_way way, const float *values, float out[LOOP_RESULTS]) {
    op_kit kit;
    uint32_t outputs[LOOP_OPERANDS + 1];
    rota_tensor params[LOOP_OPERANDS], grads[LOOP_OPERANDS] = {{0}}, loss;
    op_kit_open(&kit);
    recording r = {.kit = &kit, .tape = kit.tape, .graph = kit.graph};
    for (uint32_t i = 0; i < LOOP_OPERANDS; i++) {
        params[i] = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), values + (size_t)i * N);
        r.held[i] = params[i];
        if (i >= LOOP_STATES) continue;
        assert_ok(
            rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "state", ROTA_F32, ROTA_SHAPE(N), &r.held[i]));
        assert_ok(rota_op_copy_into(kit.tape, params[i], r.held[i]));
    }
    if (way == LOOP_NODES)
        record_nodes(&r, program);
    else
        unroll(&r, program, 0);
    loss = record_loss(&r);
    assert_ok(rota_backward(kit.tape, loss, params, LOOP_OPERANDS, grads, NULL));
    for (uint32_t i = 0; i < LOOP_OPERANDS; i++) outputs[i] = op_kit_output(&kit, grads[i]);
    outputs[LOOP_OPERANDS] = op_kit_output(&kit, loss);
    op_kit_run(&kit);
    for (uint32_t i = 0; i < LOOP_OPERANDS; i++)
        memcpy(out + (size_t)i * N, op_kit_f32(&kit, outputs[i]), N * sizeof *out);
    out[LOOP_RESULTS - 1] = op_kit_f32(&kit, outputs[LOOP_OPERANDS])[0];
    op_kit_close(&kit);
}

/* ---- Any program ---- */

static uint32_t pick(uint64_t *random, uint32_t below) {
    return (uint32_t)(test_random(random) >> 33) % below;
}

static loop_steps *draw(uint64_t *random, uint32_t depth, uint32_t depth_max, bool in_for) {
    loop_steps *made = calloc(1, sizeof *made);
    assert_non_null(made);
    made->count = 1 + pick(random, depth ? 4 : 3);
    for (uint32_t i = 0; i < made->count; i++) {
        loop_step *step = &made->steps[i];
        /* Outside of all bodies an op's operands stay as they are, so there are nodes alone. */
        const bool is_node = depth == 0 || (depth < depth_max && pick(random, 3) == 0);
        step->kind = (loop_step_kind)(is_node ? LOOP_OPS + pick(random, LOOP_KINDS - LOOP_OPS)
                                              : pick(random, LOOP_OPS));
        step->to = pick(random, LOOP_STATES);
        step->a = pick(random, LOOP_OPERANDS);
        step->b = pick(random, LOOP_OPERANDS);
        step->by_index = in_for && pick(random, 2);
        step->value = pick(random, 4);
        step->max = 3;
        if (!is_node) continue;
        const bool is_for = step->kind == LOOP_FOR;
        step->bodies[0] = draw(random, depth + 1, depth_max, in_for || is_for);
        if (!is_for && step->kind != LOOP_WHILE && pick(random, 2))
            step->bodies[1] = draw(random, depth + 1, depth_max, in_for);
    }
    return made;
}

loop_steps *loop_program_draw(uint64_t *random, uint32_t depth) {
    return draw(random, 0, depth, false);
}

void loop_program_free(loop_steps *program) {
    if (!program) return;
    for (uint32_t i = 0; i < program->count; i++)
        for (uint32_t b = 0; b < 2; b++) loop_program_free(program->steps[i].bodies[b]);
    free(program);
}

void loop_program_print(const loop_steps *program, uint32_t indent) {
    static const char *const names[] = {"mul", "mix", "sine", "mean", "half", "for", "while", "if", "switch"};
    for (uint32_t i = 0; i < program->count; i++) {
        const loop_step *step = &program->steps[i];
        if (step->kind < LOOP_OPS) {
            print_message("%*s%u = %s %u %u\n", (int)indent, "", step->to, names[step->kind], step->a,
                          step->b);
            continue;
        }
        print_message("%*s%s %s%u\n", (int)indent, "", names[step->kind], step->by_index ? "index, not " : "",
                      step->value);
        for (uint32_t b = 0; b < 2; b++) {
            if (!step->bodies[b]) continue;
            if (b) print_message("%*sotherwise\n", (int)indent, "");
            loop_program_print(step->bodies[b], indent + 4);
        }
    }
}
