/* Gradients of nodes that decide: the gradient of an if is an if of the same condition, of a switch a switch, of a loop
 * a for of as many iterations as ran. A body's transients are gone when its node has run, so the gradient's body
 * computes the forward ops again, into memory of its own, and then goes back through them:
 *
 *     forward:   if (flag)  y = f(x, w)          dy, dx, dw: regions of the tape, complete before the node
 *     backward:  if (flag)  y' = f(x, w)         what the body wrote has a copy in the gradient's body
 *                           dx, dw += f'(dy)     gradients of what it read are added to where they are
 *                           dy = 0               what y held before did not get through
 *
 * Where the body was not run none of that is, and dy is the gradient of what y held before: it passes through. What the
 * body reads and does not write, and the flag, must be as they were. What it reads and writes is kept, of a loop from
 * each iteration (backward_kept.c), which are gone back through from the last one on:
 *
 *     forward:   for (i < n)  kept[i] = x;  x = f(x, w)
 *     backward:  for (i < n)  x = kept[n - 1 - i];  y' = f(x, w)
 *                             dy = dx;  dx = 0;  dx, dw += f'(dy)
 *
 * which are the sums of the loop unrolled, in the same order. A node within a body is recorded once more in the
 * gradient's body (backward_again.c), whose tape goes back through it by this file again. */
#include "ops/backward_decides.h"

#include <stdio.h>
#include <stdlib.h>

#include "graph/record.h"
#include "ops/backward_bodies.h"
#include "ops/backward_body.h"
#include "ops/backward_steps.h"
#include "ops/gradient.h"
#include "ops/record.h"

/* ---- What stands in the way ---- */

static rota_tensor words_of(const rota_backward_span *span) {
    return rota_backward_words(span->root, span->begin, span->end);
}

/* What the gradient's node reads is as it was when the node ran. */
static rota_status check_unchanged(rota_tape *tape, const rota_conditional *node, const char *what,
                                   const rota_buffer *root, uint64_t begin, uint64_t end) {
    const rota_tape_buffer *entry =
        rota_tape_lookup(tape, &(rota_tensor){.buffer = (rota_buffer *)(uintptr_t)root});
    if (!entry) return rota_backward_no_memory();
    const char *by = NULL;
    for (const rota_tape_write *write = entry->writes; write && write->lane_nodes > node->index && !by;
         write = write->next)
        if (write->begin < end && write->end > begin) by = write->op->name;
    const rota_tape_use after = {.lane_nodes = node->index + 1};
    const rota_conditional *body =
        by ? NULL : rota_backward_body_that_overwrites(tape, &after, entry, begin, end);
    if (body) by = rota_node_record_name(body->record);
    if (!by) return ROTA_OK;
    return rota_fail(ROTA_WRONG_STATE,
                     "backward: the gradient of node '%s' needs %s in buffer '%s', which %s '%s' overwrote",
                     rota_node_record_name(node->record), what, root->name, body ? "a body of node" : "op",
                     by);
}

/* Of one body: spans that a gradient's body reads where they are. */
static rota_status check_spans(rota_backward_body *c) {
    for (uint64_t i = 0; i < c->spans.count; i++) {
        const rota_backward_span *it = ((rota_backward_span *const *)c->spans.data)[i];
        const rota_tensor words = words_of(it);
        const rota_tape_buffer *entry = rota_tape_lookup(&c->apart, &words);
        if (!entry) return rota_backward_no_memory();
        if (it->is_written || it->is_kept || !entry->is_needed) continue;
        char what[160];
        (void)snprintf(what, sizeof what, "what its body '%.100s' reads", c->body->name);
        ROTA_TRY(check_unchanged(c->tape, c->node, what, it->root, it->begin, it->end));
    }
    return ROTA_OK;
}

/* ---- Back ---- */

static rota_status add_tensor(rota_vector *vector, const rota_tensor *x) {
    if (!rota_vector_reserve(vector, sizeof *x, 1)) return rota_backward_no_memory();
    ((rota_tensor *)vector->data)[vector->count++] = *x;
    return ROTA_OK;
}

/* What the body read gets its gradient added where that is on the tape, complete whether the body runs or not. */
static rota_status open_read(rota_backward_body *c, const rota_backward_span *span) {
    const rota_tensor x = words_of(span), mapped = rota_backward_map_before(c, span, &x);
    rota_tensor dx;
    bool fresh;
    ROTA_TRY(rota_gradient_read(c->tape, &x, &dx));
    ROTA_TRY(rota_gradient_target(c->tape, &x, &dx, &fresh));
    ROTA_TRY(add_tensor(&c->params, &mapped));
    return add_tensor(&c->grads, &dx);
}

/* Whether a gradient gets to what the body wrote there. In a loop later iterations may bring one. */
static bool is_reached(const rota_backward_body *c, const rota_backward_span *span) {
    const rota_tensor y = words_of(span);
    if (!span->is_written || rota_backward_is_own(c, span->root)) return false;
    return rota_conditional_is_loop(c->node->kind) ? rota_gradient_passes(c->tape, &y)
                                                   : rota_gradient_touched(c->tape, &y);
}

/* Whether the body read any of it, so that the gradient of what was there before goes to the same bytes. */
static rota_status is_read_too(rota_backward_body *c, const rota_backward_span *span, bool *out) {
    const rota_tensor y = words_of(span);
    rota_backward_span **list = rota_backward_spans_of(c, &y);
    if (!list) return rota_backward_no_memory();
    *out = rota_backward_find_span(*list, false, span->begin, span->end) != NULL;
    return ROTA_OK;
}

/* The gradient of what the body wrote is its copy's in the gradient's body. */
static rota_status open_written(rota_backward_body *c, const rota_backward_span *span) {
    const rota_tensor y = words_of(span);
    rota_tensor dy, copy;
    rota_gradient_region *region;
    bool is_read;
    if (!is_reached(c, span)) return ROTA_OK;
    ROTA_TRY(rota_gradient_read(c->tape, &y, &dy));
    ROTA_TRY(rota_backward_map_written(c, &y, &copy));
    ROTA_TRY(is_read_too(c, span, &is_read));
    if (is_read) {
        rota_tensor taken;
        ROTA_TRY(rota_tape_temporary(&c->apart, "gradient", ROTA_F32, 1, dy.shape, &taken));
        ROTA_TRY(rota_record_strided(&c->apart, &dy, &taken, 1.0f, false));
        ROTA_TRY(rota_record_zero(&c->apart, dy.buffer, dy.offset_bytes, span->end - span->begin));
        dy = taken;
    }
    ROTA_TRY(rota_gradient_region_add(&c->apart, &copy, &dy, false, &region));
    region->written = rota_arena_calloc(&c->apart.arena, sizeof *region->written, 8);
    region->views = rota_arena_calloc(&c->apart.arena, sizeof *region->views, 8);
    if (!region->written || !region->views) return rota_backward_no_memory();
    *region->written = (rota_byte_range){NULL, region->begin, region->end};
    region->views->tensor = dy;
    region->view_count = 1;
    return ROTA_OK;
}

/* What is not taken out of the way is used up. */
static rota_status close_written(rota_backward_body *c, const rota_backward_span *span) {
    const rota_tensor y = words_of(span);
    rota_tensor dy;
    bool is_read;
    if (!is_reached(c, span)) return ROTA_OK;
    ROTA_TRY(is_read_too(c, span, &is_read));
    if (is_read) return ROTA_OK;
    ROTA_TRY(rota_gradient_read(c->tape, &y, &dy));
    return rota_record_zero(&c->apart, dy.buffer, dy.offset_bytes, span->end - span->begin);
}

static rota_status go_back(rota_backward_body *c) {
    rota_tape *apart = &c->apart;
    rota_backward_span *const *spans = c->spans.data;
    rota_decides decides;
    apart->name = c->tape->name;
    apart->op_name = "backward";
    const uint64_t uses = apart->use_count;
    apart->remember = false;
    for (uint64_t i = 0; i < c->spans.count; i++)
        if (!spans[i]->is_written && spans[i]->is_wanted) ROTA_TRY(open_read(c, spans[i]));
    ROTA_TRY(rota_backward_open(apart, c->params.data, (uint32_t)c->params.count, c->grads.data, true));
    ROTA_TRY(rota_decides_list(apart, &decides));
    ROTA_TRY(rota_decides_spread_all(apart, &decides));
    ROTA_TRY(rota_backward_check_bodies(apart));
    for (uint64_t i = 0; i < c->spans.count; i++) ROTA_TRY(open_written(c, spans[i]));
    uint32_t left = decides.count;
    for (uint64_t u = uses; u-- > 0;) {
        for (; left > 0 && decides.nodes[left - 1]->index >= apart->uses[u]->lane_nodes; left--)
            ROTA_TRY(rota_decides_step(apart, decides.nodes[left - 1]));
        ROTA_TRY(rota_backward_step(apart, apart->uses[u], true));
    }
    while (left > 0) ROTA_TRY(rota_decides_step(apart, decides.nodes[--left]));
    apart->op_name = "backward";
    for (uint64_t i = 0; i < c->spans.count; i++) ROTA_TRY(close_written(c, spans[i]));
    return ROTA_OK;
}

/* The body of the gradient's node, into a lane that is open. */
static rota_status record_body(rota_backward_body *c) {
    ROTA_TRY(rota_backward_note_body(c));
    ROTA_TRY(check_spans(c));
    ROTA_TRY(rota_backward_keep(c));
    ROTA_TRY(rota_backward_take_row(c));
    ROTA_TRY(rota_backward_compute_again(c));
    return go_back(c);
}

static rota_status make_body(rota_tape *tape, rota_conditional *node, rota_graph *body, rota_graph **out_body,
                             rota_buffer **out_left) {
    char name[96];
    (void)snprintf(name, sizeof name, "%.80s_backward", body->name);
    rota_backward_body c = {.tape = tape,
                            .node = node,
                            .body = body,
                            .taped = rota_backward_taped(body),
                            .apart = {.options = {.placement = tape->options.placement}, .remember = true}};
    ROTA_TRY(rota_graph_create_body(tape->graph, name, out_body));
    c.apart.graph = *out_body;
    rota_status status = rota_recorder_open(*out_body, 0, NULL, &c.apart.recorder);
    if (status == ROTA_OK) status = record_body(&c);
    rota_recorder_close(c.apart.recorder);
    *out_left = c.left;
    rota_tape_forget(&c.apart);
    free(c.apart.uses);
    rota_vector_free(&c.spans);
    rota_vector_free(&c.is_before);
    rota_vector_free(&c.items);
    rota_vector_free(&c.changes);
    rota_vector_free(&c.params);
    rota_vector_free(&c.grads);
    return status;
}

/* ---- The node ---- */

bool rota_decides_is_touched(rota_tape *tape, const rota_conditional *node) {
    const rota_access_record *accesses = rota_node_accesses(node->record);
    for (uint32_t i = 0; i < node->record->access_count; i++) {
        const uint64_t begin = ROTA_ACCESS_OFFSET(&accesses[i]);
        const rota_tensor bytes =
            rota_backward_words(node->roots[i], begin, begin + rota_access_size(&accesses[i]));
        if (ROTA_ACCESS_MODE(&accesses[i]) != ROTA_READ && rota_gradient_touched(tape, &bytes)) return true;
    }
    return false;
}

static rota_status record_loop(rota_tape *tape, const rota_conditional *node, const char *name,
                               rota_buffer *left, rota_graph *body) {
    return rota_record_for(tape->recorder,
                           &ROTA_FOR_NODE(.name = name, .count = left, .body = body,
                                          .iterations_max = node->iterations_max,
                                          .placement = tape->options.placement),
                           NULL);
}

static rota_status record_choice(rota_tape *tape, const rota_conditional *node, const char *name,
                                 rota_graph **bodies) {
    const rota_access_record *access = &rota_node_accesses(node->record)[node->condition.access];
    rota_buffer *condition = node->roots[node->condition.access];
    const uint64_t offset = ROTA_ACCESS_OFFSET(access) + node->condition.offset_bytes;
    if (ROTA_ACCESS_MODE(access) != ROTA_READ)
        return rota_fail(
            ROTA_UNSUPPORTED,
            "backward: a body of node '%s' writes beside or onto its condition, in buffer '%s'; its "
            "gradient has the same condition, which must be as it was",
            rota_node_record_name(node->record), condition->name);
    ROTA_TRY(check_unchanged(tape, node, "its condition", condition, offset, offset + 4));
    if (node->kind == ROTA_CONDITIONAL_IF)
        return rota_record_if(tape->recorder,
                              &ROTA_IF_NODE(.name = name, .condition = condition,
                                            .condition_offset_bytes = offset, .body = bodies[0],
                                            .otherwise = bodies[1], .placement = tape->options.placement),
                              NULL);
    return rota_record_switch(tape->recorder,
                              &ROTA_SWITCH_NODE(.name = name, .condition = condition,
                                                .condition_offset_bytes = offset, .bodies = bodies,
                                                .body_count = node->body_count,
                                                .placement = tape->options.placement),
                              NULL);
}

rota_status rota_decides_step(rota_tape *tape, rota_conditional *node) {
    if (!rota_decides_is_touched(tape, node)) return ROTA_OK;
    rota_graph **bodies = calloc(node->body_count, sizeof *bodies);
    if (!bodies) return rota_backward_no_memory();
    rota_buffer *left = NULL;
    const char *name;
    rota_status status = rota_tape_label_of(tape, rota_node_record_name(node->record), "_backward", &name);
    for (uint32_t i = 0; i < node->body_count && status == ROTA_OK; i++)
        if (node->bodies[i]) status = make_body(tape, node, node->bodies[i], &bodies[i], &left);
    if (status == ROTA_OK)
        status = rota_conditional_is_loop(node->kind) ? record_loop(tape, node, name, left, bodies[0])
                                                      : record_choice(tape, node, name, bodies);
    if (status != ROTA_OK)
        for (uint32_t i = 0; i < node->body_count; i++) rota_graph_release(bodies[i]);
    free(bodies);
    return status;
}

/* ---- All of a tape's ---- */

static rota_status spread_use(void *user, const rota_tape_use *used) {
    return rota_backward_spread(user, &used->use);
}

/* Through a loop until no gradient flows to anything new: what an iteration makes of it the next one reads. */
static rota_status spread_node(void *user, rota_conditional *node) {
    rota_tape *tape = user;
    uint64_t before;
    do {
        before = tape->wanted_count;
        for (uint32_t i = 0; i < node->body_count; i++)
            if (node->bodies[i])
                ROTA_TRY(rota_backward_walk_body(node->bodies[i],
                                                 &(rota_backward_walk){tape, spread_use, spread_node}));
    } while (rota_conditional_is_loop(node->kind) && tape->wanted_count != before);
    return ROTA_OK;
}

rota_status rota_decides_spread_all(rota_tape *tape, const rota_decides *decides) {
    uint32_t next = 0;
    for (uint64_t u = 0; u < tape->use_count; u++) {
        for (; next < decides->count && decides->nodes[next]->index < tape->uses[u]->lane_nodes; next++)
            ROTA_TRY(spread_node(tape, decides->nodes[next]));
        ROTA_TRY(rota_backward_spread(tape, &tape->uses[u]->use));
    }
    for (; next < decides->count; next++) ROTA_TRY(spread_node(tape, decides->nodes[next]));
    return ROTA_OK;
}
