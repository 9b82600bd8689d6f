/* How the work of attention's gradient on Hopper is divided among blocks of threads. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_ATTENTION_SM90_SHARES_H
#define ROTA_OPS_CUDA_ATTENTION_SM90_SHARES_H

#include "ops/cuda/attention_sm90_sizes.h"
#include "ops/kernel_params.h"

/* For `at_once` blocks of threads, which is as many as run at the same time. As many pairs of batch and head as there
 * are whole rounds of go to one of them each; the blocks of keys of those that are left are divided, where that is
 * faster. */
void rota_attention_sm90_share(const rota_attention_backward_params *params, uint32_t at_once,
                               rota_attention_sm90_shares *out_shares);

/* Blocks of threads to launch. */
uint32_t rota_attention_sm90_share_blocks(const rota_attention_backward_params *params, uint32_t at_once,
                                          const rota_attention_sm90_shares *shares);

#endif
