/* Ranks under mpirun of which the last one is stopped (SIGSTOP) or killed: the others end by their timeout, with its
 * rank, the node and the communicator named, and close by their deadline. mpi_faults stopped|killed; 77: MPI is not
 * there. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kit/nap.h"
#include "tests/ranks/rank_cases.h"

/* A child wakes this process again. */
static void stop_for(uint32_t seconds) {
    const pid_t self = getpid(), child = fork();
    rank_want(child >= 0, "no fork");
    if (child == 0) {
        (void)sleep(seconds);
        (void)kill(self, SIGCONT);
        _exit(0);
    }
    (void)raise(SIGSTOP);
    (void)waitpid(child, NULL, 0);
}

int main(int argc, char **argv) {
    rank_want(argc == 2, "mpi_faults stopped|killed");
    const bool is_killed = strcmp(argv[1], "killed") == 0;
    rota_runtime *runtime;
    rota_communicator *world;
    rota_device *device;
    const rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.worker_threads = 1, .cache_dir = "");
    rank_ok(rota_runtime_open(&options, &runtime));
    const rota_communicator_options mpi =
        ROTA_COMMUNICATOR_OPTIONS(.transport = "mpi", .timeout_ns = 2000000000u);
    const rota_status opened = rota_communicator_open(runtime, &mpi, &world);
    if (opened == ROTA_UNSUPPORTED) {
        (void)printf("skipped: %s\n", rota_last_error());
        (void)rota_runtime_close(runtime, 0);
        return 77;
    }
    rank_ok(opened);
    const uint32_t rank = rota_communicator_rank(world), last = rota_communicator_size(world) - 1;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_buffer *buffer;
    rota_tensor x;
    rota_plan *plan;
    rota_ticket ticket;
    enum { COUNT = 1 << 20 }; /* many pieces: it may be stopped in the middle */
    rank_ok(rota_device_open(runtime, "cpu", &device));
    rank_ok(rota_graph_create(NULL, &graph));
    rank_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rank_ok(rota_tape_create(recorder, NULL, &tape));
    rank_ok(rota_buffer_create_in(runtime, "x", COUNT * 4, &buffer));
    float *zeroes = calloc(COUNT, sizeof *zeroes);
    rank_ok(rota_buffer_write(buffer, NULL, 0, zeroes, COUNT * 4, NULL));
    free(zeroes);
    rank_ok(rota_tensor_of(buffer, 0, ROTA_F32, ROTA_SHAPE(COUNT), &x));
    rank_ok(rota_tape_name(tape, "the gradient"));
    rank_ok(rota_op_all_reduce_into(tape, world, x, ROTA_COLLECTIVE_SUM, x));
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    const rota_compile_options compile = ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1);
    rank_ok(rota_compile(runtime, graph, &compile, &plan));
    for (uint32_t i = 0; i < 3; i++) rank_ok(rota_submit(plan, NULL, &ticket));
    rank_ok(rota_wait(ticket, 0));
    if (rank == last) {
        /* Others may be anywhere in the next one. */
        rank_ok(rota_submit(plan, NULL, &ticket));
        if (is_killed) (void)raise(SIGKILL);
        stop_for(5);
    }
    const uint64_t begin = rota_clock_ns();
    for (uint32_t i = 0; i < 3; i++) rank_ok(rota_submit(plan, NULL, &ticket));
    const rota_status status = rota_wait(ticket, 0);
    rank_want(status == ROTA_NODE_FAILED, "%s: %s", rota_status_name(status), rota_last_error());
    char who[64];
    (void)snprintf(who, sizeof who, "for rank %u,", last);
    rank_want(strstr(rota_last_error(), who) && strstr(rota_last_error(), "'the gradient'") &&
                  strstr(rota_last_error(), "communicator 'world'"),
              "%s", rota_last_error());
    rank_want(rota_clock_ns() - begin < 10000000000u, "it took %llu ms",
              (unsigned long long)(rota_clock_ns() - begin) / 1000000);
    if (rank == 0) (void)printf("%s\n", rota_last_error());
    rota_plan_release(plan);
    rota_graph_release(graph);
    rota_buffer_release(buffer);
    /* A message that was under way when it ended may never be wanted, and MPI_Finalize may wait for who is gone: then
     * they are given up, and the process leaves without it. */
    const uint64_t closing = rota_clock_ns();
    const rota_status closed = rota_communicator_close(world, 2000000000u);
    rank_want(closed == ROTA_OK || closed == ROTA_TIMEOUT, "%s", rota_last_error());
    rank_want(rota_clock_ns() - closing < 10000000000u, "close took %llu ms",
              (unsigned long long)(rota_clock_ns() - closing) / 1000000);
    rank_ok(rota_runtime_close(runtime, 20000000000u));
    (void)printf("rank %u closed: %s\n", rank, rota_status_name(closed));
    (void)fflush(NULL);
    _exit(0);
}
