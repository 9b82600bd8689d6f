/* What librota and the library that is linked with MPI (mpi/shim.c) have in common: a table of functions of plain C.
 * That library alone knows MPI, and is opened at run time, so that librota needs none. Internal. */
#ifndef ROTA_EXEC_COMM_MPI_FUNCTIONS_H
#define ROTA_EXEC_COMM_MPI_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

/* Of this table; another one is not taken. */
#define ROTA_MPI_VERSION 4
#define ROTA_MPI_FUNCTION "rota_mpi_functions_get"
#define ROTA_MPI_LIBRARY "librota_mpi.so.1"

/* A world is a communicator of rota's own. All functions of one but `take` are called by one thread, the one that
 * called begin. What fails returns the MPI error, which `explain` puts into words, or one of rota_mpi_error. */
typedef enum rota_mpi_error {
    ROTA_MPI_NOT_MULTIPLE = -1,    /* the application initialised MPI without MPI_THREAD_MULTIPLE */
    ROTA_MPI_FINALISED = -2,       /* which it can't come back from */
    ROTA_MPI_NOT_INITIALISED = -3, /* and yet the application has an MPI_Comm */
    ROTA_MPI_NOT_A_GROUP = -4,     /* MPI_COMM_NULL, or one between two groups */
    ROTA_MPI_OTHER = -5,           /* the process has another MPI than the one that this was built with */
    ROTA_MPI_SHORT = -6,           /* a message has fewer bytes than were wanted */
    ROTA_MPI_ENDED = -7            /* the application has finalised it under a world */
} rota_mpi_error;

typedef struct rota_mpi_functions {
    uint32_t version;
    const char *library; /* "Open MPI 4.1.4": what it was built with; static */
    /* The MPI_Comm at that address, as a number. Any thread. */
    uint64_t (*take)(const void *mpi_communicator);
    /* One for the ranks of that, taken before, or, NULL, of MPI_COMM_WORLD: then MPI is initialised unless the
     * application has. */
    int (*begin)(const uint64_t *taken, void **out_world, uint32_t *out_rank, uint32_t *out_size,
                 uint32_t *out_last_tag);
    int (*send)(void *world, uint32_t to, uint32_t tag, const void *bytes, uint64_t size_bytes,
                void **out_request);
    int (*receive)(void *world, uint32_t from, uint32_t tag, void *bytes, uint64_t least_bytes,
                   uint64_t size_bytes, void **out_request);
    /* Of one that ended with MPI *out_over stays 0: what it sends or gets may have been touched until MPI was gone. */
    int (*test)(void *request, int *out_over);
    int (*cancel)(void *request);
    /* Frees it, and finalises MPI where begin initialised it: waits for all ranks. */
    int (*end)(void *world);
    void (*explain)(int error, char *out_text, size_t capacity);
} rota_mpi_functions;

typedef const rota_mpi_functions *(*rota_mpi_functions_get_fn)(void);

#endif
