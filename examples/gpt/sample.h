/* Writing with a GPT: choosing among what may follow, token after token. */
#ifndef ROTA_EXAMPLES_GPT_SAMPLE_H
#define ROTA_EXAMPLES_GPT_SAMPLE_H

#include <stdatomic.h>
#include "examples/gpt/decode.h"

typedef struct gpt_sampling {
    double temperature; /* 0: always the likeliest */
    uint64_t top_k;     /* only the likeliest k; 0: all */
    double top_p;       /* only the likeliest that together reach this probability; 1: all */
} gpt_sampling;

/* A token by its logits [count]. scratch holds `count`. The generator steps once. */
typedef struct gpt_candidate {
    float logit;
    int32_t token;
} gpt_candidate;
int32_t gpt_choose(const gpt_sampling *sampling, const float *logits, uint64_t count, random_state *random,
                   gpt_candidate *scratch);

/* Prints `count` tokens that follow the prompt (at least one token). Where the model's block is full, the
 * older half is forgotten. Ends early where *stop is set. */
rota_status gpt_write(gpt_model *model, const gpt_vocabulary *vocabulary, const int32_t *prompt,
                      size_t prompt_count, uint64_t count, const gpt_sampling *sampling, random_state random,
                      const atomic_bool *stop);

#endif
