/* The transport contract as a rank under mpirun. 77: MPI is not there. */
#include <stdio.h>

#include "base/clock.h"
#include "exec/comm/messages.h"
#include "exec/comm/mpi_engine.h"
#include "tests/exec/comm/transport_contract.h"
#include "tests/kit/nap.h"
#include "tests/ranks/rank_cases.h"

int main(void) {
    rota_engine *engine, *again;
    rota_transport *transport;
    const rota_status status = rota_mpi_open(NULL, &engine);
    if (status == ROTA_UNSUPPORTED) {
        (void)printf("skipped: %s\n", rota_last_error());
        return 77;
    }
    rank_ok(status);
    rank_want(rota_mpi_open(NULL, &again) == ROTA_WRONG_STATE, "it is open twice");
    rank_ok(rota_messages_open(engine, "world", 30000000000u, &transport));
    const uint32_t rank = transport->rank, size = transport->size;
    transport_contract(transport);
    /* The last rank is late: until it comes, no look of another one's at its closing takes long. */
    uint64_t abandoned = 1, longest = 0;
    const uint64_t deadline = rota_deadline_after(10000000000u);
    if (rank == size - 1) test_nap_ms(500);
    for (;;) {
        const uint64_t begin = rota_clock_ns();
        if (transport->vtable->close(transport, deadline, &abandoned)) break;
        const uint64_t took = rota_clock_ns() - begin;
        if (took > longest) longest = took;
        test_nap_us(100);
    }
    rank_want(longest < 200000000u, "a look at closing took %llu us", (unsigned long long)longest / 1000);
    rank_want(abandoned == 0, "%llu bytes abandoned", (unsigned long long)abandoned);
    rank_want(rota_mpi_open(NULL, &again) == ROTA_WRONG_STATE, "MPI comes back");
    if (rank == 0) (void)printf("the contract holds on %u ranks\n", size);
    return 0;
}
