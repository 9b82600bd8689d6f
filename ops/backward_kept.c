/* What is kept of a body, for its gradient: of each iteration what it read, as far as that is needed
 * (backward_needs.c), and it, and so the next one, overwrote, as reverse accumulation wants it (Griewank, Walther:
 * Evaluating Derivatives, 2nd ed., 2008, ch. 3 and 12: a tape of each iteration's state). Everything else the
 * gradient's body computes again from it.
 *
 *     graph, first of all:    count = 0, rows = 0
 *     body, before its ops:   rows[count] = x, ...; count += 1         a row: the spans that are kept, side by side
 *     before the gradient:    left = count
 *     the gradient's body:    left -= 1; row = rows[left]
 *
 * So a node that has no gradient keeps nothing: its body gets these nodes when rota_backward comes to it, in a lane
 * that is before all others, as does its graph. What an if or switch keeps is one row, and its count stays 0. */
#include "ops/backward_body.h"

#include <string.h>

#include "graph/record.h"
#include "ops/kernel_objects.h"
#include "ops/kernel_params.h"
#include "ops/record.h"

/* Small spans begin at multiples of this, and at their distance from one in their buffer. */
enum { SMALL = 16 };
/* A lane's ranges, of count, the 0 beside it, and rows. */
_Static_assert(ROTA_CONDITIONAL_ROOM >= 3, "ranges of what is kept");

typedef struct kept_span {
    rota_buffer *root;
    uint64_t low, high; /* whole words */
    uint64_t offset;    /* of `low`, in a row */
} kept_span;

struct rota_backward_kept {
    rota_backward_kept *next; /* of the body */
    rota_buffer *rows;        /* NULL: they are empty */
    rota_buffer *count;       /* of a loop's iterations, else 0; and a 0 behind it */
    uint64_t row_bytes;       /* of its own spans; a shared row may be longer */
    uint64_t span_count;
    kept_span spans[];
};

/* ---- Rows ---- */

static rota_status lay_out(rota_backward_body *c, rota_backward_kept **out) {
    uint64_t count = 0, end = 0;
    for (uint64_t i = 0; i < c->spans.count; i++) count += ((rota_backward_span **)c->spans.data)[i]->is_kept;
    rota_backward_kept *kept =
        rota_arena_calloc(&c->tape->recorder->arena, sizeof *kept + (size_t)count * sizeof *kept->spans, 8);
    if (!kept) return rota_backward_no_memory();
    for (uint64_t i = 0; i < c->spans.count; i++) {
        rota_backward_span *it = ((rota_backward_span **)c->spans.data)[i];
        if (!it->is_kept) continue;
        const uint64_t low = it->begin / 4 * 4, high = (it->end + 3) / 4 * 4,
                       step = high - low < ROTA_BUFFER_ALIGNMENT ? SMALL : ROTA_BUFFER_ALIGNMENT;
        if (high > rota_buffer_size(it->root))
            return rota_backward_refuse(c, ROTA_UNSUPPORTED,
                                        "it reads and writes buffer '%s' of %llu bytes up to its last ones; "
                                        "expected a multiple of 4",
                                        it->root->name, (unsigned long long)rota_buffer_size(it->root));
        const uint64_t offset = (end + step - 1) / step * step + low % step;
        kept->spans[kept->span_count++] = (kept_span){it->root, low, high, offset};
        it->offset = offset + it->begin - low;
        end = offset + high - low;
    }
    kept->row_bytes = (end + SMALL - 1) / SMALL * SMALL;
    *out = kept;
    return ROTA_OK;
}

/* An earlier rota_backward's, of the same spans. */
static const rota_backward_kept *find_equal(const rota_backward_body *c, const rota_backward_kept *kept) {
    for (const rota_backward_kept *it = c->taped->kept; it; it = it->next)
        if (it->span_count == kept->span_count &&
            memcmp(it->spans, kept->spans, kept->span_count * sizeof *kept->spans) == 0)
            return it;
    return NULL;
}

/* ---- In the forward graph ---- */

/* Of the bodies of an if or switch one runs, so they have one row, if it is large enough. */
static bool share_buffers(const rota_backward_body *c, rota_backward_kept *kept) {
    for (uint32_t i = 0; i < c->node->body_count; i++) {
        const rota_graph *body = c->node->bodies[i];
        for (const rota_backward_kept *it = body ? rota_backward_taped(body)->kept : NULL; it;
             it = it->next) {
            if (it->row_bytes < kept->row_bytes) continue;
            kept->rows = it->rows;
            kept->count = it->count;
            return true;
        }
    }
    return false;
}

static rota_status make_buffers(rota_backward_body *c, rota_backward_kept *kept) {
    const bool is_loop = rota_conditional_is_loop(c->node->kind);
    const uint64_t rows = is_loop ? c->node->iterations_max : 1;
    const uint64_t words_max = UINT32_MAX, bytes_max = (uint64_t)1 << 46;
    if (kept->row_bytes / 4 > words_max || (kept->row_bytes && rows > bytes_max / kept->row_bytes) ||
        rows > INT32_MAX)
        return rota_backward_refuse(
            c, ROTA_OUT_OF_RANGE,
            "its gradient keeps %llu bytes of each iteration, of which there may be %llu; expected a lower "
            "iterations_max",
            (unsigned long long)kept->row_bytes, (unsigned long long)rows);
    rota_recorder *lane = c->tape->recorder;
    if (kept->row_bytes) {
        ROTA_TRY(
            rota_recorder_buffer(lane, ROTA_BUFFER_TRANSIENT, "kept", rows * kept->row_bytes, &kept->rows));
        kept->rows->is_scratch = true; /* a row is written before it is read; its fill is for files alone */
    }
    return rota_recorder_buffer(lane, ROTA_BUFFER_TRANSIENT, "iterations", 8, &kept->count);
}

/* More ranges than a node may touch are refused before anything is recorded into its body. */
static rota_status check_room(const rota_backward_body *c) {
    const rota_conditional *node = c->node;
    uint32_t packed = 0;
    for (uint32_t i = 0; i < node->record->access_count; i++)
        packed += node->roots[i]->graph == node->lane->graph && node->roots[i]->kind != ROTA_BUFFER_SLOT;
    if (node->record->access_count + ROTA_CONDITIONAL_ROOM <= ROTA_BODY_RANGES_MAX &&
        packed + ROTA_CONDITIONAL_ROOM <= ROTA_BODY_PACKED_RANGES_MAX)
        return ROTA_OK;
    return rota_backward_refuse(
        c, ROTA_OUT_OF_RANGE,
        "its gradient needs %d ranges more than the %u that its node touches, of at most %d, %u of them in "
        "transient, INPUT and OUTPUT buffers of graph '%s', of at most %d",
        ROTA_CONDITIONAL_ROOM, node->record->access_count, ROTA_BODY_RANGES_MAX, packed,
        node->lane->graph->name, ROTA_BODY_PACKED_RANGES_MAX);
}

static rota_status count_by(rota_tape *tape, rota_buffer *count, int32_t value) {
    const rota_index_add_params params = {.rows = 1, .size = 1, .value = value};
    const rota_access accesses[] = {{count, 4, 4, ROTA_READ}, {count, 0, 4, ROTA_ACCUMULATE}};
    return rota_tape_kernel(tape, &rota_kernel_index_add, accesses, 2, &params, NULL, 0);
}

static rota_status record_rows(const rota_backward_body *c, const rota_backward_kept *kept,
                               rota_recorder *lane) {
    rota_tape tape = {.recorder = lane, .graph = c->body, .op_name = "keep"};
    const bool is_loop = rota_conditional_is_loop(c->node->kind);
    const uint64_t rows = is_loop ? c->node->iterations_max : 1;
    for (uint64_t i = 0; i < kept->span_count; i++) {
        const kept_span *it = &kept->spans[i];
        const uint64_t bytes = it->high - it->low;
        const rota_copy_row_params params = {.words = (uint32_t)(bytes / 4),
                                             .rows = (uint32_t)rows,
                                             .y_step = (uint32_t)(kept->row_bytes / 4)};
        /* To the end, so that all of them are one range. */
        const rota_access accesses[] = {{kept->count, 0, 4, ROTA_READ},
                                        {it->root, it->low, bytes, ROTA_READ},
                                        {kept->rows, it->offset, ROTA_WHOLE, ROTA_READWRITE}};
        ROTA_TRY(rota_tape_kernel(&tape, &rota_kernel_copy_row, accesses, 3, &params, NULL, 0));
    }
    return is_loop ? count_by(&tape, kept->count, 1) : ROTA_OK;
}

static rota_status record_beginning(const rota_backward_kept *kept, rota_recorder *lane) {
    ROTA_TRY(rota_record_named_fill(lane, "keep", kept->count, 0, 8, 0));
    return kept->rows ? rota_record_named_fill(lane, "keep", kept->rows, 0, ROTA_WHOLE, 0) : ROTA_OK;
}

static rota_status record_kept(rota_backward_body *c, rota_backward_kept *kept) {
    rota_recorder *lane;
    rota_status status = ROTA_OK;
    if (rota_conditional_is_loop(c->node->kind) || !share_buffers(c, kept)) {
        ROTA_TRY(make_buffers(c, kept));
        ROTA_TRY(rota_recorder_open_first(c->tape->graph, "kept", &lane));
        status = record_beginning(kept, lane);
        rota_recorder_close(lane);
        ROTA_TRY(status);
    }
    ROTA_TRY(rota_recorder_open_first(c->body, "kept", &lane));
    status = record_rows(c, kept, lane);
    rota_recorder_close(lane);
    ROTA_TRY(status);
    return rota_conditional_infer_again(c->node);
}

rota_status rota_backward_keep(rota_backward_body *c) {
    const bool is_loop = rota_conditional_is_loop(c->node->kind);
    rota_backward_kept *made = NULL;
    ROTA_TRY(lay_out(c, &made));
    if (!is_loop && made->span_count == 0) return ROTA_OK;
    c->kept = find_equal(c, made);
    if (!c->kept) {
        ROTA_TRY(check_room(c));
        ROTA_TRY(record_kept(c, made));
        made->next = c->taped->kept;
        c->taped->kept = made;
        c->kept = made;
    }
    if (!is_loop) return ROTA_OK;
    ROTA_TRY(rota_recorder_buffer(c->tape->recorder, ROTA_BUFFER_TRANSIENT, "iterations left", 8, &c->left));
    return rota_record_copy(c->tape->recorder, c->left, 0, c->kept->count, 0, 8, NULL);
}

/* ---- In the gradient's body ---- */

rota_status rota_backward_take_row(rota_backward_body *c) {
    const rota_backward_kept *kept = c->kept;
    rota_tape *tape = &c->apart;
    if (!kept) return ROTA_OK;
    c->row = kept->rows;
    if (!c->left) return ROTA_OK;
    tape->op_name = "kept";
    ROTA_TRY(count_by(tape, c->left, -1));
    if (!kept->rows) return ROTA_OK;
    ROTA_TRY(rota_recorder_buffer(tape->recorder, ROTA_BUFFER_TRANSIENT, "kept", kept->row_bytes, &c->row));
    const uint32_t words = (uint32_t)(kept->row_bytes / 4);
    const rota_copy_row_params params = {
        .words = words, .rows = (uint32_t)c->node->iterations_max, .x_step = words};
    const rota_access accesses[] = {{c->left, 0, 4, ROTA_READ},
                                    {kept->rows, 0, ROTA_WHOLE, ROTA_READ},
                                    {c->row, 0, ROTA_WHOLE, ROTA_WRITE}};
    return rota_tape_kernel(tape, &rota_kernel_copy_row, accesses, 3, &params, NULL, 0);
}
