/* Where ranks of one job find each other, as the application or what started them says: see launch.c. Internal. */
#ifndef ROTA_EXEC_COMM_LAUNCH_H
#define ROTA_EXEC_COMM_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>
#include "base/status.h"

/* Rank 0 listens, and the others come to it. */
typedef struct rota_meeting {
    uint32_t rank, size;
    char host[256];                  /* of rank 0; "": it writes where it listens into */
    char path[1024];                 /* this file, which all ranks see */
    uint32_t first_port, port_count; /* rank 0 takes the first that is free of these; with a host */
    uint64_t key;                    /* the job's: who has another one is of another job */
    const char *launcher;            /* "torchrun", "srun": static; NULL: the application itself says so */
} rota_meeting;

/* "host:port", "[IPv6]:port" or "file:PATH". INVALID_ARGUMENT: it is none of them, or the rank is not below size. */
rota_status rota_meeting_at(const char *address, uint32_t rank, uint32_t size, rota_meeting *out_meeting);
/* Whether torchrun, srun, or whoever sets the same variables, started this process as one of several, *out_ranks of
 * them; what MPI was told of comes before (mpi_engine.h). Its name; NULL: none did. */
const char *rota_meeting_launcher(uint32_t *out_ranks);
/* Whether torchrun started it, itself a task of srun's: what MPI was told then is of that task, which may have several
 * such processes. */
bool rota_meeting_is_within_srun(void);
/* Where that says that they meet. INVALID_ARGUMENT: what it has not set, or how that can't be meant. */
rota_status rota_meeting_of_launcher(rota_meeting *out_meeting);
/* The same, "host:port" and the like. */
void rota_meeting_describe(const rota_meeting *meeting, char *out_text, uint64_t capacity);

#endif
