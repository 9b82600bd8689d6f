/* A kernel of one's own, as a C function, as SPIR-V and as a CUDA image, with declared accesses: steps of the
 * logistic map x <- rate x (1 - x) over an array, with the rate an argument of each replay. custom_kernel
 * [DEVICE] */
#include <math.h>
#include <rota/rota.h>
#include <stdio.h>
#include <stdlib.h>
#include "cuda/logistic.h"
#include "spv/logistic.h"

#define COUNT 4096
#define STEPS_A_REPLAY 8
#define REPLAYS 4

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

/* The parameters, field by field as in logistic.comp and logistic.cu. */
typedef struct logistic_params {
    uint32_t count;
    float rate;
} logistic_params;

/* Items [begin, end): the executor cuts the array and calls this on any threads. */
static rota_status logistic_cpu(const rota_kernel_call *call) {
    const logistic_params *p = call->params;
    const float *x = call->operands[0];
    float *y = call->operands[1];
    for (uint64_t i = call->begin; i < call->end; i++) y[i] = p->rate * x[i] * (1 - x[i]);
    return ROTA_OK;
}

static void logistic_items(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                           uint64_t *out_grain) {
    (void)operand_bytes;
    *out_items = ((const logistic_params *)params)->count;
    *out_grain = 1024;
}

static void logistic_grid(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)operand_bytes;
    out_groups[0] = (((const logistic_params *)params)->count + 63) / 64;
    out_groups[1] = out_groups[2] = 1;
}

static const rota_kernel_bindable bindables[] = {{.name = "rate",
                                                  .offset_bytes = offsetof(logistic_params, rate),
                                                  .size_bytes = 4,
                                                  .type = ROTA_VALUE_F32}};

/* What the graph must know of it: two operands, of which the second may be the memory of the first. */
static const rota_kernel logistic = {
    .name = "logistic",
    .operand_count = 2,
    .param_bytes = sizeof(logistic_params),
    .flags = ROTA_KERNEL_PURE,
    .inplace_outputs = 1u << 1,
    .inplace_inputs = 1u << 0,
    .bindables = bindables,
    .bindable_count = 1,
    .cpu = {.fn = logistic_cpu, .items = logistic_items},
    .vk = {.words = rota_spv_logistic, .size_bytes = sizeof rota_spv_logistic, .grid = logistic_grid},
    /* .image and .size_bytes of what nvcc made of logistic.cu; NULL and 0 where there was no nvcc. */
    .cuda = {ROTA_CUDA_IMAGE_logistic, .entry = "logistic", .grid = logistic_grid, .block = {64, 1, 1}},
};

int main(int argc, char **argv) {
    rota_runtime *runtime;
    rota_device *device;
    TRY(rota_runtime_open(NULL, &runtime));
    TRY(rota_device_open(runtime, argc > 1 ? argv[1] : NULL, &device));

    static float x[COUNT], expected[COUNT];
    rota_buffer *buffer, *half_way;
    for (int i = 0; i < COUNT; i++) x[i] = expected[i] = (float)(i + 1) / (COUNT + 1);
    TRY(rota_buffer_create_in(runtime, "x", sizeof x, &buffer));
    TRY(rota_buffer_write(buffer, device, 0, x, sizeof x, NULL));

    rota_graph *graph;
    rota_recorder *recorder;
    rota_slot rate;
    TRY(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "logistic map"), &graph));
    TRY(rota_graph_slot(graph, "rate", 4, &rate));
    TRY(rota_graph_buffer(graph, ROTA_BUFFER_TRANSIENT, "half way", sizeof x, &half_way));
    TRY(rota_recorder_open(graph, 0, NULL, &recorder));
    const logistic_params params = {.count = COUNT};
    const rota_param_binding binding = {.bindable = 0, .slot = rate};
    for (int step = 0; step < STEPS_A_REPLAY; step++) {
        /* There and back; which node waits for which follows from the accesses. */
        rota_buffer *from = step % 2 ? half_way : buffer, *to = step % 2 ? buffer : half_way;
        const rota_access accesses[] = {{from, 0, ROTA_WHOLE, ROTA_READ}, {to, 0, ROTA_WHOLE, ROTA_WRITE}};
        TRY(rota_record_kernel(recorder,
                               &ROTA_KERNEL_NODE(.kernel = &logistic, .accesses = accesses, .access_count = 2,
                                                 .params = &params, .bindings = &binding, .binding_count = 1),
                               NULL));
    }
    rota_recorder_close(recorder);

    rota_plan *plan;
    rota_args *args;
    TRY(rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    TRY(rota_args_create(plan, &args));
    for (int replay = 0; replay < REPLAYS; replay++) {
        float r = 2.5f + 0.1f * (float)replay;
        TRY(rota_args_set_f32(args, rate, r));
        TRY(rota_submit(plan, args, NULL));
        for (int step = 0; step < STEPS_A_REPLAY; step++)
            for (int i = 0; i < COUNT; i++) expected[i] = r * expected[i] * (1 - expected[i]);
    }
    TRY(rota_buffer_read(buffer, 0, x, sizeof x));
    double worst = 0;
    for (int i = 0; i < COUNT; i++) {
        const double apart = fabs((double)x[i] - (double)expected[i]);
        if (!(apart <= worst)) worst = apart;
    }
    printf("%s: %d replays of %d steps, largest difference from plain C %.2g\n",
           rota_device_get_info(device)->name, REPLAYS, STEPS_A_REPLAY, worst);

    rota_args_release(args);
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(buffer);
    TRY(rota_runtime_close(runtime, 5000000000));
    /* A device may round r x (1 - x) otherwise; with these rates a difference dies out. */
    return worst < 1e-5 ? 0 : 2;
}
