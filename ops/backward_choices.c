/* Gradients of nodes that choose among bodies: the gradient of an if is an if of the same condition, of a switch a
 * switch. A body's transients are gone when its node has run, so the gradient's body computes the forward ops again,
 * into memory of its own, and then goes back through them:
 *
 *     forward:   if (flag)  y = f(x, w)          dy, dx, dw: regions of the tape, complete before the node
 *     backward:  if (flag)  y' = f(x, w)         what the body wrote has a copy in the gradient's body
 *                           dx, dw += f'(dy)     gradients of what it read are added to where they are
 *                           dy = 0               what y held before did not get through
 *
 * Where the body was not run none of that is, and dy is the gradient of what y held before: it passes through. So x, w
 * and the flag must be as they were: a body that writes what it reads is refused, and so is what writes them later. */
#include "ops/backward_choices.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/vector.h"
#include "graph/record.h"
#include "ops/apply.h"
#include "ops/backward_bodies.h"
#include "ops/backward_steps.h"
#include "ops/gradient.h"
#include "ops/record.h"

/* ---- Which nodes ---- */

/* The only lane of the body that has ops; NULL: none has, or several have. */
static const rota_recorder *taped_lane(const rota_graph *body) {
    const rota_recorder *found = NULL;
    for (uint32_t i = 0; i < body->lane_count; i++) {
        if (!body->lanes[i]->taped) continue;
        if (found || body->lanes[i]->taped->next) return NULL;
        found = body->lanes[i];
    }
    return found;
}

bool rota_choices_has(const rota_tape *tape, const rota_conditional *node) {
    if (node->lane != tape->recorder || node->index < tape->past_nodes) return false;
    if (node->kind != ROTA_CONDITIONAL_IF && node->kind != ROTA_CONDITIONAL_SWITCH) return false;
    for (uint32_t i = 0; i < node->body_count; i++)
        if (node->bodies[i] && !taped_lane(node->bodies[i])) return false;
    return true;
}

static rota_status no_memory(void) {
    return rota_fail(ROTA_OUT_OF_MEMORY, "backward: no host memory");
}

/* A node's body that is gone back through. */
typedef struct choice {
    rota_tape *tape; /* the gradients' */
    const rota_conditional *node;
    const rota_graph *body;
    const rota_taped_uses *taped;
    rota_tape
        apart; /* of the gradient's body: what it computes again, and its map knows of the body's buffers */
    rota_vector spans;         /* span, of all buffers; by root: rota_tape_buffer.spans */
    rota_vector params, grads; /* rota_tensor: what the body reads of what gradients flow through */
} choice;

/* Bytes of a buffer, as the body's ops name it. Those of one kind, of one buffer, are apart from one another. */
struct rota_backward_span {
    rota_backward_span *next; /* of the buffer */
    uint64_t begin, end;
    bool is_written; /* else read, before anything was written there */
    bool is_wanted;  /* read: a gradient flows to it */
    rota_buffer *root;
    rota_buffer *memory; /* written: where the gradient's body has it */
};

static rota_status refuse(const choice *c, rota_status status, const char *format, ...) ROTA_PRINTF(3, 4);
static rota_status refuse(const choice *c, rota_status status, const char *format, ...) {
    char text[ROTA_ERROR_MESSAGE_MAX] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return rota_fail(status, "backward: body '%s' of node '%s': %s", c->body->name,
                     rota_node_record_name(c->node->record), text);
}

/* ---- What the body reads and writes ---- */

static rota_backward_span **spans_of(choice *c, const rota_tensor *x) {
    rota_tape_buffer *entry = rota_tape_lookup(&c->apart, x);
    return entry ? &entry->spans : NULL;
}

/* The first of a kind that has bytes in common. */
static rota_backward_span *find_span(rota_backward_span *list, bool is_written, uint64_t begin,
                                     uint64_t end) {
    for (; list; list = list->next)
        if (list->is_written == is_written && list->begin < end && list->end > begin) return list;
    return NULL;
}

/* Written ones that meet are one; read ones that overlap are. */
static rota_status add_span(choice *c, const rota_tensor *x, uint64_t begin, uint64_t end, bool is_written,
                            bool is_wanted) {
    rota_backward_span **link = spans_of(c, x);
    if (!link) return no_memory();
    rota_backward_span **const list = link;
    while (*link) {
        rota_backward_span *it = *link;
        const bool joins =
            it->is_written == is_written && it->is_wanted == is_wanted &&
            (is_written ? it->begin <= end && it->end >= begin : it->begin < end && it->end > begin);
        if (!joins) {
            link = &it->next;
            continue;
        }
        if (it->begin < begin) begin = it->begin;
        if (it->end > end) end = it->end;
        *link = it->next;
    }
    rota_backward_span *made = rota_arena_calloc(&c->apart.arena, sizeof *made, 8);
    if (!made) return no_memory();
    *made = (rota_backward_span){.next = *list,
                                 .begin = begin,
                                 .end = end,
                                 .is_written = is_written,
                                 .is_wanted = is_wanted,
                                 .root = rota_tensor_root(x)};
    *list = made;
    return ROTA_OK;
}

static bool is_own(const choice *c, const rota_buffer *root) {
    return root->graph == c->body;
}

static rota_status note_read(choice *c, const rota_op *op, const char *name, const rota_tensor *x) {
    const uint64_t begin = rota_tensor_begin(x), end = begin + rota_tensor_extent_bytes(x);
    rota_backward_span **list = spans_of(c, x);
    if (!list) return no_memory();
    const rota_backward_span *written = find_span(*list, true, begin, end);
    const rota_buffer *root = rota_tensor_root(x);
    if (written && written->begin <= begin && written->end >= end) return ROTA_OK;
    if (written || is_own(c, root))
        return refuse(
            c, ROTA_UNSUPPORTED, "op '%s' reads its '%s' in buffer '%s', %s", op->name, name, root->name,
            written ? "of which ops before it wrote a part" : "which no op of the body's tape wrote");
    const bool is_wanted = rota_gradient_passes(c->tape, x);
    if (is_wanted && x->dtype != ROTA_F32)
        return refuse(c, ROTA_UNSUPPORTED,
                      "the gradient flows to the '%s' of op '%s' in buffer '%s', which is %s; expected f32",
                      name, op->name, root->name, rota_dtype_name(x->dtype));
    return add_span(c, x, begin, end, false, is_wanted);
}

static rota_status note_write(choice *c, const rota_op *op, const char *name, const rota_tensor *y) {
    const uint64_t begin = rota_tensor_begin(y), end = begin + rota_tensor_extent_bytes(y);
    const rota_buffer *root = rota_tensor_root(y);
    if (!is_own(c, root) && rota_gradient_touched(c->tape, y)) {
        if (y->dtype != ROTA_F32 || begin % 4)
            return refuse(
                c, ROTA_UNSUPPORTED,
                "the gradient flows through the '%s' of op '%s' in buffer '%s', which is %s; expected f32",
                name, op->name, root->name, rota_dtype_name(y->dtype));
        if (rota_gradient_given(c->tape, y))
            return refuse(c, ROTA_UNSUPPORTED, "op '%s' writes a parameter, in buffer '%s'", op->name,
                          root->name);
        if (!rota_tensor_is_dense(y))
            return refuse(c, ROTA_UNSUPPORTED, "op '%s' writes its '%s' in buffer '%s' with gaps", op->name,
                          name, root->name);
    }
    return add_span(c, y, begin, end, true, false);
}

static rota_status note_uses(choice *c) {
    for (uint64_t u = 0; u < c->taped->count; u++) {
        const rota_op_use *use = &c->taped->uses[u].use;
        for (uint32_t i = 0; i < use->input_count; i++) {
            if (!use->inputs[i].buffer) continue;
            ROTA_TRY(note_read(c, use->op, use->op->input_names[i], &use->inputs[i]));
            if (use->op->input_modes[i] != ROTA_READ)
                ROTA_TRY(note_write(c, use->op, use->op->input_names[i], &use->inputs[i]));
        }
        for (uint32_t i = 0; i < use->output_count; i++)
            ROTA_TRY(note_write(c, use->op, use->op->output_names[i], &use->outputs[i]));
    }
    return ROTA_OK;
}

/* ---- What stands in the way ---- */

/* Nodes that are no ops of the tape's: they write neither what ops read nor what a gradient flows through. */
static rota_status check_write(choice *c, const rota_node_record *record, const rota_access_record *access) {
    if (access->buffer & 1 || ROTA_ACCESS_MODE(access) == ROTA_READ) return ROTA_OK;
    rota_buffer *root = ROTA_ACCESS_BUFFER(access->buffer);
    const uint64_t begin = ROTA_ACCESS_OFFSET(access), end = begin + access->size_bytes;
    const rota_tensor bytes = {.buffer = root,
                               .offset_bytes = begin,
                               .dtype = ROTA_F32,
                               .rank = 1,
                               .shape = {access->size_bytes / 4},
                               .stride = {1}};
    rota_backward_span **list = spans_of(c, &bytes);
    if (!list) return no_memory();
    if (find_span(*list, false, begin, end))
        return refuse(
            c, ROTA_UNSUPPORTED,
            "node '%s' writes buffer '%s', which an op of the body reads as it was before; its gradient "
            "computes the body again, so write the result elsewhere",
            rota_node_record_name(record), root->name);
    const rota_backward_span *written = find_span(*list, true, begin, end);
    if (written && written->begin <= begin && written->end >= end) return ROTA_OK;
    if (!rota_gradient_passes(c->tape, &bytes)) return ROTA_OK;
    return refuse(
        c, ROTA_UNSUPPORTED,
        "node '%s', which is no op of the body's tape, writes buffer '%s', which the gradient flows through",
        rota_node_record_name(record), root->name);
}

static rota_status check_nodes(choice *c) {
    for (uint32_t l = 0; l < c->body->lane_count; l++) {
        const rota_recorder *lane = c->body->lanes[l];
        for (const rota_lane_chunk *chunk = lane->first_chunk; chunk; chunk = chunk->next)
            for (const uint8_t *next = (const uint8_t *)(chunk + 1); next < chunk->end;
                 next += ((const rota_node_record *)next)->record_bytes) {
                const rota_node_record *record = (const rota_node_record *)next;
                for (uint32_t i = 0; i < record->access_count; i++)
                    ROTA_TRY(check_write(c, record, &rota_node_accesses(record)[i]));
            }
    }
    return ROTA_OK;
}

/* What the gradient's node reads is as it was when the node ran. */
static rota_status check_unchanged(rota_tape *tape, const rota_conditional *node, const char *what,
                                   const rota_buffer *root, uint64_t begin, uint64_t end) {
    const rota_tape_buffer *entry =
        rota_tape_lookup(tape, &(rota_tensor){.buffer = (rota_buffer *)(uintptr_t)root});
    if (!entry) return no_memory();
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

/* Of one body: spans that a gradient's body reads. */
static rota_status check_spans(choice *c) {
    for (uint64_t i = 0; i < c->apart.map_capacity; i++)
        for (const rota_backward_span *it = c->apart.map[i].spans; it; it = it->next) {
            if (it->is_written || !it->root) continue;
            char what[160];
            (void)snprintf(what, sizeof what, "what its body '%.100s' reads", c->body->name);
            ROTA_TRY(check_unchanged(c->tape, c->node, what, it->root, it->begin, it->end));
        }
    return ROTA_OK;
}

/* ---- Forward once more ---- */

/* Where the gradient's body has what the body wrote; else where it was. */
static rota_status map_tensor(choice *c, const rota_tensor *x, rota_tensor *out) {
    *out = *x;
    if (!x->buffer) return ROTA_OK;
    rota_backward_span **list = spans_of(c, x);
    if (!list) return no_memory();
    const uint64_t begin = rota_tensor_begin(x);
    rota_backward_span *span = find_span(*list, true, begin, begin + rota_tensor_extent_bytes(x));
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

static rota_status compute_again(choice *c) {
    for (uint64_t u = 0; u < c->taped->count; u++) {
        const rota_tape_use *used = &c->taped->uses[u];
        rota_op_use use = used->use;
        for (uint32_t i = 0; i < use.input_count; i++)
            ROTA_TRY(map_tensor(c, &used->use.inputs[i], &use.inputs[i]));
        for (uint32_t i = 0; i < use.output_count; i++)
            ROTA_TRY(map_tensor(c, &used->use.outputs[i], &use.outputs[i]));
        c->apart.name = used->name;
        c->apart.op_name = used->op_name;
        ROTA_TRY(rota_tape_apply(&c->apart, &use, use.op->name));
    }
    return ROTA_OK;
}

/* ---- Back ---- */

static rota_tensor words_of(const rota_backward_span *span) {
    return (rota_tensor){.buffer = span->root,
                         .offset_bytes = span->begin,
                         .dtype = ROTA_F32,
                         .rank = 1,
                         .shape = {(span->end - span->begin) / 4},
                         .stride = {1}};
}

static rota_status add_tensor(rota_vector *vector, const rota_tensor *x) {
    if (!rota_vector_reserve(vector, sizeof *x, 1)) return no_memory();
    ((rota_tensor *)vector->data)[vector->count++] = *x;
    return ROTA_OK;
}

/* What the body read gets its gradient added where that is on the tape, complete whether the body runs or not. */
static rota_status open_read(choice *c, const rota_backward_span *span) {
    const rota_tensor x = words_of(span);
    rota_tensor dx;
    bool fresh;
    ROTA_TRY(rota_gradient_read(c->tape, &x, &dx));
    ROTA_TRY(rota_gradient_target(c->tape, &x, &dx, &fresh));
    ROTA_TRY(add_tensor(&c->params, &x));
    return add_tensor(&c->grads, &dx);
}

/* The gradient of what the body wrote is its copy's in the gradient's body. */
static rota_status open_written(choice *c, const rota_backward_span *span) {
    const rota_tensor y = words_of(span);
    rota_tensor dy, copy;
    rota_gradient_region *region;
    if (is_own(c, span->root) || !rota_gradient_touched(c->tape, &y)) return ROTA_OK;
    ROTA_TRY(rota_gradient_read(c->tape, &y, &dy));
    ROTA_TRY(map_tensor(c, &y, &copy));
    ROTA_TRY(rota_gradient_region_add(&c->apart, &copy, &dy, false, &region));
    region->written = rota_arena_calloc(&c->apart.arena, sizeof *region->written, 8);
    region->views = rota_arena_calloc(&c->apart.arena, sizeof *region->views, 8);
    if (!region->written || !region->views) return no_memory();
    *region->written = (rota_byte_range){NULL, region->begin, region->end};
    region->views->tensor = dy;
    region->view_count = 1;
    return ROTA_OK;
}

/* Every buffer's spans as they are by now, apart from the map, which grows. */
static rota_status list_spans(choice *c) {
    for (uint64_t i = 0; i < c->apart.map_capacity; i++)
        for (rota_backward_span *it = c->apart.map[i].spans; it; it = it->next) {
            if (!rota_vector_reserve(&c->spans, sizeof it, 1)) return no_memory();
            ((rota_backward_span **)c->spans.data)[c->spans.count++] = it;
        }
    return ROTA_OK;
}

static rota_status go_back(choice *c) {
    rota_tape *apart = &c->apart;
    rota_backward_span *const *spans = c->spans.data;
    apart->name = c->tape->name;
    apart->op_name = "backward";
    const uint64_t uses = apart->use_count;
    apart->remember = false;
    for (uint64_t i = 0; i < c->spans.count; i++)
        if (!spans[i]->is_written && spans[i]->is_wanted) ROTA_TRY(open_read(c, spans[i]));
    ROTA_TRY(rota_backward_open(apart, c->params.data, (uint32_t)c->params.count, c->grads.data, true));
    for (uint64_t u = 0; u < uses; u++) ROTA_TRY(rota_backward_spread(apart, &apart->uses[u]->use));
    for (uint64_t i = 0; i < c->spans.count; i++)
        if (spans[i]->is_written) ROTA_TRY(open_written(c, spans[i]));
    for (uint64_t u = uses; u-- > 0;) ROTA_TRY(rota_backward_step(apart, apart->uses[u], true));
    apart->op_name = "backward";
    for (uint64_t i = 0; i < c->spans.count; i++) {
        const rota_tensor y = words_of(spans[i]);
        rota_tensor dy;
        if (!spans[i]->is_written || is_own(c, spans[i]->root) || !rota_gradient_touched(c->tape, &y))
            continue;
        ROTA_TRY(rota_gradient_read(c->tape, &y, &dy));
        ROTA_TRY(rota_record_zero(apart, dy.buffer, dy.offset_bytes, spans[i]->end - spans[i]->begin));
    }
    return ROTA_OK;
}

/* The body of the gradient's node, into a lane that is open. */
static rota_status record_body(choice *c) {
    ROTA_TRY(note_uses(c));
    ROTA_TRY(check_nodes(c));
    ROTA_TRY(check_spans(c));
    ROTA_TRY(list_spans(c));
    ROTA_TRY(compute_again(c));
    return go_back(c);
}

static rota_status make_body(rota_tape *tape, const rota_conditional *node, const rota_graph *body,
                             rota_graph **out_body) {
    char name[96];
    (void)snprintf(name, sizeof name, "%.80s_backward", body->name);
    choice c = {.tape = tape,
                .node = node,
                .body = body,
                .taped = taped_lane(body)->taped,
                .apart = {.options = {.placement = tape->options.placement}, .remember = true}};
    ROTA_TRY(rota_graph_create_body(tape->graph, name, out_body));
    c.apart.graph = *out_body;
    rota_status status = rota_recorder_open(*out_body, 0, NULL, &c.apart.recorder);
    if (status == ROTA_OK) status = record_body(&c);
    rota_recorder_close(c.apart.recorder);
    rota_tape_forget(&c.apart);
    free(c.apart.uses);
    rota_vector_free(&c.spans);
    rota_vector_free(&c.params);
    rota_vector_free(&c.grads);
    return status;
}

/* ---- The node ---- */

bool rota_choices_is_touched(rota_tape *tape, const rota_conditional *node) {
    const rota_access_record *accesses = rota_node_accesses(node->record);
    for (uint32_t i = 0; i < node->record->access_count; i++) {
        const rota_tensor bytes = {.buffer = node->roots[i],
                                   .offset_bytes = ROTA_ACCESS_OFFSET(&accesses[i]),
                                   .dtype = ROTA_F32,
                                   .rank = 1,
                                   .shape = {accesses[i].size_bytes / 4},
                                   .stride = {1}};
        if (ROTA_ACCESS_MODE(&accesses[i]) != ROTA_READ && rota_gradient_touched(tape, &bytes)) return true;
    }
    return false;
}

static rota_status record_choice(rota_tape *tape, const rota_conditional *node, rota_graph **bodies) {
    const rota_access_record *access = &rota_node_accesses(node->record)[node->condition.access];
    rota_buffer *condition = node->roots[node->condition.access];
    const uint64_t offset = ROTA_ACCESS_OFFSET(access) + node->condition.offset_bytes;
    const char *name;
    if (ROTA_ACCESS_MODE(access) != ROTA_READ)
        return rota_fail(
            ROTA_UNSUPPORTED,
            "backward: a body of node '%s' writes beside or onto its condition, in buffer '%s'; its "
            "gradient has the same condition, which must be as it was",
            rota_node_record_name(node->record), condition->name);
    ROTA_TRY(check_unchanged(tape, node, "its condition", condition, offset, offset + 4));
    ROTA_TRY(rota_tape_label_of(tape, rota_node_record_name(node->record), "_backward", &name));
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

rota_status rota_choices_step(rota_tape *tape, const rota_conditional *node) {
    if (!rota_choices_is_touched(tape, node)) return ROTA_OK;
    rota_graph **bodies = calloc(node->body_count, sizeof *bodies);
    if (!bodies) return no_memory();
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < node->body_count && status == ROTA_OK; i++)
        if (node->bodies[i]) status = make_body(tape, node, node->bodies[i], &bodies[i]);
    if (status == ROTA_OK) status = record_choice(tape, node, bodies);
    if (status != ROTA_OK)
        for (uint32_t i = 0; i < node->body_count; i++) rota_graph_release(bodies[i]);
    free(bodies);
    return status;
}

/* ---- All of a tape's ---- */

static int compare_nodes(const void *left, const void *right) {
    const rota_conditional *a = *(const rota_conditional *const *)left;
    const rota_conditional *b = *(const rota_conditional *const *)right;
    return a->index < b->index ? -1 : a->index > b->index;
}

rota_status rota_choices_list(rota_tape *tape, rota_choices *out_choices) {
    *out_choices = (rota_choices){0};
    pthread_mutex_lock(&tape->graph->mutex);
    const rota_conditional *newest = tape->graph->conditionals; /* which stay as they are */
    pthread_mutex_unlock(&tape->graph->mutex);
    uint32_t count = 0;
    for (const rota_conditional *it = newest; it; it = it->next) count += rota_choices_has(tape, it);
    if (!count) return ROTA_OK;
    out_choices->nodes = rota_arena_alloc(&tape->arena, sizeof *out_choices->nodes * count, 8);
    if (!out_choices->nodes) return no_memory();
    for (const rota_conditional *it = newest; it; it = it->next)
        if (rota_choices_has(tape, it)) out_choices->nodes[out_choices->count++] = it;
    qsort(out_choices->nodes, count, sizeof *out_choices->nodes, compare_nodes);
    return ROTA_OK;
}

rota_status rota_choices_spread(rota_tape *tape, const rota_conditional *node) {
    for (uint32_t i = 0; i < node->body_count; i++) {
        if (!node->bodies[i]) continue;
        const rota_taped_uses *taped = taped_lane(node->bodies[i])->taped;
        for (uint64_t u = 0; u < taped->count; u++) ROTA_TRY(rota_backward_spread(tape, &taped->uses[u].use));
    }
    return ROTA_OK;
}
