/* What a kernel node is given: its arguments. See cuda_arguments.c. Internal to exec/cuda. */
#ifndef ROTA_EXEC_CUDA_CUDA_ARGUMENTS_H
#define ROTA_EXEC_CUDA_CUDA_ARGUMENTS_H

#include "exec/common/steady.h"
#include "exec/cuda/cuda_program.h"

/* rota_args of rota_kernel.cuh, for any kernel. */
typedef struct rota_cuda_arguments {
    uint64_t block;
    uint32_t slot_mask, bind_mask;
    uint64_t words[ROTA_CUDA_OPERANDS_MAX + (ROTA_KERNEL_PARAM_BYTES_MAX + 7) / 8];
} rota_cuda_arguments;

/* Those of command `index`. What is in slots is the kernel's to read from the block at this device address, but
 * for words that are steady (NULL: none are), whose values are written in their place. */
void rota_cuda_arguments_fill(const rota_cuda_program *program, uint32_t index,
                              rota_exec_memory *const *memories, uint64_t block_address,
                              const rota_steady *steady, rota_cuda_arguments *out);

/* Of a kernel node; `parameters` is borrowed. */
CUDA_KERNEL_NODE_PARAMS rota_cuda_node_params(CUfunction function, const rota_cuda_launch *launch,
                                              void **parameters);

#endif
