/* The transport contract as a rank under mpirun. 77: MPI is not there. */
#include <stdio.h>

#include "base/clock.h"
#include "exec/comm/messages.h"
#include "exec/comm/mpi_engine.h"
#include "tests/exec/comm/transport_contract.h"
#include "tests/ranks/rank_cases.h"

int main(void) {
    rota_engine *engine, *again;
    rota_transport *transport;
    const rota_status status = rota_mpi_open(&engine);
    if (status == ROTA_UNSUPPORTED) {
        (void)printf("skipped: %s\n", rota_last_error());
        return 77;
    }
    rank_ok(status);
    rank_want(rota_mpi_open(&again) == ROTA_WRONG_STATE, "it is open twice");
    rank_ok(rota_messages_open(engine, "world", 30000000000u, &transport));
    const uint32_t rank = transport->rank, size = transport->size;
    transport_contract(transport);
    uint64_t abandoned = 1;
    rota_transport_close(transport, rota_deadline_after(10000000000u), &abandoned);
    rank_want(abandoned == 0, "%llu bytes abandoned", (unsigned long long)abandoned);
    rank_want(rota_mpi_open(&again) == ROTA_WRONG_STATE, "MPI comes back");
    if (rank == 0) (void)printf("the contract holds on %u ranks\n", size);
    return 0;
}
