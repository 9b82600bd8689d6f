/* The gradient of a residual stream is read again for the bias' gradient of the layer whose result was added to the
 * stream: those sums are made where the stream's gradient is written, by the gradient of a norm. */
#include "ops/fuse_norm.h"

#include <string.h>

#include "ops/cuda/shapes.h"
#include "ops/kernel_objects.h"
#include "ops/linear.h"

/* Accesses of one buffer that are looked at for one norm: more, and it is left as it is. */
#define LOOKS_MAX 64u

/* Of the kernels' operands. */
enum { DX = 4, SUMS = 6, NORM_OPERANDS = 6, SUMS_OPERANDS = 7 };

typedef struct pattern {
    uint64_t norm, linear; /* positions */
    const rota_kernel *kernel;
    rota_norm_params params;
    rota_access accesses[SUMS_OPERANDS];
    rota_placement placement;
    const char *name;
} pattern;

/* The buffer is this node's alone, and has room for the sums of the norm's chunks. */
static bool has_room(const rota_fuse_index *index, const rota_access *partial, uint64_t bytes) {
    const rota_fuse_touch *only = rota_fuse_index_first(index, partial->buffer);
    return rota_buffer_get_kind(partial->buffer) == ROTA_BUFFER_TRANSIENT && partial->mode == ROTA_WRITE &&
           partial->offset_bytes + bytes <= rota_buffer_size(partial->buffer) && only &&
           !rota_fuse_index_next(index, only);
}

/* The node sums the columns of all that the norm's gradient wrote, in chunks. */
static bool sums_columns(const rota_node_view *view, const pattern *f) {
    if (view->kernel != &rota_kernel_linear_gradient || view->ordered ||
        view->placement.device_plus_1 != f->placement.device_plus_1 ||
        view->placement.queue_plus_1 != f->placement.queue_plus_1)
        return false;
    const rota_linear_params *p = view->params;
    const bool of_a = (p->flags & ROTA_LINEAR_SUMS_A) != 0;
    const rota_access *summed =
        &view->accesses[of_a ? ROTA_LINEAR_GRADIENT_OPERAND_A : ROTA_LINEAR_GRADIENT_OPERAND_B];
    return !(p->flags & ROTA_LINEAR_SUMS_MADE) && p->dtype == f->params.dtype && p->k == f->params.rows &&
           (of_a ? p->m : p->n) == f->params.dim && p->chunk < p->k && f->params.chunk < p->k &&
           rota_fuse_same_range(summed, &f->accesses[DX]);
}

static uint64_t sums_bytes(const rota_norm_params *p) {
    return ((uint64_t)p->rows + p->chunk - 1) / p->chunk * p->dim * sizeof(float);
}

static rota_status join(rota_rewriter *rewriter, pattern *f, const rota_node_view *view) {
    rota_linear_params params;
    rota_access accesses[ROTA_LINEAR_GRADIENT_OPERANDS];
    memcpy(&params, view->params, sizeof params);
    memcpy(accesses, view->accesses, sizeof accesses);
    params.flags |= ROTA_LINEAR_SUMS_MADE;
    params.chunk = f->params.chunk;
    rota_access *partial = &accesses[ROTA_LINEAR_GRADIENT_OPERAND_PARTIAL];
    partial->size_bytes = sums_bytes(&f->params);
    f->accesses[SUMS] = *partial;
    partial->mode = ROTA_READ;
    const rota_kernel_node linear =
        ROTA_KERNEL_NODE(.kernel = view->kernel, .name = view->name, .accesses = accesses,
                         .access_count = ROTA_LINEAR_GRADIENT_OPERANDS, .params = &params,
                         .placement = view->placement);
    ROTA_TRY(rota_rewriter_replace(rewriter, f->linear, &linear));
    return rota_rewriter_replace(rewriter, f->norm,
                                 &ROTA_KERNEL_NODE(.kernel = f->kernel, .name = f->name,
                                                   .accesses = f->accesses, .access_count = SUMS_OPERANDS,
                                                   .params = &f->params, .placement = f->placement));
}

static rota_status try_norm(rota_rewriter *rewriter, const rota_fuse_index *index, uint64_t n,
                            const rota_node_view *norm) {
    pattern f = {.norm = n, .placement = norm->placement, .name = norm->name};
    f.kernel = norm->kernel == &rota_kernel_layernorm_gradient ? &rota_kernel_layernorm_gradient_sums
                                                               : &rota_kernel_rmsnorm_gradient_sums;
    memcpy(&f.params, norm->params, sizeof f.params);
    memcpy(f.accesses, norm->accesses, NORM_OPERANDS * sizeof *f.accesses);
    rota_rewrite_target target = ROTA_REWRITE_TARGET();
    ROTA_TRY(rota_rewriter_target(rewriter, &f.placement, &target));
    if (!target.known || target.kind != ROTA_EXEC_CUDA || !f.kernel->cuda.image ||
        !rota_cuda_norm_by_vectors(&f.params))
        return ROTA_OK;
    const rota_access dx = f.accesses[DX];
    const rota_fuse_touch *t = rota_fuse_index_of(index, dx.buffer, n);
    for (uint32_t looks = 0; t && looks < LOOKS_MAX; t = rota_fuse_index_next(index, t), looks++) {
        if (t->node == n || !rota_fuse_overlap(&t->access, &dx)) continue;
        if (t->access.mode != ROTA_READ) return ROTA_OK;
        if (!t->kernel) continue;
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, t->node, &view));
        if (!sums_columns(&view, &f) ||
            !has_room(index, &view.accesses[ROTA_LINEAR_GRADIENT_OPERAND_PARTIAL], sums_bytes(&f.params)))
            continue;
        f.linear = t->node;
        return join(rewriter, &f, &view);
    }
    return ROTA_OK;
}

rota_status rota_fuse_norms(rota_rewriter *rewriter, const rota_fuse_index *index) {
    const uint64_t count = rota_rewriter_node_count(rewriter);
    for (uint64_t n = 0; n < count; n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        if ((view.kernel == &rota_kernel_layernorm_gradient ||
             view.kernel == &rota_kernel_rmsnorm_gradient) &&
            !view.ordered)
            ROTA_TRY(try_norm(rewriter, index, n, &view));
    }
    return ROTA_OK;
}
