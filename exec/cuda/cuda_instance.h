/* Instances: see cuda_instance.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_INSTANCE_H
#define ROTA_EXEC_CUDA_CUDA_INSTANCE_H

#include <stdbool.h>
#include "exec/common/link.h"
#include "exec/cuda/cuda_pool.h"
#include "exec/cuda/cuda_program.h"
#include "exec/cuda/cuda_script.h"
#include "exec/exec.h"

typedef struct rota_cuda_device rota_cuda_device;
typedef struct rota_cuda_instance rota_cuda_instance;
typedef struct rota_cuda_segment_instance rota_cuda_segment_instance;

/* Executable graphs of a segment whose library nodes take values from the argument block, by those values. */
#define ROTA_CUDA_VARIANTS 4u
typedef struct rota_cuda_variant {
    uint64_t *words; /* what the segment's library nodes take, in order */
    CUgraphExec exec;
    rota_cuda_script *script; /* in its place */
    uint64_t used;            /* the count of launches when it was used last */
} rota_cuda_variant;

typedef struct rota_cuda_steady rota_cuda_steady;
typedef struct rota_cuda_loops rota_cuda_loops;

struct rota_cuda_segment_instance {
    CUgraphExec exec;            /* NULL: no commands, variants, or a script */
    rota_cuda_script *script;    /* its commands that decide are run by the host; NULL: none, or variants */
    uint64_t launched;           /* the submit thread's: scripts */
    uint64_t finished;           /* the completion thread's: of those */
    rota_cuda_variant *variants; /* ROTA_CUDA_VARIANTS of them, or NULL */
    rota_cuda_steady *steady;    /* NULL: exec is never rewritten */
    rota_cuda_loops *loops;      /* NULL: it has no loops or counts */
    uint64_t block_address;      /* of its copy of the argument block */
};

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
/* The executable graph of a segment for a submission with these words, or its script; neither: nothing is to run. */
rota_status rota_cuda_instance_exec(rota_cuda_device *device, rota_cuda_instance *instance, uint32_t segment,
                                    const uint64_t *block, CUgraphExec *out_exec,
                                    rota_cuda_script **out_script);

#endif
