/* A GPT as rota graphs: layers of pre-norm causal attention and a four times wider GELU layer, learned
 * positions, the output head tied to the token table, no biases.
 *
 * Training is one graph, compiled once: forward, backward, the gradient's norm and clip factor, and AdamW on
 * every parameter. A step is one replay with another batch and other values for learning rate, step and seed.
 */
#ifndef ROTA_EXAMPLES_GPT_MODEL_H
#define ROTA_EXAMPLES_GPT_MODEL_H

#include "examples/gpt_data.h"
#include "ops/ops.h"
#include "rota.h"

typedef struct gpt_config {
    uint64_t vocabulary, block, layers, heads, dim, batch;
    double dropout, weight_decay, beta1, beta2, grad_clip; /* grad_clip 0: none */
} gpt_config;

/* A parameter and its optimizer state, each a PERSISTENT buffer. */
typedef struct gpt_parameter {
    char name[48];
    uint32_t rank;
    uint64_t shape[2];
    uint64_t count;   /* elements */
    double deviation; /* of the normal distribution it starts with; below 0: it starts at 1 */
    rota_buffer *value, *m, *v;
} gpt_parameter;

#define GPT_LAYER_PARAMETERS 6

typedef struct gpt_model {
    gpt_config config;
    rota_runtime *runtime;
    rota_device *device;
    gpt_parameter *parameters; /* tokens, positions, 6 a layer, last norm */
    uint32_t parameter_count;
    uint64_t weight_count; /* elements of all parameters */
} gpt_model;

/* One compiled graph with its arguments. */
typedef struct gpt_plan {
    rota_graph *graph;
    rota_plan *plan;
    rota_args *args;
    rota_buffer *tokens, *targets, *loss, *norm,
        *logits; /* INPUT, INPUT, OUTPUT ...; NULL where it has none */
    rota_slot lr, step, seed;
    uint64_t rows, length; /* of a batch */
    /* Where the outputs go: they outlive a wait that timed out. */
    float loss_value, norm_value[2];
} gpt_plan;

/* Bytes that training needs on the device, about: parameters, optimizer state, gradients, activations.
 * Infinite where a size overflows. */
double gpt_model_bytes(const gpt_config *config);

/* Makes the parameters' buffers. INVALID_ARGUMENT and OUT_OF_MEMORY with both numbers. */
rota_status gpt_model_create(const gpt_config *config, rota_runtime *runtime, rota_device *device,
                             gpt_model *out);
void gpt_model_free(gpt_model *model);

/* Writes the first values: normal numbers for matrices, ones for norms, zeroes for the optimizer's state. */
rota_status gpt_model_initialize(gpt_model *model, gpt_random *random);

/* The training step. */
rota_status gpt_plan_train(gpt_model *model, gpt_plan *out);
/* Forward only: the mean loss of a batch of rows x length. */
rota_status gpt_plan_loss(gpt_model *model, uint64_t rows, uint64_t length, gpt_plan *out);
/* Forward only: the logits [block, vocabulary] of one row. */
rota_status gpt_plan_logits(gpt_model *model, gpt_plan *out);
void gpt_plan_free(gpt_plan *plan);

/* One replay of the training plan, waited for. */
rota_status gpt_train_step(gpt_plan *plan, const int32_t *tokens, const int32_t *targets, float lr,
                           uint32_t step, uint32_t seed, float *out_loss, float *out_norm);
/* One replay of a loss plan. */
rota_status gpt_loss(gpt_plan *plan, const int32_t *tokens, const int32_t *targets, float *out_loss);
/* One replay of the logits plan; out_logits holds block * vocabulary. */
rota_status gpt_logits(gpt_plan *plan, const int32_t *tokens, float *out_logits);

#endif
