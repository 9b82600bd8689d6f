/* MPI as a message engine: see mpi_engine.c. Internal. */
#ifndef ROTA_EXEC_COMM_MPI_ENGINE_H
#define ROTA_EXEC_COMM_MPI_ENGINE_H

#include "exec/comm/engine.h"

/* Whether the process was started as one of several ranks, or by an MPI at all: by what mpirun and srun set. */
bool rota_mpi_is_started(void);
/* The application's MPI_Comm at that address, as a number for rota_mpi_open. UNSUPPORTED: rota's library for MPI is not
 * there. */
rota_status rota_mpi_take(const void *mpi_communicator, uint64_t *out_taken);
/* The ranks of what was taken; NULL: of MPI_COMM_WORLD, once at a time. By the thread that will use it: waits until all
 * ranks have come. UNSUPPORTED: rota's library for MPI is not there, or what it needs; WRONG_STATE: it is open already,
 * or MPI was finalised, or not initialised as it must be; SYSTEM: what MPI says. */
rota_status rota_mpi_open(const uint64_t *taken, rota_engine **out_engine);

#endif
