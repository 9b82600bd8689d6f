/* What a body reads and writes, in its record order. A read of bytes that nothing in the body wrote by then is of what
 * was there before; of what the body, or its loop's index, writes as well, something is kept.
 *
 * A node within the body may run or not, so what it writes is what was there before where it does not: it counts as
 * reading all that it writes, and its ops as reading what they find then. */
#include "ops/backward_body.h"

#include <stdlib.h>

#include "graph/lane_records.h"
#include "graph/record.h"
#include "ops/backward_bodies.h"
#include "ops/gradient.h"

bool rota_backward_is_inner(const rota_backward_body *c, const rota_buffer *root) {
    if (rota_backward_is_own(c, root)) return false;
    const rota_graph *graph = root->graph;
    while (graph && graph != c->body) graph = graph->outer;
    return graph != NULL;
}

rota_tensor rota_backward_words(rota_buffer *root, uint64_t begin, uint64_t end) {
    return (rota_tensor){.buffer = root,
                         .offset_bytes = begin,
                         .dtype = ROTA_F32,
                         .rank = 1,
                         .shape = {(end - begin) / 4},
                         .stride = {1}};
}

rota_tensor rota_backward_word(const rota_conditional *node, const rota_conditional_word *word) {
    const uint64_t begin =
        ROTA_ACCESS_OFFSET(&rota_node_accesses(node->record)[word->access]) + word->offset_bytes;
    rota_tensor made = rota_backward_words(node->roots[word->access], begin, begin + 4);
    made.dtype = ROTA_I32;
    return made;
}

/* ---- Spans ---- */

rota_backward_span **rota_backward_spans_of(rota_backward_body *c, const rota_tensor *x) {
    rota_tape_buffer *entry = rota_tape_lookup(&c->apart, x);
    return entry ? &entry->spans : NULL;
}

rota_backward_span *rota_backward_find_span(rota_backward_span *list, bool is_written, uint64_t begin,
                                            uint64_t end) {
    for (; list; list = list->next)
        if (list->is_written == is_written && list->begin < end && list->end > begin) return list;
    return NULL;
}

/* Written ones that meet are one; read ones that overlap are. */
static rota_status add_span(rota_backward_body *c, const rota_tensor *x, uint64_t begin, uint64_t end,
                            bool is_written, bool is_wanted) {
    bool is_real = rota_dtype_is_real(x->dtype);
    rota_backward_span **link = rota_backward_spans_of(c, x);
    if (!link) return rota_backward_no_memory();
    rota_backward_span **const list = link;
    uint64_t number = c->span_number++;
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
        if (it->number < number) number = it->number;
        is_real |= it->is_real;
        *link = it->next;
    }
    rota_backward_span *made = rota_arena_calloc(&c->apart.arena, sizeof *made, 8);
    if (!made) return rota_backward_no_memory();
    *made = (rota_backward_span){.next = *list,
                                 .begin = begin,
                                 .end = end,
                                 .number = number,
                                 .is_written = is_written,
                                 .is_wanted = is_wanted,
                                 .is_real = is_real,
                                 .root = rota_tensor_root(x)};
    *list = made;
    return ROTA_OK;
}

/* How much of x was written by now. */
typedef enum cover { COVER_NONE, COVER_PART, COVER_ALL } cover;
static rota_status written_of(rota_backward_body *c, const rota_tensor *x, uint64_t begin, uint64_t end,
                              cover *out) {
    rota_backward_span **list = rota_backward_spans_of(c, x);
    if (!list) return rota_backward_no_memory();
    const rota_backward_span *written = rota_backward_find_span(*list, true, begin, end);
    *out = !written ? COVER_NONE : written->begin <= begin && written->end >= end ? COVER_ALL : COVER_PART;
    return ROTA_OK;
}

/* Who reads: op or node, its name, and which of its operands. */
typedef struct reader {
    const char *kind, *name, *operand;
} reader;

static rota_status add_before(rota_backward_body *c, const reader *who, const rota_tensor *x, uint64_t begin,
                              uint64_t end) {
    const bool is_wanted = rota_gradient_passes(c->tape, x);
    if (is_wanted && x->dtype != ROTA_F32)
        return rota_backward_refuse(
            c, ROTA_UNSUPPORTED,
            "the gradient flows to the '%s' of %s '%s' in buffer '%s', which is %s; expected f32",
            who->operand, who->kind, who->name, rota_tensor_root(x)->name, rota_dtype_name(x->dtype));
    return add_span(c, x, begin, end, false, is_wanted);
}

static rota_status add_change(rota_backward_body *c, const rota_backward_change *change) {
    if (!rota_vector_reserve(&c->changes, sizeof *change, 1)) return rota_backward_no_memory();
    ((rota_backward_change *)c->changes.data)[c->changes.count++] = *change;
    return ROTA_OK;
}

/* Words of what is in a buffer. */
static rota_tensor words_like(const rota_tensor *x, uint64_t begin, uint64_t end) {
    rota_tensor words = rota_backward_words(rota_tensor_root(x), begin, end);
    if (!rota_dtype_is_real(x->dtype)) words.dtype = ROTA_I32;
    return words;
}

/* What is there before is in the copy of what the body writes, too: `by`, before it does anything, brings it there. */
static rota_status bring(rota_backward_body *c, const reader *who, const void *by, const rota_tensor *x,
                         uint64_t begin, uint64_t end) {
    rota_buffer *root = rota_tensor_root(x);
    const rota_tensor words = words_like(x, begin, end);
    if (rota_backward_is_own(c, root) || begin % 4 || end % 4 || end > rota_buffer_size(root))
        return rota_backward_refuse(
            c, ROTA_UNSUPPORTED, "%s '%s' takes its '%s' in buffer '%s', of which %s bytes [%llu, %llu)",
            who->kind, who->name, who->operand, root->name,
            rota_backward_is_own(c, root) ? "no op of the body's tape wrote" : "it takes no whole words,",
            (unsigned long long)begin, (unsigned long long)end);
    ROTA_TRY(add_before(c, who, &words, begin, end));
    ROTA_TRY(add_span(c, &words, begin, end, true, false));
    return add_change(
        c, &(rota_backward_change){ROTA_CHANGE_BRING, by, root, begin, end, rota_dtype_is_real(x->dtype)});
}

/* What of [begin, end) nothing wrote yet, piece by piece. */
static rota_status bring_rest(rota_backward_body *c, const reader *who, const void *by, const rota_tensor *x,
                              uint64_t begin, uint64_t end) {
    while (begin < end) {
        rota_backward_span **list = rota_backward_spans_of(c, x);
        if (!list) return rota_backward_no_memory();
        uint64_t written = 0, next = end;
        for (const rota_backward_span *it = *list; it; it = it->next) {
            if (!it->is_written || it->end <= begin) continue;
            if (it->begin <= begin)
                written = it->end;
            else if (it->begin < next)
                next = it->begin;
        }
        if (!written) ROTA_TRY(bring(c, who, by, x, begin, next));
        begin = written ? written : next;
    }
    return ROTA_OK;
}

static rota_status note_read(rota_backward_body *c, const reader *who, const void *by, const rota_tensor *x) {
    const uint64_t begin = rota_tensor_begin(x), end = begin + rota_tensor_extent_bytes(x);
    const rota_buffer *root = rota_tensor_root(x);
    cover written;
    ROTA_TRY(written_of(c, x, begin, end, &written));
    if (written == COVER_NONE && rota_backward_is_own(c, root))
        return rota_backward_refuse(c, ROTA_UNSUPPORTED,
                                    "%s '%s' reads its '%s' in buffer '%s', which no op of the body's tape "
                                    "wrote",
                                    who->kind, who->name, who->operand, root->name);
    if (!rota_vector_reserve(&c->is_before, sizeof(bool), 1)) return rota_backward_no_memory();
    ((bool *)c->is_before.data)[c->is_before.count++] = written == COVER_NONE;
    if (written == COVER_NONE) return add_before(c, who, x, begin, end);
    return written == COVER_PART ? bring_rest(c, who, by, x, begin, end) : ROTA_OK;
}

/* Before something that the body wrote is written over: all that it wrote there by now and that stays. */
static rota_status note_renewal(rota_backward_body *c, const void *by, const rota_tensor *y, uint64_t begin,
                                uint64_t end, bool overwrites_all) {
    rota_backward_span **list = rota_backward_spans_of(c, y);
    if (!list) return rota_backward_no_memory();
    rota_buffer *root = rota_tensor_root(y);
    ROTA_TRY(add_change(c, &(rota_backward_change){ROTA_CHANGE_RENEW, by, root, begin, end, false}));
    for (const rota_backward_span *it = *list; it; it = it->next) {
        if (!it->is_written || (overwrites_all && it->begin >= begin && it->end <= end)) continue;
        ROTA_TRY(add_change(
            c, &(rota_backward_change){ROTA_CHANGE_TAKE, by, root, it->begin, it->end, it->is_real}));
    }
    return ROTA_OK;
}

/* All of it is in the copy before `by` changes some, or perhaps not. */
static rota_status note_change(rota_backward_body *c, const reader *who, const void *by,
                               const rota_tensor *y) {
    const uint64_t begin = rota_tensor_begin(y) / 4 * 4,
                   end = (rota_tensor_begin(y) + rota_tensor_extent_bytes(y) + 3) / 4 * 4;
    cover written;
    ROTA_TRY(written_of(c, y, begin, end, &written));
    if (written != COVER_ALL) ROTA_TRY(bring_rest(c, who, by, y, begin, end));
    return written == COVER_NONE ? ROTA_OK : note_renewal(c, by, y, begin, end, false);
}

/* In a loop later iterations bring gradients to what the body wrote, too. */
static bool gets_gradient(const rota_backward_body *c, const rota_tensor *y) {
    return rota_conditional_is_loop(c->node->kind) ? rota_gradient_passes(c->tape, y)
                                                   : rota_gradient_touched(c->tape, y);
}

static rota_status note_write(rota_backward_body *c, const rota_tape_use *used, const char *name,
                              const rota_tensor *y) {
    const rota_op *op = used->use.op;
    const uint64_t begin = rota_tensor_begin(y), end = begin + rota_tensor_extent_bytes(y);
    const rota_buffer *root = rota_tensor_root(y);
    if (!rota_backward_is_own(c, root) && gets_gradient(c, y)) {
        if (y->dtype != ROTA_F32 || begin % 4)
            return rota_backward_refuse(
                c, ROTA_UNSUPPORTED,
                "the gradient flows through the '%s' of op '%s' in buffer '%s', which is %s; expected f32",
                name, op->name, root->name, rota_dtype_name(y->dtype));
        if (rota_gradient_given(c->tape, y))
            return rota_backward_refuse(c, ROTA_UNSUPPORTED, "op '%s' writes a parameter, in buffer '%s'",
                                        op->name, root->name);
        if (!rota_tensor_is_dense(y))
            return rota_backward_refuse(c, ROTA_UNSUPPORTED,
                                        "op '%s' writes its '%s' in buffer '%s' with gaps", op->name, name,
                                        root->name);
    }
    cover written;
    ROTA_TRY(written_of(c, y, begin, end, &written));
    if (written) ROTA_TRY(note_renewal(c, used, y, begin, end, rota_tensor_is_dense(y)));
    return add_span(c, y, begin, end, true, false);
}

/* ---- Ops ---- */

static rota_status add_item(rota_backward_body *c, const rota_tape_use *used, const rota_conditional *node) {
    if (!rota_vector_reserve(&c->items, sizeof(rota_backward_item), 1)) return rota_backward_no_memory();
    ((rota_backward_item *)c->items.data)[c->items.count++] = (rota_backward_item){used, node, false};
    return ROTA_OK;
}

static rota_status note_use(void *user, const rota_tape_use *used) {
    rota_backward_body *c = user;
    const rota_op_use *use = &used->use;
    ROTA_TRY(add_item(c, used, NULL));
    for (uint32_t i = 0; i < use->input_count; i++) {
        const reader who = {"op", use->op->name, use->op->input_names[i]};
        if (use->inputs[i].buffer && use->op->input_modes[i] == ROTA_READ)
            ROTA_TRY(note_read(c, &who, used, &use->inputs[i]));
    }
    for (uint32_t i = 0; i < use->input_count; i++) {
        const reader who = {"op", use->op->name, use->op->input_names[i]};
        if (!use->inputs[i].buffer || use->op->input_modes[i] == ROTA_READ) continue;
        ROTA_TRY(note_change(c, &who, used, &use->inputs[i]));
        ROTA_TRY(note_write(c, used, who.operand, &use->inputs[i]));
    }
    for (uint32_t i = 0; i < use->output_count; i++)
        ROTA_TRY(note_write(c, used, use->op->output_names[i], &use->outputs[i]));
    return ROTA_OK;
}

/* ---- Nodes within the body ---- */

typedef struct inner_write {
    rota_buffer *root;
    uint64_t begin, end;
    uint64_t number;
    bool is_real;
} inner_write;

typedef struct inner_writes {
    rota_backward_body *c;
    rota_vector list; /* inner_write */
    bool all;         /* also of buffers of bodies within */
} inner_writes;

static rota_status add_inner_write(inner_writes *w, const rota_tensor *y) {
    if (!y->buffer || rota_tensor_is_empty(y)) return ROTA_OK;
    if (!w->all && rota_backward_is_inner(w->c, rota_tensor_root(y))) return ROTA_OK;
    if (!rota_vector_reserve(&w->list, sizeof(inner_write), 1)) return rota_backward_no_memory();
    const uint64_t begin = rota_tensor_begin(y);
    ((inner_write *)w->list.data)[w->list.count] =
        (inner_write){.root = rota_tensor_root(y),
                      .begin = begin / 4 * 4, /* whole words of 2-byte elements */
                      .end = (begin + rota_tensor_extent_bytes(y) + 3) / 4 * 4,
                      .number = w->list.count,
                      .is_real = rota_dtype_is_real(y->dtype)};
    w->list.count++;
    return ROTA_OK;
}

static rota_status add_use_writes(void *user, const rota_tape_use *used) {
    const rota_op_use *use = &used->use;
    for (uint32_t i = 0; i < use->input_count; i++)
        if (use->op->input_modes[i] != ROTA_READ) ROTA_TRY(add_inner_write(user, &use->inputs[i]));
    for (uint32_t i = 0; i < use->output_count; i++) ROTA_TRY(add_inner_write(user, &use->outputs[i]));
    return ROTA_OK;
}

static rota_status walk_bodies(const rota_conditional *node, const rota_backward_walk *walk) {
    for (uint32_t i = 0; i < node->body_count; i++)
        if (node->bodies[i]) ROTA_TRY(rota_backward_walk_body(node->bodies[i], walk));
    return ROTA_OK;
}

static rota_status add_node_writes(void *user, rota_conditional *node) {
    if (node->iteration.access != ROTA_CONDITIONAL_NO_WORD) {
        const rota_tensor index = rota_backward_word(node, &node->iteration);
        ROTA_TRY(add_inner_write(user, &index));
    }
    return walk_bodies(node, &(rota_backward_walk){user, add_use_writes, add_node_writes});
}

static int compare_ranges(const void *left, const void *right) {
    const inner_write *a = left, *b = right;
    if (a->root != b->root) return (uintptr_t)a->root < (uintptr_t)b->root ? -1 : 1;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static int compare_numbers(const void *left, const void *right) {
    const inner_write *a = left, *b = right;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* What meets is one, in the order in which it was met first. */
static void join_writes(inner_writes *w) {
    inner_write *all = w->list.data;
    uint64_t kept = 0;
    if (w->list.count < 2) return;
    qsort(all, w->list.count, sizeof *all, compare_ranges);
    for (uint64_t i = 0; i < w->list.count; i++) {
        inner_write *last = kept ? &all[kept - 1] : NULL;
        if (!last || last->root != all[i].root || all[i].begin > last->end ||
            (all[i].begin == last->end && all[i].is_real != last->is_real)) {
            all[kept++] = all[i];
            continue;
        }
        if (all[i].end > last->end) last->end = all[i].end;
        if (all[i].number < last->number) last->number = all[i].number;
        last->is_real |= all[i].is_real;
    }
    w->list.count = kept;
    qsort(all, kept, sizeof *all, compare_numbers);
}

static rota_status note_inner_write(rota_backward_body *c, const rota_conditional *node,
                                    const inner_write *it) {
    rota_tensor words = rota_backward_words(it->root, it->begin, it->end);
    if (!it->is_real) words.dtype = ROTA_I32;
    const char *const name = rota_node_record_name(node->record);
    ROTA_TRY(note_change(c, &(reader){"node", name, "result"}, node, &words));
    if (!rota_backward_is_own(c, it->root) && gets_gradient(c, &words) &&
        rota_gradient_given(c->tape, &words))
        return rota_backward_refuse(c, ROTA_UNSUPPORTED,
                                    "a body of node '%s' within it writes a parameter, in buffer '%s'", name,
                                    it->root->name);
    return add_span(c, &words, it->begin, it->end, true, false);
}

/* What a node within the body decides by is computed again, so what its bodies do to it must be ops' work. */
static rota_status check_condition(rota_backward_body *c, const rota_conditional *node) {
    const rota_tensor word = rota_backward_word(node, &node->condition);
    const uint64_t begin = rota_tensor_begin(&word);
    if (ROTA_ACCESS_MODE(&rota_node_accesses(node->record)[node->condition.access]) == ROTA_READ)
        return ROTA_OK;
    inner_writes w = {.c = c, .all = true};
    rota_status status = walk_bodies(node, &(rota_backward_walk){&w, add_use_writes, add_node_writes});
    bool found = false;
    for (uint64_t i = 0; i < w.list.count && !found; i++) {
        const inner_write *it = (const inner_write *)w.list.data + i;
        found = it->root == word.buffer && it->begin <= begin && it->end >= begin + 4;
    }
    rota_vector_free(&w.list);
    if (found || status != ROTA_OK) return status;
    return rota_backward_refuse(
        c, ROTA_UNSUPPORTED,
        "a body of node '%s' within it writes beside or onto its condition, in buffer '%s', by a node that "
        "is no op of its tape",
        rota_node_record_name(node->record), word.buffer->name);
}

static rota_status note_inner_use(void *user, const rota_tape_use *used) {
    rota_backward_body *c = user;
    const rota_op_use *use = &used->use;
    for (uint32_t i = 0; i < use->input_count; i++)
        if (use->op->input_modes[i] == ROTA_READ && use->inputs[i].buffer &&
            !rota_backward_is_inner(c, rota_tensor_root(&use->inputs[i])))
            ROTA_TRY(note_read(c, &(reader){"op", use->op->name, use->op->input_names[i]}, c->outermost,
                               &use->inputs[i]));
    return ROTA_OK;
}

static rota_status note_condition(rota_backward_body *c, const rota_conditional *node) {
    const rota_tensor word = rota_backward_word(node, &node->condition);
    if (rota_backward_is_inner(c, word.buffer)) return ROTA_OK;
    return note_read(c, &(reader){"node", rota_node_record_name(node->record), "condition"}, c->outermost,
                     &word);
}

static rota_status note_inner_node(void *user, rota_conditional *node) {
    ROTA_TRY(check_condition(user, node));
    ROTA_TRY(note_condition(user, node));
    return walk_bodies(node, &(rota_backward_walk){user, note_inner_use, note_inner_node});
}

static rota_status note_node(void *user, rota_conditional *node) {
    rota_backward_body *c = user;
    inner_writes w = {.c = c};
    c->outermost = node;
    ROTA_TRY(add_item(c, NULL, node));
    rota_status status = walk_bodies(node, &(rota_backward_walk){&w, add_use_writes, add_node_writes});
    join_writes(&w);
    for (uint64_t i = 0; i < w.list.count && status == ROTA_OK; i++)
        status = note_inner_write(c, node, (const inner_write *)w.list.data + i);
    rota_vector_free(&w.list);
    ROTA_TRY(status);
    ROTA_TRY(check_condition(c, node));
    ROTA_TRY(note_condition(c, node));
    if (node->iteration.access != ROTA_CONDITIONAL_NO_WORD) {
        const rota_tensor index = rota_backward_word(node, &node->iteration);
        const uint64_t begin = rota_tensor_begin(&index);
        ROTA_TRY(add_span(c, &index, begin, begin + 4, true, false));
    }
    return walk_bodies(node, &(rota_backward_walk){c, note_inner_use, note_inner_node});
}

/* ---- What stands in the way ---- */

/* Nodes that are no ops of the tape's: they write neither what ops read nor what a gradient flows through. */
static rota_status check_write(rota_backward_body *c, const rota_node_record *record,
                               const rota_access_record *access) {
    if (rota_access_stored(access) & 1 || ROTA_ACCESS_MODE(access) == ROTA_READ) return ROTA_OK;
    rota_buffer *root = ROTA_ACCESS_BUFFER(rota_access_stored(access));
    const uint64_t begin = ROTA_ACCESS_OFFSET(access), end = begin + rota_access_size(access);
    const rota_tensor bytes = rota_backward_words(root, begin, end);
    rota_backward_span **list = rota_backward_spans_of(c, &bytes);
    if (!list) return rota_backward_no_memory();
    const rota_backward_span *written = rota_backward_find_span(*list, true, begin, end);
    if (written && written->begin <= begin && written->end >= end) return ROTA_OK;
    if (rota_backward_find_span(*list, false, begin, end))
        return rota_backward_refuse(
            c, ROTA_UNSUPPORTED,
            "node '%s', which is no op of the body's tape, writes buffer '%s', which an op of the body reads "
            "as it was before",
            rota_node_record_name(record), root->name);
    if (!rota_gradient_passes(c->tape, &bytes)) return ROTA_OK;
    return rota_backward_refuse(
        c, ROTA_UNSUPPORTED,
        "node '%s', which is no op of the body's tape, writes buffer '%s', which the gradient flows through",
        rota_node_record_name(record), root->name);
}

static rota_status check_nodes(rota_backward_body *c) {
    for (uint32_t l = 0; l < c->body->lane_count; l++) {
        const rota_recorder *lane = c->body->lanes[l];
        if (lane->order.is_first) continue; /* what is kept there */
        rota_record_cursor cursor = rota_lane_records(lane);
        for (const rota_node_record *record; (record = rota_record_take(&cursor));)
            for (uint32_t i = 0; i < record->access_count; i++)
                ROTA_TRY(check_write(c, record, &rota_node_accesses(record)[i]));
    }
    return ROTA_OK;
}

/* Every buffer's spans as they are by now, apart from the map, which grows. */
static int compare_spans(const void *left, const void *right) {
    const rota_backward_span *a = *(rota_backward_span *const *)left,
                             *b = *(rota_backward_span *const *)right;
    return a->number < b->number ? -1 : a->number > b->number;
}

static rota_status list_spans(rota_backward_body *c) {
    for (uint64_t i = 0; i < c->apart.map_capacity; i++)
        for (rota_backward_span *it = c->apart.map[i].spans; it; it = it->next) {
            if (!rota_vector_reserve(&c->spans, sizeof it, 1)) return rota_backward_no_memory();
            ((rota_backward_span **)c->spans.data)[c->spans.count++] = it;
        }
    if (c->spans.count > 1) qsort(c->spans.data, c->spans.count, sizeof(rota_backward_span *), compare_spans);
    return ROTA_OK;
}

/* Of what is needed what the node writes, its own index included. */
static rota_status mark_kept(rota_backward_body *c) {
    rota_tensor index = {0};
    if (c->node->iteration.access != ROTA_CONDITIONAL_NO_WORD)
        index = rota_backward_word(c->node, &c->node->iteration);
    for (uint64_t i = 0; i < c->spans.count; i++) {
        rota_backward_span *it = ((rota_backward_span **)c->spans.data)[i];
        const rota_tensor words = rota_backward_words(it->root, it->begin, it->end);
        const rota_tape_buffer *entry = rota_tape_lookup(&c->apart, &words);
        if (!entry) return rota_backward_no_memory();
        if (it->is_written || !entry->is_needed) continue;
        it->is_kept = rota_backward_find_span(entry->spans, true, it->begin, it->end) != NULL;
        const uint64_t begin = index.offset_bytes;
        if (index.buffer == it->root) it->is_kept |= it->begin < begin + 4 && it->end > begin;
    }
    return ROTA_OK;
}

rota_status rota_backward_note_body(rota_backward_body *c) {
    ROTA_TRY(rota_backward_walk_body(c->body, &(rota_backward_walk){c, note_use, note_node}));
    ROTA_TRY(check_nodes(c));
    ROTA_TRY(list_spans(c));
    ROTA_TRY(rota_backward_note_needs(c));
    return mark_kept(c);
}
