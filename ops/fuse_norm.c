/* Layer norms whose rows are f32, where products of 16 bits stand before and after them, as automatic mixed precision
 * has it: the sum of a residual stream, the norm of it and the conversion of that are one node, and so are the
 * conversion of a gradient, the norm's gradient of that, the sum with the stream's own gradient, and the conversion of
 * that. Each alone would read and write every row. */
#include "ops/fuse_norm.h"

#include <string.h>

#include "ops/cuda/norm_mixed_cuda.h"
#include "ops/fuse_piece.h"
#include "ops/kernel_objects.h"

/* Accesses of one buffer that are looked at for one norm: more, and it is left as it is. */
#define LOOKS_MAX 64u

enum { X, OF, BIAS, Y, STATS, OPERANDS };
enum { GRADIENT_X, GRADIENT_OF, GRADIENT_STATS, DY, DX, PARTIAL, GRADIENT_OPERANDS };

/* The norm, and what goes into it. */
typedef struct pattern {
    rota_rewriter *rewriter;
    const rota_fuse_index *index;
    uint64_t position;
    rota_norm_params norm;
    rota_access accesses[GRADIENT_OPERANDS];
    rota_placement placement;
    const char *name;
    uint64_t merged[4];
    uint32_t merged_count;
} pattern;

/* An elementwise node of as many elements as the norm has. */
typedef struct step {
    uint64_t position;
    rota_fuse_piece piece;
} step;

static rota_status step_at(const pattern *f, uint64_t position, step *out, bool *out_is) {
    rota_node_view view = ROTA_NODE_VIEW();
    ROTA_TRY(rota_rewriter_view(f->rewriter, position, &view));
    out->position = position;
    *out_is = view.binding_count == 0 && view.placement.device_plus_1 == f->placement.device_plus_1 &&
              view.placement.queue_plus_1 == f->placement.queue_plus_1 &&
              rota_fuse_piece_of(&view, &out->piece) &&
              out->piece.count == (uint64_t)f->norm.rows * f->norm.dim;
    return ROTA_OK;
}

static bool is_of_16(uint32_t dtype) {
    return dtype == ROTA_F16 || dtype == ROTA_BF16;
}
static bool narrows(const step *s) {
    return s->piece.kind == ROTA_FUSED_CAST && s->piece.dtype == ROTA_F32 && is_of_16(s->piece.result_dtype);
}
static bool widens(const step *s) {
    return s->piece.kind == ROTA_FUSED_CAST && is_of_16(s->piece.dtype) && s->piece.result_dtype == ROTA_F32;
}
/* The sum of two operands that are both as long as it, and not it. */
static bool adds(const step *s) {
    const rota_fuse_piece *p = &s->piece;
    return p->kind == ROTA_FUSED_BINARY && p->op == ROTA_BINARY_ADD && p->dtype == ROTA_F32 &&
           p->read[0].mod == 0 && p->read[1].mod == 0 && !rota_fuse_overlap(&p->read[0].access, &p->result) &&
           !rota_fuse_overlap(&p->read[1].access, &p->result);
}

static void join(pattern *f, uint64_t position) {
    f->merged[f->merged_count++] = position;
}

/* The node that widens what the reader reads, and only that; its operand is still there at the norm. */
static rota_status find_widened(pattern *f, const rota_access *access, uint64_t reader, step *out,
                                bool *out_is) {
    const rota_fuse_touch *writer = rota_fuse_index_first(f->index, access->buffer);
    uint64_t found = 0;
    *out_is = false;
    if (!writer || !writer->kernel || writer->node >= reader ||
        !rota_fuse_only_reader(f->rewriter, f->index, access, writer->node, &found) || found != reader)
        return ROTA_OK;
    bool is = false;
    ROTA_TRY(step_at(f, writer->node, out, &is));
    *out_is = is && widens(out) && rota_fuse_same_range(&out->piece.result, access) &&
              out->piece.read[0].access.offset_bytes % 16 == 0 &&
              rota_fuse_stays(f->index, &out->piece.read[0].access, out->position, f->position);
    return ROTA_OK;
}

/* The node that narrows what the node `from` writes, into something that nobody knows before; `alone`: nobody else
 * reads that. */
static rota_status find_narrowed(pattern *f, const rota_access *access, uint64_t from, bool alone, step *out,
                                 bool *out_is) {
    *out_is = false;
    uint64_t reader = 0;
    if (alone && !rota_fuse_only_reader(f->rewriter, f->index, access, from, &reader)) return ROTA_OK;
    const rota_fuse_touch *t = rota_fuse_index_first(f->index, access->buffer);
    for (uint32_t looks = 0; t && looks < LOOKS_MAX; t = rota_fuse_index_next(f->index, t), looks++) {
        if (t->node <= from) continue;
        if (t->access.mode != ROTA_READ) return ROTA_OK; /* also of what is no kernel's */
        if (!t->kernel) continue;
        bool is = false;
        ROTA_TRY(step_at(f, t->node, out, &is));
        *out_is = is && narrows(out) && rota_fuse_same_range(&out->piece.read[0].access, access) &&
                  rota_fuse_begins_with(f->rewriter, f->index, &out->piece.result, out->position);
        if (*out_is) return ROTA_OK;
    }
    return ROTA_OK;
}

static rota_status replace(pattern *f, const rota_kernel *kernel, const rota_access *accesses,
                           const rota_cuda_mixed_norm_params *params) {
    rota_rewrite_target target = ROTA_REWRITE_TARGET();
    ROTA_TRY(rota_rewriter_target(f->rewriter, &f->placement, &target));
    if (!rota_cuda_norm_mixed_takes(&params->norm, accesses, kernel->operand_count, target.cuda))
        return ROTA_OK;
    ROTA_TRY(rota_rewriter_replace(f->rewriter, f->position,
                                   &ROTA_KERNEL_NODE(.kernel = kernel, .name = f->name, .accesses = accesses,
                                                     .access_count = kernel->operand_count, .params = params,
                                                     .placement = f->placement)));
    for (uint32_t i = 0; i < f->merged_count; i++)
        ROTA_TRY(rota_rewriter_merge(f->rewriter, f->merged[i], f->position));
    return ROTA_OK;
}

/* ---- Forward ---- */

/* x as the sum of two, of which the second may be one of 16 bits that was widened for that. */
static rota_status find_sum(pattern *f, rota_access *accesses, rota_cuda_mixed_norm_params *params) {
    const rota_access x = f->accesses[X];
    const rota_fuse_touch *writer = rota_fuse_index_first(f->index, x.buffer);
    step sum, wide;
    bool is = false;
    if (!writer || !writer->kernel || writer->node >= f->position) return ROTA_OK;
    const rota_fuse_touch *next = rota_fuse_index_next(f->index, writer);
    if (!rota_fuse_begins_with(f->rewriter, f->index, &x, writer->node) || !next || next->node != f->position)
        return ROTA_OK;
    ROTA_TRY(step_at(f, writer->node, &sum, &is));
    if (!is || !adds(&sum) || !rota_fuse_same_range(&sum.piece.result, &x)) return ROTA_OK;
    rota_access operand[2] = {sum.piece.read[0].access, sum.piece.read[1].access};
    for (uint32_t i = 0; i < 2; i++)
        if (!rota_fuse_stays(f->index, &operand[i], sum.position, f->position)) return ROTA_OK;
    params->other = ROTA_F32;
    for (uint32_t i = 0; i < 2 && params->other == ROTA_F32; i++) {
        ROTA_TRY(find_widened(f, &operand[i], sum.position, &wide, &is));
        if (!is) continue;
        params->other = wide.piece.dtype;
        accesses[ROTA_MIXED_R] = wide.piece.read[0].access;
        operand[0] = operand[1 - i];
        join(f, wide.position);
    }
    if (params->other == ROTA_F32) accesses[ROTA_MIXED_R] = operand[1];
    accesses[ROTA_MIXED_X] = operand[0];
    accesses[ROTA_MIXED_SUM] = sum.piece.result;
    params->norm.flags |= ROTA_MIXED_RESIDUAL;
    join(f, sum.position);
    return ROTA_OK;
}

static rota_status try_norm(pattern *f) {
    step narrow;
    bool is = false;
    const rota_access *a = f->accesses;
    ROTA_TRY(find_narrowed(f, &a[Y], f->position, true, &narrow, &is));
    if (!is) return ROTA_OK;
    rota_cuda_mixed_norm_params params = {.norm = f->norm};
    rota_access accesses[ROTA_MIXED_OPERANDS] = {a[X],    a[X], a[OF], a[BIAS], a[X], narrow.piece.result,
                                                 a[STATS]};
    params.norm.dtype = narrow.piece.result_dtype;
    join(f, narrow.position);
    ROTA_TRY(find_sum(f, accesses, &params));
    /* An absent weight or bias is bound to x, and the kernel reads neither; what was x is the sum now. */
    if (!(f->norm.flags & ROTA_NORM_WEIGHT)) accesses[ROTA_MIXED_OF] = accesses[ROTA_MIXED_X];
    if (!(f->norm.flags & ROTA_NORM_BIAS)) accesses[ROTA_MIXED_BIAS] = accesses[ROTA_MIXED_X];
    return replace(f, &rota_cuda_layernorm_mixed, accesses, &params);
}

/* ---- The gradient ---- */

/* dx and something that is there before the norm's gradient, and nothing else, as operands of a sum. */
static rota_status find_addend(pattern *f, const rota_access *dx, step *out, rota_access *out_addend,
                               bool *out_is) {
    uint64_t reader = 0;
    *out_is = false;
    if (!rota_fuse_only_reader(f->rewriter, f->index, dx, f->position, &reader)) return ROTA_OK;
    bool is = false;
    ROTA_TRY(step_at(f, reader, out, &is));
    if (!is || !adds(out) || !rota_fuse_begins_with(f->rewriter, f->index, &out->piece.result, reader))
        return ROTA_OK;
    const bool second = rota_fuse_same_range(&out->piece.read[1].access, dx);
    const rota_access other = out->piece.read[second ? 0 : 1].access;
    if (rota_fuse_same_range(&other, dx) || !rota_fuse_stays(f->index, &other, f->position, reader))
        return ROTA_OK;
    *out_addend = other;
    *out_is = true;
    return ROTA_OK;
}

static rota_status try_gradient(pattern *f) {
    step found;
    bool is = false;
    const rota_access *a = f->accesses;
    rota_cuda_mixed_norm_params params = {.norm = f->norm};
    rota_access accesses[ROTA_MIXED_GRADIENT_OPERANDS] = {a[GRADIENT_X], a[GRADIENT_OF], a[GRADIENT_STATS],
                                                          a[DY],         a[GRADIENT_X],  a[DX],
                                                          a[GRADIENT_X], a[PARTIAL]};
    ROTA_TRY(find_widened(f, &a[DY], f->position, &found, &is));
    const bool widened = is;
    if (is) {
        accesses[ROTA_MIXED_GRADIENT_DY] = found.piece.read[0].access;
        params.norm.dtype = found.piece.dtype;
        join(f, found.position);
    }
    uint64_t from = f->position;
    ROTA_TRY(find_addend(f, &a[DX], &found, &accesses[ROTA_MIXED_GRADIENT_ADDEND], &is));
    if (is) {
        accesses[ROTA_MIXED_GRADIENT_DX] = found.piece.result;
        params.norm.flags |= ROTA_MIXED_ADDEND;
        from = found.position;
        join(f, from);
    }
    const rota_access dx = accesses[ROTA_MIXED_GRADIENT_DX];
    ROTA_TRY(find_narrowed(f, &dx, from, false, &found, &is));
    if (is) {
        accesses[ROTA_MIXED_GRADIENT_NARROW] = found.piece.result;
        params.norm.flags |= ROTA_MIXED_NARROW;
        params.other = found.piece.result_dtype;
        join(f, found.position);
    }
    return widened || is ? replace(f, &rota_cuda_layernorm_mixed_gradient, accesses, &params) : ROTA_OK;
}

rota_status rota_fuse_norms(rota_rewriter *rewriter, const rota_fuse_index *index) {
    const uint64_t count = rota_rewriter_node_count(rewriter);
    for (uint64_t n = 0; n < count; n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        const bool forward = view.kernel == &rota_kernel_layernorm;
        if ((!forward && view.kernel != &rota_kernel_layernorm_gradient) || view.ordered) continue;
        pattern f = {.rewriter = rewriter,
                     .index = index,
                     .position = n,
                     .placement = view.placement,
                     .name = view.name};
        memcpy(&f.norm, view.params, sizeof f.norm);
        memcpy(f.accesses, view.accesses, sizeof *f.accesses * view.access_count);
        if (f.norm.dtype != ROTA_F32 || f.norm.flags & ROTA_NORM_ACCUMULATE) continue;
        ROTA_TRY(forward ? try_norm(&f) : try_gradient(&f));
    }
    return ROTA_OK;
}
