/* Choosing among what may follow, and what a loop on the device keeps between tokens. */
#ifndef ROTA_EXAMPLES_GPT_CHOOSE_H
#define ROTA_EXAMPLES_GPT_CHOOSE_H

#include "examples/common/random.h"
#include "examples/gpt/choose_step.h"
#include "rota.h"

typedef struct gpt_sampling {
    double temperature; /* 0: always the likeliest */
    uint64_t top_k;     /* only the likeliest k; 0: all */
    double top_p;       /* only the likeliest that together reach this probability; 1: all */
} gpt_sampling;

/* A number in [0, 1), in 2^-32ths: what a token is chosen by. */
uint32_t gpt_choose_point(random_state *random);
/* A token by its logits [count]: of those that stay, in the order of their numbers, the one within whose share of all
 * that stay the point lies. Shares are whole numbers, so the order in which they are summed doesn't matter, and what
 * a device chooses is what the host does. */
int32_t gpt_choose(const gpt_sampling *sampling, const float *logits, uint64_t count, uint32_t point);

/* Records: a token is chosen by logits [count], by the point of the state's index. */
rota_status gpt_record_choose(rota_recorder *recorder, const gpt_sampling *sampling, rota_buffer *logits,
                              uint64_t count, rota_buffer *points, rota_buffer *state);
/* Records what comes before the first token and after each: given, chosen tokens and control are of `most` tokens. */
rota_status gpt_record_advance(rota_recorder *recorder, bool begins, rota_buffer *control, rota_buffer *given,
                               rota_buffer *state, rota_buffer *chosen);
extern const rota_kernel gpt_choose_kernel, gpt_advance_kernel;

#endif
