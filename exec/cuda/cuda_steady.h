/* Graphs whose kernels know what stays the same in their argument blocks: see cuda_steady.c. Internal to
 * exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_STEADY_H
#define ROTA_EXEC_CUDA_CUDA_STEADY_H

#include "exec/common/steady.h"
#include "exec/cuda/cuda_instance.h"

typedef struct rota_cuda_device rota_cuda_device;

/* Of an instance's segment; the submit thread's once it is made. */
struct rota_cuda_steady {
    rota_steady words;
    CUgraph graph; /* what the executable graph was made of: its nodes name those of the executable one */
    CUgraphNode upload;
    CUgraphNode *kernels; /* per command of the segment; NULL: none that reads the block */
    uint32_t *stale;      /* commands that are to be rewritten; is_stale says which are in it */
    uint8_t *is_stale;
    bool uploads;
};

/* For each segment whose kernels read the block and can be rewritten. OUT_OF_MEMORY. */
rota_status rota_cuda_readers_create(rota_cuda_program *program);
void rota_cuda_readers_free(rota_cuda_program *program);

/* Where the segment has readers, before its graph is built; the builder fills graph, upload and kernels. */
rota_status rota_cuda_steady_create(const rota_cuda_program *program, uint32_t segment,
                                    rota_cuda_steady **out_steady);
void rota_cuda_steady_free(rota_cuda_device *device, rota_cuda_steady *steady);

/* Rewrites the segment's executable graph for a launch with this block, which is to follow. The instance is not
 * in flight. */
rota_status rota_cuda_steady_follow(rota_cuda_device *device, const rota_cuda_instance *instance,
                                    uint32_t segment, const uint64_t *block);

#endif
