/* Writing with a GPT. */
#include "examples/gpt/sample.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int likelier_first(const void *a, const void *b) {
    const gpt_candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

int32_t gpt_choose(const gpt_sampling *sampling, const float *logits, uint64_t count, random_state *random,
                   gpt_candidate *scratch) {
    double point = random_uniform(random);
    uint64_t best = 0;
    for (uint64_t i = 0; i < count; i++) {
        scratch[i] = (gpt_candidate){logits[i], (int32_t)i};
        if (logits[i] > logits[best]) best = i;
    }
    if (sampling->temperature == 0) return (int32_t)best;
    const double most = (double)logits[best], temperature = sampling->temperature;
    const bool cut_k = sampling->top_k && sampling->top_k < count;
    if (cut_k || sampling->top_p < 1) qsort(scratch, count, sizeof *scratch, likelier_first);
    if (cut_k) count = sampling->top_k;
    double total = 0, kept = 0;
    for (uint64_t i = 0; i < count; i++) total += exp(((double)scratch[i].logit - most) / temperature);
    if (sampling->top_p < 1) {
        uint64_t n = 0;
        while (n < count && (n == 0 || kept < sampling->top_p * total))
            kept += exp(((double)scratch[n++].logit - most) / temperature);
        count = n;
        total = kept;
    }
    point *= total;
    for (uint64_t i = 0; i + 1 < count; i++) {
        point -= exp(((double)scratch[i].logit - most) / temperature);
        if (point < 0) return scratch[i].token;
    }
    return scratch[count - 1].token;
}

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

rota_status gpt_write(gpt_model *model, const gpt_vocabulary *vocabulary, const int32_t *prompt,
                      size_t prompt_count, uint64_t count, const gpt_sampling *sampling, random_state random,
                      const atomic_bool *stop) {
    const gpt_config *c = &model->config;
    gpt_decoder decoder = {0};
    int32_t *tokens = malloc(c->block * sizeof *tokens);
    const float *logits = NULL;
    gpt_candidate *scratch = malloc(c->vocabulary * sizeof *scratch);
    rota_status status = ROTA_OK;
    if (!tokens || !scratch) status = rota_fail(ROTA_OUT_OF_MEMORY, "no memory for a sample's logits");
    if (status == ROTA_OK) status = gpt_decoder_create(model, &decoder);
    for (size_t i = 0; i < prompt_count && status == ROTA_OK && !*stop; i++)
        status = feed(&decoder, tokens, prompt[i], &logits);
    for (uint64_t i = 0; i < count && status == ROTA_OK && !*stop; i++) {
        int32_t token = gpt_choose(sampling, logits, c->vocabulary, &random, scratch);
        gpt_vocabulary_print(vocabulary, token, stdout);
        fflush(stdout);
        if (i + 1 < count) status = feed(&decoder, tokens, token, &logits);
    }
    putchar('\n');
    gpt_decoder_free(&decoder);
    free(tokens);
    free(scratch);
    return status;
}
