/* A program of a caller's, as it is compiled with the headers of one version and run with the library of
 * another: test_abi.sh compiles it with this tree's headers, with EARLIER ones (the last member of each
 * struct that may grow is left out) and with LATER ones (each has one more, `later`). No last member is named
 * here. */
#include <rota/rota.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "line %d: not so: %s (%s)\n", __LINE__, #condition, rota_last_error());          \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)
#define TRY(call) EXPECT((call) == ROTA_OK)

enum { COUNT = 256, GUARD = 0x5a };

/* What is filled in, with bytes behind it that are the program's own. */
#define GUARDED(type, name)                                                                                  \
    struct {                                                                                                 \
        rota_##type is;                                                                                      \
        unsigned char guard[64];                                                                             \
    } name;                                                                                                  \
    memset(&name, GUARD, sizeof name);                                                                       \
    name.is.struct_size = sizeof name.is
#define STANDS(name)                                                                                         \
    do {                                                                                                     \
        EXPECT(name.is.struct_size == sizeof name.is);                                                       \
        for (size_t i_ = 0; i_ < sizeof name.guard; i_++) EXPECT(name.guard[i_] == GUARD);                   \
    } while (0)
#ifdef LATER
#define FILLED_LATER(name) EXPECT((name).later == 0)
/* Refused with a sentence, as long as it is not 0. */
#define REFUSED(options, call)                                                                               \
    do {                                                                                                     \
        (options).later = 7;                                                                                 \
        EXPECT((call) == ROTA_INVALID_ARGUMENT);                                                             \
        EXPECT(strstr(rota_last_error(), " has something at byte "));                                        \
        (options).later = 0;                                                                                 \
    } while (0)
#else
#define FILLED_LATER(name) (void)0
#define REFUSED(options, call) (void)0
#endif

/* What a kernel of its own costs: its `user` says so. */
static double work_of(void *user, const void *params, const uint64_t *operand_bytes) {
    (void)params, (void)operand_bytes;
    return *(const double *)user;
}

int main(void) {
    rota_runtime *runtime;
    rota_device *device;
    rota_runtime_options options =
        ROTA_RUNTIME_OPTIONS(.worker_threads = 1, .memory_limit_bytes = 64u << 20, .diagnostics = true);
    REFUSED(options, rota_runtime_open(&options, &runtime));
    TRY(rota_runtime_open(&options, &runtime));
    rota_device_info infos[16];
    uint32_t count;
    memset(infos, GUARD, sizeof infos);
    infos[0].struct_size = sizeof *infos;
    TRY(rota_devices(runtime, infos, 16, &count));
    bool has_cpu = false;
    for (uint32_t i = 0; i < count; i++) {
        EXPECT(infos[i].struct_size == sizeof *infos && memchr(infos[i].id, 0, sizeof infos[i].id));
        FILLED_LATER(infos[i]);
        has_cpu = has_cpu || strcmp(infos[i].id, "cpu") == 0;
    }
    EXPECT(has_cpu);
    TRY(rota_device_open(runtime, "cpu", &device));
    EXPECT(rota_device_get_info(device)->kind == ROTA_EXEC_CPU);

    float data[COUNT], result[COUNT];
    for (int i = 0; i < COUNT; i++) data[i] = (float)i;
    rota_buffer *buffer;
    TRY(rota_buffer_create_in(runtime, "x", sizeof data, &buffer));
    TRY(rota_buffer_write(buffer, device, 0, data, sizeof data, NULL));

    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_graph_options of_graph = ROTA_GRAPH_OPTIONS(.name = "client");
    REFUSED(of_graph, rota_graph_create(&of_graph, &graph));
    TRY(rota_graph_create(&of_graph, &graph));
    TRY(rota_recorder_open(graph, 0, NULL, &recorder));
    rota_tape_options of_tape = ROTA_TAPE_OPTIONS(.no_gradients = true);
    REFUSED(of_tape, rota_tape_create(recorder, &of_tape, &tape));
    TRY(rota_tape_create(recorder, &of_tape, &tape));
    rota_tensor x, y;
    TRY(rota_tensor_of(buffer, 0, ROTA_F32, ROTA_SHAPE(16, 16), &x));
    rota_linear linear = ROTA_LINEAR(.bias = ROTA_TENSOR_NONE);
    REFUSED(linear, rota_op_linear(tape, x, x, &linear, &y));
    TRY(rota_op_linear(tape, x, x, &linear, &y));
    TRY(rota_op_scale_into(tape, x, ROTA_PLAIN(2), x));
    /* And a node of its own: x + 1. */
    const rota_unary_params params = {COUNT, ROTA_UNARY_AFFINE, 1, 1, ROTA_F32};
    const rota_access accesses[] = {{buffer, 0, ROTA_WHOLE, ROTA_READ}, {buffer, 0, ROTA_WHOLE, ROTA_WRITE}};
    double cost = 42;
    rota_kernel_functions functions = ROTA_KERNEL_FUNCTIONS(.work = work_of);
    rota_kernel own = *rota_kernel_find("unary");
    own.flags |= ROTA_KERNEL_HAS_FUNCTIONS;
    own.functions = &functions;
    own.user = &cost;
    rota_kernel_node node =
        ROTA_KERNEL_NODE(.kernel = &own, .accesses = accesses, .access_count = 2, .params = &params);
    REFUSED(functions, rota_record_kernel(recorder, &node, NULL));
    REFUSED(node, rota_record_kernel(recorder, &node, NULL));
    TRY(rota_record_kernel(recorder, &node, NULL));
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);

    rota_plan *plan;
    rota_compile_options of_plan =
        ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1, .certify = true);
    REFUSED(of_plan, rota_compile(runtime, graph, &of_plan, &plan));
    TRY(rota_compile(runtime, graph, &of_plan, &plan));
    rota_submit_options of_submit = ROTA_SUBMIT_OPTIONS(.timeout_ns = UINT64_C(20000000000));
    REFUSED(of_submit, rota_submit_with(plan, &of_submit, NULL));
    TRY(rota_submit_with(plan, &of_submit, NULL));
    TRY(rota_buffer_read(buffer, 0, result, sizeof result));
    for (int i = 0; i < COUNT; i++) EXPECT(result[i] == 2 * (float)i + 1);

    GUARDED(plan_stats, plan_stats);
    TRY(rota_plan_get_stats(plan, &plan_stats.is));
    STANDS(plan_stats);
    FILLED_LATER(plan_stats.is);
    EXPECT(plan_stats.is.nodes == 3 && plan_stats.is.commands >= 3 && plan_stats.is.commands <= 8);
    rota_plan_command commands[8];
    memset(commands, GUARD, sizeof commands);
    commands[0].struct_size = sizeof *commands;
    TRY(rota_plan_get_commands(plan, commands, 8));
    EXPECT(commands[2].struct_size == sizeof *commands && commands[2].device == device);
    EXPECT(commands[2].kernel == &own && commands[2].read_bytes == sizeof data && commands[2].work == 42);
    FILLED_LATER(commands[2]);
    rota_plan_time times[8];
    GUARDED(plan_replay, replay);
    TRY(rota_plan_command_times(plan, times, 8, &replay.is));
    STANDS(replay);
    FILLED_LATER(replay.is);
    EXPECT(replay.is.number > 0 && replay.is.handed_over_ns >= replay.is.submitted_ns);
    GUARDED(runtime_stats, stats);
    TRY(rota_runtime_get_stats(runtime, &stats.is));
    STANDS(stats);
    FILLED_LATER(stats.is);
    EXPECT(stats.is.submissions >= 3 && stats.is.plans >= 1 && stats.is.failed == 0);

    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(buffer);
    TRY(rota_runtime_close(runtime, UINT64_C(20000000000)));
    printf("rota %s, options of %zu bytes\n", rota_version(), sizeof options);
    return 0;
}
