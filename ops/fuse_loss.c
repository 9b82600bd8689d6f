/* A cross entropy and its gradient as one node. The scores are the largest tensors of a language model: read
 * for the loss, they stay on the chip until their gradient takes their place. What the gradient is multiplied
 * by must be known by then: it is where the loss itself is what gradients are of, and so its own gradient
 * is 1. */
#include "ops/fuse_loss.h"

#include <string.h>

#include "ops/cuda/loss_cuda.h"
#include "ops/fuse_copy.h"
#include "ops/kernel_objects.h"

#define ONE 0x3F800000u /* 1.0f */
/* Accesses of one buffer that are looked at for one loss: more, and it is left as it is. */
#define LOOKS_MAX 64u

enum { LOGITS, LABELS, LOSSES, LSE, FORWARD_OPERANDS };
enum { OF_LOGITS, OF_LABELS, OF_LSE, OF_LOSS_GRADIENT, OF_INVERSE, OF_RESULT };

/* The node that touches the buffer, which node n touches, first after that; NULL: none. */
static const rota_fuse_touch *touch_after(const rota_fuse_index *index, const rota_buffer *buffer,
                                          uint64_t n) {
    const rota_fuse_touch *t = rota_fuse_index_of(index, buffer, n);
    while (t && t->node == n) t = rota_fuse_index_next(index, t);
    return t;
}

/* The four bytes are a 1.0f that a fill put there, and nobody else writes the buffer. */
static bool is_one(rota_rewriter *rewriter, const rota_fuse_index *index, const rota_access *access) {
    const rota_fuse_touch *writer = NULL, *t = rota_fuse_index_first(index, access->buffer);
    for (uint32_t looks = 0; t; t = rota_fuse_index_next(index, t), looks++) {
        if (looks == LOOKS_MAX || (t->access.mode != ROTA_READ && writer)) return false;
        if (t->access.mode != ROTA_READ) writer = t;
    }
    if (!writer || !rota_fuse_same_range(&writer->access, access) || access->size_bytes != sizeof(float))
        return false;
    rota_node_view view = ROTA_NODE_VIEW();
    return rota_rewriter_view(rewriter, writer->node, &view) == ROTA_OK &&
           view.fill_plus_1 == (uint64_t)ONE + 1;
}

/* The buffer, which the node `from` touches, is not written between the two nodes. */
static bool stays(const rota_fuse_index *index, const rota_buffer *buffer, uint64_t from, uint64_t to) {
    const rota_fuse_touch *t = touch_after(index, buffer, from);
    for (uint32_t looks = 0; t && t->node < to; t = rota_fuse_index_next(index, t), looks++)
        if (looks == LOOKS_MAX || t->access.mode != ROTA_READ) return false;
    return true;
}

/* Whether the scores may as well be where the gradient, made at `gradient`, goes: one node makes them, and nobody
 * but the loss at `forward` and its gradient reads them, or knows the gradient before. *out_producer: that node. */
static bool may_move(const rota_rewriter *rewriter, const rota_fuse_index *index, const rota_access *logits,
                     const rota_access *result, uint64_t forward, uint64_t gradient, uint64_t *out_producer) {
    const rota_fuse_touch *t[4] = {rota_fuse_index_first(index, logits->buffer)},
                          *first = rota_fuse_index_first(index, result->buffer);
    for (int i = 1; i < 4 && t[i - 1]; i++) t[i] = rota_fuse_index_next(index, t[i - 1]);
    if (!t[0] || !t[1] || !t[2] || t[3] || !t[0]->kernel || t[0]->access.mode != ROTA_WRITE ||
        !rota_fuse_same_range(&t[0]->access, logits) || t[0]->node >= forward || t[1]->node != forward ||
        t[2]->node != gradient)
        return false;
    *out_producer = t[0]->node;
    return first && first->node == gradient && rota_rewriter_owns(rewriter, logits->buffer) &&
           rota_rewriter_owns(rewriter, result->buffer) && result->size_bytes == logits->size_bytes &&
           result->offset_bytes % 16 == logits->offset_bytes % 16;
}

/* The node makes the scores where the gradient goes. */
static rota_status move_scores(rota_rewriter *rewriter, uint64_t producer, const rota_access *logits,
                               const rota_access *result) {
    rota_node_view view = ROTA_NODE_VIEW();
    ROTA_TRY(rota_rewriter_view(rewriter, producer, &view));
    rota_access accesses[ROTA_KERNEL_OPERANDS_MAX];
    for (uint32_t i = 0; i < view.access_count; i++) {
        accesses[i] = view.accesses[i];
        if (!rota_fuse_same_range(&accesses[i], logits)) continue;
        accesses[i].buffer = result->buffer;
        accesses[i].offset_bytes = result->offset_bytes;
    }
    return rota_fuse_with_accesses(rewriter, producer, &view, accesses);
}

/* Whether the node at `position`, with these accesses, is the gradient of the cross entropy at `forward`;
 * *out_result is where it goes. */
static rota_status is_gradient(rota_rewriter *rewriter, const rota_fuse_index *index, uint64_t forward,
                               const rota_cross_entropy_params *p, const rota_access of[FORWARD_OPERANDS],
                               uint64_t position, rota_access *out_result, bool *out_is) {
    rota_node_view view = ROTA_NODE_VIEW();
    *out_is = false;
    ROTA_TRY(rota_rewriter_view(rewriter, position, &view));
    if (view.kernel != &rota_kernel_cross_entropy_backward || view.ordered ||
        memcmp(view.params, p, sizeof *p) != 0)
        return ROTA_OK;
    const rota_access *a = view.accesses;
    if (!rota_fuse_same_range(&a[OF_LOGITS], &of[LOGITS]) ||
        !rota_fuse_same_range(&a[OF_LABELS], &of[LABELS]) || !rota_fuse_same_range(&a[OF_LSE], &of[LSE]))
        return ROTA_OK;
    const rota_access one = a[OF_LOSS_GRADIENT], inverse = a[OF_INVERSE];
    *out_result = a[OF_RESULT];
    /* inverse is what the mean of this loss gives: it counts the same labels. */
    const rota_fuse_touch *mean = touch_after(index, of[LOSSES].buffer, forward);
    if (!mean || !stays(index, of[LABELS].buffer, forward, position) || !is_one(rewriter, index, &one))
        return ROTA_OK;
    ROTA_TRY(rota_rewriter_view(rewriter, mean->node, &view));
    *out_is = view.kernel == &rota_kernel_cross_entropy_mean && memcmp(view.params, p, sizeof *p) == 0 &&
              rota_fuse_same_range(&view.accesses[1], &of[LABELS]) &&
              rota_fuse_same_range(&view.accesses[3], &inverse) &&
              stays(index, inverse.buffer, mean->node, position);
    return ROTA_OK;
}

static rota_status try_loss(rota_rewriter *rewriter, const rota_fuse_index *index, uint64_t n,
                            const rota_node_view *view) {
    rota_cross_entropy_params params;
    rota_access accesses[FORWARD_OPERANDS];
    const char *name = view->name;
    const rota_placement placement = view->placement;
    memcpy(&params, view->params, sizeof params);
    memcpy(accesses, view->accesses, sizeof accesses);
    rota_rewrite_target target = ROTA_REWRITE_TARGET();
    ROTA_TRY(rota_rewriter_target(rewriter, &placement, &target));
    /* Of a part of the classes the gradient needs what the others come to. */
    if (params.all || !target.known || target.kind != ROTA_EXEC_CUDA ||
        !rota_cuda_loss_takes(&params, &accesses[LOGITS], target.cuda))
        return ROTA_OK;
    const rota_fuse_touch *next = touch_after(index, accesses[LOGITS].buffer, n);
    bool is;
    if (!next || !next->kernel) return ROTA_OK;
    const uint64_t gradient = next->node;
    uint64_t producer;
    rota_access result;
    ROTA_TRY(is_gradient(rewriter, index, n, &params, accesses, gradient, &result, &is));
    if (!is) return ROTA_OK;
    if (!rota_fuse_same_range(&result, &accesses[LOGITS])) {
        if (!may_move(rewriter, index, &accesses[LOGITS], &result, n, gradient, &producer)) return ROTA_OK;
        ROTA_TRY(move_scores(rewriter, producer, &accesses[LOGITS], &result));
        accesses[LOGITS] = result;
    }
    accesses[LOGITS].mode = ROTA_READWRITE;
    ROTA_TRY(rota_rewriter_replace(
        rewriter, n,
        &ROTA_KERNEL_NODE(.kernel = &rota_cuda_cross_entropy_in_place, .name = name, .accesses = accesses,
                          .access_count = FORWARD_OPERANDS, .params = &params, .placement = placement)));
    return rota_rewriter_merge(rewriter, gradient, n);
}

rota_status rota_fuse_losses(rota_rewriter *rewriter, const rota_fuse_index *index) {
    const uint64_t count = rota_rewriter_node_count(rewriter);
    for (uint64_t n = 0; n < count; n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        if (view.kernel == &rota_kernel_cross_entropy && !view.ordered)
            ROTA_TRY(try_loss(rewriter, index, n, &view));
    }
    return ROTA_OK;
}
