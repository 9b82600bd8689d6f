/* One token after the other: the keys and values of those before stay on the device, so that a step costs one
 * token's work and a look at the cache. The graph is one for all positions: which one is an argument. */
#ifndef ROTA_EXAMPLES_GPT_DECODE_H
#define ROTA_EXAMPLES_GPT_DECODE_H

#include "examples/gpt/graph.h"

typedef struct gpt_decoder {
    gpt_plan plan;
    rota_buffer **caches; /* keys and values of each layer, [heads, block, head dim] */
    uint64_t cache_count;
    rota_buffer *here, *mask; /* INPUT: the position; 0 for those up to it, minus infinity beyond */
    rota_slot position;
    float *mask_values, *logits;
    int32_t token, position_row;
    uint64_t filled; /* tokens so far */
} gpt_decoder;

rota_status gpt_decoder_create(gpt_model *model, gpt_decoder *out);
void gpt_decoder_free(gpt_decoder *decoder);
/* Adds a token and gives the logits [vocabulary] of what follows, valid until the next step. WRONG_STATE: the
 * model's block is full. */
rota_status gpt_decoder_step(gpt_decoder *decoder, int32_t token, const float **out_logits);
/* Forgets all tokens. */
void gpt_decoder_reset(gpt_decoder *decoder);

#endif
