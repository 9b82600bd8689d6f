/* A body once more, forward, in its gradient's body: a body's transients are gone when it has run. What it reads of
 * what was there before is where it was, or in the row that was kept of it; what it writes has memory of the gradient's
 * body. So has what nodes within it write, which holds what was there before them: they are recorded once more, with
 * bodies of the same ops, on tapes of their own, and their gradients are taken as any node's. */
#include "ops/backward_body.h"

#include "ops/apply.h"
#include "graph/record.h"
#include "ops/record.h"
#include "ops/remember.h"

/* A graph that the body's ops are recorded into once more: the gradient's body, or a body within it. */
typedef struct again {
    rota_backward_body *c;
    const struct again *outer;
    const rota_graph *of;
    rota_tape *tape;
} again;

/* ---- Where things are ---- */

rota_tensor rota_backward_map_before(const rota_backward_body *c, const rota_backward_span *span,
                                     const rota_tensor *x) {
    rota_tensor made = *x;
    if (!span->is_kept) return made;
    made.buffer = c->row;
    made.offset_bytes = span->offset + rota_tensor_begin(x) - span->begin;
    return made;
}

rota_status rota_backward_map_written(rota_backward_body *c, const rota_tensor *x, rota_tensor *out) {
    *out = *x;
    rota_backward_span **list = rota_backward_spans_of(c, x);
    if (!list) return rota_backward_no_memory();
    const uint64_t begin = rota_tensor_begin(x);
    rota_backward_span *span =
        rota_backward_find_span(*list, true, begin, begin + rota_tensor_extent_bytes(x));
    if (!span) return ROTA_OK;
    /* From a multiple of what buffers begin at, so that nothing lies worse than it did. */
    const uint64_t low = span->begin / ROTA_BUFFER_ALIGNMENT * ROTA_BUFFER_ALIGNMENT;
    if (!span->memory)
        ROTA_TRY(rota_recorder_buffer(c->apart.recorder, ROTA_BUFFER_TRANSIENT, span->root->name,
                                      (span->end - low + 3) / 4 * 4, &span->memory));
    out->buffer = span->memory;
    out->offset_bytes = begin - low;
    return ROTA_OK;
}

/* A buffer of a body within has one of the graph that takes that body's part. */
static rota_status map_inner(const again *a, const rota_tensor *x, rota_tensor *out) {
    rota_backward_body *c = a->c;
    rota_buffer *root = rota_tensor_root(x);
    rota_backward_span **list = rota_backward_spans_of(c, x);
    if (!list) return rota_backward_no_memory();
    if (!*list) {
        const again *owner = a;
        while (owner->of != root->graph) owner = owner->outer;
        rota_backward_span *made = rota_arena_calloc(&c->apart.arena, sizeof *made, 8);
        if (!made) return rota_backward_no_memory();
        *made = (rota_backward_span){.end = root->size_bytes, .is_written = true, .root = root};
        ROTA_TRY(rota_recorder_buffer(owner->tape->recorder, ROTA_BUFFER_TRANSIENT, root->name,
                                      root->size_bytes, &made->memory));
        *list = made;
    }
    *out = *x;
    out->buffer = (*list)->memory;
    out->offset_bytes = rota_tensor_begin(x);
    return ROTA_OK;
}

static rota_status map_read(const again *a, const rota_tensor *x, rota_tensor *out) {
    rota_backward_body *c = a->c;
    *out = *x;
    if (!x->buffer) return ROTA_OK;
    if (rota_backward_is_inner(c, rota_tensor_root(x))) return map_inner(a, x, out);
    const bool is_before = ((const bool *)c->is_before.data)[c->next_read++];
    rota_backward_span **list = rota_backward_spans_of(c, x);
    if (!list) return rota_backward_no_memory();
    const uint64_t begin = rota_tensor_begin(x);
    rota_backward_span *span =
        rota_backward_find_span(*list, !is_before, begin, begin + rota_tensor_extent_bytes(x));
    if (!span) return ROTA_OK;
    if (is_before) {
        *out = rota_backward_map_before(c, span, x);
        return ROTA_OK;
    }
    ROTA_TRY(rota_backward_map_written(c, x, out));
    span->is_used = true;
    return ROTA_OK;
}

static rota_status map_changed(const again *a, const rota_tensor *x, rota_tensor *out) {
    *out = *x;
    if (!x->buffer) return ROTA_OK;
    if (rota_backward_is_inner(a->c, rota_tensor_root(x))) return map_inner(a, x, out);
    return rota_backward_map_written(a->c, x, out);
}

/* ---- Changes ---- */

static rota_tensor words_of(const rota_backward_change *it) {
    rota_tensor words = rota_backward_words(it->root, it->begin, it->end);
    if (!it->is_real) words.dtype = ROTA_I32;
    return words;
}

static rota_status find_span(rota_backward_body *c, const rota_tensor *x, bool is_written,
                             rota_backward_span **out) {
    rota_backward_span **list = rota_backward_spans_of(c, x);
    if (!list) return rota_backward_no_memory();
    const uint64_t begin = rota_tensor_begin(x);
    *out = rota_backward_find_span(*list, is_written, begin, begin + rota_tensor_extent_bytes(x));
    return *out ? ROTA_OK
                : rota_fail(ROTA_INTERNAL, "backward: bytes of buffer '%s' were lost",
                            rota_tensor_root(x)->name);
}

/* As they are told, before ops and nodes of the body itself; `renewed`: the span that has other memory, and `old` what
 * it had. */
typedef struct renewal {
    const rota_backward_span *renewed;
    rota_buffer *old;
} renewal;

static rota_status change(const again *a, const rota_backward_change *it, renewal *r) {
    rota_backward_body *c = a->c;
    const rota_tensor words = words_of(it);
    rota_backward_span *span, *written;
    rota_tensor from, to;
    ROTA_TRY(find_span(c, &words, true, &written));
    if (it->kind == ROTA_CHANGE_RENEW) {
        *r = (renewal){written->is_used ? written : NULL, written->memory};
        if (!r->renewed) return ROTA_OK;
        written->memory = NULL;
        written->is_used = false;
        return ROTA_OK;
    }
    if (it->kind == ROTA_CHANGE_TAKE && (written != r->renewed || !r->old)) return ROTA_OK;
    ROTA_TRY(rota_backward_map_written(c, &words, &to));
    if (it->kind == ROTA_CHANGE_TAKE) {
        from = to;
        from.buffer = r->old;
    } else {
        ROTA_TRY(find_span(c, &words, false, &span));
        from = rota_backward_map_before(c, span, &words);
    }
    return rota_op_copy_into(a->tape, from, to);
}

/* Those of `by`, in order; `first`: up to where something gets other memory. */
static rota_status make_changes(const again *a, const void *by, bool first) {
    rota_backward_body *c = a->c;
    const rota_backward_change *all = c->changes.data;
    renewal r = {0};
    if (a->of != c->body) return ROTA_OK;
    for (; c->next_change < c->changes.count && all[c->next_change].by == by; c->next_change++) {
        if (first && all[c->next_change].kind != ROTA_CHANGE_BRING) break;
        ROTA_TRY(change(a, &all[c->next_change], &r));
    }
    return ROTA_OK;
}

/* ---- Ops ---- */

/* What an op wrote is what its gradient reads. */
static rota_status mark_used(const again *a, const rota_tensor *y) {
    rota_backward_span *span;
    if (rota_backward_is_inner(a->c, rota_tensor_root(y))) return ROTA_OK;
    ROTA_TRY(find_span(a->c, y, true, &span));
    span->is_used = true;
    return ROTA_OK;
}

static rota_status map_operands(const again *a, const rota_tape_use *used, rota_op_use *use) {
    const rota_access_mode *modes = use->op->input_modes;
    ROTA_TRY(make_changes(a, used, true));
    for (uint32_t i = 0; i < use->input_count; i++)
        if (modes[i] == ROTA_READ) ROTA_TRY(map_read(a, &used->use.inputs[i], &use->inputs[i]));
    ROTA_TRY(make_changes(a, used, false));
    for (uint32_t i = 0; i < use->input_count; i++)
        if (modes[i] != ROTA_READ) ROTA_TRY(map_changed(a, &used->use.inputs[i], &use->inputs[i]));
    for (uint32_t i = 0; i < use->output_count; i++)
        ROTA_TRY(map_changed(a, &used->use.outputs[i], &use->outputs[i]));
    return ROTA_OK;
}

static const rota_backward_item *next_item(rota_backward_body *c) {
    return (const rota_backward_item *)c->items.data + c->next_item++;
}

static rota_status use_again(void *user, const rota_tape_use *used) {
    const again *a = user;
    rota_tape *tape = a->tape;
    rota_op_use use = used->use;
    ROTA_TRY(map_operands(a, used, &use));
    tape->name = used->name;
    tape->op_name = used->op_name;
    /* What nobody needs is told to the tape alone, for its gradient. */
    const bool is_needed = a->of != a->c->body || next_item(a->c)->is_needed;
    const rota_status status =
        is_needed ? rota_tape_apply(tape, &use, use.op->name) : rota_tape_remember_use(tape, &use);
    tape->name = tape->op_name = NULL;
    ROTA_TRY(status);
    for (uint32_t i = 0; i < use.output_count; i++)
        if (use.op->saved_outputs & 1u << i) ROTA_TRY(mark_used(a, &used->use.outputs[i]));
    return ROTA_OK;
}

/* ---- Nodes ---- */

static rota_status node_again(void *user, rota_conditional *node);

static rota_status record_ops(again *a, const rota_graph *body) {
    return rota_backward_walk_body(body, &(rota_backward_walk){a, use_again, node_again});
}

static rota_status body_again(const again *outer, const rota_graph *body, rota_graph **out_body) {
    rota_recorder *lane = NULL;
    again a = {.c = outer->c, .outer = outer, .of = body};
    ROTA_TRY(rota_graph_create_body(outer->tape->graph, body->name, out_body));
    rota_status status = rota_recorder_open(*out_body, 0, NULL, &lane);
    if (status == ROTA_OK)
        status = rota_tape_create(lane,
                                  &ROTA_TAPE_OPTIONS(.placement = outer->tape->options.placement,
                                                     .rank = outer->tape->options.rank,
                                                     .ranks = outer->tape->options.ranks),
                                  &a.tape);
    if (status == ROTA_OK) status = record_ops(&a, body);
    rota_tape_destroy(a.tape);
    rota_recorder_close(lane);
    return status;
}

static rota_status record_again(const again *a, const rota_conditional *node, const rota_tensor *condition,
                                const rota_tensor *index, rota_graph **bodies) {
    rota_recorder *lane = a->tape->recorder;
    const char *const name = rota_node_record_name(node->record);
    const rota_placement placement = a->tape->options.placement;
    switch ((rota_conditional_kind)node->kind) {
    case ROTA_CONDITIONAL_IF:
        return rota_record_if(lane,
                              &ROTA_IF_NODE(.name = name, .condition = condition->buffer,
                                            .condition_offset_bytes = condition->offset_bytes,
                                            .body = bodies[0], .otherwise = bodies[1],
                                            .placement = placement),
                              NULL);
    case ROTA_CONDITIONAL_WHILE:
        return rota_record_while(lane,
                                 &ROTA_WHILE_NODE(.name = name, .condition = condition->buffer,
                                                  .condition_offset_bytes = condition->offset_bytes,
                                                  .body = bodies[0], .iterations_max = node->iterations_max,
                                                  .placement = placement),
                                 NULL);
    case ROTA_CONDITIONAL_FOR:
        return rota_record_for(lane,
                               &ROTA_FOR_NODE(.name = name, .count = condition->buffer,
                                              .count_offset_bytes = condition->offset_bytes,
                                              .index = index->buffer,
                                              .index_offset_bytes = index->offset_bytes, .body = bodies[0],
                                              .iterations_max = node->iterations_max, .placement = placement),
                               NULL);
    default:
        return rota_record_switch(lane,
                                  &ROTA_SWITCH_NODE(.name = name, .condition = condition->buffer,
                                                    .condition_offset_bytes = condition->offset_bytes,
                                                    .bodies = bodies, .body_count = node->body_count,
                                                    .placement = placement),
                                  NULL);
    }
}

static rota_status node_again(void *user, rota_conditional *node) {
    const again *a = user;
    rota_backward_body *c = a->c;
    const rota_tensor word = rota_backward_word(node, &node->condition);
    rota_tensor condition, index = {0};
    if (a->of == c->body) c->next_item++;
    ROTA_TRY(make_changes(a, node, true));
    ROTA_TRY(make_changes(a, node, false));
    ROTA_TRY(map_read(a, &word, &condition));
    if (node->iteration.access != ROTA_CONDITIONAL_NO_WORD) {
        const rota_tensor number = rota_backward_word(node, &node->iteration);
        ROTA_TRY(map_changed(a, &number, &index));
        ROTA_TRY(rota_tape_fill(a->tape, index.buffer, index.offset_bytes, 4, 0));
    }
    rota_graph **bodies = rota_arena_calloc(&c->apart.arena, sizeof *bodies * node->body_count, 8);
    if (!bodies) return rota_backward_no_memory();
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < node->body_count && status == ROTA_OK; i++)
        if (node->bodies[i]) status = body_again(a, node->bodies[i], &bodies[i]);
    if (status == ROTA_OK) status = record_again(a, node, &condition, &index, bodies);
    if (status != ROTA_OK)
        for (uint32_t i = 0; i < node->body_count; i++) rota_graph_release(bodies[i]);
    return status;
}

rota_status rota_backward_compute_again(rota_backward_body *c) {
    again a = {.c = c, .of = c->body, .tape = &c->apart};
    return record_ops(&a, c->body);
}
