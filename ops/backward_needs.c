/* What of a body's values its gradient needs: what the gradients of its ops read, and what that is computed of. Of the
 * rest nothing is kept, and nothing is computed again: a sum over iterations costs its gradient nothing.
 *
 *     s = s + x        add's gradient reads nothing        neither is s kept nor the sum computed again
 *     x = tanh(z)      tanh's reads x                      x is computed again, z for it, and what z is of is kept
 *
 * By buffer, backwards in record order: who writes a buffer that is needed later is computed again. */
#include "ops/backward_body.h"

#include "ops/gradient.h"

static rota_status need(rota_backward_body *c, const rota_tensor *x) {
    if (!x->buffer) return ROTA_OK;
    rota_tape_buffer *entry = rota_tape_lookup(&c->apart, x);
    if (!entry) return rota_backward_no_memory();
    entry->is_needed = true;
    return ROTA_OK;
}

static rota_status is_needed(rota_backward_body *c, const rota_tensor *x, bool *out) {
    const rota_tape_buffer *entry = rota_tape_lookup(&c->apart, x);
    if (!entry) return rota_backward_no_memory();
    *out = entry->is_needed;
    return ROTA_OK;
}

/* What its gradient reads, if a gradient may flow through it. */
static rota_status need_saved(rota_backward_body *c, const rota_op_use *use) {
    bool passes = false;
    for (uint32_t i = 0; i < use->input_count; i++)
        passes = passes || rota_gradient_passes(c->tape, &use->inputs[i]);
    if (!passes || !use->op->gradient || use->op->stops_gradient) return ROTA_OK;
    for (uint32_t i = 0; i < use->input_count; i++)
        if (use->op->saved_inputs & 1u << i) ROTA_TRY(need(c, &use->inputs[i]));
    for (uint32_t i = 0; i < use->output_count; i++)
        if (use->op->saved_outputs & 1u << i) ROTA_TRY(need(c, &use->outputs[i]));
    return ROTA_OK;
}

/* Whether it is computed again. One that makes something for its gradient as it is recorded is. */
static rota_status needs_use(rota_backward_body *c, const rota_op_use *use, bool *out) {
    *out = use->attributes.kept.buffer != NULL;
    for (uint32_t i = 0; i < use->input_count && !*out; i++)
        if (use->op->input_modes[i] != ROTA_READ && use->inputs[i].buffer)
            ROTA_TRY(is_needed(c, &use->inputs[i], out));
    for (uint32_t i = 0; i < use->output_count && !*out; i++) ROTA_TRY(is_needed(c, &use->outputs[i], out));
    return ROTA_OK;
}

static rota_status need_use(rota_backward_body *c, rota_backward_item *item) {
    const rota_op_use *use = &item->used->use;
    ROTA_TRY(need_saved(c, use));
    ROTA_TRY(needs_use(c, use, &item->is_needed));
    for (uint32_t i = 0; i < use->input_count && item->is_needed; i++) ROTA_TRY(need(c, &use->inputs[i]));
    return ROTA_OK;
}

/* Nodes are recorded once more as they are. */
static rota_status need_node(rota_backward_body *c, const rota_conditional *node) {
    for (uint32_t i = 0; i < node->record->access_count; i++)
        ROTA_TRY(need(c, &(rota_tensor){.buffer = node->roots[i]}));
    return ROTA_OK;
}

rota_status rota_backward_note_needs(rota_backward_body *c) {
    const rota_backward_change *changes = c->changes.data;
    rota_backward_item *items = c->items.data;
    for (uint64_t i = 0; i < c->changes.count; i++)
        if (changes[i].kind != ROTA_CHANGE_RENEW)
            ROTA_TRY(need(c, &(rota_tensor){.buffer = changes[i].root}));
    for (uint64_t i = c->items.count; i-- > 0;)
        ROTA_TRY(items[i].used ? need_use(c, &items[i]) : need_node(c, items[i].node));
    return ROTA_OK;
}
