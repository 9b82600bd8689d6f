/* The end of a host node that ends later: said to the executor that runs it. */
#include "graph/host_run.h"

void rota_host_end(rota_host_run *run, rota_status status) {
    if (run) run->end(run, status, status == ROTA_OK ? "" : rota_last_error());
}
