/* A GPT's work as rota graphs: recording and compiling. */
#include "examples/gpt/graph.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "examples/gpt/cuts.h"
#include "examples/gpt/groups.h"
#include "examples/gpt/optimizer.h"

#define NORM_EPS 1e-5f

/* Names what is recorded next. */
rota_status gpt_record_part(gpt_recording *r, const char *part) {
    snprintf(r->part, sizeof r->part, "%s", part);
    return rota_tape_name(r->tape, part);
}

rota_status gpt_record_watch(gpt_recording *r, const char *what, rota_tensor x) {
    if (!r->find_nan) return ROTA_OK;
    gpt_plan *plan = r->plan;
    uint32_t count = plan->watched_count + 1;
    void *names = realloc(plan->watched, count * sizeof *plan->watched);
    if (names) plan->watched = names;
    rota_tensor *found = names ? realloc(r->found, count * sizeof *found) : NULL;
    if (!found) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory to watch %" PRIu32 " tensors", count);
    r->found = found;
    snprintf(plan->watched[count - 1], sizeof *plan->watched, "%s: %s", r->part, what);
    plan->watched_count = count;
    ROTA_TRY(rota_tape_name(r->tape, plan->watched[count - 1]));
    ROTA_TRY(rota_op_check_finite(r->tape, x, &found[count - 1]));
    return rota_tape_name(r->tape, r->part);
}

static rota_status drop(gpt_recording *r, rota_tensor *x) {
    if (!r->dropout) return ROTA_OK;
    return rota_op_dropout(r->tape, *x, (float)r->plan->model->config.dropout, ROTA_SLOT(r->plan->seed),
                           ROTA_SLOT(r->plan->step), x);
}

/* Whether dropout of attention's probabilities is part of one kernel with it: of 16-bit floats on CUDA devices, where
 * that is faster than products with the probabilities in memory, and on Vulkan ones that launch the same kernels, which
 * they do with heads of at most 64 columns; not where ranks have some heads each. */
static bool drops_fused(const gpt_recording *r) {
    const gpt_model *model = r->plan->model;
    const rota_device_info *info = rota_device_get_info(model->device);
    const bool has_kernels = info->kind == ROTA_EXEC_CUDA || (info->features & ROTA_FEATURE_CUDA_IMAGES &&
                                                              model->config.dim / model->config.heads <= 64);
    return has_kernels && r->dtype != ROTA_F32 && !model->one_model;
}

/* Of [rows * heads, length, length], where ranks have some heads each: what one with all heads would drop of them. */
static rota_status drop_of_heads(gpt_recording *r, rota_tensor *scores) {
    const gpt_model *model = r->plan->model;
    const uint64_t heads = gpt_cut_heads(model), length = r->plan->length;
    if (!model->one_model) return drop(r, scores);
    ROTA_TRY(rota_tensor_reshape(scores, ROTA_SHAPE(r->rows, heads, length, length), scores));
    ROTA_TRY(rota_op_dropout_of_part(
        r->tape, *scores, 1, rota_communicator_part(model->one_model, model->config.heads),
        (float)model->config.dropout, ROTA_SLOT(r->plan->seed), ROTA_SLOT(r->plan->step), scores));
    return rota_tensor_reshape(scores, ROTA_SHAPE(r->rows * heads, length, length), scores);
}

/* y = x weight + bias; columns [first, first + count) of the weight of a parameter, and of its bias, if there is
 * one, at the next. */
static rota_status linear_columns(gpt_recording *r, const char *what, rota_tensor x, uint32_t parameter,
                                  uint64_t first, uint64_t count, rota_tensor *out_y) {
    rota_tensor weight, bias = r->weights[parameter + 1];
    ROTA_TRY(rota_tensor_slice(&r->weights[parameter], 1, first, count, &weight));
    if (bias.buffer) ROTA_TRY(rota_tensor_slice(&bias, 0, first, count, &bias));
    if (r->one_node) {
        ROTA_TRY(rota_op_linear(r->tape, x, weight, &ROTA_LINEAR(.bias = bias), out_y));
    } else {
        ROTA_TRY(rota_op_matmul(r->tape, x, weight, false, false, out_y));
        if (bias.buffer) ROTA_TRY(rota_op_add(r->tape, *out_y, bias, out_y));
    }
    return gpt_record_watch(r, what, *out_y);
}

static rota_status linear(gpt_recording *r, const char *what, rota_tensor x, uint32_t parameter,
                          rota_tensor *out_y) {
    return linear_columns(r, what, x, parameter, 0, r->weights[parameter].shape[1], out_y);
}

static rota_status linear_gelu(gpt_recording *r, rota_tensor x, uint32_t parameter, rota_tensor *out_y) {
    if (r->one_node) {
        const rota_linear options =
            ROTA_LINEAR(.bias = r->weights[parameter + 1], .activation = ROTA_ACTIVATION_GELU);
        ROTA_TRY(rota_op_linear(r->tape, x, r->weights[parameter], &options, out_y));
    } else {
        ROTA_TRY(linear(r, "widened", x, parameter, out_y));
        ROTA_TRY(rota_op_gelu(r->tape, *out_y, out_y));
    }
    return gpt_record_watch(r, "gelu", *out_y);
}

/* Of a row that ranks have together each has a part: their products are added up, and the bias once. */
static rota_status linear_row(gpt_recording *r, const char *what, rota_tensor x, uint32_t parameter,
                              rota_tensor *out_y) {
    const rota_linear options = ROTA_LINEAR(.bias = r->weights[parameter + 1]);
    ROTA_TRY(
        rota_op_linear_row(r->tape, r->plan->model->one_model, x, r->weights[parameter], &options, out_y));
    return gpt_record_watch(r, what, *out_y);
}

/* x += dropout(y weight + bias) */
static rota_status add_linear(gpt_recording *r, const char *what, rota_tensor y, uint32_t parameter,
                              rota_tensor *x) {
    if (r->plan->model->one_model) {
        ROTA_TRY(linear_row(r, what, y, parameter, &y));
        ROTA_TRY(drop(r, &y));
        ROTA_TRY(rota_op_add(r->tape, *x, y, x));
    } else if (r->one_node && !r->dropout) {
        const rota_linear options = ROTA_LINEAR(.bias = r->weights[parameter + 1], .residual = *x);
        ROTA_TRY(rota_op_linear(r->tape, y, r->weights[parameter], &options, x));
    } else {
        ROTA_TRY(linear(r, what, y, parameter, &y));
        ROTA_TRY(drop(r, &y));
        ROTA_TRY(rota_op_add(r->tape, *x, y, x));
    }
    return gpt_record_watch(r, "residual", *x);
}

/* Of what all ranks have; what follows are products with what each has a part of. */
static rota_status norm(gpt_recording *r, rota_tensor x, uint32_t parameter, rota_tensor *out_y) {
    ROTA_TRY(
        rota_op_layernorm(r->tape, x, r->weights[parameter], r->weights[parameter + 1], NORM_EPS, out_y));
    ROTA_TRY(gpt_record_watch(r, "norm", *out_y));
    if (!r->plan->model->one_model) return ROTA_OK;
    return rota_op_copy_to_ranks_into(r->tape, r->plan->model->one_model, *out_y, *out_y);
}

/* ---- Forward ---- */

/* [rows, length, dim] as [rows, heads, length, head dim]. */
static rota_status head_view(const gpt_recording *r, const rota_tensor *x, rota_tensor *out) {
    const uint64_t heads = gpt_cut_heads(r->plan->model), dim = gpt_cut_dim(r->plan->model);
    ROTA_TRY(rota_tensor_reshape(x, ROTA_SHAPE(r->rows, r->plan->length, heads, dim / heads), out));
    return rota_tensor_transpose(out, 1, 2, out);
}

rota_status gpt_record_qkv(gpt_recording *r, uint64_t layer, rota_tensor x, rota_tensor qkv[3]) {
    const uint64_t dim = gpt_cut_dim(r->plan->model);
    static const char *const what[] = {"queries", "keys", "values"};
    rota_tensor h;
    char name[48];
    snprintf(name, sizeof name, "layer %" PRIu64 " attention", layer);
    ROTA_TRY(gpt_record_part(r, name));
    ROTA_TRY(norm(r, x, gpt_parameter_index(layer, GPT_NORM1), &h));
    if (r->dropout &&
        !drops_fused(r)) { /* gradients of what attend_dropping reads are added to slices one by one */
        for (uint64_t i = 0; i < 3; i++) {
            ROTA_TRY(
                linear_columns(r, what[i], h, gpt_parameter_index(layer, GPT_QKV), i * dim, dim, &qkv[i]));
            ROTA_TRY(head_view(r, &qkv[i], &qkv[i]));
        }
        return ROTA_OK;
    }
    ROTA_TRY(linear(r, "queries, keys and values", h, gpt_parameter_index(layer, GPT_QKV), &h));
    for (uint64_t i = 0; i < 3; i++) {
        ROTA_TRY(rota_tensor_slice(&h, 2, i * dim, dim, &qkv[i]));
        ROTA_TRY(head_view(r, &qkv[i], &qkv[i]));
    }
    return ROTA_OK;
}

rota_status gpt_record_merged(gpt_recording *r, rota_tensor *out_merged, rota_tensor *out_heads) {
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_TRANSIENT, NULL, r->dtype,
                              ROTA_SHAPE(r->rows, r->plan->length, gpt_cut_dim(r->plan->model)), out_merged));
    return head_view(r, out_merged, out_heads);
}

rota_status gpt_record_rest(gpt_recording *r, uint64_t layer, rota_tensor merged, rota_tensor *x) {
    rota_tensor h;
    char name[48];
    snprintf(name, sizeof name, "layer %" PRIu64 " attention", layer);
    ROTA_TRY(gpt_record_part(r, name));
    ROTA_TRY(gpt_record_watch(r, "mixed values", merged));
    ROTA_TRY(add_linear(r, "projection", merged, gpt_parameter_index(layer, GPT_PROJECT), x));
    snprintf(name, sizeof name, "layer %" PRIu64 " wide", layer);
    ROTA_TRY(gpt_record_part(r, name));
    ROTA_TRY(norm(r, *x, gpt_parameter_index(layer, GPT_NORM2), &h));
    ROTA_TRY(linear_gelu(r, h, gpt_parameter_index(layer, GPT_WIDEN), &h));
    return add_linear(r, "narrowed", h, gpt_parameter_index(layer, GPT_NARROW), x);
}

rota_status gpt_record_head(gpt_recording *r, rota_tensor x, rota_tensor table, rota_tensor *out_logits) {
    ROTA_TRY(gpt_record_part(r, "head"));
    ROTA_TRY(norm(r, x, GPT_LAST_NORM(r->plan->model->config.layers), &x));
    ROTA_TRY(rota_op_matmul(r->tape, x, table, false, true, out_logits));
    return gpt_record_watch(r, "logits", *out_logits);
}

/* softmax(q k^T) v with dropout of the probabilities, which then are in memory; each head's as one of a batch
 * along one axis. */
static rota_status attend_dropping(gpt_recording *r, const rota_tensor qkv[3], rota_tensor heads) {
    const uint64_t heads_here = gpt_cut_heads(r->plan->model), length = r->plan->length;
    const uint64_t head_dim = gpt_cut_dim(r->plan->model) / heads_here;
    rota_tensor x[3], scores, y;
    for (int i = 0; i < 3; i++) {
        if (i == 0)
            ROTA_TRY(rota_op_scale(r->tape, qkv[i], ROTA_PLAIN(1 / sqrt((double)head_dim)), &x[i]));
        else
            ROTA_TRY(rota_op_contiguous(r->tape, qkv[i], &x[i]));
        ROTA_TRY(rota_tensor_reshape(&x[i], ROTA_SHAPE(r->rows * heads_here, length, head_dim), &x[i]));
    }
    ROTA_TRY(rota_op_matmul(r->tape, x[0], x[1], false, true, &scores));
    ROTA_TRY(rota_op_causal_mask(r->tape, scores, &scores));
    ROTA_TRY(rota_op_softmax(r->tape, scores, &scores));
    ROTA_TRY(drop_of_heads(r, &scores));
    ROTA_TRY(rota_op_matmul(r->tape, scores, x[2], false, false, &y));
    ROTA_TRY(rota_tensor_reshape(&y, ROTA_SHAPE(r->rows, heads_here, length, head_dim), &y));
    return rota_op_copy_into(r->tape, y, heads);
}

static rota_status attend(gpt_recording *r, const rota_tensor qkv[3], rota_tensor heads) {
    if (!r->dropout) return rota_op_attention_into(r->tape, qkv[0], qkv[1], qkv[2], true, 0, heads);
    if (!drops_fused(r)) return attend_dropping(r, qkv, heads);
    return rota_op_attention_dropout_into(r->tape, qkv[0], qkv[1], qkv[2], true, 0,
                                          (float)r->plan->model->config.dropout, ROTA_SLOT(r->plan->seed),
                                          ROTA_SLOT(r->plan->step), heads);
}

static rota_status embed(gpt_recording *r, rota_tensor tokens, rota_tensor *out_x) {
    const gpt_model *model = r->plan->model;
    if (!model->one_model) return rota_op_embedding(r->tape, r->weights[GPT_TOKENS], tokens, out_x);
    return rota_op_embedding_of_ranks(r->tape, model->one_model, r->weights[GPT_TOKENS], tokens,
                                      gpt_cut_vocabulary(model), out_x);
}

/* From token numbers to logits [rows, length, vocabulary], or `with_room` [rows, length, rows of table]. */
static rota_status forward(gpt_recording *r, rota_tensor tokens, bool with_room, rota_tensor *out_logits) {
    rota_tensor x, positions, qkv[3], merged, heads;
    /* What is gathered comes beside the ops before it. */
    ROTA_TRY(gpt_groups_fetch(r, GPT_GROUP_ENDS));
    ROTA_TRY(gpt_groups_fetch(r, 1));
    ROTA_TRY(gpt_record_part(r, "embedding"));
    ROTA_TRY(embed(r, tokens, &x));
    ROTA_TRY(gpt_record_watch(r, "tokens", x));
    ROTA_TRY(rota_tensor_slice(&r->weights[GPT_POSITIONS], 0, 0, r->plan->length, &positions));
    ROTA_TRY(rota_op_add(r->tape, x, positions, &x));
    ROTA_TRY(gpt_record_watch(r, "tokens and positions", x));
    ROTA_TRY(drop(r, &x));
    const uint32_t layers = (uint32_t)r->plan->model->config.layers;
    for (uint32_t l = 0; l < layers; l++) {
        ROTA_TRY(gpt_groups_fetch(r, l + 1 < layers ? l + 2 : GPT_GROUP_ENDS));
        ROTA_TRY(gpt_record_qkv(r, l, x, qkv));
        /* Written so that the heads stand side by side again. */
        ROTA_TRY(gpt_record_merged(r, &merged, &heads));
        ROTA_TRY(attend(r, qkv, heads));
        ROTA_TRY(gpt_record_rest(r, l, merged, &x));
    }
    return gpt_record_head(r, x, with_room ? r->table : r->weights[GPT_TOKENS], out_logits);
}

static rota_status forward_loss(gpt_recording *r, rota_tensor tokens, rota_tensor targets,
                                rota_tensor *out_loss) {
    rota_tensor logits;
    const gpt_model *model = r->plan->model;
    rota_classifier options = ROTA_CLASSIFIER(.ignored = ROTA_IGNORED_LABEL, .in_place = true);
    ROTA_TRY(forward(r, tokens, true, &logits));
    if (model->one_model) {
        ROTA_TRY(rota_op_classifier_of_ranks(r->tape, model->one_model, logits, targets,
                                             gpt_cut_vocabulary(model), &options, out_loss));
        return gpt_record_watch(r, "loss", *out_loss);
    }
    options.classes = model->config.vocabulary;
    ROTA_TRY(rota_op_classifier(r->tape, logits, targets, &options, out_loss));
    return gpt_record_watch(r, "loss", *out_loss);
}

rota_status gpt_record_output(gpt_recording *r, const char *name, rota_tensor x, rota_buffer **out_buffer) {
    rota_tensor y;
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_OUTPUT, name, x.dtype, x.rank, x.shape, &y));
    *out_buffer = y.buffer;
    return rota_op_copy_into(r->tape, x, y);
}

static rota_status input_tokens(gpt_recording *r, const char *name, rota_buffer **out_buffer,
                                rota_tensor *out) {
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_INPUT, name, ROTA_I32,
                              ROTA_SHAPE(r->rows, r->plan->length), out));
    *out_buffer = out->buffer;
    return ROTA_OK;
}

static rota_status record_loss(gpt_recording *r) {
    rota_tensor tokens, targets, loss;
    ROTA_TRY(input_tokens(r, "tokens", &r->plan->tokens, &tokens));
    ROTA_TRY(input_tokens(r, "targets", &r->plan->targets, &targets));
    ROTA_TRY(forward_loss(r, tokens, targets, &loss));
    return gpt_record_output(r, "loss", loss, &r->plan->losses);
}

static rota_status record_logits(gpt_recording *r) {
    rota_tensor tokens, logits;
    ROTA_TRY(input_tokens(r, "tokens", &r->plan->tokens, &tokens));
    ROTA_TRY(forward(r, tokens, false, &logits));
    return gpt_record_output(r, "logits", logits, &r->plan->logits);
}

/* ---- Training ---- */

/* As soon as all are there: it takes its time beside the backward pass, and no gradients' collective waits for it. */
static rota_status share_losses(gpt_recording *r, rota_tensor losses) {
    rota_communicator *all = r->plan->model->communicator;
    if (!all) return ROTA_OK;
    ROTA_TRY(gpt_record_part(r, "losses of all ranks"));
    return rota_op_all_reduce_into(r->tape, all, losses, ROTA_COLLECTIVE_MEAN, losses);
}

/* Micro-batch after micro-batch. The losses go out one by one; what is differentiated is the mean, times the
 * loss scale where there is one. */
static rota_status record_backward(gpt_recording *r, gpt_gradients *g, rota_tensor losses) {
    gpt_plan *plan = r->plan;
    const uint64_t tokens = r->rows * plan->length, all = tokens * plan->micro_batches;
    for (uint64_t b = 0; b < plan->micro_batches; b++) {
        rota_tensor input, targets, loss, mine;
        ROTA_TRY(
            rota_tensor_of(plan->batch, b * tokens * 4, ROTA_I32, ROTA_SHAPE(r->rows, plan->length), &input));
        ROTA_TRY(rota_tensor_of(plan->batch, (all + b * tokens) * 4, ROTA_I32,
                                ROTA_SHAPE(r->rows, plan->length), &targets));
        ROTA_TRY(forward_loss(r, input, targets, &loss));
        ROTA_TRY(rota_tensor_slice(&losses, 0, b, 1, &mine));
        ROTA_TRY(rota_op_copy_into(r->tape, loss, mine));
        if (plan->micro_batches > 1)
            ROTA_TRY(rota_op_scale(r->tape, loss, ROTA_PLAIN(1 / (double)plan->micro_batches), &loss));
        if (b + 1 == plan->micro_batches) ROTA_TRY(share_losses(r, losses));
        ROTA_TRY(gpt_scale_loss(r, &loss));
        ROTA_TRY(gpt_record_part(r, "backward"));
        const rota_data_parallel parallel = ROTA_DATA_PARALLEL(.communicator = plan->model->one_part,
                                                               .bucket_bytes = plan->model->bucket_bytes);
        const bool reduces =
            parallel.communicator && !plan->model->groups && !g->sum.buffer && b + 1 == plan->micro_batches;
        ROTA_TRY(rota_backward(r->tape, loss, g->params, g->count, g->each,
                               &ROTA_BACKWARD_OPTIONS(.accumulate = b > 0 && r->dtype == ROTA_F32,
                                                      .data_parallel = reduces ? &parallel : NULL)));
        ROTA_TRY(gpt_gradients_gather(r, g, b));
    }
    if (gpt_groups_add_whole(r)) return gpt_gradients_reduce(r, g);
    rota_communicator *reduced_by = plan->model->one_part;
    if (rota_communicator_size(reduced_by) < 2 || plan->model->groups || !g->sum.buffer) return ROTA_OK;
    return rota_op_all_reduce_into(r->tape, reduced_by, g->sum, ROTA_COLLECTIVE_MEAN, g->sum);
}

/* Where losses are put; of several ranks before they go out, behind them whether this rank asks for an end. */
static rota_status make_losses(gpt_recording *r, rota_tensor *out_losses) {
    gpt_plan *plan = r->plan;
    rota_tensor asks, last;
    if (!plan->model->communicator) {
        ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_OUTPUT, "losses", ROTA_F32,
                                  ROTA_SHAPE(plan->micro_batches), out_losses));
        plan->losses = out_losses->buffer;
        return ROTA_OK;
    }
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_TRANSIENT, "losses of all", ROTA_F32,
                              ROTA_SHAPE(plan->micro_batches + 1), out_losses));
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_INPUT, "asks for an end", ROTA_F32, ROTA_SHAPE(1), &asks));
    plan->asks_end = asks.buffer;
    ROTA_TRY(rota_tensor_slice(out_losses, 0, plan->micro_batches, 1, &last));
    return rota_op_copy_into(r->tape, asks, last);
}

/* Behind the gradients: on a queue in order what is recorded behind a copy of the losses waits for all ranks, too. */
static rota_status send_losses(gpt_recording *r, rota_tensor losses) {
    if (!r->plan->model->communicator) return ROTA_OK;
    ROTA_TRY(gpt_record_part(r, "losses of all ranks"));
    return gpt_record_output(r, "losses", losses, &r->plan->losses);
}

static rota_status record_found(gpt_recording *r) {
    rota_tensor all;
    if (!r->find_nan) return ROTA_OK;
    ROTA_TRY(rota_tape_tensor(r->tape, ROTA_BUFFER_OUTPUT, "found", ROTA_U32,
                              ROTA_SHAPE(r->plan->watched_count, 2), &all));
    r->plan->found = all.buffer;
    for (uint32_t i = 0; i < r->plan->watched_count; i++) {
        rota_tensor row;
        ROTA_TRY(rota_tensor_slice(&all, 0, i, 1, &row));
        ROTA_TRY(rota_tensor_reshape(&row, ROTA_SHAPE(2), &row));
        ROTA_TRY(rota_op_copy_into(r->tape, r->found[i], row));
    }
    return ROTA_OK;
}

static rota_status record_train(gpt_recording *r) {
    gpt_plan *plan = r->plan;
    ROTA_TRY(rota_graph_slot(plan->graph, "lr", 4, &plan->lr));
    ROTA_TRY(rota_graph_slot(plan->graph, "step", 4, &plan->step));
    if (r->dropout) ROTA_TRY(rota_graph_slot(plan->graph, "seed", 4, &plan->seed));
    ROTA_TRY(rota_graph_buffer(plan->graph, ROTA_BUFFER_SLOT, "batch", 2 * plan->rows * plan->length * 4,
                               &plan->batch));
    rota_tensor losses;
    ROTA_TRY(make_losses(r, &losses));
    gpt_gradients g = {0};
    ROTA_TRY(gpt_groups_fetch_all(r));
    rota_status status = gpt_gradients_make(r, &g);
    if (status == ROTA_OK) status = record_backward(r, &g, losses);
    if (status == ROTA_OK) status = send_losses(r, losses);
    if (status == ROTA_OK) status = gpt_record_optimizer(r, &g);
    if (status == ROTA_OK) status = record_found(r);
    gpt_gradients_free(&g);
    return status;
}

/* ---- Plans ---- */

static rota_status make_turn(gpt_plan *plan, gpt_turn *turn) {
    ROTA_TRY(rota_args_create(plan->plan, &turn->args));
    const uint64_t losses = plan->micro_batches + (plan->asks_end != NULL);
    turn->losses = calloc(losses, sizeof *turn->losses);
    turn->found = calloc(plan->watched_count + 1u, 2 * sizeof *turn->found);
    if (!turn->losses || !turn->found) return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the losses");
    if (plan->losses)
        ROTA_TRY(rota_args_set_output(turn->args, plan->losses, turn->losses, losses * sizeof *turn->losses));
    if (plan->norm) ROTA_TRY(rota_args_set_output(turn->args, plan->norm, turn->norm, sizeof turn->norm));
    if (plan->found)
        ROTA_TRY(rota_args_set_output(turn->args, plan->found, turn->found,
                                      (size_t)plan->watched_count * 2 * sizeof *turn->found));
    if (!plan->batch) return ROTA_OK;
    uint64_t count = plan->rows * plan->length;
    turn->tokens = calloc(2 * count, sizeof *turn->tokens);
    if (!turn->tokens)
        return rota_fail(ROTA_OUT_OF_MEMORY, "no memory for a batch of %" PRIu64 " tokens", count);
    turn->targets = turn->tokens + count;
    ROTA_TRY(rota_buffer_create_in(plan->model->runtime, "batch", 2 * count * 4, &turn->batch));
    ROTA_TRY(rota_buffer_prepare(turn->batch, plan->model->device));
    return rota_args_set_buffer(turn->args, plan->batch, turn->batch);
}

rota_status gpt_plan_make(gpt_model *model, const gpt_plan_options *options, gpt_plan *out) {
    const char *name = options->name;
    const bool train = options->train;
    out->model = model;
    gpt_recording r = {.plan = out,
                       .rows = out->rows / out->micro_batches,
                       .dropout = train && model->config.dropout > 0,
                       .find_nan = options->find_nan,
                       .one_node = rota_device_get_info(model->device)->kind == ROTA_EXEC_CUDA &&
                                   options->dtype != ROTA_F32 && !options->find_nan,
                       .dtype = options->dtype,
                       .user = options->user};
    r.weights = calloc(GPT_PLACES(model->config.layers), sizeof *r.weights);
    rota_status status =
        r.weights ? ROTA_OK : rota_fail(ROTA_OUT_OF_MEMORY, "no memory to record '%s'", name);
    for (uint32_t i = 0; !model->groups && i < model->parameter_count && status == ROTA_OK; i++)
        status = gpt_part_tensor(&model->parameters[i],
                                 r.dtype == ROTA_F32 ? model->parts[GPT_VALUES] : model->copies, r.dtype,
                                 &r.weights[model->parameters[i].index]);
    if (status == ROTA_OK && !model->groups)
        status = gpt_table_tensor(model, r.weights[GPT_TOKENS].buffer, r.dtype, &r.table);
    if (status == ROTA_OK) status = rota_graph_create(&ROTA_GRAPH_OPTIONS(.name = name), &out->graph);
    if (status == ROTA_OK && model->fuse) status = rota_graph_fuse(out->graph);
    if (status == ROTA_OK) status = rota_recorder_open(out->graph, 0, "main", &r.recorder);
    /* Of a step's windows this rank has its part, and drops what one rank with all of them would drop there. */
    const bool ranks = train && model->one_part;
    if (status == ROTA_OK)
        status =
            rota_tape_create(r.recorder,
                             &ROTA_TAPE_OPTIONS(.no_gradients = !train,
                                                .rank = ranks ? rota_communicator_rank(model->one_part) : 0,
                                                .ranks = ranks ? rota_communicator_size(model->one_part) : 1),
                             &r.tape);
    if (status == ROTA_OK) status = options->record(&r);
    rota_tape_destroy(r.tape);
    rota_recorder_close(r.recorder);
    free(r.weights);
    free(r.found);
    if (status == ROTA_OK)
        status = rota_compile(
            model->runtime, out->graph,
            &ROTA_COMPILE_OPTIONS(.devices = &model->device, .device_count = 1, .packing = model->packing,
                                  .deterministic = model->deterministic,
                                  .arena_of = options->beside ? options->beside->plan : NULL),
            &out->plan);
    for (int t = 0; t < (train ? GPT_TURNS : 1) && status == ROTA_OK; t++)
        status = make_turn(out, &out->turns[t]);
    if (status != ROTA_OK) gpt_plan_free(out);
    return status;
}

rota_status gpt_plan_train(gpt_model *model, bool find_nan, gpt_plan *out) {
    const gpt_config *c = &model->config;
    *out = (gpt_plan){.rows = c->batch * c->accumulate, .length = c->block, .micro_batches = c->accumulate};
    return gpt_plan_make(model,
                         &(gpt_plan_options){.name = "train",
                                             .train = true,
                                             .find_nan = find_nan,
                                             .dtype = (rota_dtype)c->dtype,
                                             .record = record_train},
                         out);
}

rota_status gpt_plan_loss(gpt_model *model, uint64_t rows, uint64_t length, const gpt_plan *beside,
                          gpt_plan *out) {
    *out = (gpt_plan){.rows = rows, .length = length, .micro_batches = 1};
    return gpt_plan_make(model,
                         &(gpt_plan_options){.name = "loss",
                                             .dtype = (rota_dtype)model->config.dtype,
                                             .record = record_loss,
                                             .beside = beside},
                         out);
}

rota_status gpt_plan_logits(gpt_model *model, uint64_t length, gpt_plan *out) {
    *out = (gpt_plan){.rows = 1, .length = length, .micro_batches = 1};
    return gpt_plan_make(model, &(gpt_plan_options){.name = "logits", .record = record_logits}, out);
}

void gpt_plan_free(gpt_plan *plan) {
    for (int t = 0; t < GPT_TURNS; t++) {
        gpt_turn *turn = &plan->turns[t];
        bool over = gpt_turn_over(turn);
        rota_args_release(turn->args);
        rota_buffer_release(turn->batch);
        /* What a device that doesn't answer may still write is never freed. */
        if (!over) continue;
        free(turn->tokens);
        free(turn->losses);
        free(turn->found);
    }
    rota_plan_release(plan->plan);
    rota_graph_release(plan->graph);
    free(plan->watched);
    *plan = (gpt_plan){0};
}
