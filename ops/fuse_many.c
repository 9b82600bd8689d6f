/* Nodes next to one another that do the same, of tensors so small that a launch costs more than the work: steps of
 * AdamW with rates in memory, as captured training steps have one for each parameter; and conversions to 16 bits of
 * what is no plan's alone, parameters above all, wherever they stand. */
#include "ops/fuse_many.h"

#include <string.h>

#include "ops/cuda/many_cuda.h"
#include "ops/kernel_objects.h"
#include "ops/update_params.h"

/* Elements of a tensor that is converted with others: more are as well converted right before they are used. */
#define CAST_ELEMENTS_MOST (1u << 16)
/* Accesses of one buffer that are looked at for one conversion: more, and it is left as it is. */
#define LOOKS_MAX 64u

enum { P, G, M, V, FACTOR, HALF, ADAMW_OPERANDS };
_Static_assert(ADAMW_OPERANDS == ROTA_MANY_ADAMW_EACH, "all of adamw's");

typedef struct many {
    uint64_t positions[ROTA_MANY_CAST];
    rota_access accesses[ROTA_KERNEL_OPERANDS_MAX];
    uint32_t count, elements[ROTA_MANY_CAST];
    uint32_t g_dtypes[ROTA_MANY_ADAMW], half_dtypes[ROTA_MANY_ADAMW];
    rota_placement placement;
    rota_adamw_params adamw; /* with no count and no dtype */
    uint32_t to;
    const char *name;
} many;

static bool same_placement(const rota_placement *a, const rota_placement *b) {
    return a->device_plus_1 == b->device_plus_1 && a->queue_plus_1 == b->queue_plus_1;
}

/* Whether one of the accesses writes what another node's touches, or the reverse. */
static bool meets(const many *m, const rota_access *accesses, uint32_t each) {
    for (uint32_t i = 0; i < m->count * each; i++)
        for (uint32_t k = 0; k < each; k++)
            if ((m->accesses[i].mode != ROTA_READ || accesses[k].mode != ROTA_READ) &&
                rota_fuse_overlap(&m->accesses[i], &accesses[k]))
                return true;
    return false;
}

static void add(many *m, uint64_t position, const rota_access *accesses, uint32_t each, uint32_t elements) {
    m->positions[m->count] = position;
    m->elements[m->count] = elements;
    memcpy(&m->accesses[(size_t)m->count * each], accesses, each * sizeof *accesses);
    m->count++;
}

/* Puts one node where the first stood, and empties the group. */
static rota_status end(rota_rewriter *rewriter, many *m, const rota_kernel *kernel, uint32_t each,
                       uint32_t read, const void *params) {
    rota_rewrite_target target = ROTA_REWRITE_TARGET();
    const uint32_t count = m->count;
    m->count = 0;
    if (count < 2) return ROTA_OK;
    ROTA_TRY(rota_rewriter_target(rewriter, &m->placement, &target));
    if (!rota_cuda_many_takes(target.cuda)) return ROTA_OK;
    for (uint32_t i = count * each; i < kernel->operand_count; i++) m->accesses[i] = m->accesses[read];
    ROTA_TRY(
        rota_rewriter_replace(rewriter, m->positions[0],
                              &ROTA_KERNEL_NODE(.kernel = kernel, .name = m->name, .accesses = m->accesses,
                                                .access_count = kernel->operand_count, .params = params,
                                                .placement = m->placement)));
    for (uint32_t i = 1; i < count; i++)
        ROTA_TRY(rota_rewriter_merge(rewriter, m->positions[i], m->positions[0]));
    return ROTA_OK;
}

/* ---- AdamW ---- */

static rota_status end_adamw(rota_rewriter *rewriter, many *m) {
    rota_cuda_many_adamw_params params = {.all = m->adamw, .tensors = m->count};
    for (uint32_t i = 0; i < m->count; i++) {
        params.count[i] = m->elements[i];
        params.g_dtype[i] = m->g_dtypes[i];
        params.half_dtype[i] = m->half_dtypes[i];
    }
    return end(rewriter, m, &rota_cuda_many_adamw, ROTA_MANY_ADAMW_EACH, G, &params);
}

static bool is_adamw(const rota_node_view *view) {
    if (view->kernel != &rota_kernel_adamw || view->ordered) return false;
    for (uint32_t b = 0; b < view->binding_count; b++)
        if (view->bindings[b].slot.index != ROTA_SLOT_CONSTANT.index) return false;
    return ((const rota_adamw_params *)view->params)->flags & ROTA_UPDATE_RATES;
}

static rota_status take_adamw(rota_rewriter *rewriter, many *m, uint64_t position,
                              const rota_node_view *view) {
    rota_adamw_params common, own;
    rota_access accesses[ROTA_MANY_ADAMW_EACH];
    const char *name = view->name;
    const rota_placement placement = view->placement;
    memcpy(&own, view->params, sizeof own);
    memcpy(accesses, view->accesses, sizeof accesses);
    common = own;
    common.count = common.g_dtype = common.half_dtype = common.step = 0;
    common.flags &= ~(uint32_t)ROTA_UPDATE_HALF;
    common.lr = 0.0f;
    if (m->count == ROTA_MANY_ADAMW || (m->count && (memcmp(&common, &m->adamw, sizeof common) != 0 ||
                                                     meets(m, accesses, ROTA_MANY_ADAMW_EACH) ||
                                                     !same_placement(&placement, &m->placement))))
        ROTA_TRY(end_adamw(rewriter, m));
    if (m->count == 0) {
        m->adamw = common;
        m->placement = placement;
        m->name = name;
    }
    m->g_dtypes[m->count] = own.g_dtype;
    m->half_dtypes[m->count] = own.flags & ROTA_UPDATE_HALF ? own.half_dtype : ROTA_F32;
    add(m, position, accesses, ROTA_MANY_ADAMW_EACH, own.count);
    return ROTA_OK;
}

/* ---- Conversions ---- */

static rota_status end_casts(rota_rewriter *rewriter, many *m) {
    rota_cuda_many_cast_params params = {.tensors = m->count, .to = m->to};
    memcpy(params.count, m->elements, sizeof params.count);
    return end(rewriter, m, &rota_cuda_many_cast, ROTA_MANY_CAST_EACH, 0, &params);
}

/* A conversion of something that is there all along to what nobody knows before. */
static bool is_cast(const rota_rewriter *rewriter, const rota_fuse_index *index, const rota_node_view *view,
                    uint64_t position) {
    if (view->kernel != &rota_kernel_cast || view->ordered || view->binding_count) return false;
    const rota_cast_params *p = view->params;
    const rota_access *x = &view->accesses[0], *y = &view->accesses[1];
    if (p->from != ROTA_F32 || (p->to != ROTA_F16 && p->to != ROTA_BF16) || p->count > CAST_ELEMENTS_MOST ||
        rota_rewriter_owns(rewriter, x->buffer) || !rota_rewriter_owns(rewriter, y->buffer))
        return false;
    const rota_fuse_touch *first = rota_fuse_index_first(index, y->buffer),
                          *t = rota_fuse_index_first(index, x->buffer);
    for (uint32_t looks = 0; t && t->node < position; t = rota_fuse_index_next(index, t), looks++)
        if (looks == LOOKS_MAX || t->access.mode != ROTA_READ) return false;
    return first && first->node == position;
}

static rota_status take_cast(rota_rewriter *rewriter, many *m, uint64_t position,
                             const rota_node_view *view) {
    const rota_cast_params p = *(const rota_cast_params *)view->params;
    const rota_access accesses[] = {view->accesses[0], view->accesses[1]};
    const char *name = view->name;
    const rota_placement placement = view->placement;
    if (m->count == ROTA_MANY_CAST ||
        (m->count && (m->to != p.to || meets(m, accesses, ROTA_MANY_CAST_EACH) ||
                      !same_placement(&placement, &m->placement))))
        ROTA_TRY(end_casts(rewriter, m));
    if (m->count == 0) {
        m->to = p.to;
        m->placement = placement;
        m->name = name;
    }
    add(m, position, accesses, ROTA_MANY_CAST_EACH, p.count);
    return ROTA_OK;
}

rota_status rota_fuse_many(rota_rewriter *rewriter, const rota_fuse_index *index) {
    const uint64_t count = rota_rewriter_node_count(rewriter);
    many updates = {0}, casts = {0};
    for (uint64_t n = 0; n < count; n++) {
        rota_node_view view = ROTA_NODE_VIEW();
        ROTA_TRY(rota_rewriter_view(rewriter, n, &view));
        if (!view.kernel && view.access_count == 0) continue; /* removed by an earlier pattern */
        if (is_adamw(&view)) {
            ROTA_TRY(take_adamw(rewriter, &updates, n, &view));
            continue;
        }
        if (is_cast(rewriter, index, &view, n)) ROTA_TRY(take_cast(rewriter, &casts, n, &view));
        if (updates.count) ROTA_TRY(end_adamw(rewriter, &updates));
    }
    ROTA_TRY(end_adamw(rewriter, &updates));
    return end_casts(rewriter, &casts);
}
