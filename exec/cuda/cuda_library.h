/* Library nodes: see cuda_library.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_LIBRARY_H
#define ROTA_EXEC_CUDA_CUDA_LIBRARY_H

#include <pthread.h>
#include "exec/cuda/cuda_pool.h"
#include "exec/cuda/cuda_program.h"

typedef struct rota_cuda_device rota_cuda_device;

/* The private stream: captures, tuning, timestamps of the clock; under the lock. */
typedef struct rota_cuda_private_shared {
    pthread_mutex_t lock;
    CUstream stream;
    rota_cuda_piece clock_piece; /* diagnostics: where a timestamp is written to compare clocks */
    int64_t clock_offset_ns;     /* rota_clock_ns less the device's timer */
    bool clock_is_known;         /* that was found */
} rota_cuda_private_shared;

/* Captures the node's work alone into a graph of its own. block: the submission's words, NULL if it needs
 * none. */
rota_status rota_cuda_library_capture(rota_cuda_device *device, const rota_cuda_program *program,
                                      uint32_t command, rota_exec_memory *const *memories,
                                      const uint64_t *block, CUgraph *out_graph);
/* Lets the kernels that measure themselves do so, once for each distinct node of the program, and of each body. */
rota_status rota_cuda_library_tune(rota_cuda_device *device, const rota_cuda_program *program);

#endif
