/* A rank under mpirun of an application that has MPI itself: its communicators, all ranks' and halves of them, become
 * rota's. 77: MPI is not there. */
#include <mpi.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/kit/nap.h"
#include "tests/ranks/rank_cases.h"

#define TIMEOUT_NS UINT64_C(60000000000) /* what hangs, and nothing else, takes so long */

static rota_status open_given(rota_runtime *runtime, const MPI_Comm *given, const char *name,
                              rota_communicator **out) {
    const rota_communicator_options options =
        ROTA_COMMUNICATOR_OPTIONS(.name = name, .mpi_communicator = given, .timeout_ns = TIMEOUT_NS);
    return rota_communicator_open(runtime, &options, out);
}

static void expect_refused(rota_runtime *runtime, const MPI_Comm *given, rota_status status,
                           const char *text) {
    rota_communicator *none;
    rank_want(open_given(runtime, given, "refused", &none) == status && strstr(rota_last_error(), text), "%s",
              rota_last_error());
    rank_want(!none, "it is there");
}

static void run_cases(rota_runtime *runtime, rota_communicator *communicator) {
    const uint32_t size = rota_communicator_size(communicator);
    rota_communicator *own;
    for (const rank_case *now = rank_cases; now->name; now++) {
        if (size < now->least || (now->most && size > now->most) || now->timeout_ns) continue;
        rank_ok(rota_communicator_open_split(communicator, 0, 0, now->name, &own));
        now->run(runtime, own);
        rank_ok(rota_communicator_close(own, 0));
    }
}

/* rota began MPI, and the application gives it a communicator then: the last one to close ends MPI, whichever it is. */
static int give_later(rota_runtime *runtime) {
    rota_communicator *world, *later;
    MPI_Comm all = MPI_COMM_WORLD;
    int is_finalised = 0;
    const rota_communicator_options options =
        ROTA_COMMUNICATOR_OPTIONS(.transport = "mpi", .timeout_ns = TIMEOUT_NS);
    const rota_status opened = rota_communicator_open(runtime, &options, &world);
    if (opened == ROTA_UNSUPPORTED) {
        (void)printf("skipped: %s\n", rota_last_error());
        return 77;
    }
    rank_want(opened == ROTA_OK, "%s", rota_last_error());
    rank_ok(open_given(runtime, &all, "later", &later));
    rank_cases[0].run(runtime, world);
    rank_ok(rota_communicator_close(world, 0));
    MPI_Finalized(&is_finalised);
    rank_want(!is_finalised, "MPI was ended under a communicator");
    rank_cases[0].run(runtime, later);
    rank_ok(rota_communicator_close(later, 0));
    MPI_Finalized(&is_finalised);
    rank_want(is_finalised, "MPI was not ended");
    rank_ok(rota_runtime_close(runtime, 20000000000u));
    return 0;
}

static rota_plan *make_sum(rota_runtime *runtime, rota_communicator *of, rota_buffer *x) {
    rota_device *device;
    rota_graph *graph;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_tensor tensor;
    rota_plan *plan;
    rank_ok(rota_device_open(runtime, "cpu", &device));
    rank_ok(rota_tensor_of(x, 0, ROTA_F32, ROTA_SHAPE(1 << 20), &tensor));
    rank_ok(rota_graph_create(NULL, &graph));
    rank_ok(rota_recorder_open(graph, 0, NULL, &recorder));
    rank_ok(rota_tape_create(recorder, NULL, &tape));
    rank_ok(rota_op_all_reduce_into(tape, of, tensor, ROTA_COLLECTIVE_SUM, tensor));
    rota_tape_destroy(tape);
    rota_recorder_close(recorder);
    rank_ok(
        rota_compile(runtime, graph, &ROTA_COMPILE_OPTIONS(.devices = &device, .device_count = 1), &plan));
    rota_graph_release(graph);
    return plan;
}

static void expect_finalised(rota_status status, rota_status wanted) {
    rank_want(status == wanted && strstr(rota_last_error(), "MPI_Finalize"), "%s: %s",
              rota_status_name(status), rota_last_error());
}

/* In place of MPI's, for rota's library, too: who asks after the size of what came is as slow as a thread that has lost
 * its processor may be. MPI ends the process where it is asked after its end. */
static atomic_int is_slow;
int MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *out_count) {
    if (atomic_load(&is_slow)) test_nap_ms(20);
    return PMPI_Get_count(status, type, out_count);
}

/* The application ends MPI under two communicators, as one's collectives go on and the first rank waits in the other
 * one's: what is under way fails, and what comes then, soon; closing says what is kept. Nothing calls MPI any more. */
static int finalise_under(rota_runtime *runtime, int rank) {
    rota_communicator *busy, *waits;
    rota_buffer *x, *y;
    rota_ticket first = {0}, last;
    MPI_Comm all = MPI_COMM_WORLD;
    const uint64_t bytes = sizeof(float) << 20;
    float *zeroes = calloc(1, bytes);
    rank_ok(open_given(runtime, &all, "busy", &busy));
    rank_ok(open_given(runtime, &all, "waits", &waits));
    rank_ok(rota_buffer_create_in(runtime, "x", bytes, &x));
    rank_ok(rota_buffer_create_in(runtime, "y", bytes, &y));
    rank_ok(rota_buffer_write(x, NULL, 0, zeroes, bytes, NULL));
    rank_ok(rota_buffer_write(y, NULL, 0, zeroes, bytes, NULL));
    free(zeroes);
    rota_plan *of_busy = make_sum(runtime, busy, x), *of_waits = make_sum(runtime, waits, y);
    for (uint32_t i = 0; i < 40; i++) rank_ok(rota_submit(of_busy, NULL, &last));
    if (rank == 0) rank_ok(rota_submit(of_waits, NULL, &first));
    atomic_store(&is_slow, 1);
    rank_want(MPI_Finalize() == MPI_SUCCESS, "MPI_Finalize");
    const uint64_t begin = rota_clock_ns();
    rank_ok(rota_submit(of_busy, NULL, &last));
    expect_finalised(rota_wait(last, 0), ROTA_NODE_FAILED);
    if (rank == 0) expect_finalised(rota_wait(first, 0), ROTA_NODE_FAILED);
    expect_finalised(rota_communicator_open_split(waits, 0, 0, "none", &(rota_communicator *){NULL}),
                     ROTA_NODE_FAILED);
    rota_plan_release(of_busy);
    rota_plan_release(of_waits);
    rota_buffer_release(x);
    rota_buffer_release(y);
    expect_finalised(rota_communicator_close(busy, 0), ROTA_TIMEOUT);
    expect_finalised(rota_communicator_close(waits, 0), ROTA_TIMEOUT);
    rank_want(rota_clock_ns() - begin < TIMEOUT_NS / 2, "it took %llu ms",
              (unsigned long long)(rota_clock_ns() - begin) / 1000000);
    rank_ok(rota_runtime_close(runtime, 20000000000u));
    if (rank == 0) (void)printf("finalised under two communicators\n");
    return 0;
}

int main(int argc, char **argv) {
    rota_runtime *runtime;
    rota_communicator *world, *half;
    const rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.worker_threads = 1, .cache_dir = "");
    rank_ok(rota_runtime_open(&options, &runtime));
    if (argc > 1 && strcmp(argv[1], "later") == 0) return give_later(runtime);
    MPI_Comm all = MPI_COMM_WORLD, none = MPI_COMM_NULL, part;
    const rota_status opened = open_given(runtime, &all, "all", &world);
    if (opened == ROTA_UNSUPPORTED) {
        (void)printf("skipped: %s\n", rota_last_error());
        return 77;
    }
    rank_want(opened == ROTA_WRONG_STATE && strstr(rota_last_error(), "MPI is not initialised"), "%s",
              rota_last_error());
    int level = 0, rank = 0, size = 0, sum = 0;
    rank_want(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) == MPI_SUCCESS &&
                  level == MPI_THREAD_MULTIPLE,
              "MPI");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    expect_refused(runtime, &none, ROTA_INVALID_ARGUMENT, "MPI_COMM_NULL");
    if (argc > 1) return finalise_under(runtime, rank);
    /* Ranks of a half in another order than in the whole. */
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
    rank_ok(open_given(runtime, &all, "all", &world));
    rank_ok(open_given(runtime, &part, "half", &half));
    rank_want(rota_communicator_rank(world) == (uint32_t)rank &&
                  rota_communicator_size(world) == (uint32_t)size,
              "another rank");
    int part_rank = 0, part_size = 0;
    MPI_Comm_rank(part, &part_rank);
    MPI_Comm_size(part, &part_size);
    rank_want(rota_communicator_rank(half) == (uint32_t)part_rank &&
                  rota_communicator_size(half) == (uint32_t)part_size,
              "another rank of the half");
    run_cases(runtime, half);
    run_cases(runtime, world);
    rank_ok(rota_communicator_close(world, 0));
    /* MPI is the application's still, and the half open. */
    rank_want(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS &&
                  sum == size * (size - 1) / 2,
              "%d", sum);
    rank_cases[0].run(runtime, half);
    rank_ok(rota_communicator_close(half, 0));
    MPI_Comm_free(&part);
    rank_want(MPI_Finalize() == MPI_SUCCESS, "MPI_Finalize");
    rank_ok(rota_runtime_close(runtime, 20000000000u));
    if (rank == 0) (void)printf("given communicators of %d and %d ranks\n", size, part_size);
    return 0;
}
