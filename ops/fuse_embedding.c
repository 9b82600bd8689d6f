/* The sum of an embedding's gradient and another of the same table, which a model has that multiplies by its embedding
 * once more: the embedding's is added into the other in place, of which it reads and writes a few rows. Alone it is a
 * table of zeroes but for those, and the sum reads and writes all. */
#include "ops/fuse_embedding.h"

#include <string.h>

#include "ops/fuse_copy.h"
#include "ops/fuse_piece.h"
#include "ops/kernel_objects.h"

/* Nodes that read or write the sum: with more, it is left as it is. */
#define USES_MAX 8u

/* Sums of one graph that are written in place: their buffers are no longer as the index has them. */
#define MOVED_MAX 64u

enum { DY, INDEX, TABLE, OPERANDS };

typedef struct moved {
    const rota_buffer *buffers[2 * MOVED_MAX];
    uint32_t count;
} moved;

static bool is_moved(const moved *all, const rota_buffer *buffer) {
    for (uint32_t i = 0; i < all->count; i++)
        if (all->buffers[i] == buffer) return true;
    return false;
}

typedef struct pattern {
    uint64_t gradient, sum; /* positions */
    rota_embedding_params params;
    rota_access accesses[OPERANDS], other, result;
    rota_placement placement;
    const char *name;
    uint64_t uses[USES_MAX];
    uint32_t use_count;
} pattern;

static bool is_whole(const rota_access *access) {
    return access->offset_bytes == 0 && access->size_bytes == rota_buffer_size(access->buffer);
}

/* The node after the sum that touches what it gives are kernels, which can be told of other memory. */
static bool find_uses(const rota_fuse_index *index, pattern *f) {
    const rota_fuse_touch *t = rota_fuse_index_first(index, f->result.buffer);
    for (; t; t = rota_fuse_index_next(index, t)) {
        if (t->node == f->sum) continue;
        if (!t->kernel) return false;
        if (f->use_count && f->uses[f->use_count - 1] == t->node) continue;
        if (f->use_count == USES_MAX) return false;
        f->uses[f->use_count++] = t->node;
    }
    return true;
}

/* Whether a sum is of the table and something else, which nobody touches after that. */
static rota_status is_sum(rota_rewriter *rewriter, const rota_fuse_index *index, pattern *f, bool *out_is) {
    rota_node_view view = ROTA_NODE_VIEW();
    rota_fuse_piece piece;
    *out_is = false;
    ROTA_TRY(rota_rewriter_view(rewriter, f->sum, &view));
    if (view.placement.device_plus_1 != f->placement.device_plus_1 ||
        view.placement.queue_plus_1 != f->placement.queue_plus_1 || !rota_fuse_piece_of(&view, &piece) ||
        piece.kind != ROTA_FUSED_BINARY || piece.op != ROTA_BINARY_ADD || piece.dtype != f->params.dtype ||
        piece.read[0].mod || piece.read[1].mod)
        return ROTA_OK;
    const bool second = rota_fuse_same_range(&piece.read[1].access, &f->accesses[TABLE]);
    f->other = piece.read[second ? 0 : 1].access;
    f->result = piece.result;
    const rota_fuse_touch *t = rota_fuse_index_of(index, f->other.buffer, f->sum);
    *out_is = !rota_fuse_same_range(&f->other, &f->accesses[TABLE]) &&
              f->other.size_bytes == f->accesses[TABLE].size_bytes && f->other.offset_bytes % 16 == 0 &&
              rota_rewriter_owns(rewriter, f->other.buffer) && t && !rota_fuse_index_next(index, t) &&
              is_whole(&f->result) && rota_fuse_begins_with(rewriter, index, &f->result, f->sum) &&
              rota_fuse_stays(index, &f->accesses[DY], f->gradient, f->sum) &&
              rota_fuse_stays(index, &f->accesses[INDEX], f->gradient, f->sum) && find_uses(index, f);
    return ROTA_OK;
}

/* What the node has of the sum's memory is the other's. */
static rota_status move_use(rota_rewriter *rewriter, const pattern *f, uint64_t position) {
    rota_node_view view = ROTA_NODE_VIEW();
    ROTA_TRY(rota_rewriter_view(rewriter, position, &view));
    rota_access accesses[ROTA_KERNEL_OPERANDS_MAX];
    for (uint32_t i = 0; i < view.access_count; i++) {
        accesses[i] = view.accesses[i];
        if (accesses[i].buffer != f->result.buffer) continue;
        accesses[i].buffer = f->other.buffer;
        accesses[i].offset_bytes += f->other.offset_bytes;
    }
    return rota_fuse_with_accesses(rewriter, position, &view, accesses);
}

static rota_status try_gradient(rota_rewriter *rewriter, const rota_fuse_index *index, uint64_t n,
                                const rota_node_view *view, moved *all) {
    pattern f = {.gradient = n, .placement = view->placement, .name = view->name};
    memcpy(&f.params, view->params, sizeof f.params);
    memcpy(f.accesses, view->accesses, sizeof f.accesses);
    bool is = false;
    rota_rewrite_target target = ROTA_REWRITE_TARGET();
    ROTA_TRY(rota_rewriter_target(rewriter, &f.placement, &target));
    /* Sums of floats in another order: where a pattern may have that. */
    if (!target.cuda || f.params.dtype != ROTA_F32 || f.params.accumulate ||
        !rota_fuse_only_reader(rewriter, index, &f.accesses[TABLE], n, &f.sum))
        return ROTA_OK;
    ROTA_TRY(is_sum(rewriter, index, &f, &is));
    if (!is || is_moved(all, f.other.buffer) || is_moved(all, f.result.buffer)) return ROTA_OK;
    all->buffers[all->count++] = f.other.buffer;
    all->buffers[all->count++] = f.result.buffer;
    f.params.accumulate = true;
    f.accesses[TABLE] = f.other;
    f.accesses[TABLE].mode = ROTA_READWRITE;
    ROTA_TRY(rota_rewriter_replace(
        rewriter, f.sum,
        &ROTA_KERNEL_NODE(.kernel = &rota_kernel_embedding_backward, .name = f.name, .accesses = f.accesses,
                          .access_count = OPERANDS, .params = &f.params, .placement = f.placement)));
    for (uint32_t i = 0; i < f.use_count; i++) ROTA_TRY(move_use(rewriter, &f, f.uses[i]));
    return rota_rewriter_merge(rewriter, f.gradient, f.sum);
}

rota_status rota_fuse_embeddings(rota_rewriter *rewriter, const rota_fuse_index *index) {
    const uint64_t count = rota_rewriter_node_count(rewriter);
    moved all = {.count = 0};
    for (uint64_t n = 0; n < count && all.count < 2 * MOVED_MAX; n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        if (view.kernel == &rota_kernel_embedding_backward && !view.ordered)
            ROTA_TRY(try_gradient(rewriter, index, n, &view, &all));
    }
    return ROTA_OK;
}
