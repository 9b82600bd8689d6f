/* A GPT that several ranks have together. */
#include "examples/gpt/cuts.h"

#include <inttypes.h>
#include <string.h>

rota_status gpt_cuts_check(const gpt_config *c) {
    if (c->slices < 2) return ROTA_OK;
    if (c->heads % c->slices != 0)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "--tensor-parallel %" PRIu64 " does not divide --heads %" PRIu64
                         ": each rank has as many of them",
                         c->slices, c->heads);
    if (c->vocabulary < c->slices)
        return rota_fail(ROTA_INVALID_ARGUMENT,
                         "--tensor-parallel %" PRIu64 ", but the text has %" PRIu64
                         " kinds of tokens: each rank has one at least",
                         c->slices, c->vocabulary);
    return ROTA_OK;
}

/* By the places of a layer. */
static const struct {
    gpt_cut cut;
    uint64_t blocks;
} cuts[GPT_LAYER_PLACES] = {[GPT_QKV] = {GPT_CUT_COLUMNS, 3},     [GPT_QKV_BIAS] = {GPT_CUT_ROWS, 3},
                            [GPT_PROJECT] = {GPT_CUT_ROWS, 1},    [GPT_WIDEN] = {GPT_CUT_COLUMNS, 1},
                            [GPT_WIDEN_BIAS] = {GPT_CUT_ROWS, 1}, [GPT_NARROW] = {GPT_CUT_ROWS, 1}};

void gpt_cut_describe(const gpt_model *model, gpt_parameter *p) {
    const bool in_layer = p->index >= GPT_FIRST_LAYER && p->index < GPT_LAST_NORM(model->config.layers);
    p->cut = GPT_CUT_NONE;
    p->blocks = 1;
    if (model->one_model && p->index == GPT_TOKENS) p->cut = GPT_CUT_ROWS;
    if (model->one_model && in_layer) {
        const uint32_t which = (p->index - GPT_FIRST_LAYER) % GPT_LAYER_PLACES;
        p->cut = cuts[which].cut;
        if (p->cut != GPT_CUT_NONE) p->blocks = cuts[which].blocks;
    }
    memcpy(p->own_shape, p->shape, sizeof p->shape);
    const int axis = p->cut == GPT_CUT_COLUMNS;
    p->part =
        rota_communicator_part(p->cut == GPT_CUT_NONE ? NULL : model->one_model, p->shape[axis] / p->blocks);
    p->own_shape[axis] = p->blocks * p->part.count;
    p->own_count = p->own_shape[0] * p->own_shape[1];
}

/* Runs of elements that lie together in both, run by run. */
static void copy_runs(const gpt_parameter *p, const float *from, float *to, bool takes) {
    const bool by_rows = p->cut != GPT_CUT_COLUMNS;
    const uint64_t rows = by_rows ? 1 : p->shape[0], unit = by_rows ? p->shape[1] : 1;
    const uint64_t whole_row = by_rows ? p->count : p->shape[1],
                   own_row = by_rows ? p->own_count : p->own_shape[1];
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t b = 0; b < p->blocks; b++) {
            const uint64_t whole = r * whole_row + (b * p->part.whole + p->part.first) * unit;
            const uint64_t own = r * own_row + b * p->part.count * unit;
            memcpy(to + (takes ? own : whole), from + (takes ? whole : own),
                   p->part.count * unit * sizeof *to);
        }
}

void gpt_cut_take(const gpt_parameter *p, const float *whole, float *out_own) {
    copy_runs(p, whole, out_own, true);
}

void gpt_cut_put(const gpt_parameter *p, const float *own, float *whole) {
    copy_runs(p, own, whole, false);
}

uint64_t gpt_cut_heads(const gpt_model *model) {
    return model->config.heads / (model->one_model ? rota_communicator_size(model->one_model) : 1);
}

uint64_t gpt_cut_dim(const gpt_model *model) {
    return gpt_cut_heads(model) * (model->config.dim / model->config.heads);
}

rota_rank_part gpt_cut_vocabulary(const gpt_model *model) {
    return rota_communicator_part(model->one_model, model->config.vocabulary);
}

uint32_t gpt_cut_once(const gpt_model *model, const rota_tensor *all, rota_tensor out[2]) {
    uint32_t count = 0;
    const uint64_t first = model->shared_first, end = model->shared_end, last = model->element_count;
    if (rota_communicator_rank(model->one_model) == 0) {
        out[count++] = *all;
        return count;
    }
    if (first > 0 && rota_tensor_slice(all, 0, 0, first, &out[count]) == ROTA_OK) count++;
    if (last > end && rota_tensor_slice(all, 0, end, last - end, &out[count]) == ROTA_OK) count++;
    return count;
}
