/* Programs: see cuda_program.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_PROGRAM_H
#define ROTA_EXEC_CUDA_CUDA_PROGRAM_H

#include <stdbool.h>
#include "exec/common/steady.h"
#include "exec/cuda/cuda_api.h"
#include "exec/exec.h"

/* A kernel's operands and, last, its scratch memory. */
#define ROTA_CUDA_OPERANDS_MAX (ROTA_KERNEL_OPERANDS_MAX + 1)
#define ROTA_CUDA_PREPARED_MAX 3072u

typedef enum rota_cuda_form {
    ROTA_CUDA_NOTHING, /* no work: an empty grid, a copy of no bytes */
    ROTA_CUDA_KERNEL,
    ROTA_CUDA_MEMCPY,
    ROTA_CUDA_LIBRARY,
    ROTA_CUDA_DECISION
} rota_cuda_form;

typedef struct rota_cuda_decision rota_cuda_decision; /* cuda_decide.h */
typedef struct rota_cuda_count rota_cuda_count;
typedef struct rota_cuda_roots rota_cuda_roots;

/* What building a graph needs of one command. */
typedef struct rota_cuda_dispatch {
    const rota_kernel *kernel; /* the chosen one; NULL: a memcpy node, or a decision */
    rota_cuda_decision *decision;
    rota_cuda_count *count; /* NULL: it is not counted */
    CUfunction function;
    rota_cuda_launch launch;
    uint32_t slot_mask, bind_mask; /* of a counted one without its count; with the parameter that gets it */
    uint8_t form;                  /* rota_cuda_form */
    bool starts_early;             /* a kernel that waits itself for what it comes after */
} rota_cuda_dispatch;

typedef struct rota_cuda_segment {
    bool uses_block;        /* some command takes an operand or parameter from the argument block */
    bool has_variant;       /* some library node does: its graph depends on the values */
    uint32_t count_words;   /* behind those of the argument block: a counted command's each */
    rota_cuda_roots *roots; /* NULL: nothing in it decides or is counted */
} rota_cuda_segment;

typedef struct rota_cuda_program {
    const rota_exec_program_desc *desc;
    rota_cuda_dispatch *dispatches; /* per command */
    rota_cuda_segment *segments;
    rota_readers *readers;   /* per segment (cuda_steady.h) */
    uint32_t block_segments; /* how many have a copy of the block, or words behind it */
} rota_cuda_program;

/* What is between the iterations of a command that decides. */
extern const rota_kernel rota_cuda_decide_kernel;
/* Copies with an operand in a slot or small ones from or to pinned memory, and all fills, are kernels. */
extern const rota_kernel rota_cuda_copy_kernel, rota_cuda_fill_kernel;
typedef struct rota_cuda_copy_params {
    uint64_t size_bytes;
} rota_cuda_copy_params;
typedef struct rota_cuda_fill_params {
    uint64_t size_bytes;
    uint32_t pattern;
    uint32_t reserved;
} rota_cuda_fill_params;

rota_status rota_cuda_program_create(rota_exec_device *device, const rota_exec_program_desc *desc,
                                     rota_exec_program **out_program);
/* `device` may be NULL, as may the program. */
void rota_cuda_program_destroy(rota_exec_device *device, rota_exec_program *program);
/* The parameters of a command's kernel: the node's, or those of the kernel that stands in for a copy or fill,
 * written to out_own. */
const void *rota_cuda_command_params(const rota_exec_program_desc *desc, const rota_exec_command *command,
                                     rota_cuda_fill_params *out_own);

/* ---- For tests ---- */

/* Whether this build has CUDA images of rota's kernels: without, its devices are listed as not usable. */
bool rota_cuda_has_kernels(void);

#endif
