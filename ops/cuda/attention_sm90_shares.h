/* How the work of attention's gradient on Hopper is divided among blocks of threads. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_ATTENTION_SM90_SHARES_H
#define ROTA_OPS_CUDA_ATTENTION_SM90_SHARES_H

#include "graph/kernel.h"
#include "ops/cuda/attention_sm90_sizes.h"
#include "ops/kernel_params.h"

/* Key blocks, or tiles of queries, of so many rows (1 or more). */
static inline uint32_t rota_attention_sm90_tiles(uint32_t rows) {
    return (rows - 1) / ROTA_ATTENTION_SM90_BLOCK + 1;
}

/* Of batch and head. */
static inline uint64_t rota_attention_sm90_pairs(const rota_attention_backward_params *params) {
    return (uint64_t)params->batch * params->heads;
}

void rota_attention_sm90_share(const rota_attention_backward_params *params, const rota_cuda_target *target,
                               rota_attention_sm90_shares *out_shares);

/* Blocks of threads to launch: no more than run at the same time. */
uint32_t rota_attention_sm90_share_blocks(const rota_attention_backward_params *params,
                                          const rota_cuda_target *target,
                                          const rota_attention_sm90_shares *shares);

/* Pairs that dq's sums are kept of at a time. */
uint64_t rota_attention_sm90_share_sums(const rota_attention_backward_params *params,
                                        const rota_cuda_target *target,
                                        const rota_attention_sm90_shares *shares);

#endif
