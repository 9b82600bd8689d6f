/* S4: queues. A model's layers with every node forced onto a random logical queue give what one queue gives.
 */
#include <stdlib.h>
#include "tests/conformance/conformance.h"

enum { LAYERS = 24, WIDTH = 896 };

typedef struct layers {
    rota_graph *graph;
    rota_buffer *x[LAYERS], *w[LAYERS], *y[LAYERS]; /* INPUT, INPUT, OUTPUT */
    rota_tensor residual;
    float *x_data, *w_data; /* the same W for all, other x */
    float *y_data;
} layers;

static uint32_t seeded_queue(void *user, rota_node node, uint32_t queue_count) {
    uint64_t state = *(const uint64_t *)user + node.index;
    return test_below(&state, queue_count);
}

static bool record_layers(conf *c, rota_runtime *runtime, rota_device *device, layers *l) {
    conf_graph graph;
    CONF_TRY(conf_tensor(c, runtime, device, "residual", ROTA_SHAPE(1, WIDTH), 0.1, 1e-4, &l->residual));
    CONF_TRY(conf_graph_begin(c, &graph));
    for (uint32_t i = 0; i < LAYERS; i++) {
        CONF_OK(c, rota_graph_buffer(graph.graph, ROTA_BUFFER_INPUT, "x", WIDTH * 4, &l->x[i]));
        CONF_OK(
            c, rota_graph_buffer(graph.graph, ROTA_BUFFER_INPUT, "W", (uint64_t)WIDTH * WIDTH * 4, &l->w[i]));
        CONF_OK(c, rota_graph_buffer(graph.graph, ROTA_BUFFER_OUTPUT, "y", WIDTH * 4, &l->y[i]));
        rota_tensor x, w, y, normal, product;
        CONF_OK(c, rota_tensor_of(l->x[i], 0, ROTA_F32, ROTA_SHAPE(1, WIDTH), &x));
        CONF_OK(c, rota_tensor_of(l->w[i], 0, ROTA_F32, ROTA_SHAPE(WIDTH, WIDTH), &w));
        CONF_OK(c, rota_tensor_of(l->y[i], 0, ROTA_F32, ROTA_SHAPE(1, WIDTH), &y));
        CONF_OK(c, rota_op_rmsnorm(graph.tape, x, ROTA_TENSOR_NONE, 1e-5f, &normal));
        CONF_OK(c, rota_op_matmul(graph.tape, normal, w, false, false, &product));
        CONF_OK(c, rota_op_add_into(graph.tape, l->residual, product, l->residual));
        CONF_OK(c, rota_op_rmsnorm_into(graph.tape, l->residual, ROTA_TENSOR_NONE, 1e-5f, y));
    }
    rota_tape_destroy(graph.tape);
    rota_recorder_close(graph.recorder);
    l->graph = graph.graph;
    l->x_data = malloc(LAYERS * WIDTH * sizeof(float));
    l->w_data = malloc((size_t)WIDTH * WIDTH * sizeof(float));
    l->y_data = malloc(LAYERS * WIDTH * sizeof(float));
    CONF_CHECK(c, l->x_data && l->w_data && l->y_data, "out of memory");
    uint64_t random = 4;
    for (uint32_t i = 0; i < LAYERS * WIDTH; i++) l->x_data[i] = (float)test_below(&random, 2000) * 1e-3f - 1;
    for (uint32_t i = 0; i < WIDTH * WIDTH; i++)
        l->w_data[i] = (float)test_below(&random, 2000) * 3e-5f - 0.03f;
    return true;
}

/* One schedule: compiled for `queues`, replayed twice from the same residual; the second result stays. */
static bool run_layers(conf *c, rota_device *device, layers *l, uint64_t seed, uint32_t queues) {
    rota_plan *plan;
    rota_args *args;
    rota_compile_options options =
        ROTA_COMPILE_OPTIONS(.name = "layers", .devices = &device, .device_count = 1, .queues = queues,
                             .queue_policy = queues > 1 ? seeded_queue : NULL, .queue_policy_user = &seed,
                             .transfer_queue = seed % 2,
                             .packing = seed % 3 ? ROTA_PACK_TIGHT : ROTA_PACK_CONCURRENT,
                             .arenas = 1 + (uint32_t)(seed % 2));
    CONF_OK(c, rota_compile(rota_device_runtime(device), l->graph, &options, &plan));
    CONF_OK(c, rota_args_create(plan, &args));
    float start[WIDTH];
    for (uint32_t i = 0; i < WIDTH; i++) start[i] = 0.1f + 1e-4f * (float)i;
    for (uint32_t i = 0; i < LAYERS * WIDTH; i++) l->y_data[i] = -999;
    rota_ticket ticket = {0};
    for (uint32_t i = 0; i < LAYERS; i++) {
        CONF_OK(c, rota_args_set_input(args, l->x[i], l->x_data + i * WIDTH, WIDTH * 4, false));
        CONF_OK(c, rota_args_set_input(args, l->w[i], l->w_data, (uint64_t)WIDTH * WIDTH * 4, false));
        CONF_OK(c, rota_args_set_output(args, l->y[i], l->y_data + i * WIDTH, WIDTH * 4));
    }
    for (uint32_t round = 0; round < 2; round++) {
        CONF_TRY(conf_write_f32(c, &l->residual, device, start));
        CONF_OK(c, rota_submit_wait(plan, args, CONF_PATIENCE_NS, &ticket));
    }
    CONF_OK(c, rota_wait(ticket, CONF_PATIENCE_NS));
    rota_args_release(args);
    rota_plan_release(plan);
    return true;
}

static bool random_queues(conf *c) {
    rota_runtime *runtime;
    rota_device *device;
    CONF_TRY(conf_open(c, &ROTA_RUNTIME_OPTIONS(.queues_per_device = 6), &runtime, &device));
    layers l;
    CONF_TRY(record_layers(c, runtime, device, &l));
    CONF_TRY(run_layers(c, device, &l, 0, 1));
    float *want = malloc(LAYERS * WIDTH * sizeof *want);
    CONF_CHECK(c, want, "out of memory");
    memcpy(want, l.y_data, LAYERS * WIDTH * sizeof *want);
    bool exact = rota_device_get_info(device)->kind == ROTA_EXEC_CPU;
    bool software = rota_device_get_info(device)->device_class == ROTA_DEVICE_SOFTWARE_GPU;
    uint32_t schedules = conf_times(c, 500, software ? 1 : 6);
    for (uint32_t s = 1; s <= schedules; s++) {
        atomic_store(&c->adversary.seed, c->seed + s);
        CONF_TRY(run_layers(c, device, &l, c->seed * 1000 + s, 2 + s % 5));
        if (exact)
            CONF_CHECK(c, memcmp(want, l.y_data, LAYERS * WIDTH * sizeof *want) == 0,
                       "schedule %u differs from the one-queue result", s);
        CONF_TRY(conf_near(c, "a schedule against one queue", l.y_data, want, LAYERS * WIDTH, 1e-4, 1e-4));
    }
    for (uint32_t i = 0; i < WIDTH; i++) CONF_CHECK(c, want[i] == want[i] && want[i] != -999, "no result");
    free(want);
    free(l.x_data);
    free(l.w_data);
    free(l.y_data);
    rota_graph_release(l.graph);
    rota_buffer_release(l.residual.buffer);
    return conf_close(c, runtime);
}

const conf_case conf_cases_s4[] = {
    {"s4.random_queues", random_queues},
    {NULL, NULL},
};
