/* What librota and the library that is linked with MPI (mpi/shim.c) have in common: a table of functions of plain C.
 * That library alone knows MPI, and is opened at run time, so that librota needs none. Internal. */
#ifndef ROTA_EXEC_COMM_MPI_FUNCTIONS_H
#define ROTA_EXEC_COMM_MPI_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

/* Of this table; another one is not taken. */
#define ROTA_MPI_VERSION 2
#define ROTA_MPI_FUNCTION "rota_mpi_functions_get"
#define ROTA_MPI_LIBRARY "librota_mpi.so.1"

/* All functions but `has_ranks` are called by one thread, the one that called begin. What fails returns the MPI error,
 * which `explain` puts into words. */
typedef struct rota_mpi_functions {
    uint32_t version;
    const char *library; /* "Open MPI 4.1.4": what it was built with; static */
    /* MPI_COMM_WORLD of this process, in a communicator of rota's own. MPI is initialised unless the application has;
     * -1: that was without MPI_THREAD_MULTIPLE, -2: MPI is finalised already, which it can't come back from. */
    int (*begin)(uint32_t *out_rank, uint32_t *out_size, uint32_t *out_last_tag);
    int (*send)(uint32_t to, uint32_t tag, const void *bytes, uint64_t size_bytes, void **out_request);
    int (*receive)(uint32_t from, uint32_t tag, void *bytes, uint64_t size_bytes, void **out_request);
    int (*test)(void *request, int *out_over);
    int (*cancel)(void *request);
    /* Finalises MPI where begin initialised it: waits for all ranks. */
    int (*end)(void);
    void (*explain)(int error, char *out_text, size_t capacity);
} rota_mpi_functions;

typedef const rota_mpi_functions *(*rota_mpi_functions_get_fn)(void);

#endif
