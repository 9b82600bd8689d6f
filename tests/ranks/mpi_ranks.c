/* A rank under mpirun, or tcprun.sh: the cases of rank_cases.c over MPI, or TCP. mpi_ranks [CASE]: that one alone;
 * mpi_ranks CASE deterministic: on communicators of that option, for which messages need nothing. 77: MPI is not there.
 * Cases that end their communicator get one of their own, by a split. */
#include <string.h>

#include "tests/ranks/rank_cases.h"

int main(int argc, char **argv) {
    rota_runtime *runtime;
    rota_communicator *world;
    const rota_runtime_options options = ROTA_RUNTIME_OPTIONS(.worker_threads = 1, .cache_dir = "");
    rank_ok(rota_runtime_open(&options, &runtime));
    const bool deterministic = argc > 2 && strcmp(argv[2], "deterministic") == 0;
    const rota_communicator_options mpi =
        ROTA_COMMUNICATOR_OPTIONS(.transport = rank_transport(), .deterministic = deterministic);
    const rota_status status = rota_communicator_open(runtime, &mpi, &world);
    if (status == ROTA_UNSUPPORTED) {
        (void)printf("skipped: %s\n", rota_last_error());
        (void)rota_runtime_close(runtime, 0);
        return 77;
    }
    rank_ok(status);
    const uint32_t size = rota_communicator_size(world), rank = rota_communicator_rank(world);
    rank_want(strcmp(rota_communicator_transport(world), rank_transport()) == 0, "%s",
              rota_communicator_transport(world));
    uint32_t count = 0;
    for (const rank_case *now = rank_cases; now->name; now++) {
        if (argc > 1 && strcmp(argv[1], now->name) != 0) continue;
        if (size < now->least || (now->most && size > now->most) || now->timeout_ns) continue;
        rota_communicator *own;
        rank_ok(rota_communicator_open_split(world, 0, rank, now->name, &own));
        now->run(runtime, own);
        rank_ok(rota_communicator_close(own, 0));
        count++;
    }
    rank_want(count != 0, "no case of that name");
    rank_ok(rota_communicator_close(world, 0));
    rank_ok(rota_runtime_close(runtime, 20000000000u));
    if (rank == 0) (void)printf("%u cases on %u ranks\n", count, size);
    return 0;
}
