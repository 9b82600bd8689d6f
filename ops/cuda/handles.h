/* Handles of vendors' libraries, one for each CUDA context, which the library lets any number of threads use;
 * kept for the life of the process, since a context may be gone before them. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_HANDLES_H
#define ROTA_OPS_CUDA_HANDLES_H

#include <pthread.h>
#include "base/status.h"

typedef struct rota_cuda_handle rota_cuda_handle;

/* Of one library; any threads. */
typedef struct rota_cuda_handles_shared {
    pthread_mutex_t lock;
    rota_cuda_handle *first;
} rota_cuda_handles_shared;
#define ROTA_CUDA_HANDLES_INIT                                                                               \
    { PTHREAD_MUTEX_INITIALIZER, NULL }

/* That of the calling thread's context, which `make` makes the first time; blocks in it then. The library's
 * name is for the sentence of OUT_OF_MEMORY; what make or the driver fails with is returned. */
rota_status rota_cuda_handle_get(rota_cuda_handles_shared *handles, rota_status (*make)(void **out_handle),
                                 const char *library, void **out_handle);

#endif
