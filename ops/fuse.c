/* The rewrite hook of fusion: walks the nodes in record order with one group open, which each node joins,
 * passes by, or ends. What a node is to a group says fuse_piece.c, and what the group becomes fuse_group.c. */
#include "ops/fuse.h"
#include "base/given.h"

#include <stdlib.h>
#include "ops/fuse_classifier.h"
#include "ops/fuse_copy.h"
#include "ops/fuse_embedding.h"
#include "ops/fuse_gelu.h"
#include "ops/fuse_group.h"
#include "ops/fuse_loss.h"
#include "ops/fuse_many.h"
#include "ops/fuse_norm.h"
#include "ops/fuse_piece.h"
#include "ops/fusion.h"

/* Nodes that may stand between two of a group, and that are looked at for one that links another to it. */
enum { GAP_MAX = 8, LOOKS_MAX = 2 };
/* Scores of so many bytes are not all there at once, but in pieces of so many: the more pieces, the more often
 * the weights' gradient is read and written. */
#define SCORES_BYTES_MOST (UINT64_C(1) << 30)
#define PIECE_BYTES_MOST (UINT64_C(19) << 24)
/* ... and where memory is short, of what there is these parts. */
enum { SCORES_SHARE = 8, PIECE_SHARE = 32 };

/* Whether it makes sense to look further: two nodes that may be fused. */
static rota_status any_fusable(rota_rewriter *rewriter, uint64_t count, bool *out_any) {
    uint32_t found = 0;
    for (uint64_t n = 0; n < count && found < 2; n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        if (view.kernel && rota_fuse_is_elementwise(view.kernel)) found++;
    }
    *out_any = found == 2;
    return ROTA_OK;
}

static rota_status remember_uses(rota_rewriter *rewriter, uint64_t count, rota_fuse_uses *uses) {
    for (uint64_t n = 0; n < count; n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        for (uint32_t i = 0; i < view.access_count; i++)
            if (!rota_fuse_uses_add(uses, view.accesses[i].buffer, n))
                return rota_fail(ROTA_OUT_OF_MEMORY, "fusion: no host memory for the uses of %llu nodes",
                                 (unsigned long long)count);
    }
    return ROTA_OK;
}

/* Whether the next node but a few brings the result of one to what the group has: a conversion of an operand that the
 * group then meets, say. */
static rota_status leads_back(rota_rewriter *rewriter, const rota_fuse_group *group, uint64_t n,
                              uint64_t count, const rota_fuse_piece *piece, bool *out_leads) {
    const rota_access result = piece->result;
    const uint32_t elements = piece->count;
    *out_leads = false;
    if (group->shape.step_count == 0 || group->count != elements) return ROTA_OK;
    for (uint64_t i = n + 1; i < count && i <= n + LOOKS_MAX; i++) {
        rota_node_view view = ROTA_NODE_VIEW();
        rota_fuse_piece next;
        ROTA_TRY(rota_rewriter_view(rewriter, i, &view));
        if (!view.kernel && view.access_count == 0) continue;
        if (!rota_fuse_piece_of(&view, &next)) return ROTA_OK;
        if (next.count == elements && rota_fuse_group_links(group, &view, &result)) {
            *out_leads = true;
            return ROTA_OK;
        }
    }
    return ROTA_OK;
}

static rota_status walk(rota_rewriter *rewriter, uint64_t count, rota_fuse_group *group) {
    uint32_t gap = 0;
    for (uint64_t n = 0; n < count; n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        if (!view.kernel && view.access_count == 0) continue; /* removed by an earlier hook */
        rota_fuse_piece piece;
        if (rota_fuse_piece_of(&view, &piece)) {
            gap = 0;
            if (rota_fuse_group_join(group, rewriter, n, &view, &piece, false)) continue;
            /* Looking ahead and ending the group look at nodes: the view must be taken again. */
            bool leads = false;
            ROTA_TRY(leads_back(rewriter, group, n, count, &piece, &leads));
            if (leads) {
                ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
                if (rota_fuse_group_join(group, rewriter, n, &view, &piece, true)) continue;
            }
            ROTA_TRY(rota_fuse_group_end(group, rewriter));
            ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
            (void)rota_fuse_group_join(group, rewriter, n, &view, &piece, false);
        } else if (++gap > GAP_MAX || rota_fuse_group_touches(group, &view)) {
            ROTA_TRY(rota_fuse_group_end(group, rewriter));
        }
    }
    return rota_fuse_group_end(group, rewriter);
}

static rota_status fuse_classifiers(rota_rewriter *rewriter, const rota_fuse_index *index) {
    uint64_t scores = SCORES_BYTES_MOST, piece = PIECE_BYTES_MOST;
    rota_rewrite_target target = ROTA_REWRITE_TARGET();
    ROTA_TRY(rota_rewriter_target(rewriter, &(rota_placement){0}, &target));
    const uint64_t limit = target.memory_limit_bytes;
    if (limit && limit / SCORES_SHARE < scores) scores = limit / SCORES_SHARE;
    if (limit && limit / PIECE_SHARE < piece) piece = limit / PIECE_SHARE;
    return rota_fuse_classifiers(rewriter, index, scores, piece);
}

/* Those that replace a few nodes; copies first, whose buffers the others then don't meet. */
static rota_status fuse_patterns(rota_rewriter *rewriter) {
    static rota_status (*const patterns[])(rota_rewriter *, const rota_fuse_index *) = {
        rota_fuse_copies, rota_fuse_embeddings, rota_fuse_losses, fuse_classifiers,
        rota_fuse_gelus,  rota_fuse_norms,      rota_fuse_many};
    rota_status status = ROTA_OK;
    for (uint32_t i = 0; i < sizeof patterns / sizeof *patterns && status == ROTA_OK; i++) {
        rota_fuse_index index;
        status = rota_fuse_index_make(rewriter, &index);
        if (status == ROTA_OK) status = patterns[i](rewriter, &index);
        rota_fuse_index_free(&index);
    }
    return status;
}

static rota_status fuse(void *user, rota_rewriter *rewriter) {
    (void)user;
    ROTA_TRY(fuse_patterns(rewriter));
    const uint64_t count = rota_rewriter_node_count(rewriter);
    bool any = false;
    ROTA_TRY(any_fusable(rewriter, count, &any));
    if (!any) return ROTA_OK;
    rota_fuse_uses uses = {.rewriter = rewriter};
    rota_fuse_group *group = calloc(2, sizeof *group);
    rota_status status = group ? remember_uses(rewriter, count, &uses)
                               : rota_fail(ROTA_OUT_OF_MEMORY, "fusion: no host memory");
    if (status == ROTA_OK) {
        group->uses = &uses;
        group->trial = group + 1;
        status = walk(rewriter, count, group);
    }
    free(group);
    rota_fuse_uses_free(&uses);
    return status;
}

rota_status rota_graph_fuse(rota_graph *graph) {
    ROTA_GIVEN(graph);
    return rota_graph_add_rewrite(graph, fuse, NULL);
}

bool rota_fuse_is_hook(void (*hook)(void)) {
    return hook == (void (*)(void))fuse;
}
