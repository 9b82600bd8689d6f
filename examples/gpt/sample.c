/* Writing with a GPT. */
#include "examples/gpt/sample.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

/* Adds a token to the decoder and to the list of those in its block. */
static rota_status feed(gpt_decoder *decoder, int32_t *tokens, int32_t token, const float **logits) {
    const uint64_t block = decoder->plan.model->config.block;
    if (decoder->filled == block) {
        uint64_t kept = block / 2;
        gpt_decoder_reset(decoder);
        memmove(tokens, tokens + block - kept, kept * sizeof *tokens);
        for (uint64_t i = 0; i < kept; i++) ROTA_TRY(gpt_decoder_step(decoder, tokens[i], logits));
    }
    tokens[decoder->filled] = token;
    return gpt_decoder_step(decoder, token, logits);
}

static rota_status write_by_host(gpt_model *model, const gpt_sampling *sampling, const gpt_writing *w,
                                 uint64_t *out_count) {
    const gpt_config *c = &model->config;
    gpt_decoder decoder = {0};
    random_state random = w->random;
    int32_t *tokens = malloc(c->block * sizeof *tokens);
    const float *logits = NULL;
    rota_status status = ROTA_OK;
    if (!tokens) status = rota_fail(ROTA_OUT_OF_MEMORY, "no memory for %" PRIu64 " tokens", c->block);
    if (status == ROTA_OK) status = gpt_decoder_create(model, &decoder);
    for (uint64_t i = 0; i < w->prompt_count && status == ROTA_OK && !*w->stop; i++)
        status = feed(&decoder, tokens, w->prompt[i], &logits);
    for (uint64_t i = 0; i < w->count && status == ROTA_OK && !*w->stop; i++) {
        const int32_t token = gpt_choose(sampling, logits, c->vocabulary, gpt_choose_point(&random));
        if (token == w->end) break;
        w->write(w->user, token);
        ++*out_count;
        if (i + 1 < w->count) status = feed(&decoder, tokens, token, &logits);
    }
    gpt_decoder_free(&decoder);
    free(tokens);
    return status;
}

rota_status gpt_write_tokens(gpt_model *model, const gpt_sampling *sampling, const gpt_writing *writing,
                             bool host_loop, gpt_written *out) {
    gpt_loop loop;
    *out = (gpt_written){0};
    rota_status status = host_loop ? ROTA_UNSUPPORTED : gpt_loop_create(model, sampling, &loop);
    out->on_device = status == ROTA_OK;
    if (status != ROTA_OK && status != ROTA_UNSUPPORTED) return status;
    const uint64_t began = rota_clock_ns();
    if (out->on_device)
        status = gpt_loop_write(&loop, writing, &out->tokens);
    else
        status = write_by_host(model, sampling, writing, &out->tokens);
    out->seconds = (double)(rota_clock_ns() - began) / 1e9;
    if (out->on_device) gpt_loop_free(&loop);
    return status;
}

static void print(void *user, int32_t token) {
    gpt_vocabulary_print(user, token, stdout);
    fflush(stdout);
}

rota_status gpt_write(gpt_model *model, const gpt_vocabulary *vocabulary, const gpt_sampling *sampling,
                      const gpt_writing *writing, bool host_loop, gpt_written *out) {
    gpt_writing w = *writing;
    w.write = print;
    w.user = (void *)(uintptr_t)vocabulary;
    const rota_status status = gpt_write_tokens(model, sampling, &w, host_loop, out);
    putchar('\n');
    fflush(stdout);
    return status;
}
