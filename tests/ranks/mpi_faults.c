/* Ranks under mpirun, or tcprun.sh, of which the last one is stopped (SIGSTOP) or killed: the others end by their
 * timeout, with its rank, the node and the communicator named, and close by their deadline. mpi_faults stopped|killed;
 * 77: MPI is not there. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ranks/rank_cases.h"

/* Within it all ranks have come to the communicator's opening, too: processes may begin seconds after one another where
 * much else runs. One that is stopped is so for longer than the others wait. */
enum { TIMEOUT_S = 6, STOPPED_S = 10 };
#define SECOND_NS UINT64_C(1000000000)

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

typedef struct faults_rank {
    rota_runtime *runtime;
    rota_communicator *world;
    rota_graph *graph;
    rota_plan *plan;
    rota_buffer *buffer;
    uint32_t rank, last;
} faults_rank;

/* An all_reduce of many pieces: it may be stopped in the midst of one. */
static void make_plan(faults_rank *r) {
    const uint64_t count = 1 << 20, bytes = count * sizeof(float);
    rota_device *device;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_tensor x;
    rank_ok(rota_device_open(r->runtime, "cpu", &device));
    rank_ok(rota_graph_create(NULL, &r->graph));
    rank_ok(rota_recorder_open(r->graph, 0, NULL, &recorder));
    rank_ok(rota_tape_create(recorder, NULL, &tape));
    rank_ok(rota_buffer_create_in(r->runtime, "x", bytes, &r->buffer));
    float *zeroes = calloc(count, sizeof *zeroes);
    rank_ok(rota_buffer_write(r->buffer, NULL, 0, zeroes, bytes, NULL));
    free(zeroes);
    rank_ok(rota_tensor_of(r->buffer, 0, ROTA_F32, ROTA_SHAPE(count), &x));
    rank_ok(rota_tape_name(tape, "the gradient"));
    rank_ok(rota_op_all_reduce_into(tape, r->world, x, ROTA_COLLECTIVE_SUM, x));
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    const rota_compile_options compile = ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1);
    rank_ok(rota_compile(r->runtime, r->graph, &compile, &r->plan));
}

/* Whether the sentence says who it was. One that had come to the collective before it stood still is one of those whose
 * parts did not come, and the one of which nothing was heard, or which says so itself. */
static bool names_rank(uint32_t rank, bool is_told) {
    static const char *const silent[] = {"for rank %u,", "nothing was heard then of rank %u",
                                         "rank %u itself stood still"};
    char who[64];
    bool is_named = false;
    (void)snprintf(who, sizeof who, "rank %u is gone", rank);
    if (is_told) return strstr(rota_last_error(), who) != NULL;
    for (uint32_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        (void)snprintf(who, sizeof who, silent[i], rank);
        is_named = is_named || strstr(rota_last_error(), who);
    }
    return is_named;
}

/* The last rank goes; the others are told in time. */
static void run(const faults_rank *r, bool is_killed) {
    rota_ticket ticket;
    for (uint32_t i = 0; i < 3; i++) rank_ok(rota_submit(r->plan, NULL, &ticket));
    rank_ok(rota_wait(ticket, 0));
    if (r->rank == r->last) {
        /* Others may be anywhere in the next one. */
        rank_ok(rota_submit(r->plan, NULL, &ticket));
        if (is_killed) (void)raise(SIGKILL);
        stop_for(STOPPED_S);
    }
    const uint64_t begin = rota_clock_ns();
    for (uint32_t i = 0; i < 3; i++) rank_ok(rota_submit(r->plan, NULL, &ticket));
    const rota_status status = rota_wait(ticket, 0);
    rank_want(status == ROTA_NODE_FAILED, "%s: %s", rota_status_name(status), rota_last_error());
    /* Of a rank that is killed its connection tells, where that is rota's own. */
    const bool is_told = is_killed && strcmp(rank_transport(), "tcp") == 0;
    rank_want(names_rank(r->last, is_told) && strstr(rota_last_error(), "'the gradient'") &&
                  strstr(rota_last_error(), "communicator 'world'"),
              "%s", rota_last_error());
    /* Who was stopped itself ends by what the others said of it, and has no timeout of its own before it. */
    const bool is_soon = is_told || r->rank == r->last;
    rank_want(rota_clock_ns() - begin <
                  (is_soon ? TIMEOUT_S * SECOND_NS * 9 / 10 : 5 * TIMEOUT_S * SECOND_NS),
              "it took %llu ms", (unsigned long long)(rota_clock_ns() - begin) / 1000000);
    if (r->rank == 0) (void)printf("%s\n", rota_last_error());
}

int main(int argc, char **argv) {
    rank_want(argc == 2, "mpi_faults stopped|killed");
    faults_rank r = {.rank = 0};
    const rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.worker_threads = 1, .cache_dir = "");
    rank_ok(rota_runtime_open(&options, &r.runtime));
    const rota_communicator_options mpi =
        ROTA_COMMUNICATOR_OPTIONS(.transport = rank_transport(), .timeout_ns = TIMEOUT_S * SECOND_NS);
    const rota_status opened = rota_communicator_open(r.runtime, &mpi, &r.world);
    if (opened == ROTA_UNSUPPORTED) {
        (void)printf("skipped: %s\n", rota_last_error());
        (void)rota_runtime_close(r.runtime, 0);
        return 77;
    }
    rank_ok(opened);
    r.rank = rota_communicator_rank(r.world);
    r.last = rota_communicator_size(r.world) - 1;
    make_plan(&r);
    run(&r, strcmp(argv[1], "killed") == 0);
    rota_plan_release(r.plan);
    rota_graph_release(r.graph);
    rota_buffer_release(r.buffer);
    /* A message that was under way when it ended may never be wanted, and MPI_Finalize may wait for who is gone: then
     * they are given up, and the process leaves without it. */
    const uint64_t closing = rota_clock_ns();
    const rota_status closed = rota_communicator_close(r.world, 2000000000u);
    rank_want(closed == ROTA_OK || closed == ROTA_TIMEOUT, "%s", rota_last_error());
    rank_want(rota_clock_ns() - closing < 10000000000u, "close took %llu ms",
              (unsigned long long)(rota_clock_ns() - closing) / 1000000);
    rank_ok(rota_runtime_close(r.runtime, 20000000000u));
    (void)printf("rank %u closed: %s\n", r.rank, rota_status_name(closed));
    (void)fflush(NULL);
    _exit(0);
}
