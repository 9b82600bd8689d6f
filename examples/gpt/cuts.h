/* A GPT that several ranks have together (tensor parallelism): each has some of the heads, of the wide layers' columns
 * and of the vocabulary, and norms, positions and the biases of what is added up whole. */
#ifndef ROTA_EXAMPLES_GPT_CUTS_H
#define ROTA_EXAMPLES_GPT_CUTS_H

#include "examples/gpt/graph.h"

/* INVALID_ARGUMENT, with both numbers: heads that the ranks don't divide, fewer classes than ranks. */
rota_status gpt_cuts_check(const gpt_config *config);
/* What of a parameter is this rank's; of a model that each rank has by itself all. */
void gpt_cut_describe(const gpt_model *model, gpt_parameter *p);
/* This rank's elements of a whole parameter, one after the other, and back, between others that stay as they are. */
void gpt_cut_take(const gpt_parameter *p, const float *whole, float *out_own);
void gpt_cut_put(const gpt_parameter *p, const float *own, float *whole);

/* Of the model's heads those that this rank has, and their width together. */
uint64_t gpt_cut_heads(const gpt_model *model);
uint64_t gpt_cut_dim(const gpt_model *model);
/* Of the vocabulary. */
rota_rank_part gpt_cut_vocabulary(const gpt_model *model);

/* Of all gradients, or what lies like them, so that each element of the model is in one rank's: those that all ranks
 * have the first has. Two at most; the count. */
uint32_t gpt_cut_once(const gpt_model *model, const rota_tensor *all, rota_tensor out[2]);

#endif
