/* An op of one's own, defined outside the library: a kernel as a C function, GLSL (custom_op.comp) and CUDA
 * (custom_op.cu), a shape rule and a gradient; and a small training with it. custom_op [DEVICE]
 * snake(x) = x + sin^2(alpha x) / alpha: Ziyin et al., Neural networks fail to learn periodic functions,
 * 2020. */
#include <math.h>
#include <rota/rota.h>
#include <stdio.h>
#include <stdlib.h>
#include "cuda/custom_op.h"
#include "spv/custom_op.h"

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        if ((call) != ROTA_OK) give_up(#call);                                                               \
    } while (0)

/* _Exit, since the exit handlers of a driver may wait for ever for a device that hangs. */
static _Noreturn void give_up(const char *call) {
    fprintf(stderr, "%s: %s\n", call, rota_last_error());
    fflush(stdout);
    _Exit(1);
}

typedef struct snake_params {
    uint32_t count, backward;
    float alpha;
} snake_params;

/* Operands x, dy and the result: backward dy * snake'(x), else snake(x), and dy is not read. */
static rota_status snake_cpu(const rota_kernel_call *call) {
    const snake_params *p = call->params;
    const float *x = call->operands[0], *dy = call->operands[1];
    float *y = call->operands[2];
    for (uint64_t i = 0; i < p->count; i++)
        y[i] = p->backward ? dy[i] * (1 + sinf(2 * p->alpha * x[i]))
                           : x[i] + powf(sinf(p->alpha * x[i]), 2) / p->alpha;
    return ROTA_OK;
}

static void snake_grid(const void *params, const uint64_t *operand_bytes, uint32_t groups[3]) {
    (void)operand_bytes;
    groups[0] = (((const snake_params *)params)->count + 63) / 64;
    groups[1] = groups[2] = 1;
}

static const rota_kernel snake_kernel = {
    .name = "snake",
    .operand_count = 3,
    .param_bytes = sizeof(snake_params),
    .flags = ROTA_KERNEL_PURE,
    .cpu = {.fn = snake_cpu},
    .vk = {.words = rota_spv_custom_op, .size_bytes = sizeof rota_spv_custom_op, .grid = snake_grid},
    .cuda = {ROTA_CUDA_IMAGE_custom_op, .entry = "snake", .grid = snake_grid, .block = {64, 1, 1}}};

static rota_status snake_shape(const rota_op_use *use, rota_tensor *out_outputs) {
    ROTA_TRY(rota_shape_require(use, 1, ROTA_F32));
    return rota_shape_like(&use->inputs[0], ROTA_F32, &out_outputs[0]);
}

/* A node of the kernel; forward there is no dy, and x stands in for it. */
static rota_status snake_node(rota_tape *tape, const rota_op_use *use, const rota_tensor *dy,
                              const rota_tensor *result) {
    rota_tensor x, other;
    ROTA_TRY(rota_record_contiguous(tape, &use->inputs[0], &x)); /* inputs may be strided views */
    ROTA_TRY(rota_record_contiguous(tape, dy ? dy : &x, &other));
    const snake_params params = {(uint32_t)rota_tensor_count(&x), dy != NULL, use->attributes.scale};
    const rota_access accesses[] = {rota_tensor_access(&x, ROTA_READ), rota_tensor_access(&other, ROTA_READ),
                                    rota_tensor_write(result)};
    return rota_tape_kernel(tape, &snake_kernel, accesses, 3, &params, NULL, 0);
}

static rota_status snake_record(rota_tape *tape, rota_op_use *use) {
    return snake_node(tape, use, NULL, &use->outputs[0]);
}

static rota_status snake_gradient(rota_tape *tape, const rota_op_use *use) {
    rota_gradient_write write;
    ROTA_TRY(rota_gradient_begin(tape, &use->inputs[0], &write));
    ROTA_TRY(snake_node(tape, use, rota_gradient_output(tape, 0), &write.dx));
    return rota_gradient_end(tape, &use->inputs[0], &write);
}

/* Bit masks: input 0 has a gradient, which reads input 0. */
static const rota_op snake_op = {.name = "snake",
                                 .input_count = 1,
                                 .output_count = 1,
                                 .input_names = {"x"},
                                 .output_names = {"y"},
                                 .shape = snake_shape,
                                 .record = snake_record,
                                 .gradient = snake_gradient,
                                 .differentiable = 1,
                                 .saved_inputs = 1};

static rota_status op_snake(rota_tape *tape, rota_tensor x, float alpha, rota_tensor *out_y) {
    rota_op_use use = {&snake_op, 1, 1, .inputs = {x}, .attributes = {.scale = alpha}};
    ROTA_TRY(rota_op_apply(tape, &use));
    *out_y = use.outputs[0];
    return ROTA_OK;
}

enum { ROWS = 64, HIDDEN = 16, STATE = 6 * HIDDEN, STEPS = 500 };

/* Fits sin(3 x) + x / 2 by v . snake(x w + b). */
int main(int argc, char **argv) {
    /* w, b, v, the momentum of each, x, the target, the loss. */
    float memory[STATE + 2 * ROWS + 1] = {0}, *data = memory + STATE, loss_now;
    for (int i = 0; i < 3 * HIDDEN; i++) memory[i] = 0.5f * sinf(13.0f * (float)(i + 1));
    for (int i = 0; i < ROWS; i++) data[i] = 4 * ((float)i + 0.5f) / (float)ROWS - 2;
    for (int i = 0; i < ROWS; i++) data[ROWS + i] = sinf(3 * data[i]) + data[i] / 2;
    rota_runtime *runtime;
    rota_device *device;
    rota_buffer *buffer;
    TRY(rota_runtime_open(NULL, &runtime));
    TRY(rota_device_open(runtime, argc > 1 ? argv[1] : NULL, &device));
    TRY(rota_buffer_create_in(runtime, "memory", sizeof memory, &buffer));
    TRY(rota_buffer_write(buffer, device, 0, memory, sizeof memory, NULL));

    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_tensor x, target, result, p[3], m[3], h, loss, grads[3] = {{0}};
    TRY(rota_graph_create(NULL, &graph));
    TRY(rota_recorder_open(graph, 0, NULL, &recorder));
    TRY(rota_tape_create(recorder, NULL, &tape));
    TRY(rota_tensor_of(buffer, (uint64_t)STATE * 4, ROTA_F32, ROTA_SHAPE(ROWS, 1), &x));
    TRY(rota_tensor_of(buffer, (uint64_t)(STATE + ROWS) * 4, ROTA_F32, ROTA_SHAPE(ROWS, 1), &target));
    TRY(rota_tensor_of(buffer, (uint64_t)(STATE + 2 * ROWS) * 4, ROTA_F32, ROTA_SHAPE(1), &result));
    for (uint32_t i = 0; i < 3; i++) {
        const uint64_t shape[] = {i == 2 ? HIDDEN : 1, i == 2 ? 1 : HIDDEN};
        TRY(rota_tensor_of(buffer, (uint64_t)i * HIDDEN * 4, ROTA_F32, 2, shape, &p[i]));
        TRY(rota_tensor_of(buffer, (uint64_t)(i + 3) * HIDDEN * 4, ROTA_F32, 2, shape, &m[i]));
    }
    TRY(rota_op_matmul(tape, x, p[0], false, false, &h));
    TRY(rota_op_add(tape, h, p[1], &h));
    TRY(op_snake(tape, h, 2, &h));
    TRY(rota_op_matmul(tape, h, p[2], false, false, &h));
    TRY(rota_op_mse(tape, h, target, &loss));
    TRY(rota_op_copy_into(tape, loss, result));
    TRY(rota_backward(tape, loss, p, 3, grads, NULL));
    const rota_sgd sgd = ROTA_SGD(.lr = ROTA_CONSTANT(0.01), .momentum = 0.9f);
    for (int i = 0; i < 3; i++) TRY(rota_op_sgd(tape, p[i], grads[i], m[i], &sgd));
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);

    rota_plan *plan;
    TRY(rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    for (int i = 1; i <= STEPS; i++) {
        TRY(rota_submit_wait(plan, NULL, 0, NULL));
        if (i > 1 && i % 100 != 0) continue;
        TRY(rota_buffer_read(buffer, (uint64_t)(STATE + 2 * ROWS) * 4, &loss_now, sizeof loss_now));
        printf("step %d: loss %.6f\n", i, (double)loss_now);
    }
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(buffer);
    TRY(rota_runtime_close(runtime, 5000000000));
    return loss_now < 0.01f ? 0 : 2;
}
