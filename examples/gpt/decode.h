/* One token after the other: the keys and values of those before stay on the device, so that a step costs one
 * token's work and a look at the cache. The graph is one for all positions: which one stands in a buffer. */
#ifndef ROTA_EXAMPLES_GPT_DECODE_H
#define ROTA_EXAMPLES_GPT_DECODE_H

#include "examples/gpt/graph.h"

/* Keys and values of the tokens so far. */
typedef struct gpt_cache {
    rota_buffer **layers; /* keys and values of each, [heads, block, head dim] */
    uint64_t count;
    rota_buffer *positions; /* 0, 1, ... of the block, as f32 */
} gpt_cache;
rota_status gpt_cache_create(gpt_model *model, gpt_cache *out);
void gpt_cache_free(gpt_cache *cache);
/* Records what a token, i32 [1, 1], at its position, i32 [1, 1], does: the cache gets its keys and values; out_x is
 * what the head makes logits of (gpt_record_head). */
rota_status gpt_record_token(gpt_recording *r, const gpt_cache *cache, rota_tensor token,
                             rota_tensor position, rota_tensor *out_x);

/* The loop over tokens on the host. */
typedef struct gpt_decoder {
    gpt_plan plan;
    gpt_cache cache;
    rota_buffer *here; /* INPUT: the position */
    float *logits;
    int32_t token, position;
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
