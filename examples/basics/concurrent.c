/* Threads that submit at once, to a shared buffer and to private ones, without a lock of their own: the
 * graphs' accesses order what must be ordered. concurrent [DEVICE [THREADS [ROUNDS]]] */
#include <pthread.h>
#include <rota/ops/ops.h>
#include <rota/rota.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 1024
#define THREADS_MAX 64

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

static rota_runtime *runtime;
static rota_device *device;
static rota_plan *shared_plan;
static int rounds = 1000;

/* A plan that adds `amount` to every element of a buffer of COUNT floats. */
static int adding_plan(rota_buffer *buffer, float amount, rota_plan **out_plan) {
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_tensor x;
    TRY(rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = "add"), &graph));
    TRY(rota_recorder_open(graph, 0, NULL, &recorder));
    TRY(rota_tape_create(recorder, &ROTA_TAPE_OPTIONS(.no_gradients = true), &tape));
    TRY(rota_tensor_of(buffer, 0, ROTA_F32, ROTA_SHAPE(COUNT), &x));
    TRY(rota_op_affine_into(tape, x, ROTA_PLAIN(1), ROTA_PLAIN(amount), x));
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    TRY(rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), out_plan));
    rota_graph_release(graph);
    return 0;
}

/* Makes a buffer of its own, adds to it and to the shared one in turn, and checks its own. */
static int work(uintptr_t thread) {
    static const float zeroes[COUNT];
    float result[COUNT];
    rota_buffer *buffer;
    rota_plan *plan;
    const float amount = (float)thread + 1;
    TRY(rota_buffer_create_in(runtime, "private", sizeof zeroes, &buffer));
    TRY(rota_buffer_write(buffer, device, 0, zeroes, sizeof zeroes, NULL));
    if (adding_plan(buffer, amount, &plan)) return 1;
    for (int round = 0; round < rounds; round++) {
        TRY(rota_submit_wait(plan, NULL, 0, NULL));
        TRY(rota_submit_wait(shared_plan, NULL, 0, NULL));
    }
    TRY(rota_buffer_read(buffer, 0, result, sizeof result));
    rota_plan_release(plan);
    rota_buffer_release(buffer);
    for (int i = 0; i < COUNT; i++)
        if (result[i] != amount * (float)rounds)
            return fprintf(stderr, "thread %d: element %d is %g, not %g\n", (int)thread, i, (double)result[i],
                           (double)(amount * (float)rounds)),
                   2;
    return 0;
}

static void *thread_main(void *argument) {
    return (void *)(intptr_t)work((uintptr_t)argument);
}

int main(int argc, char **argv) {
    const long threads = argc > 2 ? strtol(argv[2], NULL, 10) : 8;
    if (argc > 3) rounds = (int)strtol(argv[3], NULL, 10);
    /* The sums must be exact in a float. */
    if (threads < 1 || threads > THREADS_MAX || rounds < 1 || rounds > 100000)
        return fprintf(stderr, "concurrent [DEVICE [THREADS 1 to %d [ROUNDS 1 to 100000]]]\n", THREADS_MAX),
               1;
    TRY(rota_runtime_open(NULL, &runtime));
    TRY(rota_device_open(runtime, argc > 1 ? argv[1] : NULL, &device));

    static float zeroes[COUNT], result[COUNT];
    rota_buffer *shared;
    TRY(rota_buffer_create_in(runtime, "shared", sizeof zeroes, &shared));
    TRY(rota_buffer_write(shared, device, 0, zeroes, sizeof zeroes, NULL));
    if (adding_plan(shared, 1, &shared_plan)) return 1;

    pthread_t ids[THREADS_MAX];
    int failed = 0, started = 0;
    uint64_t begin = rota_clock_ns();
    for (; started < threads; started++)
        if (pthread_create(&ids[started], NULL, thread_main, (void *)(uintptr_t)started) != 0) break;
    for (int t = 0; t < started; t++) {
        void *code;
        pthread_join(ids[t], &code);
        if ((intptr_t)code > failed) failed = (int)(intptr_t)code;
    }
    double seconds = (double)(rota_clock_ns() - begin) / 1e9;
    TRY(rota_buffer_read(shared, 0, result, sizeof result));
    for (int i = 0; i < COUNT && !failed; i++)
        if (result[i] != (float)(started * rounds)) failed = 2;
    printf("%s: %d threads, %d submissions in %.2f s; shared sum %g of %d, %s\n",
           rota_device_get_info(device)->name, started, 2 * started * rounds, seconds, (double)result[0],
           started * rounds, failed ? "wrong" : "all exact");
    rota_plan_release(shared_plan);
    rota_buffer_release(shared);
    TRY(rota_runtime_close(runtime, 5000000000));
    return started < threads ? 1 : failed;
}
