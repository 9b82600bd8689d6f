/* Instances: see cuda_instance.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_INSTANCE_H
#define ROTA_EXEC_CUDA_CUDA_INSTANCE_H

#include <stdbool.h>
#include "exec/common/link.h"
#include "exec/cuda/cuda_pool.h"
#include "exec/cuda/cuda_program.h"
#include "exec/exec.h"

typedef struct rota_cuda_device rota_cuda_device;
typedef struct rota_cuda_instance rota_cuda_instance;

/* Executable graphs of a segment whose library nodes take values from the argument block, by those values. */
#define ROTA_CUDA_VARIANTS 4u
typedef struct rota_cuda_variant {
    uint64_t *words; /* what the segment's library nodes take, in order */
    CUgraphExec exec;
    uint64_t used; /* the count of launches when it was used last */
} rota_cuda_variant;

typedef struct rota_cuda_steady rota_cuda_steady;
typedef struct rota_cuda_loops rota_cuda_loops;

typedef struct rota_cuda_segment_instance {
    CUgraphExec exec;            /* NULL: no commands, or variants */
    rota_cuda_variant *variants; /* ROTA_CUDA_VARIANTS of them, or NULL */
    rota_cuda_steady *steady;    /* NULL: exec is never rewritten */
    rota_cuda_loops *loops;      /* NULL: it has no loops or counts */
    uint64_t block_address;      /* of its copy of the argument block */
} rota_cuda_segment_instance;

struct rota_cuda_instance {
    rota_link link;
    rota_cuda_program *program;  /* NULL: destroyed, but for what close is to free */
    rota_exec_memory **memories; /* for variants and rewriting; NULL where there is neither */
    rota_cuda_segment_instance *segments;
    uint32_t segment_count;
    rota_cuda_piece host_block, device_block;
    bool block_written;
    uint64_t launches;
    uint64_t *timestamps; /* diagnostics: pinned, two for each command */
    uint64_t timestamps_address;
};

rota_status rota_cuda_instance_create(rota_exec_device *device, rota_exec_program *program,
                                      rota_exec_memory *const *memories, rota_exec_instance **out_instance);
void rota_cuda_instance_destroy(rota_exec_device *device, rota_exec_instance *handle);
void rota_cuda_instance_free(rota_cuda_device *device, rota_cuda_instance *instance);
/* The executable graph of a segment for a submission with these words. */
rota_status rota_cuda_instance_exec(rota_cuda_device *device, rota_cuda_instance *instance, uint32_t segment,
                                    const uint64_t *block, CUgraphExec *out_exec);

#endif
