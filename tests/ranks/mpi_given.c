/* A rank under mpirun of an application that has MPI itself: its communicators, all ranks' and halves of them, become
 * rota's. 77: MPI is not there. */
#include <mpi.h>
#include <string.h>

#include "tests/ranks/rank_cases.h"

static rota_status open_given(rota_runtime *runtime, const MPI_Comm *given, const char *name,
                              rota_communicator **out) {
    const rota_communicator_options options =
        ROTA_COMMUNICATOR_OPTIONS(.name = name, .mpi_communicator = given, .timeout_ns = 20000000000u);
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
        ROTA_COMMUNICATOR_OPTIONS(.transport = "mpi", .timeout_ns = 20000000000u);
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

int main(int argc, char **argv) {
    rota_runtime *runtime;
    rota_communicator *world, *half;
    const rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.worker_threads = 1, .cache_dir = "");
    rank_ok(rota_runtime_open(&options, &runtime));
    if (argc > 1) return give_later(runtime);
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
