/* PatchTST's work as rota graphs, each compiled once: the training step (forward, backward, Adam), and the
 * errors of a batch of windows. Replays take turns: while one runs, the windows of the next are on their way
 * to the device. */
#ifndef ROTA_EXAMPLES_PATCHTST_GRAPH_H
#define ROTA_EXAMPLES_PATCHTST_GRAPH_H

#include "examples/patchtst/model.h"

#define PATCHTST_TURNS 3

/* The arguments of a replay and where its outputs go: they outlive a wait that timed out. */
typedef struct patchtst_turn {
    rota_args *args;
    rota_buffer *batch; /* on the device */
    float *windows;     /* [batch, channels, look-back + horizon], for the caller to fill */
    float *out;         /* training: the loss; else mean squared and mean absolute errors, each [batch] */
    rota_ticket ticket;
} patchtst_turn;

typedef struct patchtst_plan {
    const patchtst_model *model;
    bool train;
    rota_graph *graph;
    rota_plan *plan;
    patchtst_turn turns[PATCHTST_TURNS];
    rota_buffer *batch, *out; /* SLOT and OUTPUT */
    rota_slot lr, step, seed; /* training */
    uint64_t out_count;       /* elements */
} patchtst_plan;

rota_status patchtst_plan_train(const patchtst_model *model, patchtst_plan *out);
rota_status patchtst_plan_errors(const patchtst_model *model, patchtst_plan *out);
/* Waits for replays in flight. */
void patchtst_plan_free(patchtst_plan *plan);

/* What varies by step, in training. */
typedef struct patchtst_step {
    float lr;
    uint32_t step, seed; /* step from 1 */
} patchtst_step;
/* Sends the turn's windows, whose last ticket was waited for: they go up on the device's transfer queue, past
 * the replay that runs, which reads another turn's. out_ticket, of the write, may be NULL. */
rota_status patchtst_send(patchtst_plan *plan, patchtst_turn *turn, rota_ticket *out_ticket);
/* Submits a replay on the windows that were sent. `step` is NULL where the plan doesn't train. */
rota_status patchtst_submit(patchtst_plan *plan, patchtst_turn *turn, const patchtst_step *step);
/* Waits for it: the turn's `out` holds. */
rota_status patchtst_wait(patchtst_turn *turn);

#endif
