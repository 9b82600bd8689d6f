/* How well a model does on the validation split. */
#ifndef ROTA_EXAMPLES_GPT_EVAL_H
#define ROTA_EXAMPLES_GPT_EVAL_H

#include "examples/gpt/graph.h"
#include "examples/gpt/ranks.h"

/* What both share. Of several ranks each calculates some of the batches, and all get the same number, to the bit. */
typedef struct gpt_evaluation {
    gpt_model *model;
    const gpt_text *text;
    gpt_plan *plan; /* of gpt_plan_loss */
    const gpt_ranks *ranks;
    const atomic_bool *stop; /* set: it ends early */
    bool cut; /* out: some rank's did, and the number is no mean of anything; the same on all */
} gpt_evaluation;

/* Mean over so many random batches of each rank, or of all that have one model together. They come from the seed and
 * step alone, so that measuring more or less often doesn't change the training. */
rota_status gpt_sampled_loss(gpt_evaluation *e, uint64_t seed, uint64_t step, uint64_t batches,
                             double *out_loss);
/* Mean over every token of the validation split that has one before it. */
rota_status gpt_whole_loss(gpt_evaluation *e, double *out_loss);

#endif
