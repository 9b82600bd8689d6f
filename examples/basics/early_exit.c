/* Early exit: a small classifier answers where it is sure, and only points that it isn't sure of go through a larger
 * one. The graph decides it by an `if`, point by point, with nothing on the host between.
 *
 *     x --> small --> scores --> sure? --> if not: large --> scores
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "rota.h"

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        if ((call) != ROTA_OK) {                                                                             \
            fprintf(stderr, "early_exit: %s\n", rota_last_error());                                          \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

enum { POINTS = 600, CLASSES = 3, SMALL = 16, LARGE = 256, STEPS = 300, LAYERS = 5 };
static const double sure = 0.9; /* the least probability of the small classifier's answer that is taken */

/* Layers 0 and 1 are the small classifier's, 2 to 4 the large one's. */
static const uint64_t widths[LAYERS][2] = {
    {2, SMALL}, {SMALL, CLASSES}, {2, LARGE}, {LARGE, LARGE}, {LARGE, CLASSES}};

/* Weights and biases, and what AdamW keeps of them. */
typedef struct network {
    rota_device *device;
    rota_tensor params[2 * LAYERS], moments[2][2 * LAYERS];
} network;

static float random_number(void) {
    static uint64_t state = 7;
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (float)(state >> 40) / 16777216.0f;
}

/* Four of five points lie where their class alone is, the others on the arms of a spiral around them. */
static void make_points(float *x, int32_t *classes) {
    for (size_t i = 0; i < POINTS; i++) {
        const float third = 2.0943951f;
        const int class = (int)(i % CLASSES);
        float radius = 0.8f * sqrtf(random_number()), angle = third * ((float)class + random_number() - 0.5f);
        if (i % 5 == 0) {
            const float along = random_number();
            radius = 1 + along;
            angle = third * (float)class + 5 * along + 0.2f * (random_number() - 0.5f);
        }
        classes[i] = class;
        x[2 * i] = radius * cosf(angle);
        x[2 * i + 1] = radius * sinf(angle);
    }
}

static int make_network(network *n) {
    static float values[LARGE * LARGE];
    for (int i = 0; i < 2 * LAYERS; i++) {
        const uint64_t in = widths[i / 2][0], out = widths[i / 2][1];
        const uint64_t shape[] = {in, out}, count = i % 2 ? out : in * out;
        for (uint64_t e = 0; e < count; e++)
            values[e] = i % 2 ? 0 : 2 * (random_number() - 0.5f) * sqrtf(6.0f / (float)in);
        const uint32_t rank = i % 2 ? 1 : 2;
        const uint64_t *const of = i % 2 ? shape + 1 : shape;
        TRY(rota_tensor_create(n->device, NULL, ROTA_F32, rank, of, values, &n->params[i]));
        for (uint64_t e = 0; e < count; e++) values[e] = 0;
        for (int m = 0; m < 2; m++)
            TRY(rota_tensor_create(n->device, NULL, ROTA_F32, rank, of, values, &n->moments[m][i]));
    }
    return 0;
}

/* The scores of layers [first, end). */
static int record_layers(rota_tape *tape, const network *n, size_t first, size_t end, rota_tensor x,
                         rota_tensor *out) {
    for (size_t l = first; l < end; l++) {
        const rota_activation activation = l + 1 < end ? ROTA_ACTIVATION_RELU : ROTA_ACTIVATION_NONE;
        TRY(rota_op_linear(tape, x, n->params[2 * l],
                           &ROTA_LINEAR(.bias = n->params[2 * l + 1], .activation = activation), &x));
    }
    *out = x;
    return 0;
}

/* Both classifiers learn beside each other. */
static int train(const network *n, rota_tensor x, rota_tensor classes) {
    rota_tape *tape;
    rota_plan *plan;
    rota_args *args;
    rota_slot step;
    rota_ticket last;
    rota_tensor scores, losses[2], grads[2 * LAYERS] = {{0}};
    TRY(rota_tape_create_on(n->device, NULL, &tape));
    TRY(rota_graph_slot(rota_tape_graph(tape), "step", 4, &step));
    for (int large = 0; large < 2; large++) {
        if (record_layers(tape, n, large ? 2 : 0, large ? LAYERS : 2, x, &scores)) return 1;
        TRY(rota_op_cross_entropy(tape, scores, classes, &losses[large]));
    }
    TRY(rota_backward_losses(tape, losses, 2, n->params, 2 * LAYERS, grads, NULL));
    for (int i = 0; i < 2 * LAYERS; i++)
        TRY(rota_op_adamw(tape, n->params[i], grads[i], n->moments[0][i], n->moments[1][i],
                          &ROTA_ADAMW(.lr = ROTA_CONSTANT(0.01), .step = ROTA_SLOT(step), .beta1 = 0.9f,
                                      .beta2 = 0.99f, .eps = 1e-8f)));
    TRY(rota_tape_compile(tape, &plan));
    TRY(rota_args_create(plan, &args));
    for (uint32_t i = 1; i <= STEPS; i++) {
        TRY(rota_args_set_u32(args, step, i));
        TRY(rota_submit_wait(plan, args, 0, &last));
    }
    TRY(rota_wait(last, 0)); /* so that it is not what the first answer waits for */
    rota_args_release(args);
    rota_plan_release(plan);
    rota_tape_destroy(tape);
    return 0;
}

/* The scores of one point; `unsure` is not 0 where the small classifier's best has less than `sure`. */
static int record_answer(rota_tape *tape, const network *n, rota_tensor x, rota_tensor scores,
                         rota_tensor unsure) {
    rota_graph *body;
    rota_recorder *inner;
    rota_tape *inner_tape;
    rota_tensor y, best;
    if (record_layers(tape, n, 0, 2, x, &y)) return 1;
    TRY(rota_op_copy_into(tape, y, scores));
    TRY(rota_op_softmax(tape, y, &best));
    TRY(rota_op_max(tape, best, 1, false, &best));
    TRY(rota_op_affine(tape, best, ROTA_PLAIN(-1), ROTA_PLAIN(sure), &best));
    TRY(rota_op_relu_into(tape, best, unsure)); /* an f32 of 0 is 4 bytes of 0 */

    TRY(rota_graph_create_body(rota_tape_graph(tape), "large", &body));
    TRY(rota_recorder_open(body, 0, NULL, &inner));
    TRY(rota_tape_create(inner, &ROTA_TAPE_OPTIONS(.no_gradients = true), &inner_tape));
    if (record_layers(inner_tape, n, 2, LAYERS, x, &y)) return 1;
    TRY(rota_op_copy_into(inner_tape, y, scores));
    rota_tape_destroy(inner_tape);
    rota_recorder_close(inner);
    TRY(rota_record_if(rota_tape_recorder(tape),
                       &ROTA_IF_NODE(.name = "unsure", .condition = unsure.buffer,
                                     .condition_offset_bytes = unsure.offset_bytes, .body = body),
                       NULL));
    return 0;
}

static int best_of(const float *scores) {
    int best = 0;
    for (int c = 1; c < CLASSES; c++)
        if (scores[c] > scores[best]) best = c;
    return best;
}

/* One point after the other, each an upload and a submission. */
static int classify(const network *n, bool exits, const float *x, const int32_t *classes) {
    rota_tape *tape;
    rota_plan *plan;
    rota_tensor point, scores, unsure, y;
    int right = 0, early = 0;
    struct timespec began, ended;
    TRY(rota_tensor_create(n->device, "point", ROTA_F32, ROTA_SHAPE(1, 2), NULL, &point));
    TRY(rota_tensor_create(n->device, "scores", ROTA_F32, ROTA_SHAPE(1, CLASSES), NULL, &scores));
    TRY(rota_tensor_create(n->device, "unsure", ROTA_F32, ROTA_SHAPE(1), NULL, &unsure));
    TRY(rota_tape_create_on(n->device, &ROTA_TAPE_OPTIONS(.no_gradients = true), &tape));
    if (exits) {
        if (record_answer(tape, n, point, scores, unsure)) return 1;
    } else {
        if (record_layers(tape, n, 2, LAYERS, point, &y)) return 1;
        TRY(rota_op_copy_into(tape, y, scores));
    }
    TRY(rota_tape_compile(tape, &plan));
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (size_t i = 0; i < POINTS; i++) {
        float is_unsure = 1, answer[CLASSES];
        TRY(rota_buffer_write(point.buffer, n->device, 0, x + 2 * i, 8, NULL));
        TRY(rota_submit_wait(plan, NULL, 0, NULL));
        TRY(rota_tensor_read(&scores, answer, sizeof answer));
        if (exits) TRY(rota_tensor_read(&unsure, &is_unsure, 4));
        right += best_of(answer) == classes[i];
        early += is_unsure == 0;
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("%-12s %5.1f %% right, %5.1f %% left early, %.1f us a point\n",
           exits ? "early exit:" : "large alone:", 100.0 * right / POINTS, 100.0 * early / POINTS,
           ((double)(ended.tv_sec - began.tv_sec) * 1e6 + (double)(ended.tv_nsec - began.tv_nsec) / 1e3) /
               POINTS);
    rota_plan_release(plan);
    rota_tape_destroy(tape);
    rota_buffer_release(point.buffer);
    rota_buffer_release(scores.buffer);
    rota_buffer_release(unsure.buffer);
    /* Most are right, some left early, and some did not. */
    return right > POINTS * 9 / 10 && (!exits || (early > POINTS / 4 && early < POINTS)) ? 0 : 2;
}

int main(int argc, char **argv) {
    static float x[2 * POINTS];
    static int32_t classes[POINTS];
    network n;
    rota_tensor points, labels;
    make_points(x, classes);
    TRY(rota_open(argc > 1 ? argv[1] : "cpu", NULL, &n.device));
    if (make_network(&n)) return 1;
    TRY(rota_tensor_create(n.device, "points", ROTA_F32, ROTA_SHAPE(POINTS, 2), x, &points));
    TRY(rota_tensor_create(n.device, "classes", ROTA_I32, ROTA_SHAPE(POINTS), classes, &labels));
    if (train(&n, points, labels)) return 1;
    int code = classify(&n, false, x, classes);
    if (!code) code = classify(&n, true, x, classes);
    rota_buffer_release(points.buffer);
    rota_buffer_release(labels.buffer);
    for (int i = 0; i < 2 * LAYERS; i++) {
        rota_buffer_release(n.params[i].buffer);
        for (int m = 0; m < 2; m++) rota_buffer_release(n.moments[m][i].buffer);
    }
    TRY(rota_close(n.device, 5000000000));
    return code;
}
