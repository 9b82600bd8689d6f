/* One token after the other. */
#include "examples/gpt/decode.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include "cuda/gpt_cache.h"
#include "spv/gpt_cache.h"

/* ---- A kernel of our own: rota has no op that writes to a position which a buffer says ---- */

/* Field by field as in gpt_cache.comp and gpt_cache.cu. */
typedef struct cache_params {
    uint32_t heads, block, head_dim;
} cache_params;

/* cache[h][position] = x[h] */
static rota_status cache_cpu(const rota_kernel_call *call) {
    const cache_params *p = call->params;
    const float *x = call->operands[0];
    const uint32_t position = *(const uint32_t *)call->operands[1];
    float *cache = call->operands[2];
    if (position >= p->block)
        return rota_fail(ROTA_OUT_OF_RANGE, "position %" PRIu32 " of a cache of %" PRIu32, position,
                         p->block);
    for (uint64_t i = call->begin; i < call->end; i++) {
        uint64_t head = i / p->head_dim, d = i % p->head_dim;
        cache[(head * p->block + position) * p->head_dim + d] = x[i];
    }
    return ROTA_OK;
}

static void cache_items(const void *params, const uint64_t *operand_bytes, uint64_t *out_items,
                        uint64_t *out_grain) {
    (void)params;
    *out_items = operand_bytes[0] / 4;
    *out_grain = 4096;
}

static void cache_grid(const void *params, const uint64_t *operand_bytes, uint32_t out_groups[3]) {
    (void)params;
    out_groups[0] = (uint32_t)((operand_bytes[0] / 4 + 63) / 64);
    out_groups[1] = out_groups[2] = 1;
}

static const rota_kernel cache_kernel = {
    .name = "cache_write",
    .operand_count = 3,
    .param_bytes = sizeof(cache_params),
    .flags = ROTA_KERNEL_PURE,
    .cpu = {.fn = cache_cpu, .items = cache_items},
    .vk = {.words = rota_spv_gpt_cache, .size_bytes = sizeof rota_spv_gpt_cache, .grid = cache_grid},
    .cuda = {ROTA_CUDA_IMAGE_gpt_cache, .entry = "gpt_cache", .grid = cache_grid, .block = {64, 1, 1}},
};

static rota_status write_cache(gpt_recording *r, rota_tensor x, rota_tensor position, rota_buffer *cache) {
    const gpt_config *c = &r->plan->model->config;
    const cache_params params = {
        .heads = (uint32_t)c->heads, .block = (uint32_t)c->block, .head_dim = (uint32_t)(c->dim / c->heads)};
    /* One token's heads stand side by side in x. */
    const rota_access accesses[] = {{x.buffer, x.offset_bytes, c->dim * 4, ROTA_READ},
                                    {position.buffer, position.offset_bytes, 4, ROTA_READ},
                                    {cache, 0, ROTA_WHOLE, ROTA_READWRITE}};
    return rota_record_kernel(rota_tape_recorder(r->tape),
                              &ROTA_KERNEL_NODE(.kernel = &cache_kernel, .accesses = accesses,
                                                .access_count = 3, .params = &params),
                              NULL);
}

/* ---- The graph ---- */

/* beyond [block] is 1 where no token is yet. */
static rota_status layer(gpt_recording *r, const gpt_cache *cache, uint64_t l, rota_tensor position,
                         rota_tensor beyond, rota_tensor *x) {
    const gpt_config *c = &r->plan->model->config;
    const uint64_t head_dim = c->dim / c->heads;
    rota_tensor qkv[3], keys, values, scores, merged, heads;
    ROTA_TRY(gpt_record_qkv(r, l, *x, qkv));
    ROTA_TRY(write_cache(r, qkv[1], position, cache->layers[2 * l]));
    ROTA_TRY(write_cache(r, qkv[2], position, cache->layers[2 * l + 1]));
    ROTA_TRY(rota_tensor_of(cache->layers[2 * l], 0, ROTA_F32, ROTA_SHAPE(1, c->heads, c->block, head_dim),
                            &keys));
    ROTA_TRY(rota_tensor_of(cache->layers[2 * l + 1], 0, ROTA_F32,
                            ROTA_SHAPE(1, c->heads, c->block, head_dim), &values));
    ROTA_TRY(rota_op_matmul(r->tape, qkv[0], keys, false, true, &scores));
    ROTA_TRY(rota_op_scale(r->tape, scores, ROTA_PLAIN(1 / sqrt((double)head_dim)), &scores));
    ROTA_TRY(rota_op_masked_fill(r->tape, scores, beyond, -INFINITY, &scores));
    ROTA_TRY(rota_op_softmax(r->tape, scores, &scores));
    ROTA_TRY(gpt_record_merged(r, &merged, &heads));
    ROTA_TRY(rota_op_weighted_matmul_into(r->tape, scores, values, heads));
    return gpt_record_rest(r, l, merged, x);
}

rota_status gpt_record_token(gpt_recording *r, const gpt_cache *cache, rota_tensor token,
                             rota_tensor position, rota_tensor *out_x) {
    const gpt_config *c = &r->plan->model->config;
    rota_tensor x, row, positions, beyond;
    ROTA_TRY(rota_tensor_of(cache->positions, 0, ROTA_F32, ROTA_SHAPE(c->block), &positions));
    ROTA_TRY(rota_tensor_reshape(&position, ROTA_SHAPE(1), &beyond));
    ROTA_TRY(rota_op_cast(r->tape, beyond, ROTA_F32, &beyond));
    ROTA_TRY(rota_op_gt(r->tape, positions, beyond, &beyond));
    ROTA_TRY(rota_op_embedding(r->tape, r->weights[GPT_TOKENS], token, &x));
    ROTA_TRY(rota_op_embedding(r->tape, r->weights[GPT_POSITIONS], position, &row));
    ROTA_TRY(rota_op_add(r->tape, x, row, &x));
    for (uint64_t l = 0; l < c->layers; l++) ROTA_TRY(layer(r, cache, l, position, beyond, &x));
    *out_x = x;
    return ROTA_OK;
}

static rota_status record_step(gpt_recording *r) {
    gpt_decoder *decoder = r->user;
    gpt_plan *plan = r->plan;
    rota_tensor token, here, x, logits;
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_INPUT, "token", ROTA_I32, ROTA_SHAPE(1, 1), &token));
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_INPUT, "position", ROTA_I32, ROTA_SHAPE(1, 1), &here));
    plan->tokens = token.buffer;
    decoder->here = here.buffer;
    ROTA_TRY(gpt_record_token(r, &decoder->cache, token, here, &x));
    ROTA_TRY(gpt_record_head(r, x, r->weights[GPT_TOKENS], &logits));
    return gpt_record_output(r, "logits", logits, &plan->logits);
}

/* ---- The cache ---- */

static rota_status make_layers(gpt_model *model, gpt_cache *out) {
    const gpt_config *c = &model->config;
    const uint64_t bytes = c->block * c->dim * 4;
    float *zeroes = calloc(1, bytes);
    out->layers = calloc(2 * c->layers, sizeof(rota_buffer *));
    rota_status status = ROTA_OK;
    if (!zeroes || !out->layers)
        status = rota_fail(ROTA_OUT_OF_MEMORY, "no memory for %" PRIu64 " layers' caches", c->layers);
    /* What a mask hides is multiplied by zero: it must be finite. */
    for (uint64_t i = 0; i < 2 * c->layers && status == ROTA_OK; i++) {
        out->count = i + 1;
        status = rota_buffer_create_in(model->runtime, i % 2 ? "values" : "keys", bytes, &out->layers[i]);
        if (status == ROTA_OK)
            status = rota_buffer_write(out->layers[i], model->device, 0, zeroes, bytes, NULL);
    }
    free(zeroes);
    return status;
}

rota_status gpt_cache_create(gpt_model *model, gpt_cache *out) {
    const uint64_t block = model->config.block;
    float *positions = malloc(block * sizeof *positions);
    *out = (gpt_cache){0};
    rota_status status = positions
                             ? make_layers(model, out)
                             : rota_fail(ROTA_OUT_OF_MEMORY, "no memory for %" PRIu64 " positions", block);
    for (uint64_t i = 0; positions && i < block; i++) positions[i] = (float)i;
    if (status == ROTA_OK)
        status = rota_buffer_create_in(model->runtime, "positions", block * 4, &out->positions);
    if (status == ROTA_OK)
        status = rota_buffer_write(out->positions, model->device, 0, positions, block * 4, NULL);
    free(positions);
    if (status != ROTA_OK) gpt_cache_free(out);
    return status;
}

void gpt_cache_free(gpt_cache *cache) {
    for (uint64_t i = 0; i < cache->count; i++) rota_buffer_release(cache->layers[i]);
    rota_buffer_release(cache->positions);
    free(cache->layers);
    *cache = (gpt_cache){0};
}

/* ---- The loop on the host ---- */

rota_status gpt_decoder_create(gpt_model *model, gpt_decoder *out) {
    const gpt_config *c = &model->config;
    *out = (gpt_decoder){.plan = {.model = model, .rows = 1, .length = 1, .micro_batches = 1}};
    out->logits = malloc(c->vocabulary * sizeof *out->logits);
    rota_status status = out->logits ? gpt_cache_create(model, &out->cache)
                                     : rota_fail(ROTA_OUT_OF_MEMORY, "no memory for logits");
    if (status == ROTA_OK)
        status = gpt_plan_make(
            model, &(gpt_plan_options){.name = "decode", .record = record_step, .user = out}, &out->plan);
    rota_args *args = out->plan.turns[0].args;
    if (status == ROTA_OK) status = rota_args_set_input(args, out->plan.tokens, &out->token, 4, true);
    if (status == ROTA_OK) status = rota_args_set_input(args, out->here, &out->position, 4, true);
    if (status == ROTA_OK)
        status = rota_args_set_output(args, out->plan.logits, out->logits, c->vocabulary * 4);
    if (status != ROTA_OK) gpt_decoder_free(out);
    return status;
}

void gpt_decoder_free(gpt_decoder *decoder) {
    if (gpt_turn_over(&decoder->plan.turns[0])) free(decoder->logits);
    gpt_plan_free(&decoder->plan);
    gpt_cache_free(&decoder->cache);
    *decoder = (gpt_decoder){0};
}

void gpt_decoder_reset(gpt_decoder *decoder) {
    decoder->filled = 0;
}

rota_status gpt_decoder_step(gpt_decoder *decoder, int32_t token, const float **out_logits) {
    gpt_turn *turn = &decoder->plan.turns[0];
    if (decoder->filled >= decoder->plan.model->config.block)
        return rota_fail(ROTA_WRONG_STATE, "all %" PRIu64 " positions of the model's block are taken",
                         decoder->filled);
    decoder->token = token;
    decoder->position = (int32_t)decoder->filled;
    ROTA_TRY(rota_submit_wait(decoder->plan.plan, turn->args, 0, &turn->ticket));
    ROTA_TRY(rota_wait(turn->ticket, 0));
    decoder->filled++;
    *out_logits = decoder->logits;
    return ROTA_OK;
}
