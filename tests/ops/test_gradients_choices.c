/* Gradients through nodes that choose among bodies: those of the graph without such nodes, whichever way is taken, and
 * those of differences; and what has none is refused with what stands in the way. */
#include <string.h>
#include "graph/conditional.h"
#include "tests/ops/gradient_parts.h"

/* ---- The same graph with nodes that choose, and with what they choose ---- */

/* What an if and a switch behind it choose: bodies 0 and 1 of the if (1: otherwise), 2 and 3 of the switch. */
typedef struct chosen {
    uint32_t flag, number;
    bool has_otherwise;
} chosen;

/* Tensors that bodies read (x, w) and write (y, z, v). */
typedef struct parts {
    rota_tensor p, w, x, y, z, v;
} parts;

static void record_then(rota_tape *tape, const parts *t) {
    rota_tensor h, e;
    assert_ok(rota_op_mul(tape, t->x, t->w, &h));
    assert_ok(rota_op_neg(tape, h, &e));
    assert_ok(rota_op_tanh_into(tape, e, t->y));
    assert_ok(rota_op_add_into(tape, h, t->y, t->z)); /* of what it wrote itself */
}

static void record_otherwise(rota_tape *tape, const parts *t) {
    assert_ok(rota_op_mul_into(tape, t->x, t->x, t->y)); /* z passes through */
}

static void record_first(rota_tape *tape, const parts *t) {
    rota_tensor yz;
    assert_ok(rota_op_mul(tape, t->y, t->z, &yz));
    assert_ok(rota_op_dropout_into(tape, yz, 0.25f, ROTA_CONSTANT(7), ROTA_CONSTANT(3), t->v));
}

static void record_second(rota_tape *tape, const parts *t) {
    assert_ok(rota_op_scale_into(tape, t->w, ROTA_PLAIN(3), t->v));
}

static rota_graph *make_body(op_kit *kit, const char *name, void (*record)(rota_tape *, const parts *),
                             const parts *t) {
    rota_graph *body;
    rota_recorder *lane;
    rota_tape *tape;
    assert_ok(rota_graph_create_body(kit->graph, name, &body));
    assert_ok(rota_recorder_open(body, 0, NULL, &lane));
    assert_ok(rota_tape_create(lane, NULL, &tape));
    record(tape, t);
    rota_tape_destroy(tape);
    rota_recorder_close(lane);
    return body;
}

static rota_buffer *word(op_kit *kit, uint32_t value) {
    rota_buffer *buffer;
    assert_ok(rota_graph_buffer(kit->graph, ROTA_BUFFER_TRANSIENT, "word", 4, &buffer));
    assert_ok(rota_record_fill(kit->recorder, buffer, 0, 4, value, NULL));
    return buffer;
}

static rota_tensor transient(op_kit *kit, const char *name) {
    rota_tensor made;
    assert_ok(rota_tape_tensor(kit->tape, ROTA_BUFFER_TRANSIENT, name, ROTA_F32, ROTA_SHAPE(N), &made));
    return made;
}

static void choose(op_kit *kit, const parts *t, const chosen *how) {
    rota_graph *const bodies[] = {make_body(kit, "first", record_first, t), NULL,
                                  make_body(kit, "second", record_second, t)};
    assert_ok(rota_record_if(kit->recorder,
                             &ROTA_IF_NODE(.name = "choose", .condition = word(kit, how->flag),
                                           .body = make_body(kit, "then", record_then, t),
                                           .otherwise = how->has_otherwise
                                                            ? make_body(kit, "otherwise", record_otherwise, t)
                                                            : NULL),
                             NULL));
    assert_ok(rota_record_switch(kit->recorder,
                                 &ROTA_SWITCH_NODE(.name = "pick", .condition = word(kit, how->number),
                                                   .bodies = bodies, .body_count = 3),
                                 NULL));
}

static void do_without(op_kit *kit, const parts *t, const chosen *how) {
    if (how->flag)
        record_then(kit->tape, t);
    else if (how->has_otherwise)
        record_otherwise(kit->tape, t);
    /* Each body's tape counts dropouts by itself. */
    if (how->number == 0) record_first(kit->tape, t);
    if (how->number == 2) record_second(kit->tape, t);
}

/* The gradients of p and w, and the loss. */
static void run(const chosen *how, bool decides, const float *p, const float *w, float out[2 * N + 1]) {
    op_kit kit;
    parts t;
    rota_tensor product, loss, sum, grads[2] = {ROTA_TENSOR_NONE, ROTA_TENSOR_NONE};
    op_kit_open(&kit);
    t.p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), p);
    t.w = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), w);
    t.y = transient(&kit, "y");
    t.z = transient(&kit, "z");
    t.v = transient(&kit, "v");
    assert_ok(rota_op_square(kit.tape, t.p, &t.x));
    assert_ok(rota_op_copy_into(kit.tape, t.p, t.y));
    assert_ok(rota_op_copy_into(kit.tape, t.w, t.z));
    assert_ok(rota_op_scale_into(kit.tape, t.p, ROTA_PLAIN(5), t.v));
    if (decides)
        choose(&kit, &t, how);
    else
        do_without(&kit, &t, how);
    assert_ok(rota_op_mul(kit.tape, t.y, t.z, &product));
    assert_ok(rota_op_mul(kit.tape, product, t.v, &product));
    assert_ok(rota_op_add(kit.tape, product, t.x, &sum));
    loss = total(&kit, sum);
    const rota_tensor params[2] = {t.p, t.w};
    assert_ok(rota_backward(kit.tape, loss, params, 2, grads, NULL));
    uint32_t outputs[3];
    for (uint32_t i = 0; i < 2; i++) outputs[i] = op_kit_output(&kit, grads[i]);
    outputs[2] = op_kit_output(&kit, loss);
    op_kit_run(&kit);
    for (uint32_t i = 0; i < 2; i++)
        memcpy(&out[(size_t)i * N], op_kit_f32(&kit, outputs[i]), N * sizeof *out);
    out[2 * (size_t)N] = op_kit_f32(&kit, outputs[2])[0];
    op_kit_close(&kit);
}

/* The loss in f64, for differences; dropout is not in it. */
static chosen now;
static double other[N];
static bool of_w;
static double loss_of(const double *values) {
    double sum = 0;
    for (int i = 0; i < N; i++) {
        const double p = of_w ? other[i] : values[i], w = of_w ? values[i] : other[i], x = p * p;
        double y = p, z = w, v = 5 * p;
        if (now.flag)
            y = tanh(-x * w), z = x * w + y;
        else if (now.has_otherwise)
            y = x * x;
        if (now.number == 2) v = 3 * w;
        sum += y * z * v + x;
    }
    return sum;
}

static void gradients_are_those_of_what_is_chosen(void **state) {
    (void)state;
    float p[N], w[N], with[2 * N + 1], without[2 * N + 1];
    for (int i = 0; i < N; i++) p[i] = 0.3f + 0.05f * (float)i, w[i] = 0.9f - 0.07f * (float)i;
    for (uint32_t n = 0; n < 16; n++) {
        now = (chosen){n % 2 * 9, n / 2 % 4, n / 8};
        run(&now, true, p, w, with);
        run(&now, false, p, w, without);
        for (int i = 0; i < 2 * N + 1; i++)
            if (!(fabsf(with[i] - without[i]) <= 1e-6f * fmaxf(1, fabsf(without[i]))))
                fail_msg("flag %u, number %u: %d is %.9g, without nodes that choose %.9g", now.flag,
                         now.number, i, (double)with[i], (double)without[i]);
        if (now.number == 0) continue;
        for (int i = 0; i < N; i++) other[i] = (double)w[i];
        of_w = false;
        check_function(loss_of, p, with, "p");
        for (int i = 0; i < N; i++) other[i] = (double)p[i];
        of_w = true;
        check_function(loss_of, w, with + N, "w");
    }
}

/* ---- What is used on both sides of a node, and by several, and views ---- */

/* A body that reads rows of a parameter that others read whole, and writes a row of what is read whole. */
static double rows_of(const double *x) {
    double sum = 0;
    for (int i = 0; i < N; i++) {
        const double y = i / 4 == 1 ? exp(x[i + 4]) * x[i] : x[i] * 2;
        sum += y * y * x[i];
    }
    return sum;
}

static void record_rows(rota_tape *tape, const parts *t) {
    const rota_tensor last = PART(t->x, 8, (4), 1), middle = PART(t->x, 4, (4), 1),
                      row = PART(t->y, 4, (4), 1);
    rota_tensor e;
    assert_ok(rota_op_exp(tape, last, &e));
    assert_ok(rota_op_mul_into(tape, e, middle, row));
}

static void rows_of_a_parameter(void **state) {
    (void)state;
    for (uint32_t keep = 0; keep < 2; keep++) {
        float x[N];
        op_kit kit;
        parts t;
        rota_tensor squared, product;
        op_kit_open(&kit);
        t.x = parameter(&kit, x);
        t.y = transient(&kit, "y");
        assert_ok(rota_op_scale_into(kit.tape, t.x, ROTA_PLAIN(2), t.y));
        rota_graph *body = make_body(&kit, "rows", record_rows, &t);
        assert_ok(
            rota_record_if(kit.recorder, &ROTA_IF_NODE(.condition = word(&kit, 1), .body = body), NULL));
        assert_ok(rota_op_square(kit.tape, t.y, &squared));
        assert_ok(rota_op_mul(kit.tape, squared, t.x, &product));
        const rota_tensor loss = total(&kit, product);
        rota_tensor grad = ROTA_TENSOR_NONE;
        if (keep) { /* twice: each time all of it */
            assert_ok(rota_backward(kit.tape, loss, &t.x, 1, &grad, &ROTA_BACKWARD_OPTIONS(.keep = true)));
            grad = ROTA_TENSOR_NONE;
        }
        check_loss(&kit, loss, t.x, rows_of, x, "rows");
    }
}

/* Given memory in which something is already. */
static void gradients_are_added_to_what_there_is(void **state) {
    (void)state;
    float p[N], w[N], ones[N], with[2 * N + 1];
    op_kit kit;
    parts t;
    fill_values(p);
    for (int i = 0; i < N; i++) w[i] = 2, ones[i] = 1;
    op_kit_open(&kit);
    t.p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), p);
    t.w = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), w);
    t.v = transient(&kit, "v");
    assert_ok(rota_op_copy_into(kit.tape, t.p, t.v));
    rota_graph *body = make_body(&kit, "second", record_second, &t);
    assert_ok(rota_record_if(kit.recorder, &ROTA_IF_NODE(.condition = word(&kit, 1), .body = body), NULL));
    rota_tensor grad = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), ones);
    assert_ok(rota_backward(kit.tape, total(&kit, t.v), &t.w, 1, &grad,
                            &ROTA_BACKWARD_OPTIONS(.accumulate = true)));
    const uint32_t output = op_kit_output(&kit, grad);
    op_kit_run(&kit);
    memcpy(with, op_kit_f32(&kit, output), N * sizeof *with);
    for (int i = 0; i < N; i++) assert_true(with[i] == 4);
    op_kit_close(&kit);
}

/* What was gone through already is a constant to the next call. */
static void a_second_call_knows_later_nodes_alone(void **state) {
    (void)state;
    float p[N], w[N];
    op_kit kit;
    parts t;
    fill_values(p);
    for (int i = 0; i < N; i++) w[i] = 2;
    op_kit_open(&kit);
    t.w = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), w);
    t.v = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), p);
    uint32_t outputs[2];
    for (uint32_t call = 0; call < 2; call++) {
        rota_tensor product, grad = ROTA_TENSOR_NONE;
        if (call == 0) { /* v = 3 w */
            rota_graph *body = make_body(&kit, "second", record_second, &t);
            assert_ok(
                rota_record_if(kit.recorder, &ROTA_IF_NODE(.condition = word(&kit, 1), .body = body), NULL));
        }
        assert_ok(rota_op_mul(kit.tape, t.v, t.w, &product));
        assert_ok(rota_backward(kit.tape, total(&kit, product), &t.w, 1, &grad, NULL));
        outputs[call] = op_kit_output(&kit, grad);
    }
    op_kit_run(&kit);
    for (int i = 0; i < N; i++) {
        assert_true(op_kit_f32(&kit, outputs[0])[i] == 12); /* of 3 w w */
        assert_true(op_kit_f32(&kit, outputs[1])[i] == 6);  /* of v w */
    }
    op_kit_close(&kit);
}

static void record_squares(rota_tape *tape, const parts *t) {
    assert_ok(rota_op_square_into(tape, t->x, t->y));
}

/* A classifier whose gradient is to take the place of what a body read. */
static void logits_that_a_body_read_are_gone(void **state) {
    (void)state;
    enum { ROWS = 3, CLASSES = 4 };
    static const int32_t labels[ROWS] = {1, 0, 3};
    float p[N];
    op_kit kit;
    parts t;
    rota_tensor losses[2], grad = ROTA_TENSOR_NONE, of;
    fill_values(p);
    op_kit_open(&kit);
    t.p = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(ROWS, CLASSES), p);
    of = op_kit_input(&kit, ROTA_I32, ROTA_SHAPE(ROWS), labels);
    assert_ok(
        rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "y", ROTA_F32, ROTA_SHAPE(ROWS, CLASSES), &t.y));
    assert_ok(rota_op_copy_into(kit.tape, t.p, t.y));
    assert_ok(rota_op_scale(kit.tape, t.p, ROTA_PLAIN(3), &t.x));
    rota_graph *body = make_body(&kit, "squares", record_squares, &t);
    assert_ok(rota_record_if(kit.recorder, &ROTA_IF_NODE(.condition = word(&kit, 1), .body = body), NULL));
    assert_ok(rota_op_classifier(
        kit.tape, t.x, of, &ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .in_place = true), &losses[0]));
    losses[1] = total(&kit, t.y);
    assert_status(rota_backward_losses(kit.tape, losses, 2, &t.p, 1, &grad, NULL), ROTA_WRONG_STATE);
    assert_message("what its body 'squares' reads in buffer 'affine', which op 'classifier' overwrote");
    op_kit_close(&kit);
}

/* v = w, by a node that no tape knows. */
static rota_graph *make_plain_body(op_kit *kit, const parts *t) {
    rota_graph *body;
    rota_recorder *lane;
    assert_ok(rota_graph_create_body(kit->graph, "plain", &body));
    assert_ok(rota_recorder_open(body, 0, NULL, &lane));
    assert_ok(rota_record_copy(lane, t->v.buffer, 0, t->w.buffer, 0, ROTA_WHOLE, NULL));
    rota_recorder_close(lane);
    return body;
}

/* What a loop without a tape makes of a parameter is refused, too, where an if hands it on. */
static void loops_do_not_hand_on_unseen(void **state) {
    (void)state;
    float p[N];
    op_kit kit;
    parts t;
    rota_tensor grad = ROTA_TENSOR_NONE;
    fill_values(p);
    op_kit_open(&kit);
    t.w = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), p);
    t.v = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), p);
    t.y = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), p);
    t.x = t.v;
    rota_graph *loop = make_plain_body(&kit, &t), *body = make_body(&kit, "squares", record_squares, &t);
    assert_ok(rota_record_for(
        kit.recorder, &ROTA_FOR_NODE(.count = word(&kit, 1), .body = loop, .iterations_max = 1), NULL));
    assert_ok(rota_record_if(
        kit.recorder, &ROTA_IF_NODE(.name = "choose", .condition = word(&kit, 1), .body = body), NULL));
    assert_status(rota_backward(kit.tape, total(&kit, t.y), &t.w, 1, &grad, NULL), ROTA_UNSUPPORTED);
    assert_message(
        "a body of node 'choose' reads buffer 'variable', which a body of a node without a gradient writes");
    op_kit_close(&kit);
}

/* Nor where it reads a parameter itself, and an op what it makes of that. */
static void loops_that_read_parameters_are_refused(void **state) {
    (void)state;
    float p[N];
    op_kit kit;
    parts t;
    rota_tensor grad = ROTA_TENSOR_NONE;
    fill_values(p);
    op_kit_open(&kit);
    t.w = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), p);
    t.v = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), p);
    rota_graph *loop = make_plain_body(&kit, &t);
    assert_ok(rota_record_for(
        kit.recorder, &ROTA_FOR_NODE(.count = word(&kit, 1), .body = loop, .iterations_max = 1), NULL));
    assert_status(rota_backward(kit.tape, sum_of(&kit, t.v, t.w), &t.w, 1, &grad, NULL), ROTA_UNSUPPORTED);
    assert_message("which a body of node 'for' writes out of what the gradient flows through");
    op_kit_close(&kit);
}

/* Ops with their gradients in one body are as anywhere. */
static void a_body_has_gradients_of_its_own(void **state) {
    (void)state;
    float p[N];
    op_kit kit;
    rota_recorder *lane;
    rota_tape *tape;
    rota_graph *body;
    rota_tensor w, y, squared, loss, grad = ROTA_TENSOR_NONE;
    fill_values(p);
    op_kit_open(&kit);
    w = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), p);
    y = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), p);
    assert_ok(rota_graph_create_body(kit.graph, NULL, &body));
    assert_ok(rota_recorder_open(body, 0, NULL, &lane));
    assert_ok(rota_tape_create(lane, NULL, &tape));
    assert_ok(rota_op_square(tape, w, &squared));
    assert_ok(rota_op_sum(tape, squared, 0, true, &loss));
    assert_ok(rota_backward(tape, loss, &w, 1, &grad, NULL));
    assert_ok(rota_op_copy_into(tape, grad, y));
    rota_tape_destroy(tape);
    rota_recorder_close(lane);
    assert_ok(rota_record_if(kit.recorder, &ROTA_IF_NODE(.condition = word(&kit, 1), .body = body), NULL));
    const uint32_t output = op_kit_output(&kit, y);
    op_kit_run(&kit);
    for (int i = 0; i < N; i++) assert_true(op_kit_f32(&kit, output)[i] == 2 * p[i]);
    op_kit_close(&kit);
}

/* ---- What has no gradient ---- */

typedef enum obstacle {
    PLAIN_NODE,
    WRITES_CONDITION,
    CONDITION_LATER,
    READ_LATER,
    PARAMETER,
    UNWRITTEN,
    NO_TAPE,
    IN_A_LOOP,
    OBSTACLES
} obstacle;
static obstacle in_the_way;
static rota_buffer *condition;

static void record_hindered(rota_tape *tape, const parts *t) {
    rota_tensor made;
    rota_recorder *lane = rota_tape_recorder(tape);
    if (in_the_way == PARAMETER) assert_ok(rota_op_square_into(tape, t->w, t->p));
    if (in_the_way == UNWRITTEN) {
        assert_ok(rota_tape_tensor(tape, ROTA_BUFFER_TRANSIENT, "own", ROTA_F32, ROTA_SHAPE(N), &made));
        assert_ok(rota_record_fill(lane, made.buffer, 0, ROTA_WHOLE, 0, NULL));
        assert_ok(rota_op_mul_into(tape, made, t->x, t->y));
    } else {
        assert_ok(rota_op_mul_into(tape, t->x, t->w, t->y));
    }
    if (in_the_way == PLAIN_NODE) assert_ok(rota_record_fill(lane, t->z.buffer, 0, ROTA_WHOLE, 0, NULL));
    if (in_the_way == WRITES_CONDITION) assert_ok(rota_record_fill(lane, condition, 0, 4, 0, NULL));
}

static const struct {
    rota_status status;
    const char *said;
} expected[OBSTACLES] = {
    [PLAIN_NODE] = {ROTA_UNSUPPORTED,
                    "node 'fill', which is no op of the body's tape, writes buffer 'z', which the "
                    "gradient flows through"},
    [WRITES_CONDITION] = {ROTA_UNSUPPORTED,
                          "a body of node 'choose' writes beside or onto its condition, in buffer "
                          "'word'"},
    [CONDITION_LATER] = {ROTA_WRONG_STATE,
                         "the gradient of node 'choose' needs its condition in buffer 'word', which "
                         "op 'copy' overwrote"},
    [READ_LATER] = {ROTA_WRONG_STATE,
                    "the gradient of node 'choose' needs what its body 'hindered' reads in buffer "
                    "'x', which op 'neg' overwrote"},
    [PARAMETER] = {ROTA_UNSUPPORTED, "a parameter, in buffer 'p'"},
    [UNWRITTEN] = {ROTA_UNSUPPORTED,
                   "op 'mul' reads its 'a' in buffer 'own', which no op of the body's tape wrote"},
    [NO_TAPE] = {ROTA_UNSUPPORTED, "which a body of node 'choose' writes; gradients take bodies of one tape "
                                   "each, with gradients and destroyed by then"},
    [IN_A_LOOP] = {ROTA_UNSUPPORTED,
                   "which a body of node 'again' writes; gradients take bodies of one tape each, with "
                   "gradients and destroyed by then"},
};

/* The node in the way, with what is for it to find. */
static void record_obstacle(op_kit *kit, const parts *t) {
    rota_graph *body = NULL;
    if (in_the_way == NO_TAPE || in_the_way == IN_A_LOOP) {
        rota_recorder *lane;
        assert_ok(rota_graph_create_body(kit->graph, "plain", &body));
        assert_ok(rota_recorder_open(body, 0, NULL, &lane));
        assert_ok(rota_record_fill(lane, t->y.buffer, 0, ROTA_WHOLE, 0, NULL));
        rota_recorder_close(lane);
    } else {
        body = make_body(kit, "hindered", record_hindered, t);
    }
    if (in_the_way == IN_A_LOOP)
        assert_ok(rota_record_for(
            kit->recorder,
            &ROTA_FOR_NODE(.name = "again", .count = condition, .body = body, .iterations_max = 1), NULL));
    else
        assert_ok(rota_record_if(
            kit->recorder, &ROTA_IF_NODE(.name = "choose", .condition = condition, .body = body), NULL));
}

static void what_has_none_is_refused(void **state) {
    (void)state;
    float p[N], w[N];
    fill_values(p);
    fill_values(w);
    for (in_the_way = 0; in_the_way < OBSTACLES; in_the_way++) {
        op_kit kit;
        parts t;
        rota_tensor product, grad = ROTA_TENSOR_NONE, flag, one;
        op_kit_open(&kit);
        const uint32_t ones[1] = {1};
        one = op_kit_input(&kit, ROTA_U32, ROTA_SHAPE(1), ones);
        assert_ok(rota_tape_tensor(kit.tape, ROTA_BUFFER_TRANSIENT, "p", ROTA_F32, ROTA_SHAPE(N), &t.p));
        assert_ok(rota_op_copy_into(kit.tape, op_kit_input(&kit, ROTA_F32, ROTA_SHAPE(N), p), t.p));
        t.w = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), w);
        t.x = transient(&kit, "x");
        t.y = transient(&kit, "y");
        t.z = transient(&kit, "z");
        assert_ok(rota_op_square_into(kit.tape, t.p, t.x));
        assert_ok(rota_op_copy_into(kit.tape, t.p, t.y));
        assert_ok(rota_op_copy_into(kit.tape, t.p, t.z));
        condition = word(&kit, 1);
        assert_ok(rota_tensor_of(condition, 0, ROTA_U32, ROTA_SHAPE(1), &flag));
        record_obstacle(&kit, &t);
        if (in_the_way == CONDITION_LATER) assert_ok(rota_op_copy_into(kit.tape, one, flag));
        if (in_the_way == READ_LATER) assert_ok(rota_op_neg_into(kit.tape, t.w, t.x));
        assert_ok(rota_op_mul(kit.tape, t.y, t.z, &product));
        if (in_the_way == PARAMETER) assert_ok(rota_op_mul(kit.tape, product, t.p, &product));
        assert_status(rota_backward(kit.tape, total(&kit, product), &t.p, 1, &grad, NULL),
                      expected[in_the_way].status);
        assert_message(expected[in_the_way].said);
        op_kit_close(&kit);
    }
}

/* Buckets of gradients are reduced as ops finish them, which bodies are not among. */
static void gradients_of_all_ranks_are_refused(void **state) {
    (void)state;
    rota_runtime *runtimes[2];
    rota_communicator *communicators[2];
    for (uint32_t i = 0; i < 2; i++)
        assert_ok(
            rota_runtime_open(&ROTA_RUNTIME_OPTIONS(.worker_threads = 1, .cache_dir = ""), &runtimes[i]));
    assert_ok(rota_communicator_open_ranks(runtimes, 2, NULL, communicators));
    float p[N];
    fill_values(p);
    for (uint32_t reaches = 0; reaches < 2; reaches++) {
        op_kit kit;
        parts t;
        op_kit_open(&kit);
        t.w = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), p);
        t.v = op_kit_variable(&kit, ROTA_F32, ROTA_SHAPE(N), p);
        rota_graph *body = make_body(&kit, "second", record_second, &t);
        assert_ok(rota_record_if(
            kit.recorder, &ROTA_IF_NODE(.name = "choose", .condition = word(&kit, 1), .body = body), NULL));
        rota_tensor squared, grad = ROTA_TENSOR_NONE;
        assert_ok(rota_op_square(kit.tape, reaches ? t.v : t.w, &squared));
        const rota_tensor loss = total(&kit, squared);
        const rota_data_parallel parallel = ROTA_DATA_PARALLEL(.communicator = communicators[0]);
        const rota_status status =
            rota_backward(kit.tape, loss, &t.w, 1, &grad, &ROTA_BACKWARD_OPTIONS(.data_parallel = &parallel));
        assert_status(status, reaches ? ROTA_UNSUPPORTED : ROTA_OK);
        if (reaches) assert_message("through node 'choose', which decides, and is to be that of all ranks");
        rota_tape_destroy(kit.tape);
        rota_recorder_close(kit.recorder);
        kit.tape = NULL;
        kit.recorder = NULL;
        op_kit_close(&kit);
    }
    for (uint32_t i = 0; i < 2; i++) assert_ok(rota_communicator_close(communicators[i], 0));
    for (uint32_t i = 0; i < 2; i++) assert_ok(rota_runtime_close(runtimes[i], 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_those_of_what_is_chosen),
                                       cmocka_unit_test(rows_of_a_parameter),
                                       cmocka_unit_test(gradients_are_added_to_what_there_is),
                                       cmocka_unit_test(a_second_call_knows_later_nodes_alone),
                                       cmocka_unit_test(a_body_has_gradients_of_its_own),
                                       cmocka_unit_test(logits_that_a_body_read_are_gone),
                                       cmocka_unit_test(loops_do_not_hand_on_unseen),
                                       cmocka_unit_test(loops_that_read_parameters_are_refused),
                                       cmocka_unit_test(what_has_none_is_refused),
                                       cmocka_unit_test(gradients_of_all_ranks_are_refused)};
    return op_kit_run_tests(tests, sizeof tests / sizeof *tests);
}
