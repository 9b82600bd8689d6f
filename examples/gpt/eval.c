/* How well a model does on the validation split. */
#include "examples/gpt/eval.h"

#include <stdlib.h>
#include "bench/progress.h"

/* Losses of batches, in their order: those that are another rank's are 0 until all have told theirs; then how many
 * ranks were cut short. */
static float *make_losses(uint64_t batches) {
    float *losses = calloc(batches + 1, sizeof *losses);
    if (!losses) (void)rota_fail(ROTA_OUT_OF_MEMORY, "no memory for the losses of validation");
    return losses;
}

static bool is_mine(const gpt_evaluation *e, uint64_t batch) {
    return batch % e->ranks->groups == e->ranks->group;
}

/* Where weights are gathered for each replay, all ranks replay as often: those whose batches are over do so once more,
 * for the others. Nor does one stop before the others. `mine` of `batches` side by side were its own. */
static rota_status keep_pace(const gpt_evaluation *e, gpt_plan *plan, uint64_t batches, uint64_t mine,
                             const int32_t *tokens, const int32_t *targets) {
    const uint32_t size = e->ranks->size;
    float others;
    for (; e->model->groups && mine < (batches + size - 1) / size; mine++)
        ROTA_TRY(gpt_loss(plan, tokens, targets, &others));
    return ROTA_OK;
}

static bool is_cut(const gpt_evaluation *e) {
    return *e->stop && !e->model->groups && !e->model->one_model;
}

static rota_status gather(gpt_evaluation *e, float *losses, uint64_t batches) {
    if (e->ranks->one_model) gpt_ranks_count_once(e->ranks, losses, batches);
    losses[batches] = *e->stop ? 1 : 0;
    ROTA_TRY(gpt_ranks_sum(e->ranks, e->model->runtime, losses, batches + 1));
    e->cut = losses[batches] > 0;
    return ROTA_OK;
}

rota_status gpt_sampled_loss(gpt_evaluation *e, uint64_t seed, uint64_t step, uint64_t batches,
                             double *out_loss) {
    random_state random = {seed * UINT64_C(0x9e3779b97f4a7c15) + step};
    gpt_plan *plan = e->plan;
    const uint64_t count = plan->rows * plan->length;
    batches *= e->ranks->groups;
    int32_t *tokens = malloc(2 * count * sizeof *tokens);
    float *losses = make_losses(batches);
    rota_status status =
        tokens && losses ? ROTA_OK : rota_fail(ROTA_OUT_OF_MEMORY, "no memory for a batch of validation");
    double sum = 0;
    progress_bar bar;
    progress_begin(&bar, "evaluating", "batches", batches);
    for (uint64_t i = 0; i < batches && status == ROTA_OK && !is_cut(e); i++) {
        gpt_text_batch(e->text, e->text->train_count, e->text->count, plan->rows, plan->length, &random,
                       tokens, tokens + count);
        if (is_mine(e, i)) status = gpt_loss(plan, tokens, tokens + count, &losses[i]);
        progress_at(&bar, i + 1);
    }
    progress_end(&bar);
    if (status == ROTA_OK) status = gather(e, losses, batches);
    for (uint64_t i = 0; i < batches && status == ROTA_OK; i++) sum += (double)losses[i];
    free(losses);
    free(tokens);
    *out_loss = sum / (double)batches;
    return status;
}

/* The losses of `windows` windows from token `first`, one after the other, `rows` at a time, with the plan if it is for
 * so many, else with one of their own; they are batches `batch` and on. */
static rota_status window_losses(gpt_evaluation *e, size_t first, uint64_t windows, uint64_t rows,
                                 uint64_t length, progress_bar *bar, uint64_t batch, float *losses) {
    gpt_plan own = {0}, *plan = e->plan;
    if (rows != plan->rows || length != plan->length) {
        ROTA_TRY(gpt_plan_loss(e->model, rows, length, plan, &own));
        plan = &own;
    }
    const int32_t *const tokens = e->text->tokens + first;
    rota_status status = ROTA_OK;
    uint64_t mine = 0;
    for (uint64_t w = 0; w < windows && status == ROTA_OK && !is_cut(e); w += rows, first += rows * length) {
        /* Windows stand side by side in the text, so a batch is one run of tokens; its targets are one
         * further. */
        if (is_mine(e, batch)) {
            status = gpt_loss(plan, e->text->tokens + first, e->text->tokens + first + 1, &losses[batch]);
            mine++;
        }
        batch++;
        progress_at(bar, first - e->text->train_count);
    }
    if (status == ROTA_OK) status = keep_pace(e, plan, windows / rows, mine, tokens, tokens + 1);
    gpt_plan_free(&own);
    return status;
}

/* Whole batches of windows, then the windows left over, then the shorter end. */
static rota_status whole_loss(gpt_evaluation *e, progress_bar *bar, double *out_loss) {
    const gpt_text *text = e->text;
    const uint64_t predictions = text->count - text->train_count - 1, length = e->plan->length,
                   rows = e->plan->rows, windows = predictions / length, rest = predictions % length,
                   whole = windows / rows, left = windows % rows, batches = whole + left + (rest > 0);
    const size_t first = text->train_count;
    float *losses = make_losses(batches);
    double sum = 0;
    rota_status status = losses ? ROTA_OK : ROTA_OUT_OF_MEMORY;
    if (status == ROTA_OK) status = window_losses(e, first, whole * rows, rows, length, bar, 0, losses);
    /* One by one: products of another size would be measured first, in memory of their own. */
    if (status == ROTA_OK && left)
        status = window_losses(e, first + whole * rows * length, left, 1, length, bar, whole, losses);
    if (status == ROTA_OK && rest)
        status = window_losses(e, first + windows * length, 1, 1, rest, bar, whole + left, losses);
    if (status == ROTA_OK) status = gather(e, losses, batches);
    for (uint64_t i = 0; i < batches && status == ROTA_OK; i++)
        sum += (double)losses[i] * (double)(i < whole ? rows * length : i < whole + left ? length : rest);
    free(losses);
    *out_loss = sum / (double)predictions;
    return status;
}

rota_status gpt_whole_loss(gpt_evaluation *e, double *out_loss) {
    progress_bar bar;
    progress_begin(&bar, "evaluating", "tokens", e->text->count - e->text->train_count);
    const rota_status status = whole_loss(e, &bar, out_loss);
    progress_end(&bar);
    return status;
}
