/* Ops: attention and attention_dropout, fused. (The separate form is made of other ops: rota_op_attention_separate.) */
#include "ops/attention.h"
#include "ops/gradient.h"
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_rules.h"
#include "ops/record.h"

#include <math.h>
#include <string.h>

enum { ATTENTION, ATTENTION_DROPOUT };
enum { LSE = 1, DRAW }; /* outputs beside y */

static bool drops(const rota_op_use *use) {
    return use->op == &rota_ops_attention[ATTENTION_DROPOUT];
}

static rota_status check_dropout(const rota_op_use *use) {
    const float p = use->attributes.p;
    if (!(p >= 0.0f && p < 1.0f))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "p is %g, expected 0 <= p < 1", (double)p);
    if (use->inputs[0].shape[3] > UINT16_MAX)
        return rota_op_fail(use->op, ROTA_UNSUPPORTED, "heads of %llu columns, expected at most %u",
                            (unsigned long long)use->inputs[0].shape[3], UINT16_MAX);
    ROTA_TRY(rota_shape_require_u32(use, 0, "seed"));
    return rota_shape_require_u32(use, 1, "step");
}

static rota_status shape_attention(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *q = &use->inputs[0], *k = &use->inputs[1], *v = &use->inputs[2];
    if (q->dtype != ROTA_F16 && q->dtype != ROTA_BF16) ROTA_TRY(rota_shape_require(use, 7, ROTA_F32));
    ROTA_TRY(rota_shape_require(use, 7, q->dtype));
    bool fits = q->rank == 4 && k->rank == 4 && v->rank == 4 && rota_shapes_equal(k, v);
    fits = fits && q->shape[0] == k->shape[0] && q->shape[1] == k->shape[1] && q->shape[3] == k->shape[3];
    fits = fits && (!use->attributes.causal || k->shape[2] >= q->shape[2]);
    if (!fits) {
        char text[3][ROTA_TENSOR_TEXT_MAX];
        return rota_op_fail(
            use->op, ROTA_INVALID_ARGUMENT,
            "q is %s, k is %s, v is %s; expected q [batch, heads, queries, dim], k and v [batch, heads, "
            "keys, dim]%s",
            rota_tensor_describe(q, text[0], sizeof text[0]),
            rota_tensor_describe(k, text[1], sizeof text[1]),
            rota_tensor_describe(v, text[2], sizeof text[2]),
            use->attributes.causal ? ", keys >= queries" : "");
    }
    ROTA_TRY(rota_shape_like(q, q->dtype, &out[0]));
    ROTA_TRY(rota_tensor_of(NULL, 0, ROTA_F32, 3, q->shape, &out[LSE]));
    if (!drops(use)) return ROTA_OK;
    ROTA_TRY(check_dropout(use));
    return rota_tensor_of(NULL, 0, ROTA_I32, ROTA_SHAPE(sizeof(rota_attention_draw) / 4), &out[DRAW]);
}

static float scale_of(const rota_op_use *use) {
    return use->attributes.scale != 0.0f ? use->attributes.scale
                                         : 1.0f / sqrtf((float)use->inputs[0].shape[3]);
}

static uint32_t flags_of(const rota_op_use *use) {
    return (use->attributes.causal ? ROTA_ATTENTION_CAUSAL : 0u) | (uint32_t)use->inputs[0].dtype
                                                                       << ROTA_ATTENTION_DTYPE_SHIFT;
}

/* All lie where libraries want them. */
static bool lie_even(const rota_tensor *const *tensors, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (tensors[i]->offset_bytes % 16 != 0) return false;
    return true;
}

/* What steps over one element may be anything: of those that the parameters have no room for, a row. */
static void strides_of(const rota_tensor *x, uint32_t *out) {
    for (int i = 0; i < 3; i++) out[i] = (uint32_t)(x->stride[i] <= UINT32_MAX ? x->stride[i] : x->shape[3]);
}

/* Rows of heads: the innermost axis without gaps, a sequence stride that a BLAS takes, strides of 32 bits,
 * and a first element at a whole word. */
static bool has_rows(const rota_tensor *x) {
    for (int i = 0; i < 3; i++)
        if (x->shape[i] != 1 && x->stride[i] > UINT32_MAX) return false;
    return x->offset_bytes % 4 == 0 && (x->stride[3] == 1 || x->shape[3] == 1) && x->stride[2] >= x->shape[3];
}

static rota_status rows_of(rota_tape *tape, const rota_tensor *x, rota_tensor *out) {
    *out = *x;
    return has_rows(x) ? ROTA_OK : rota_record_contiguous(tape, x, out);
}

/* ---- Dropout ---- */

/* What the kernels of the probabilities' dropout read of it. */
static rota_status record_draw(rota_tape *tape, const rota_op_use *use) {
    const rota_op_attributes *attributes = &use->attributes;
    const rota_tensor *q = &use->inputs[0];
    const double threshold = rint((double)attributes->p * 0x1p32);
    const rota_attention_draw params = {
        .threshold = threshold < 4294967295.0 ? (uint32_t)threshold : UINT32_MAX,
        .kept = 1.0f / (1.0f - attributes->p),
        .stream = attributes->stream,
        .seed = rota_value_u32(attributes->value[0]),
        .step = rota_value_u32(attributes->value[1]),
        .scale = scale_of(use),
        .first = (uint32_t)(tape->options.rank * q->shape[0] * q->shape[1]),
    };
    rota_param_binding bindings[2];
    uint32_t count = 0;
    rota_value_bind(attributes->value[0], 0, bindings, &count);
    rota_value_bind(attributes->value[1], 1, bindings, &count);
    const rota_access access = rota_tensor_write(&use->outputs[DRAW]);
    return rota_tape_kernel(tape, &rota_kernel_attention_draw, &access, 1, &params, bindings, count);
}

/* `kernel`, or, with dropout, `dropping`, which reads what is drawn from after the `count` accesses, for which there
 * is room. */
static rota_status run_forward(rota_tape *tape, const rota_op_use *use, rota_access *accesses,
                               const rota_attention_params *p) {
    if (!drops(use)) return rota_tape_kernel(tape, &rota_kernel_attention, accesses, 5, p, NULL, 0);
    rota_attention_drop_params own = {.batch = p->batch,
                                      .heads = p->heads,
                                      .queries = p->queries,
                                      .keys = p->keys,
                                      .dim = (uint16_t)p->dim,
                                      .flags = (uint16_t)(p->flags & ~ROTA_ATTENTION_NODE_FLAGS)};
    memcpy(own.q_stride, p->q_stride, sizeof own.q_stride);
    memcpy(own.k_stride, p->k_stride, sizeof own.k_stride);
    memcpy(own.v_stride, p->v_stride, sizeof own.v_stride);
    memcpy(own.out_stride, p->out_stride, sizeof own.out_stride);
    ROTA_TRY(record_draw(tape, use));
    accesses[5] = rota_tensor_access(&use->outputs[DRAW], ROTA_READ);
    return rota_tape_kernel(tape, &rota_kernel_attention_dropout, accesses, 6, &own, NULL, 0);
}

static rota_status run_backward(rota_tape *tape, const rota_op_use *use, const rota_kernel *kernel,
                                const rota_kernel *dropping, rota_access *accesses, uint32_t count,
                                const rota_attention_backward_params *p) {
    if (!drops(use)) return rota_tape_kernel(tape, kernel, accesses, count, p, NULL, 0);
    rota_attention_drop_backward_params own;
    const bool whole = dropping == &rota_kernel_attention_dropout_backward;
    accesses[count] = rota_tensor_access(&use->outputs[DRAW], ROTA_READ);
    rota_attention_drop_backward_params_of(p, &own);
    return rota_tape_kernel(tape, dropping, accesses, count + 1, whole ? (const void *)p : &own, NULL, 0);
}

static rota_status record_attention(rota_tape *tape, rota_op_use *use) {
    rota_tensor q, k, v, y = use->outputs[0];
    ROTA_TRY(rows_of(tape, &use->inputs[0], &q));
    ROTA_TRY(rows_of(tape, &use->inputs[1], &k));
    ROTA_TRY(rows_of(tape, &use->inputs[2], &v));
    if (!has_rows(&y)) ROTA_TRY(rota_tape_temporary(tape, "attention", y.dtype, 4, y.shape, &y));
    rota_attention_params params = {
        .batch = (uint32_t)q.shape[0],
        .heads = (uint32_t)q.shape[1],
        .queries = (uint32_t)q.shape[2],
        .keys = (uint32_t)k.shape[2],
        .dim = (uint32_t)q.shape[3],
        .flags = flags_of(use),
        .scale = scale_of(use),
    };
    strides_of(&q, params.q_stride);
    strides_of(&k, params.k_stride);
    strides_of(&v, params.v_stride);
    strides_of(&y, params.out_stride);
    if (lie_even((const rota_tensor *[]){&q, &k, &v, &y, &use->outputs[LSE]}, 5))
        params.flags |= ROTA_ATTENTION_ALIGNED_16;
    rota_access accesses[5 + 1] = {rota_tensor_access(&q, ROTA_READ), rota_tensor_access(&k, ROTA_READ),
                                   rota_tensor_access(&v, ROTA_READ), rota_tensor_write(&y),
                                   rota_tensor_write(&use->outputs[LSE])};
    ROTA_TRY(run_forward(tape, use, accesses, &params));
    return y.buffer == use->outputs[0].buffer ? ROTA_OK
                                              : rota_record_strided(tape, &y, &use->outputs[0], 1.0f, false);
}

static bool same_strides(const rota_tensor *a, const rota_tensor *b) {
    for (int i = 0; i < 4; i++)
        if (a->shape[i] != 1 && a->stride[i] != b->stride[i]) return false;
    return true;
}

/* Where a kernel writes an input's gradient with the strides that it reads the input with: the gradient
 * itself, or a tensor to be added to it. */
typedef struct destination {
    rota_tensor dx;
    bool direct;
    rota_tensor target; /* with a buffer: the gradient, to which dx is copied, as it lies between words */
} destination;

/* Memory for x's extent, zeroed if asked for: words, of which the last may pass the end of 16-bit elements.
 */
static rota_status apart_of(rota_tape *tape, const rota_tensor *x, bool zeroed, rota_tensor *out) {
    const uint64_t words = (rota_tensor_extent_bytes(x) + 3) / 4;
    ROTA_TRY(rota_tape_temporary(tape, "attention gradient", ROTA_F32, 1, &words, out));
    return zeroed ? rota_record_zero(tape, out->buffer, 0, words * 4) : ROTA_OK;
}

static rota_status destination_of(rota_tape *tape, const rota_tensor *x, const rota_tensor *read,
                                  destination *out) {
    bool fresh = false;
    *out = (destination){0};
    if (rota_gradient_wanted(tape, x) && same_strides(x, read) && !rota_gradient_folds(x)) {
        ROTA_TRY(rota_gradient_target(tape, x, &out->dx, &fresh));
        out->direct = fresh && out->dx.offset_bytes % 4 == 0;
        if (fresh && !out->direct) out->target = out->dx;
    }
    if (out->direct) return ROTA_OK;
    /* Of x's shape with `read`'s strides: its whole extent, so that gaps, if any, are the tensor's own. */
    rota_tensor whole;
    ROTA_TRY(apart_of(tape, read, !rota_tensor_is_dense(read), &whole));
    out->dx = *read;
    out->dx.buffer = whole.buffer;
    out->dx.offset_bytes = 0;
    return ROTA_OK;
}

/* What the kernel wrote for these inputs becomes their gradients: first where it counts as written already.
 */
static rota_status finish(rota_tape *tape, const rota_op_use *use, uint32_t first, uint32_t count,
                          const destination *to) {
    for (uint32_t i = 0; i < count; i++)
        if (to[i].target.buffer) ROTA_TRY(rota_record_strided(tape, &to[i].dx, &to[i].target, 1.0f, false));
    for (uint32_t i = 0; i < count; i++)
        if (!to[i].direct && !to[i].target.buffer)
            ROTA_TRY(rota_gradient_add(tape, &use->inputs[first + i], &to[i].dx, 1.0f));
    return ROTA_OK;
}

/* What the kernels of the gradient share: q, k, v, out and dout with the strides that they want, and room for
 * what the first hands to the others. */
typedef struct backward_operands {
    rota_tensor q, k, v, y, dy, stats;
    rota_attention_backward_params params;
} backward_operands;

static rota_status operands_of(rota_tape *tape, const rota_op_use *use, backward_operands *o) {
    o->y = use->outputs[0];
    o->dy = *rota_gradient_output(tape, 0);
    ROTA_TRY(rows_of(tape, &use->inputs[0], &o->q));
    ROTA_TRY(rows_of(tape, &use->inputs[1], &o->k));
    ROTA_TRY(rows_of(tape, &use->inputs[2], &o->v));
    /* The gradients are written by the strides that the values are read by: each at a place of its own. */
    rota_tensor *const values[] = {&o->q, &o->k, &o->v};
    for (uint32_t i = 0; i < 3; i++)
        if (rota_gradient_folds(values[i])) ROTA_TRY(rota_record_contiguous(tape, values[i], values[i]));
    if (!same_strides(&o->k, &o->v)) {
        ROTA_TRY(rota_record_contiguous(tape, &o->k, &o->k));
        ROTA_TRY(rota_record_contiguous(tape, &o->v, &o->v));
    }
    if (!has_rows(&o->y) || !has_rows(&o->dy) || !same_strides(&o->y, &o->dy)) {
        ROTA_TRY(rota_record_contiguous(tape, &o->y, &o->y));
        ROTA_TRY(rota_record_contiguous(tape, &o->dy, &o->dy));
    }
    o->params = (rota_attention_backward_params){
        .batch = (uint32_t)o->q.shape[0],
        .heads = (uint32_t)o->q.shape[1],
        .queries = (uint32_t)o->q.shape[2],
        .keys = (uint32_t)o->k.shape[2],
        .dim = (uint32_t)o->q.shape[3],
        .flags = flags_of(use),
        .scale = scale_of(use),
    };
    strides_of(&o->q, o->params.q_stride);
    strides_of(&o->k, o->params.kv_stride);
    strides_of(&o->y, o->params.out_stride);
    return rota_tape_temporary(tape, "attention stats", ROTA_F32,
                               ROTA_SHAPE(o->q.shape[0], o->q.shape[1], o->q.shape[2], 2), &o->stats);
}

/* Slices of one buffer interleave: their byte ranges overlap within a node, which a graph can't know to be
 * harmless. Then dx goes to memory of its own; *out_target, with a buffer: where it is copied from there. */
static rota_status keep_apart(rota_tape *tape, rota_tensor *dx, const rota_tensor *const *others,
                              uint32_t count, rota_tensor *out_target) {
    bool overlaps = false;
    *out_target = (rota_tensor){0};
    for (uint32_t i = 0; i < count; i++) overlaps |= rota_tensors_overlap(dx, others[i]);
    if (!overlaps) return ROTA_OK;
    rota_tensor apart;
    ROTA_TRY(apart_of(tape, dx, true, &apart));
    *out_target = *dx;
    dx->buffer = apart.buffer;
    dx->offset_bytes = 0;
    return ROTA_OK;
}

static rota_status put_back(rota_tape *tape, const rota_tensor *dx, const rota_tensor *target) {
    return target->buffer ? rota_record_strided(tape, dx, target, 1.0f, false) : ROTA_OK;
}

/* Queries, keys and values that lie side by side in one tensor, as a product makes them: their gradients are
 * written by one node, each between the others. *out_together: whether they are so. */
static rota_status side_by_side(rota_tape *tape, const rota_op_use *use, const backward_operands *o,
                                destination to[3], bool *out_together) {
    const rota_tensor *const read[] = {&o->q, &o->k, &o->v};
    const rota_tensor *const x[] = {&use->inputs[0], &use->inputs[1], &use->inputs[2]};
    rota_tensor dx[3];
    *out_together = false;
    for (uint32_t i = 0; i < 3; i++)
        if (read[i]->buffer != x[i]->buffer || !same_strides(read[i], x[i])) return ROTA_OK;
    ROTA_TRY(rota_gradient_targets(tape, x, 3, dx, out_together));
    for (uint32_t i = 0; *out_together && i < 3; i++) to[i] = (destination){.dx = dx[i], .direct = true};
    return ROTA_OK;
}

/* Where they lie side by side, dq's range is that of all three: the first kernel of those that are elsewhere
 * in the node's place writes it, and the next adds to what is there. */
static void range_of_all(const destination to[3], rota_access accesses[3], uint32_t *flags) {
    uint64_t end = 0;
    for (uint32_t i = 0; i < 3; i++) {
        accesses[i] = rota_tensor_access(&to[i].dx, ROTA_WRITE);
        const uint64_t own = to[i].dx.offset_bytes + accesses[i].size_bytes;
        if (own > end) end = own;
    }
    accesses[0].size_bytes = end - to[0].dx.offset_bytes;
    *flags |= ROTA_ATTENTION_DK_GAPS | ROTA_ATTENTION_DV_GAPS;
}

/* All three gradients by one node. */
static rota_status record_backward(rota_tape *tape, const rota_op_use *use, const backward_operands *o) {
    rota_attention_backward_params params = o->params;
    destination to[3];
    rota_tensor v_target = {0}, q_target = {0};
    bool together;
    ROTA_TRY(side_by_side(tape, use, o, to, &together));
    if (!together) {
        ROTA_TRY(destination_of(tape, &use->inputs[0], &o->q, &to[0]));
        ROTA_TRY(destination_of(tape, &use->inputs[1], &o->k, &to[1]));
        ROTA_TRY(destination_of(tape, &use->inputs[2], &o->v, &to[2]));
        ROTA_TRY(keep_apart(tape, &to[2].dx, (const rota_tensor *[]){&to[1].dx}, 1, &v_target));
        ROTA_TRY(keep_apart(tape, &to[0].dx, (const rota_tensor *[]){&to[1].dx, &to[2].dx}, 2, &q_target));
    }
    const rota_tensor *dq = &to[0].dx, *dk = &to[1].dx, *dv = &to[2].dx;
    rota_access accesses[ROTA_ATTENTION_BACKWARD_OPERANDS + 1] = {
        rota_tensor_access(&o->q, ROTA_READ),
        rota_tensor_access(&o->k, ROTA_READ),
        rota_tensor_access(&o->v, ROTA_READ),
        rota_tensor_access(&o->y, ROTA_READ),
        rota_tensor_access(&o->dy, ROTA_READ),
        rota_tensor_access(&use->outputs[LSE], ROTA_READ),
        rota_tensor_write(&o->stats),
        rota_tensor_write(dq),
        rota_tensor_write(dk),
        rota_tensor_write(dv),
    };
    static const uint32_t gaps[] = {ROTA_ATTENTION_DQ_GAPS, ROTA_ATTENTION_DK_GAPS, ROTA_ATTENTION_DV_GAPS};
    if (together) range_of_all(to, accesses + ROTA_ATTENTION_BACKWARD_DQ, &params.flags);
    for (uint32_t i = 0; i < 3; i++)
        if (accesses[ROTA_ATTENTION_BACKWARD_DQ + i].mode == ROTA_READWRITE) params.flags |= gaps[i];
    if (lie_even((const rota_tensor *[]){&o->q, &o->k, &o->v, &o->y, &o->dy, &use->outputs[LSE], dq, dk, dv},
                 9))
        params.flags |= ROTA_ATTENTION_ALIGNED_16;
    ROTA_TRY(run_backward(tape, use, &rota_kernel_attention_backward, &rota_kernel_attention_dropout_backward,
                          accesses, ROTA_ATTENTION_BACKWARD_OPERANDS, &params));
    ROTA_TRY(put_back(tape, dv, &v_target));
    ROTA_TRY(put_back(tape, dq, &q_target));
    return finish(tape, use, 0, 3, to);
}

/* Some of the gradients: the kernels that those need. */
static rota_status record_backward_some(rota_tape *tape, const rota_op_use *use, const backward_operands *o) {
    const rota_access read_q = rota_tensor_access(&o->q, ROTA_READ),
                      read_k = rota_tensor_access(&o->k, ROTA_READ),
                      read_v = rota_tensor_access(&o->v, ROTA_READ),
                      read_dy = rota_tensor_access(&o->dy, ROTA_READ),
                      read_stats = rota_tensor_access(&o->stats, ROTA_READ);
    const rota_access prepare[] = {rota_tensor_access(&o->y, ROTA_READ), read_dy,
                                   rota_tensor_access(&use->outputs[LSE], ROTA_READ),
                                   rota_tensor_write(&o->stats)};
    ROTA_TRY(
        rota_tape_kernel(tape, &rota_kernel_attention_backward_prepare, prepare, 4, &o->params, NULL, 0));
    if (rota_gradient_wanted(tape, &use->inputs[0])) {
        destination dq;
        ROTA_TRY(destination_of(tape, &use->inputs[0], &o->q, &dq));
        rota_access accesses[6 + 1] = {read_q,  read_k,     read_v,
                                       read_dy, read_stats, rota_tensor_write(&dq.dx)};
        ROTA_TRY(run_backward(tape, use, &rota_kernel_attention_backward_query,
                              &rota_kernel_attention_dropout_backward_query, accesses, 6, &o->params));
        ROTA_TRY(finish(tape, use, 0, 1, &dq));
    }
    if (!rota_gradient_wanted(tape, &use->inputs[1]) && !rota_gradient_wanted(tape, &use->inputs[2]))
        return ROTA_OK;
    destination dk, dv;
    rota_tensor target;
    ROTA_TRY(destination_of(tape, &use->inputs[1], &o->k, &dk));
    ROTA_TRY(destination_of(tape, &use->inputs[2], &o->v, &dv));
    ROTA_TRY(keep_apart(tape, &dv.dx, (const rota_tensor *[]){&dk.dx}, 1, &target));
    rota_access accesses[7 + 1] = {
        read_q, read_k, read_v, read_dy, read_stats, rota_tensor_write(&dk.dx), rota_tensor_write(&dv.dx)};
    ROTA_TRY(run_backward(tape, use, &rota_kernel_attention_backward_key_value,
                          &rota_kernel_attention_dropout_backward_key_value, accesses, 7, &o->params));
    ROTA_TRY(put_back(tape, &dv.dx, &target));
    return finish(tape, use, 1, 2, (const destination[]){dk, dv});
}

static rota_status gradient_attention(rota_tape *tape, const rota_op_use *use) {
    backward_operands operands;
    ROTA_TRY(operands_of(tape, use, &operands));
    bool all = true;
    for (uint32_t i = 0; i < 3; i++) all = all && rota_gradient_wanted(tape, &use->inputs[i]);
    return all ? record_backward(tape, use, &operands) : record_backward_some(tape, use, &operands);
}

static bool example_attention(uint32_t index, uint32_t size, rota_op_example *out) {
    static const struct {
        const char *label;
        uint64_t q[4], keys;
        bool causal;
        rota_dtype dtype;
    } small[] =
        {
            {"SCENARIOS S2 small", {1, 2, 4, 8}, 4, false, ROTA_F32},
            {"SCENARIOS S2 middle", {1, 2, 16, 16}, 16, false, ROTA_F32},
            {"SCENARIOS S2 large", {2, 4, 32, 32}, 32, false, ROTA_F32},
            {"causal, odd", {2, 3, 17, 5}, 17, true, ROTA_F32},
            {"causal, more keys", {1, 2, 5, 8}, 12, true, ROTA_F32},
            {"several tiles", {1, 1, 150, 16}, 300, false, ROTA_F32},
            {"several tiles, causal", {1, 2, 200, 8}, 200, true, ROTA_F32},
            {"one query", {2, 1, 1, 3}, 7, false, ROTA_F32},
            {"f16", {2, 3, 70, 64}, 130, false, ROTA_F16},
            {"bf16, causal", {1, 2, 150, 40}, 150, true, ROTA_BF16},
        },
      large[] = {{"8 x 8 heads of 512 x 64, causal", {8, 8, 512, 64}, 512, true, ROTA_F32},
                 {"4 x 12 heads of 1024 x 64, causal, bf16", {4, 12, 1024, 64}, 1024, true, ROTA_BF16},
                 {"2 x 4 heads of 201 x 64, 330 keys, causal, bf16", {2, 4, 201, 64}, 330, true, ROTA_BF16},
                 {"2 x 4 heads of 257 x 128, f16", {2, 4, 257, 128}, 150, false, ROTA_F16}};
    if (index >= (size ? sizeof large / sizeof large[0] : sizeof small / sizeof small[0])) return false;
    const uint64_t *q = size ? large[index].q : small[index].q,
                   keys = size ? large[index].keys : small[index].keys;
    *out = (rota_op_example){.label = size ? large[index].label : small[index].label};
    const rota_dtype dtype = size ? large[index].dtype : small[index].dtype;
    rota_example_input(out, 0, dtype, 4, q, ROTA_FILL_UNIFORM);
    for (uint32_t i = 1; i < 3; i++)
        rota_example_input(out, i, dtype, 4, (const uint64_t[]){q[0], q[1], keys, q[3]}, ROTA_FILL_UNIFORM);
    out->use.attributes.causal = size ? large[index].causal : small[index].causal;
    out->flops = (out->use.attributes.causal ? 2.0 : 4.0) * (double)(q[0] * q[1] * q[2] * keys * q[3]);
    rota_example_bytes(out, out->use.inputs, 1);
    return true;
}

static bool example_dropout(uint32_t index, uint32_t size, rota_op_example *out) {
    if (!example_attention(index, size, out)) return false;
    out->use.attributes.p = index % 2 ? 0.2f : 0.5f;
    out->use.attributes.value[0] = rota_value_constant(1234 + index);
    out->use.attributes.value[1] = rota_value_constant(7);
    out->use.attributes.stream = index;
    return true;
}

static const rota_kernel *const attention_kernels[] = {&rota_kernel_attention, &rota_kernel_copy_strided,
                                                       NULL};
static const rota_kernel *const dropout_kernels[] = {
    &rota_kernel_attention_dropout, &rota_kernel_attention_draw, &rota_kernel_copy_strided, NULL};

const rota_op rota_ops_attention[] = {
    {
        .name = "attention",
        .input_count = 3,
        .output_count = 2,
        .input_names = {"q", "k", "v"},
        .output_names = {"y", "lse"},
        .attributes = ATTRIBUTES(ATTRIBUTE(causal, causal), ATTRIBUTE(scale, scale)),
        .strided_output = true,
        .kernels = attention_kernels,
        .shape = shape_attention,
        .record = record_attention,
        .gradient = gradient_attention,
        .differentiable = 7,
        .saved_inputs = 7,
        .saved_outputs = 3,
        .example = example_attention,
    },
    {
        .name = "attention_dropout",
        .input_count = 3,
        .output_count = 3,
        .input_names = {"q", "k", "v"},
        .output_names = {"y", "lse", "draw"},
        .attributes =
            ATTRIBUTES(ATTRIBUTE(causal, causal), ATTRIBUTE(scale, scale), ATTRIBUTE(p, p),
                       ATTRIBUTE(seed, value[0]), ATTRIBUTE(step, value[1]), ATTRIBUTE(stream, stream)),
        .strided_output = true,
        .varies_by_step = 3,
        .kernels = dropout_kernels,
        .shape = shape_attention,
        .record = record_attention,
        .gradient = gradient_attention,
        .differentiable = 7,
        .saved_inputs = 7,
        .saved_outputs = 7,
        .example = example_dropout,
    },
    {0},
};
