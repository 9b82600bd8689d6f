/* Two buffers, an add, a replay with a changed argument, a read. quickstart [DEVICE] */
#include <rota/ops/ops.h>
#include <rota/rota.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 1024

/* Every call returns a status; the sentence that goes with it says what was wrong. */
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

int main(int argc, char **argv) {
    rota_runtime *runtime;
    rota_device *device;
    TRY(rota_runtime_open(NULL, &runtime));
    TRY(rota_device_open(runtime, argc > 1 ? argv[1] : NULL, &device));

    /* Two buffers that live across replays. */
    float ones[COUNT], result[COUNT];
    for (int i = 0; i < COUNT; i++) ones[i] = 1;
    rota_buffer *a_buffer, *sum_buffer;
    TRY(rota_buffer_create_in(runtime, "a", sizeof ones, &a_buffer));
    TRY(rota_buffer_create_in(runtime, "sum", sizeof ones, &sum_buffer));
    TRY(rota_buffer_write(a_buffer, device, 0, ones, sizeof ones, NULL));
    TRY(rota_buffer_write(sum_buffer, device, 0, ones, sizeof ones, NULL));

    /* Record once: sum = sum + k a, with k an argument of each replay. */
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_slot k;
    rota_tensor a, sum, scaled;
    TRY(rota_graph_create(NULL, &graph));
    TRY(rota_graph_slot(graph, "k", 4, &k));
    TRY(rota_recorder_open(graph, 0, NULL, &recorder));
    TRY(rota_tape_create(recorder, NULL, &tape));
    TRY(rota_tensor_of(a_buffer, 0, ROTA_F32, ROTA_SHAPE(COUNT), &a));
    TRY(rota_tensor_of(sum_buffer, 0, ROTA_F32, ROTA_SHAPE(COUNT), &sum));
    TRY(rota_op_scale(tape, a, ROTA_SLOT(k), &scaled));
    TRY(rota_op_add_into(tape, sum, scaled, sum));
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);

    /* Compile once, replay with k = 1, 2, 3. */
    rota_plan *plan;
    rota_args *args;
    TRY(rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    TRY(rota_args_create(plan, &args));
    for (int step = 1; step <= 3; step++) {
        TRY(rota_args_set_f32(args, k, (float)step));
        TRY(rota_submit(plan, args, NULL));
    }
    /* Reading is ordered like a node: after everything submitted before it. */
    TRY(rota_buffer_read(sum_buffer, 0, result, sizeof result));
    printf("%s: 1 + 1 + 2 + 3 = %g\n", rota_device_get_info(device)->name, (double)result[COUNT - 1]);
    TRY(rota_runtime_close(runtime, 5000000000));
    return result[0] != 7;
}
