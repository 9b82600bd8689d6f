/* A classifier in pieces of rows: the product that makes scores, their loss with its gradient, and the products
 * of that gradient with what the scores were made of, as one node that has the scores of some rows at a time.
 * Scores are the largest tensor of a language model by far, and nobody else looks at them. */
#include "ops/fuse_classifier.h"

#include <stdio.h>
#include <string.h>

#include "ops/cuda/classifier_cuda.h"
#include "ops/cuda/loss_cuda.h"
#include "ops/kernel_objects.h"
#include "ops/tensor.h"

/* Nodes from the scores' product to the last that takes their gradient: with more, it is left as it is. */
#define SPAN_MAX 64u

enum { A, B, C };
enum { LOGITS, LABELS, LOSSES, LSE, LOSS_OPERANDS };

typedef struct product {
    uint64_t position;
    rota_matmul_params params;
    rota_access accesses[3];
} product;

typedef struct classifier {
    uint64_t position;
    rota_placement placement;
    rota_cross_entropy_params params;
    rota_access accesses[LOSS_OPERANDS];
    const char *name;
    product scores, dx, dw;
    bool dw_of_x;
} classifier;

/* The node is a product of matrices of the scores' dtype that writes all of its result, where the loss is. */
static rota_status take_product(rota_rewriter *rewriter, const classifier *c, uint64_t position, product *out,
                                bool *out_is) {
    rota_node_view view = ROTA_NODE_VIEW();
    ROTA_TRY(rota_rewriter_view(rewriter, position, &view));
    *out_is = false;
    if (view.kernel != (c->params.dtype == ROTA_F16 ? &rota_kernel_matmul_f16 : &rota_kernel_matmul_bf16) ||
        view.ordered || view.placement.device_plus_1 != c->placement.device_plus_1 ||
        view.placement.queue_plus_1 != c->placement.queue_plus_1)
        return ROTA_OK;
    out->position = position;
    memcpy(&out->params, view.params, sizeof out->params);
    memcpy(out->accesses, view.accesses, sizeof out->accesses);
    const rota_matmul_params *p = &out->params;
    *out_is = p->batch[0] == 1 && p->batch[1] == 1 && p->batch[2] == 1 && p->alpha == 1.0f &&
              !(p->flags & ROTA_MATMUL_ACCUMULATE) && out->accesses[C].mode == ROTA_WRITE;
    return ROTA_OK;
}

static bool is_of(const rota_matmul_params *p, uint32_t m, uint32_t n, uint32_t k) {
    return p->m == m && p->n == n && p->k == k;
}

static bool makes_scores(const classifier *c) {
    const product *s = &c->scores;
    return rota_fuse_same_range(&s->accesses[C], &c->accesses[LOGITS]) &&
           !(s->params.flags & ROTA_MATMUL_TRANSPOSE_A) &&
           is_of(&s->params, c->params.rows, c->params.pitch, s->params.k) &&
           s->params.ldc == c->params.pitch && s->params.c_dtype == c->params.dtype;
}

/* dx = dscores w^T */
static bool makes_dx(const classifier *c, const product *d) {
    const product *s = &c->scores;
    return rota_fuse_same_range(&d->accesses[A], &c->accesses[LOGITS]) &&
           rota_fuse_same_range(&d->accesses[B], &s->accesses[B]) &&
           !(d->params.flags & ROTA_MATMUL_TRANSPOSE_A) && d->params.lda == c->params.pitch &&
           d->params.ldb == s->params.ldb && (d->params.flags ^ s->params.flags) & ROTA_MATMUL_TRANSPOSE_B &&
           is_of(&d->params, c->params.rows, s->params.k, c->params.pitch) &&
           d->params.c_dtype == c->params.dtype;
}

/* dw = dscores^T x, or x^T dscores. */
static bool makes_dw(const classifier *c, const product *d, bool *out_of_x) {
    const product *s = &c->scores;
    const rota_matmul_params *p = &d->params;
    const uint32_t of_scores = rota_fuse_same_range(&d->accesses[A], &c->accesses[LOGITS]) ? A : B,
                   of_x = 1 - of_scores;
    *out_of_x = of_x == A;
    const uint32_t m = *out_of_x ? s->params.k : c->params.pitch,
                   n = *out_of_x ? c->params.pitch : s->params.k;
    return rota_fuse_same_range(&d->accesses[of_scores], &c->accesses[LOGITS]) &&
           rota_fuse_same_range(&d->accesses[of_x], &s->accesses[A]) && p->flags & ROTA_MATMUL_TRANSPOSE_A &&
           !(p->flags & ROTA_MATMUL_TRANSPOSE_B) && is_of(p, m, n, c->params.rows) && p->ldc == n &&
           (of_scores == A ? p->lda : p->ldb) == c->params.pitch &&
           (of_x == A ? p->lda : p->ldb) == s->params.lda;
}

/* The four nodes that touch the scores, if they are these. */
static rota_status find_products(rota_rewriter *rewriter, const rota_fuse_index *index, classifier *c,
                                 bool *out_found) {
    const rota_access *logits = &c->accesses[LOGITS];
    const rota_fuse_touch *touch[4], *t = rota_fuse_index_first(index, logits->buffer);
    product two[2];
    bool is;
    *out_found = false;
    for (int i = 0; i < 4; i++, t = rota_fuse_index_next(index, t)) {
        if (!t || !t->kernel) return ROTA_OK;
        touch[i] = t;
    }
    if (t || touch[1]->node != c->position || touch[0]->node >= c->position ||
        touch[3]->node - touch[0]->node > SPAN_MAX)
        return ROTA_OK;
    ROTA_TRY(take_product(rewriter, c, touch[0]->node, &c->scores, &is));
    if (!is || !makes_scores(c)) return ROTA_OK;
    for (int i = 0; i < 2; i++) {
        ROTA_TRY(take_product(rewriter, c, touch[2 + i]->node, &two[i], &is));
        if (!is) return ROTA_OK;
    }
    for (int i = 0; i < 2 && !*out_found; i++) {
        *out_found = makes_dx(c, &two[i]) && makes_dw(c, &two[1 - i], &c->dw_of_x);
        c->dx = two[i], c->dw = two[1 - i];
    }
    return ROTA_OK;
}

/* None of what the one node reads and writes is part of another. */
static bool is_apart(const classifier *c) {
    const rota_access *all[] = {&c->dx.accesses[C],  &c->dw.accesses[C],     &c->accesses[LOSSES],
                                &c->accesses[LSE],   &c->scores.accesses[A], &c->scores.accesses[B],
                                &c->accesses[LABELS]};
    enum { ALL = sizeof all / sizeof *all, WRITTEN = 4 };
    for (uint32_t i = 0; i < WRITTEN; i++)
        for (uint32_t k = i + 1; k < ALL; k++)
            if (rota_fuse_overlap(all[i], all[k])) return false;
    return true;
}

/* Reading earlier or later, and writing earlier, what the four nodes do makes no difference to those between. */
static rota_status stands_alone(rota_rewriter *rewriter, const classifier *c, bool *out_alone) {
    const uint64_t last = c->dx.position > c->dw.position ? c->dx.position : c->dw.position;
    *out_alone = false;
    for (uint64_t n = c->scores.position + 1; n < last; n++) {
        if (n == c->position || n == c->dx.position || n == c->dw.position) continue;
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        for (uint32_t i = 0; i < view.access_count; i++) {
            const rota_access *a = &view.accesses[i];
            const bool reads = a->mode == ROTA_READ;
            if (!reads && (rota_fuse_overlap(a, &c->scores.accesses[A]) ||
                           rota_fuse_overlap(a, &c->scores.accesses[B])))
                return ROTA_OK;
            if (n > c->position &&
                (rota_fuse_overlap(a, &c->dx.accesses[C]) || rota_fuse_overlap(a, &c->dw.accesses[C])))
                return ROTA_OK;
        }
    }
    *out_alone = true;
    return ROTA_OK;
}

static rota_cuda_classifier_product about(const product *p) {
    return (rota_cuda_classifier_product){p->params.lda, p->params.ldb, p->params.ldc, p->params.flags};
}

static rota_status replace(rota_rewriter *rewriter, classifier *c, uint32_t piece) {
    const rota_cuda_classifier_params params = {
        .loss = c->params,
        .k = c->scores.params.k,
        .piece = piece,
        .flags = c->dw_of_x ? ROTA_CUDA_CLASSIFIER_DW_OF_X : 0,
        .dw_dtype = c->dw.params.c_dtype,
        .scores = about(&c->scores),
        .dx = about(&c->dx),
        .dw = about(&c->dw),
    };
    rota_access accesses[] = {c->scores.accesses[A], c->scores.accesses[B], c->accesses[LABELS],
                              c->accesses[LOSSES],   c->accesses[LSE],      c->dx.accesses[C],
                              c->dw.accesses[C]};
    char note[96];
    snprintf(note, sizeof note, "scores are made for %u of %u rows at a time", piece, c->params.rows);
    ROTA_TRY(rota_rewriter_replace(rewriter, c->position,
                                   &ROTA_KERNEL_NODE(.kernel = &rota_cuda_classifier_in_pieces,
                                                     .name = c->name, .accesses = accesses,
                                                     .access_count = ROTA_CUDA_CLASSIFIER_OPERANDS,
                                                     .params = &params, .placement = c->placement)));
    ROTA_TRY(rota_rewriter_note(rewriter, c->position, note));
    ROTA_TRY(rota_rewriter_merge(rewriter, c->scores.position, c->position));
    ROTA_TRY(rota_rewriter_merge(rewriter, c->dx.position, c->position));
    return rota_rewriter_merge(rewriter, c->dw.position, c->position);
}

static rota_status try_classifier(rota_rewriter *rewriter, const rota_fuse_index *index, uint64_t n,
                                  const rota_node_view *view, uint64_t least_bytes, uint64_t piece_bytes) {
    classifier c = {.position = n, .placement = view->placement, .name = view->name};
    memcpy(&c.params, view->params, sizeof c.params);
    memcpy(c.accesses, view->accesses, sizeof c.accesses);
    const rota_access *logits = &c.accesses[LOGITS];
    if (logits->size_bytes < least_bytes || logits->size_bytes != rota_buffer_size(logits->buffer) ||
        !rota_rewriter_owns(rewriter, logits->buffer))
        return ROTA_OK;
    const uint32_t piece = rota_cuda_classifier_piece(
        c.params.rows, (uint64_t)c.params.pitch * rota_dtype_bytes((rota_dtype)c.params.dtype), piece_bytes);
    rota_rewrite_target target = ROTA_REWRITE_TARGET();
    ROTA_TRY(rota_rewriter_target(rewriter, &c.placement, &target));
    if (piece == c.params.rows || !rota_cuda_classifier_takes(target.cuda)) return ROTA_OK;
    bool found, alone;
    ROTA_TRY(find_products(rewriter, index, &c, &found));
    if (!found || !is_apart(&c)) return ROTA_OK;
    if ((uint64_t)c.params.pitch * c.scores.params.k > UINT32_MAX) return ROTA_OK;
    ROTA_TRY(stands_alone(rewriter, &c, &alone));
    return alone ? replace(rewriter, &c, piece) : ROTA_OK;
}

uint32_t rota_cuda_classifier_piece(uint32_t rows, uint64_t row_bytes, uint64_t piece_bytes) {
    enum { ALIGNED = 8, TILE = 128 };
    uint64_t fit = piece_bytes / row_bytes;
    if (fit >= rows) return rows;
    fit = fit < TILE ? ALIGNED : fit / TILE * TILE;
    const uint64_t pieces = (rows + fit - 1) / fit, share = (rows + pieces - 1) / pieces;
    const uint64_t piece = fit < TILE ? fit : (share + TILE - 1) / TILE * TILE;
    return piece < rows ? (uint32_t)piece : rows;
}

rota_status rota_fuse_classifiers(rota_rewriter *rewriter, const rota_fuse_index *index, uint64_t least_bytes,
                                  uint64_t piece_bytes) {
    const uint64_t count = rota_rewriter_node_count(rewriter);
    for (uint64_t n = 0; n < count; n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        if (view.kernel == &rota_cuda_cross_entropy_in_place && !view.ordered)
            ROTA_TRY(try_classifier(rewriter, index, n, &view, least_bytes, piece_bytes));
    }
    return ROTA_OK;
}
