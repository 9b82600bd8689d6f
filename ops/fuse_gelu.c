/* A product and the gradient of GELU that its result goes through, and nothing else: on devices that have a
 * kernel for both one node, whose multiplying units need not wait while the gradient is calculated. */
#include "ops/fuse_gelu.h"

#include <string.h>

#include "ops/cuda/gelu_product_cuda.h"
#include "ops/kernel_objects.h"
#include "ops/linear.h"
#include "ops/tensor.h"

/* Nodes from the product to the gradient: with more between them they are left as they are. */
#define SPAN_MAX 64u

enum { A, B, C };

typedef struct pattern {
    uint64_t product, gradient; /* positions */
    rota_linear_params params;
    rota_access accesses[ROTA_CUDA_GELU_PRODUCT_OPERANDS];
    rota_placement placement;
    const char *name;
} pattern;

/* The buffer is all that the product writes, and nobody but the two nodes touches it. */
static bool is_between(const rota_rewriter *rewriter, const rota_fuse_index *index, const rota_access *dy,
                       uint64_t gradient, uint64_t *out_product) {
    const rota_fuse_touch *writer = rota_fuse_index_first(index, dy->buffer),
                          *reader = writer ? rota_fuse_index_next(index, writer) : NULL;
    if (!rota_rewriter_owns(rewriter, dy->buffer) || dy->offset_bytes != 0 ||
        dy->size_bytes != rota_buffer_size(dy->buffer))
        return false;
    if (!reader || rota_fuse_index_next(index, reader) || reader->node != gradient || !writer->kernel ||
        gradient - writer->node > SPAN_MAX)
        return false;
    *out_product = writer->node;
    return true;
}

/* The node is a plain product of two matrices with such a result; its part of the pattern. */
static bool take_product(const rota_node_view *view, pattern *f) {
    const rota_matmul_params *p = view->params;
    const bool is_half =
        f->params.dtype != ROTA_F32 &&
        view->kernel == (f->params.dtype == ROTA_F16 ? &rota_kernel_matmul_f16 : &rota_kernel_matmul_bf16);
    if (!is_half || view->ordered || view->placement.device_plus_1 != f->placement.device_plus_1 ||
        view->placement.queue_plus_1 != f->placement.queue_plus_1)
        return false;
    if (p->batch[0] != 1 || p->batch[1] != 1 || p->batch[2] != 1 || p->alpha != 1.0f ||
        p->flags & ROTA_MATMUL_ACCUMULATE || p->m != f->params.m || p->n != f->params.n || p->ldc != p->n ||
        p->c_dtype != f->params.dtype || view->accesses[C].mode != ROTA_WRITE)
        return false;
    f->params.k = p->k;
    f->params.lda = p->lda;
    f->params.ldb = p->ldb;
    f->params.flags = p->flags;
    f->accesses[ROTA_CUDA_GELU_PRODUCT_A] = view->accesses[A];
    f->accesses[ROTA_CUDA_GELU_PRODUCT_B] = view->accesses[B];
    return true;
}

/* What the product reads stays as it is until the gradient, and is not what that writes. */
static rota_status stays(rota_rewriter *rewriter, const pattern *f, bool *out_stays) {
    *out_stays = false;
    for (uint64_t n = f->product + 1; n <= f->gradient; n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        for (uint32_t i = 0; i < view.access_count; i++) {
            const rota_access *a = &view.accesses[i];
            if (a->mode != ROTA_READ && (rota_fuse_overlap(a, &f->accesses[ROTA_CUDA_GELU_PRODUCT_A]) ||
                                         rota_fuse_overlap(a, &f->accesses[ROTA_CUDA_GELU_PRODUCT_B])))
                return ROTA_OK;
        }
    }
    *out_stays = !rota_fuse_overlap(&f->accesses[ROTA_CUDA_GELU_PRODUCT_KEPT],
                                    &f->accesses[ROTA_CUDA_GELU_PRODUCT_DZ]);
    return ROTA_OK;
}

static rota_status try_gelu(rota_rewriter *rewriter, const rota_fuse_index *index, uint64_t n,
                            const rota_node_view *view) {
    pattern f = {.gradient = n, .placement = view->placement, .name = view->name};
    memcpy(&f.params, view->params, sizeof f.params);
    f.accesses[ROTA_CUDA_GELU_PRODUCT_KEPT] = view->accesses[ROTA_LINEAR_GELU_OPERAND_KEPT];
    f.accesses[ROTA_CUDA_GELU_PRODUCT_DZ] = view->accesses[ROTA_LINEAR_GELU_OPERAND_DZ];
    f.accesses[ROTA_CUDA_GELU_PRODUCT_PARTIAL] = view->accesses[ROTA_LINEAR_GELU_OPERAND_PARTIAL];
    const rota_access dy = view->accesses[ROTA_LINEAR_GELU_OPERAND_DY];
    if (!is_between(rewriter, index, &dy, n, &f.product)) return ROTA_OK;
    rota_node_view product = ROTA_NODE_VIEW();
    ROTA_TRY(rota_rewriter_view(rewriter, f.product, &product));
    if (!take_product(&product, &f)) return ROTA_OK;
    rota_rewrite_target target = ROTA_REWRITE_TARGET();
    ROTA_TRY(rota_rewriter_target(rewriter, &f.placement, &target));
    if (!rota_cuda_gelu_product_takes(&f.params, target.cuda)) return ROTA_OK;
    bool good;
    ROTA_TRY(stays(rewriter, &f, &good));
    if (!good) return ROTA_OK;
    ROTA_TRY(rota_rewriter_replace(rewriter, n,
                                   &ROTA_KERNEL_NODE(.kernel = &rota_cuda_gelu_product, .name = f.name,
                                                     .accesses = f.accesses,
                                                     .access_count = ROTA_CUDA_GELU_PRODUCT_OPERANDS,
                                                     .params = &f.params, .placement = f.placement)));
    return rota_rewriter_merge(rewriter, f.product, n);
}

rota_status rota_fuse_gelus(rota_rewriter *rewriter, const rota_fuse_index *index) {
    const uint64_t count = rota_rewriter_node_count(rewriter);
    for (uint64_t n = 0; n < count; n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        if (view.kernel == &rota_kernel_linear_gelu_gradient && !view.ordered)
            ROTA_TRY(try_gelu(rewriter, index, n, &view));
    }
    return ROTA_OK;
}
