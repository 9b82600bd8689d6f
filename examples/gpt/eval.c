/* How well a model does on the validation split. */
#include "examples/gpt/eval.h"

#include <stdlib.h>
#include "bench/progress.h"

rota_status gpt_sampled_loss(const gpt_text *text, gpt_plan *plan, uint64_t seed, uint64_t step,
                             uint64_t batches, const volatile sig_atomic_t *stop, double *out_loss) {
    random_state random = {seed * UINT64_C(0x9e3779b97f4a7c15) + step};
    const uint64_t count = plan->rows * plan->length;
    int32_t *tokens = malloc(2 * count * sizeof *tokens);
    rota_status status =
        tokens ? ROTA_OK : rota_fail(ROTA_OUT_OF_MEMORY, "no memory for a batch of validation");
    double sum = 0;
    progress_bar bar;
    progress_begin(&bar, "evaluating", "batches", batches);
    for (uint64_t i = 0; i < batches && status == ROTA_OK && !*stop; i++) {
        float loss;
        gpt_text_batch(text, text->train_count, text->count, plan->rows, plan->length, &random, tokens,
                       tokens + count);
        status = gpt_loss(plan, tokens, tokens + count, &loss);
        if (status == ROTA_OK) sum += (double)loss;
        progress_at(&bar, i + 1);
    }
    progress_end(&bar);
    free(tokens);
    *out_loss = sum / (double)batches;
    return status;
}

/* Adds to sum the losses of `windows` windows from `first`, one after the other, `rows` at a time, with the plan
 * if it is for so many, else with one of their own. */
static rota_status window_losses(gpt_model *model, const gpt_text *text, size_t first, uint64_t windows,
                                 uint64_t rows, uint64_t length, gpt_plan *plan,
                                 const volatile sig_atomic_t *stop, progress_bar *bar, double *sum) {
    gpt_plan own = {0};
    if (rows != plan->rows || length != plan->length) {
        ROTA_TRY(gpt_plan_loss(model, rows, length, plan, &own));
        plan = &own;
    }
    rota_status status = ROTA_OK;
    for (uint64_t w = 0; w < windows && status == ROTA_OK && !*stop; w += rows, first += rows * length) {
        float loss;
        /* Windows stand side by side in the text, so a batch is one run of tokens; its targets are one
         * further. */
        status = gpt_loss(plan, text->tokens + first, text->tokens + first + 1, &loss);
        if (status == ROTA_OK) *sum += (double)loss * (double)(rows * length);
        progress_at(bar, first - text->train_count);
    }
    gpt_plan_free(&own);
    return status;
}

/* Whole batches of windows, then the windows left over, then the shorter end. */
static rota_status whole_loss(gpt_model *model, const gpt_text *text, gpt_plan *plan,
                              const volatile sig_atomic_t *stop, progress_bar *bar, double *out_loss) {
    uint64_t predictions = text->count - text->train_count - 1, length = plan->length;
    uint64_t windows = predictions / length, rest = predictions % length,
             whole = windows / plan->rows * plan->rows;
    size_t first = text->train_count;
    double sum = 0;
    ROTA_TRY(window_losses(model, text, first, whole, plan->rows, length, plan, stop, bar, &sum));
    first += whole * length;
    /* One by one: products of another size would be measured first, in memory of their own. */
    if (windows > whole)
        ROTA_TRY(window_losses(model, text, first, windows - whole, 1, length, plan, stop, bar, &sum));
    first += (windows - whole) * length;
    if (rest) ROTA_TRY(window_losses(model, text, first, 1, 1, rest, plan, stop, bar, &sum));
    *out_loss = sum / (double)predictions;
    return ROTA_OK;
}

rota_status gpt_whole_loss(gpt_model *model, const gpt_text *text, gpt_plan *plan,
                           const volatile sig_atomic_t *stop, double *out_loss) {
    progress_bar bar;
    progress_begin(&bar, "evaluating", "tokens", text->count - text->train_count);
    const rota_status status = whole_loss(model, text, plan, stop, &bar, out_loss);
    progress_end(&bar);
    return status;
}
