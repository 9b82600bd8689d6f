/* MPI as a message engine: see mpi_engine.c. Internal. */
#ifndef ROTA_EXEC_COMM_MPI_ENGINE_H
#define ROTA_EXEC_COMM_MPI_ENGINE_H

#include "exec/comm/engine.h"

/* Whether the process was started as one of several ranks, or by an MPI at all: by what mpirun and srun set. */
bool rota_mpi_is_started(void);
/* Another launcher that says that it has started several, *out_ranks of them, as MPI can't see: "torchrun", "srun".
 * NULL: none. */
const char *rota_mpi_other_launcher(uint32_t *out_ranks);
/* MPI_COMM_WORLD of this process, once at a time. By the thread that will use it: waits until all ranks have come.
 * UNSUPPORTED: rota's library for MPI is not there, or what it needs; WRONG_STATE: it is open already, or MPI was
 * finalised; SYSTEM: what MPI says. */
rota_status rota_mpi_open(rota_engine **out_engine);

#endif
