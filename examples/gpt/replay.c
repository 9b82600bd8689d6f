/* Replays of a GPT's plans. */
#include <inttypes.h>
#include <stdio.h>
#include "examples/gpt/graph.h"

/* Who asks has waited for the ticket before, unless something went wrong, and a device that hangs has had its
 * deadline. */
#define GPT_OVER_NS UINT64_C(250000000)

bool gpt_turn_over(const gpt_turn *turn) {
    if (!turn->ticket.id) return true;
    (void)rota_wait(turn->ticket, GPT_OVER_NS);
    return rota_poll(turn->ticket) != ROTA_BUSY;
}

rota_status gpt_train_send(gpt_plan *plan, gpt_turn *turn, rota_ticket *out_ticket) {
    /* The batch goes up on the device's transfer queue, past the step that runs: that one reads the other
     * turn's. */
    return rota_buffer_write(turn->batch, plan->model->device, 0, turn->tokens,
                             2 * plan->rows * plan->length * 4, out_ticket);
}

rota_status gpt_train_submit(gpt_plan *plan, gpt_turn *turn, float lr, uint32_t step, uint32_t seed) {
    ROTA_TRY(rota_args_set_f32(turn->args, plan->lr, lr));
    ROTA_TRY(rota_args_set_u32(turn->args, plan->step, step));
    if (plan->seed.index) ROTA_TRY(rota_args_set_u32(turn->args, plan->seed, seed));
    if (plan->asks_end)
        ROTA_TRY(
            rota_args_set_input(turn->args, plan->asks_end, &turn->asks_end, sizeof turn->asks_end, false));
    return rota_submit_wait(plan->plan, turn->args, 0, &turn->ticket);
}

rota_status gpt_train_wait(gpt_plan *plan, gpt_turn *turn, float *out_loss, float *out_norm) {
    ROTA_TRY(rota_wait(turn->ticket, 0));
    double sum = 0;
    for (uint64_t b = 0; b < plan->micro_batches; b++) sum += (double)turn->losses[b];
    *out_loss = (float)(sum / (double)plan->micro_batches);
    *out_norm = turn->norm[0];
    return ROTA_OK;
}

bool gpt_train_ends(const gpt_plan *plan, const gpt_turn *turn) {
    return plan->asks_end && turn->losses[plan->micro_batches] > 0;
}

bool gpt_train_find_nan(const gpt_plan *plan, const gpt_turn *turn, char *text, size_t capacity) {
    for (uint32_t i = 0; i < plan->watched_count; i++)
        if (turn->found[(size_t)2 * i]) {
            snprintf(text, capacity, "%s has %" PRIu32 " elements that are not finite, the first at %" PRIu32,
                     plan->watched[i], turn->found[(size_t)2 * i], turn->found[2 * i + 1]);
            return true;
        }
    return false;
}

static rota_status replay(gpt_plan *plan) {
    gpt_turn *turn = &plan->turns[0];
    ROTA_TRY(rota_submit_wait(plan->plan, turn->args, 0, &turn->ticket));
    return rota_wait(turn->ticket, 0);
}

rota_status gpt_loss(gpt_plan *plan, const int32_t *tokens, const int32_t *targets, float *out_loss) {
    uint64_t bytes = plan->rows * plan->length * sizeof *tokens;
    ROTA_TRY(rota_args_set_input(plan->turns[0].args, plan->tokens, tokens, bytes, true));
    ROTA_TRY(rota_args_set_input(plan->turns[0].args, plan->targets, targets, bytes, true));
    ROTA_TRY(replay(plan));
    *out_loss = plan->turns[0].losses[0];
    return ROTA_OK;
}

rota_status gpt_logits(gpt_plan *plan, const int32_t *tokens, float *out_logits) {
    rota_args *args = plan->turns[0].args;
    ROTA_TRY(rota_args_set_input(args, plan->tokens, tokens, plan->length * sizeof *tokens, false));
    ROTA_TRY(rota_args_set_output(args, plan->logits, out_logits, rota_buffer_size(plan->logits)));
    return replay(plan);
}
