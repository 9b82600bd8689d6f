/* One token after the other. */
#include "examples/gpt/decode.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include "cuda/gpt_cache.h"
#include "spv/gpt_cache.h"

/* ---- A kernel of our own: rota has no op that writes to a position which an argument says ---- */

/* Field by field as in gpt_cache.comp and gpt_cache.cu. */
typedef struct cache_params {
    uint32_t heads, block, head_dim;
    uint32_t position;
} cache_params;

/* cache[h][position] = x[h] */
static rota_status cache_cpu(const rota_kernel_call *call) {
    const cache_params *p = call->params;
    const float *x = call->operands[0];
    float *cache = call->operands[1];
    if (p->position >= p->block)
        return rota_fail(ROTA_OUT_OF_RANGE, "place %" PRIu32 " of a cache of %" PRIu32, p->position,
                         p->block);
    for (uint64_t i = call->begin; i < call->end; i++) {
        uint64_t head = i / p->head_dim, d = i % p->head_dim;
        cache[(head * p->block + p->position) * p->head_dim + d] = x[i];
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

static const rota_kernel_bindable cache_bindables[] = {{.name = "position",
                                                        .offset_bytes = offsetof(cache_params, position),
                                                        .size_bytes = 4,
                                                        .varies_by_step = true,
                                                        .type = ROTA_VALUE_U32}};

static const rota_kernel cache_kernel = {
    .name = "cache_write",
    .operand_count = 2,
    .param_bytes = sizeof(cache_params),
    .flags = ROTA_KERNEL_PURE,
    .bindables = cache_bindables,
    .bindable_count = 1,
    .cpu = {.fn = cache_cpu, .items = cache_items},
    .vk = {.words = rota_spv_gpt_cache, .size_bytes = sizeof rota_spv_gpt_cache, .grid = cache_grid},
    .cuda = {ROTA_CUDA_IMAGE_gpt_cache, .entry = "gpt_cache", .grid = cache_grid, .block = {64, 1, 1}},
};

static rota_status write_cache(gpt_recording *r, const gpt_decoder *decoder, rota_tensor x,
                               rota_buffer *cache) {
    const gpt_config *c = &r->plan->model->config;
    const cache_params params = {
        .heads = (uint32_t)c->heads, .block = (uint32_t)c->block, .head_dim = (uint32_t)(c->dim / c->heads)};
    const rota_param_binding binding = {.bindable = 0, .slot = decoder->position};
    /* One token's heads stand side by side in x. */
    const rota_access accesses[] = {{x.buffer, x.offset_bytes, c->dim * 4, ROTA_READ},
                                    {cache, 0, ROTA_WHOLE, ROTA_READWRITE}};
    return rota_record_kernel(rota_tape_recorder(r->tape),
                              &ROTA_KERNEL_NODE(.kernel = &cache_kernel, .accesses = accesses,
                                                .access_count = 2, .params = &params, .bindings = &binding,
                                                .binding_count = 1),
                              NULL);
}

/* ---- The graph ---- */

static rota_status layer(gpt_recording *r, const gpt_decoder *decoder, uint64_t l, rota_tensor mask,
                         rota_tensor *x) {
    const gpt_config *c = &r->plan->model->config;
    const uint64_t head_dim = c->dim / c->heads;
    rota_tensor qkv[3], keys, values, scores, merged, heads;
    ROTA_TRY(gpt_record_qkv(r, l, *x, qkv));
    ROTA_TRY(write_cache(r, decoder, qkv[1], decoder->caches[2 * l]));
    ROTA_TRY(write_cache(r, decoder, qkv[2], decoder->caches[2 * l + 1]));
    ROTA_TRY(rota_tensor_of(decoder->caches[2 * l], 0, ROTA_F32, ROTA_SHAPE(1, c->heads, c->block, head_dim),
                            &keys));
    ROTA_TRY(rota_tensor_of(decoder->caches[2 * l + 1], 0, ROTA_F32,
                            ROTA_SHAPE(1, c->heads, c->block, head_dim), &values));
    ROTA_TRY(rota_op_matmul(r->tape, qkv[0], keys, false, true, &scores));
    ROTA_TRY(rota_op_scale(r->tape, scores, ROTA_PLAIN(1 / sqrt((double)head_dim)), &scores));
    ROTA_TRY(rota_op_add(r->tape, scores, mask, &scores));
    ROTA_TRY(rota_op_softmax(r->tape, scores, &scores));
    ROTA_TRY(gpt_record_merged(r, &merged, &heads));
    ROTA_TRY(rota_op_weighted_matmul_into(r->tape, scores, values, heads));
    return gpt_record_rest(r, l, merged, x);
}

static rota_status record_step(gpt_recording *r) {
    gpt_decoder *decoder = r->user;
    gpt_plan *plan = r->plan;
    const gpt_config *c = &plan->model->config;
    rota_tensor token, here, mask, x, position, logits;
    ROTA_TRY(rota_graph_slot(plan->graph, "position", 4, &decoder->position));
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_INPUT, "token", ROTA_I32, ROTA_SHAPE(1, 1), &token));
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_INPUT, "place", ROTA_I32, ROTA_SHAPE(1, 1), &here));
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_INPUT, "mask", ROTA_F32, ROTA_SHAPE(c->block), &mask));
    plan->tokens = token.buffer;
    decoder->here = here.buffer;
    decoder->mask = mask.buffer;
    ROTA_TRY(rota_op_embedding(r->tape, r->weights[GPT_TOKENS], token, &x));
    ROTA_TRY(rota_op_embedding(r->tape, r->weights[GPT_POSITIONS], here, &position));
    ROTA_TRY(rota_op_add(r->tape, x, position, &x));
    for (uint64_t l = 0; l < c->layers; l++) ROTA_TRY(layer(r, decoder, l, mask, &x));
    ROTA_TRY(gpt_record_head(r, x, r->weights[GPT_TOKENS], &logits));
    return gpt_record_output(r, "logits", logits, &plan->logits);
}

static rota_status make_caches(gpt_model *model, gpt_decoder *out) {
    const gpt_config *c = &model->config;
    const uint64_t bytes = c->block * c->dim * 4;
    float *zeroes = calloc(1, bytes);
    out->caches = calloc(2 * c->layers, sizeof(rota_buffer *));
    rota_status status = ROTA_OK;
    if (!zeroes || !out->caches)
        status = rota_fail(ROTA_OUT_OF_MEMORY, "no memory for %" PRIu64 " layers' caches", c->layers);
    /* What a mask hides is multiplied by zero: it must be finite. */
    for (uint64_t i = 0; i < 2 * c->layers && status == ROTA_OK; i++) {
        out->cache_count = i + 1;
        status = rota_buffer_create_in(model->runtime, i % 2 ? "values" : "keys", bytes, &out->caches[i]);
        if (status == ROTA_OK)
            status = rota_buffer_write(out->caches[i], model->device, 0, zeroes, bytes, NULL);
    }
    free(zeroes);
    return status;
}

rota_status gpt_decoder_create(gpt_model *model, gpt_decoder *out) {
    const gpt_config *c = &model->config;
    *out = (gpt_decoder){.plan = {.model = model, .rows = 1, .length = 1, .micro_batches = 1}};
    out->mask_values = malloc(c->block * sizeof *out->mask_values);
    out->logits = malloc(c->vocabulary * sizeof *out->logits);
    rota_status status = out->mask_values && out->logits
                             ? make_caches(model, out)
                             : rota_fail(ROTA_OUT_OF_MEMORY, "no memory for logits");
    if (status == ROTA_OK)
        status = gpt_plan_make(
            model, &(gpt_plan_options){.name = "decode", .record = record_step, .user = out}, &out->plan);
    rota_args *args = out->plan.turns[0].args;
    if (status == ROTA_OK) status = rota_args_set_input(args, out->plan.tokens, &out->token, 4, true);
    if (status == ROTA_OK) status = rota_args_set_input(args, out->here, &out->position_row, 4, true);
    if (status == ROTA_OK)
        status = rota_args_set_input(args, out->mask, out->mask_values, c->block * 4, true);
    if (status == ROTA_OK)
        status = rota_args_set_output(args, out->plan.logits, out->logits, c->vocabulary * 4);
    if (status != ROTA_OK)
        gpt_decoder_free(out);
    else
        gpt_decoder_reset(out);
    return status;
}

void gpt_decoder_free(gpt_decoder *decoder) {
    for (uint64_t i = 0; i < decoder->cache_count; i++) rota_buffer_release(decoder->caches[i]);
    free(decoder->caches);
    free(decoder->mask_values);
    if (gpt_turn_over(&decoder->plan.turns[0])) free(decoder->logits);
    gpt_plan_free(&decoder->plan);
    *decoder = (gpt_decoder){0};
}

void gpt_decoder_reset(gpt_decoder *decoder) {
    decoder->filled = 0;
    for (uint64_t i = 0; i < decoder->plan.model->config.block; i++) decoder->mask_values[i] = -INFINITY;
}

rota_status gpt_decoder_step(gpt_decoder *decoder, int32_t token, const float **out_logits) {
    gpt_turn *turn = &decoder->plan.turns[0];
    if (decoder->filled >= decoder->plan.model->config.block)
        return rota_fail(ROTA_WRONG_STATE, "all %" PRIu64 " places of the model's block are taken",
                         decoder->filled);
    decoder->token = token;
    decoder->position_row = (int32_t)decoder->filled;
    decoder->mask_values[decoder->filled] = 0;
    ROTA_TRY(rota_args_set_u32(turn->args, decoder->position, (uint32_t)decoder->filled));
    ROTA_TRY(rota_submit_wait(decoder->plan.plan, turn->args, 0, &turn->ticket));
    ROTA_TRY(rota_wait(turn->ticket, 0));
    decoder->filled++;
    *out_logits = decoder->logits;
    return ROTA_OK;
}
