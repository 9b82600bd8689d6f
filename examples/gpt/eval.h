/* How well a model does on the validation split. */
#ifndef ROTA_EXAMPLES_GPT_EVAL_H
#define ROTA_EXAMPLES_GPT_EVAL_H

#include <signal.h>
#include "examples/gpt/graph.h"

/* Mean over random batches. They come from the seed and step alone, so that measuring more or less often
 * doesn't change the training. Where *stop is set it ends early, and the number is no mean of anything. */
rota_status gpt_sampled_loss(const gpt_text *text, gpt_plan *plan, uint64_t seed, uint64_t step,
                             uint64_t batches, const volatile sig_atomic_t *stop, double *out_loss);
/* Mean over every token of the validation split that has one before it. */
rota_status gpt_whole_loss(gpt_model *model, const gpt_text *text, gpt_plan *plan,
                           const volatile sig_atomic_t *stop, double *out_loss);

#endif
