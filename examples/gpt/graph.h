/* A GPT's work as rota graphs, each compiled once.
 *
 * Training is one graph: forward and backward for each micro-batch, the gradient's norm and clip factor, and
 * AdamW, one node for all that decays and one for the rest. With f16 or bf16, activations, products and
 * gradients are of that dtype (each product summed in f32 and rounded once; gradients of several
 * micro-batches are added up in f32), statistics and losses f32; AdamW writes the f32 values and their 16-bit
 * copies. f16 scales the loss as the gradients bear it. A step is one replay with another batch and other
 * values for learning rate, step and seed. Steps take turns: while one runs, the batch of the next is on its
 * way to the device.
 *
 * Of several ranks (gpt_model.communicator) each has its rows of a step's batch. Gradients become the means of all
 * ranks' while the backward pass goes on, those of 16 bits that are added up in f32 behind it; then the losses, and
 * whether somebody asks for an end, go round. All that follows is the same on each rank. With gpt_model.groups
 * weights are gathered for each layer's ops, and gradients are shards. With gpt_model.one_model those ranks have the
 * same rows, and each its heads, columns and classes (cuts.h). */
#ifndef ROTA_EXAMPLES_GPT_GRAPH_H
#define ROTA_EXAMPLES_GPT_GRAPH_H

#include "examples/gpt/model.h"

#define GPT_TURNS 2

/* The arguments of a replay and where its outputs go: they outlive a wait that timed out. */
typedef struct gpt_turn {
    rota_args *args;
    rota_buffer *batch;        /* training: tokens and targets on the device */
    int32_t *tokens, *targets; /* training: `rows` * `length` of each, for the caller to fill */
    float *losses;  /* one a micro-batch; of several ranks: their means, and how many ask for an end */
    float asks_end; /* of several ranks: whether this one does, 1 or 0 */
    float norm[2];
    uint32_t *found; /* --find-nan: for each tensor watched, how many elements aren't finite and the first */
    rota_ticket ticket;
} gpt_turn;

typedef struct gpt_plan {
    gpt_model *model;
    rota_graph *graph;
    rota_plan *plan;
    gpt_turn turns[GPT_TURNS]; /* only training takes turns; others have the first */
    rota_buffer *batch;        /* SLOT, training */
    rota_buffer *tokens, *targets, *losses, *norm, *logits, *found,
        *asks_end; /* INPUT and OUTPUT; NULL where it has none */
    rota_slot lr, step, seed;
    uint64_t rows, length; /* of a batch, all micro-batches */
    uint64_t micro_batches;
    /* --find-nan: names of the tensors watched, in the order of the graph. */
    char (*watched)[64];
    uint32_t watched_count;
} gpt_plan;

/* The training step. find_nan: watch every tensor that is made. */
rota_status gpt_plan_train(gpt_model *model, bool find_nan, gpt_plan *out);
/* Forward only: the mean loss of a batch of rows x length, in the model's dtype. beside: a plan that doesn't
 * run at the same time, whose transient memory it uses, too; may be NULL. */
rota_status gpt_plan_loss(gpt_model *model, uint64_t rows, uint64_t length, const gpt_plan *beside,
                          gpt_plan *out);
/* Forward only: the logits [length, vocabulary] of one row, in f32 from the f32 values. */
rota_status gpt_plan_logits(gpt_model *model, uint64_t length, gpt_plan *out);
/* Waits for replays in flight. */
void gpt_plan_free(gpt_plan *plan);
/* Waits for the turn's replay, if there was one; false: it didn't end, and may still write its outputs. */
bool gpt_turn_over(const gpt_turn *turn);

/* Sends the turn's batch to the device. The turn's last ticket was waited for. out_ticket may be NULL. */
rota_status gpt_train_send(gpt_plan *plan, gpt_turn *turn, rota_ticket *out_ticket);
/* Submits a step on it. */
rota_status gpt_train_submit(gpt_plan *plan, gpt_turn *turn, float lr, uint32_t step, uint32_t seed);
/* Waits for it. Of several ranks the loss is that of all, and so is the norm, to the bit the same on each. */
rota_status gpt_train_wait(gpt_plan *plan, gpt_turn *turn, float *out_loss, float *out_norm);
/* Of several ranks: whether any asked for an end when it submitted the step. The same on each. */
bool gpt_train_ends(const gpt_plan *plan, const gpt_turn *turn);
/* The first tensor of the turn's replay that had an element that isn't finite, in the order of the graph,
 * into text; false: all were finite, or nothing was watched. */
bool gpt_train_find_nan(const gpt_plan *plan, const gpt_turn *turn, char *text, size_t capacity);

/* One replay of a loss plan, waited for. */
rota_status gpt_loss(gpt_plan *plan, const int32_t *tokens, const int32_t *targets, float *out_loss);
/* One replay of a logits plan; out_logits holds length * vocabulary. */
rota_status gpt_logits(gpt_plan *plan, const int32_t *tokens, float *out_logits);

/* ---- For graphs of the same model elsewhere (decode.c) ---- */

/* What recording one graph needs at hand. */
typedef struct gpt_recording {
    gpt_plan *plan;
    rota_recorder *recorder;
    rota_tape *tape;
    rota_tensor
        *weights; /* of the dtype, by index; none where the arch has no such parameter, or none was fetched */
    rota_tensor table; /* the token table with all of its rows in memory: logits then have so many columns */
    rota_dtype dtype;  /* of weights and activations */
    uint64_t rows;     /* of a micro-batch */
    bool dropout, find_nan;
    /* A product and what follows it are one node: where a library has both, and nobody asks for what is
     * between; elsewhere fusion makes more of separate nodes. */
    bool one_node;
    rota_tensor *found; /* --find-nan: counts of the tensors watched so far */
    char part[48];      /* of the model, for names */
    void *user;         /* of gpt_plan_options */
} gpt_recording;

typedef struct gpt_plan_options {
    const char *name;
    bool train, find_nan;
    rota_dtype dtype; /* f32, or the model's */
    rota_status (*record)(gpt_recording *r);
    void *user;
    const gpt_plan *beside; /* its transient memory is used, too; or NULL */
} gpt_plan_options;
/* Records into a new graph and compiles it for the model's device. The plan's rows, length and micro_batches
 * are set. */
rota_status gpt_plan_make(gpt_model *model, const gpt_plan_options *options, gpt_plan *out);
/* What a layer does before and after its attention: q, k and v [rows, heads, length, head dim] of the
 * residual stream x, and what becomes of the attention's result, whose heads stand side by side. */
rota_status gpt_record_qkv(gpt_recording *r, uint64_t layer, rota_tensor x, rota_tensor qkv[3]);
rota_status gpt_record_rest(gpt_recording *r, uint64_t layer, rota_tensor merged, rota_tensor *x);
/* The last norm and the head: logits for each row of `table`. */
rota_status gpt_record_head(gpt_recording *r, rota_tensor x, rota_tensor table, rota_tensor *out_logits);
/* What is recorded next belongs to this part. */
rota_status gpt_record_part(gpt_recording *r, const char *part);
/* --find-nan: x is watched under this name. */
rota_status gpt_record_watch(gpt_recording *r, const char *what, rota_tensor x);
rota_status gpt_record_output(gpt_recording *r, const char *name, rota_tensor x, rota_buffer **out_buffer);
/* A tensor that holds heads side by side, [rows, length, dim], and the view [rows, heads, length, head dim].
 */
rota_status gpt_record_merged(gpt_recording *r, rota_tensor *out_merged, rota_tensor *out_heads);

#endif
