/* From a GPT's losses to its next weights: the loss scale, where gradients lie, their norm, AdamW. */
#ifndef ROTA_EXAMPLES_GPT_OPTIMIZER_H
#define ROTA_EXAMPLES_GPT_OPTIMIZER_H

#include "examples/gpt/graph.h"

/* Of one micro-batch, or of all: laid out as the model's buffers. 16-bit gradients of several micro-batches are added
 * up in f32, since a sum kept in 16 bits would lose what is small beside it. */
typedef struct gpt_gradients {
    /* What they are of, and each: by parameter, or by group the shards, of the recording's dtype. */
    rota_tensor *params, *each;
    uint32_t count;
    rota_tensor all; /* what the optimizer takes, in the end */
    rota_tensor sum; /* f32, where they are added up, and what it takes then; or none */
    /* Of weights that were gathered once: by group, this rank's, which `each` lie in and which are reduced to `all`;
     * f32 where those of micro-batches are added up, and, by parameter, the tensors of that. NULL: otherwise. */
    rota_tensor *whole, *sums, *sum_each;
} gpt_gradients;

/* A parameter in a buffer laid out as the model's. */
rota_status gpt_part_tensor(const gpt_parameter *p, rota_buffer *buffer, rota_dtype dtype, rota_tensor *out);
/* The token table with all of its rows in memory. */
rota_status gpt_table_tensor(const gpt_model *model, rota_buffer *buffer, rota_dtype dtype, rota_tensor *out);

/* gpt_gradients_free in any case. */
rota_status gpt_gradients_make(gpt_recording *r, gpt_gradients *out);
void gpt_gradients_free(gpt_gradients *g);
/* After each backward pass. */
rota_status gpt_gradients_gather(gpt_recording *r, gpt_gradients *g, uint64_t micro_batch);
/* Weights that were gathered once: the means of all ranks', each rank its shards, as the backward pass is through with
 * a group. */
rota_status gpt_gradients_reduce(gpt_recording *r, gpt_gradients *g);
/* f16: the loss, scaled. */
rota_status gpt_scale_loss(gpt_recording *r, rota_tensor *loss);
rota_status gpt_record_optimizer(gpt_recording *r, const gpt_gradients *g);

#endif
