/* A model's weights in the files of the Hugging Face GPT-2: safetensors, names as
 * "transformer.h.0.attn.c_attn.weight", also without "transformer."; the head is the token table. */
#ifndef ROTA_EXAMPLES_GPT_WEIGHTS_H
#define ROTA_EXAMPLES_GPT_WEIGHTS_H

#include "examples/gpt/model.h"

/* The tensor of a checkpoint that is no parameter's. */
#define GPT_LOSS_SCALE "loss_scale"

/* Reads them into the model's buffers, from f32, f16 or bf16. A position table longer than the model's block
 * is cut. False with one sentence, and nothing changed: unreadable, truncated, or of another model (the first
 * five names that differ). Checkpoints of train_gpt can be read too. */
bool gpt_weights_load(const char *path, gpt_model *model);
/* Writes them as dtype, under a temporary name, renamed. False with one sentence; an older file stays. Other ranks
 * follow, by gpt_model_follow of the values. */
bool gpt_weights_save(const char *path, const gpt_model *model, rota_dtype dtype);

/* How the tensors of a file differ from those that a model, or its checkpoint, has. */
typedef struct gpt_differences {
    char text[640]; /* sentences of the first five */
    size_t length;
    uint32_t count;
} gpt_differences;
void gpt_differs(gpt_differences *differences, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* False, and a line on stderr, where there are some. */
bool gpt_differences_none(const gpt_differences *differences, const char *path);

#endif
