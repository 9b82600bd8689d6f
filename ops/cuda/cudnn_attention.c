/* Attention as graphs of cuDNN's operations: its engines know these very patterns (cuDNN's documentation,
 * "Graph API", fused flash attention), and compute each as one or a few kernels. */
#include "ops/cuda/cudnn_attention.h"

#if __has_include(<cudnn.h>)

#include <float.h>
#include <math.h>
#include <stdio.h>
#include "base/log.h"
#include "ops/cuda/cudnn_kept.h"
#include "ops/tensor.h"

/* Tensors in memory and values, by which a plan's call names them. */
enum { Q = 1, K, V, OUT, LSE, DOUT, DQ, DK, DV, SUMS, SCALE, HIDDEN, ONE, KEYS, QUERIES };

typedef cudnnBackendDescriptor_t descriptor;

typedef struct builder {
    const rota_cudnn_attention *about;
    rota_cudnn_graph *graph;
    cudnnDataType_t type; /* of q, k, v, out and their gradients */
    descriptor scale, hidden;
} builder;

/* ---- Tensors ---- */

/* [batch, heads, rows, columns] by the strides of an operand, or with rows and columns exchanged. */
static descriptor operand(builder *b, int64_t id, uint32_t strides_of, uint32_t rows, bool transposed) {
    const rota_cudnn_attention *a = b->about;
    const uint32_t *stride = a->stride[strides_of];
    const int64_t along[2] = {transposed ? a->dim : rows, transposed ? rows : a->dim};
    const int64_t step[2] = {transposed ? 1 : stride[2], transposed ? stride[2] : 1};
    return rota_cudnn_tensor(b->graph, ROTA_CUDNN_IN_MEMORY, id, b->type,
                             (const int64_t[4]){a->batch, a->heads, along[0], along[1]},
                             (const int64_t[4]){stride[0], stride[1], step[0], step[1]});
}

static descriptor contiguous(builder *b, rota_cudnn_storage storage, int64_t id, cudnnDataType_t type,
                             uint32_t rows, uint32_t columns) {
    const rota_cudnn_attention *a = b->about;
    const int64_t plane = (int64_t)rows * columns;
    return rota_cudnn_tensor(b->graph, storage, id, type,
                             (const int64_t[4]){a->batch, a->heads, rows, columns},
                             (const int64_t[4]){a->heads * plane, plane, columns, 1});
}

/* A value for each pair of a query and a key, or for each query. */
static descriptor scores(builder *b, cudnnDataType_t type) {
    return contiguous(b, ROTA_CUDNN_VIRTUAL, 0, type, b->about->queries, b->about->keys);
}
static descriptor rows(builder *b, rota_cudnn_storage storage, int64_t id) {
    return contiguous(b, storage, id, CUDNN_DATA_FLOAT, b->about->queries, 1);
}

static descriptor value(builder *b, int64_t id, cudnnDataType_t type) {
    static const int64_t one[4] = {1, 1, 1, 1};
    return rota_cudnn_tensor(b->graph, ROTA_CUDNN_BY_VALUE, id, type, one, one);
}

/* ---- Operations ---- */

static void pointwise(builder *b, cudnnPointwiseMode_t mode, descriptor x, descriptor with, descriptor y) {
    rota_cudnn_pointwise(b->graph, mode, CUDNN_DATA_FLOAT, 0, x, with, NULL, y);
}

static descriptor scores_of(builder *b, cudnnPointwiseMode_t mode, descriptor x, descriptor with) {
    descriptor y = scores(b, CUDNN_DATA_FLOAT);
    pointwise(b, mode, x, with, y);
    return y;
}

/* What x is with its last two axes exchanged, without moving anything, in the operands' type. */
static descriptor transposed(builder *b, descriptor x) {
    const rota_cudnn_attention *a = b->about;
    const int64_t plane = (int64_t)a->queries * a->keys;
    descriptor y = rota_cudnn_tensor(b->graph, ROTA_CUDNN_VIRTUAL, 0, b->type,
                                     (const int64_t[4]){a->batch, a->heads, a->keys, a->queries},
                                     (const int64_t[4]){a->heads * plane, plane, 1, a->keys});
    rota_cudnn_reshape(b->graph, x, y);
    return y;
}

/* Scores of keys after the query, counted from the end of both, become `hidden`. */
static descriptor masked(builder *b, descriptor x) {
    const rota_cudnn_attention *a = b->about;
    if (!a->causal) return x;
    descriptor row = scores(b, CUDNN_DATA_INT32), column = scores(b, CUDNN_DATA_INT32);
    rota_cudnn_pointwise(b->graph, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 2, x, NULL, NULL, row);
    rota_cudnn_pointwise(b->graph, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 3, x, NULL, NULL, column);
    if (a->keys != a->queries) {
        descriptor by_keys = scores(b, CUDNN_DATA_INT32), shifted = scores(b, CUDNN_DATA_INT32);
        descriptor keys = value(b, KEYS, CUDNN_DATA_INT32), queries = value(b, QUERIES, CUDNN_DATA_INT32);
        rota_cudnn_pointwise(b->graph, CUDNN_POINTWISE_ADD, CUDNN_DATA_INT32, 0, row, keys, NULL, by_keys);
        rota_cudnn_pointwise(b->graph, CUDNN_POINTWISE_SUB, CUDNN_DATA_INT32, 0, by_keys, queries, NULL,
                             shifted);
        row = shifted;
    }
    descriptor seen = scores(b, CUDNN_DATA_BOOLEAN), y = scores(b, CUDNN_DATA_FLOAT);
    rota_cudnn_pointwise(b->graph, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, 0, row, column, NULL, seen);
    rota_cudnn_pointwise(b->graph, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, 0, x, b->hidden, seen, y);
    return y;
}

/* scale * q k^T */
static descriptor scaled_scores(builder *b, descriptor q, descriptor k_transposed) {
    descriptor s = scores(b, CUDNN_DATA_FLOAT);
    rota_cudnn_matmul(b->graph, q, k_transposed, s);
    return scores_of(b, CUDNN_POINTWISE_MUL, s, b->scale);
}

static void describe_forward(builder *b) {
    const rota_cudnn_attention *a = b->about;
    descriptor q = operand(b, Q, 0, a->queries, false), k = operand(b, K, 1, a->keys, true);
    descriptor v = operand(b, V, 2, a->keys, false), out = operand(b, OUT, 3, a->queries, false);
    descriptor lse = rows(b, ROTA_CUDNN_IN_MEMORY, LSE);
    descriptor s = masked(b, scaled_scores(b, q, k));
    descriptor most = rows(b, ROTA_CUDNN_VIRTUAL, 0), sum = rows(b, ROTA_CUDNN_VIRTUAL, 0);
    descriptor log_sum = rows(b, ROTA_CUDNN_VIRTUAL, 0), p = scores(b, b->type);
    rota_cudnn_reduction(b->graph, CUDNN_REDUCE_TENSOR_MAX, s, most);
    descriptor less = scores_of(b, CUDNN_POINTWISE_SUB, s, most);
    descriptor e = scores_of(b, CUDNN_POINTWISE_EXP, less, NULL);
    rota_cudnn_reduction(b->graph, CUDNN_REDUCE_TENSOR_ADD, e, sum);
    pointwise(b, CUDNN_POINTWISE_LOG, sum, NULL, log_sum);
    pointwise(b, CUDNN_POINTWISE_ADD, most, log_sum, lse);
    pointwise(b, CUDNN_POINTWISE_DIV, e, sum, p);
    rota_cudnn_matmul(b->graph, p, v, out);
}

static void describe_backward(builder *b) {
    const rota_cudnn_attention *a = b->about;
    descriptor q = operand(b, Q, 0, a->queries, false), k = operand(b, K, 1, a->keys, true);
    descriptor v = operand(b, V, 2, a->keys, true), out = operand(b, OUT, 3, a->queries, false);
    descriptor dout = operand(b, DOUT, 3, a->queries, false), lse = rows(b, ROTA_CUDNN_IN_MEMORY, LSE);
    descriptor dq = operand(b, DQ, 0, a->queries, false), dk = operand(b, DK, 1, a->keys, false);
    descriptor dv = operand(b, DV, 2, a->keys, false), one = value(b, ONE, CUDNN_DATA_FLOAT);
    /* sums: of out * dout over dim */
    descriptor product = contiguous(b, ROTA_CUDNN_VIRTUAL, 0, CUDNN_DATA_FLOAT, a->queries, a->dim);
    descriptor sum = rows(b, ROTA_CUDNN_VIRTUAL, 0), sums = rows(b, ROTA_CUDNN_IN_MEMORY, SUMS);
    pointwise(b, CUDNN_POINTWISE_MUL, dout, out, product);
    rota_cudnn_reduction(b->graph, CUDNN_REDUCE_TENSOR_ADD, product, sum);
    pointwise(b, CUDNN_POINTWISE_MUL, sum, one, sums);
    /* p = exp(scale * q k^T - lse), dv = p^T dout */
    descriptor s = scores_of(b, CUDNN_POINTWISE_SUB, scaled_scores(b, q, k), lse);
    descriptor p = scores_of(b, CUDNN_POINTWISE_EXP, masked(b, s), NULL);
    rota_cudnn_matmul(b->graph, transposed(b, p), dout, dv);
    /* ds = scale * p * (dout v^T - sums), dk = ds^T q */
    descriptor dp = scores(b, CUDNN_DATA_FLOAT);
    rota_cudnn_matmul(b->graph, dout, v, dp);
    descriptor less = scores_of(b, CUDNN_POINTWISE_SUB, dp, sums);
    descriptor ds = scores_of(b, CUDNN_POINTWISE_MUL, less, p);
    ds = scores_of(b, CUDNN_POINTWISE_MUL, ds, b->scale);
    rota_cudnn_matmul(b->graph, transposed(b, ds), q, dk);
    /* dq = ds k. Straight into dq: an engine that keeps ds in its workspace and adds in a fixed order. (By
     * way of a tensor of floats it would be one that adds by atomics.) */
    descriptor k_again = rota_cudnn_tensor(
        b->graph, ROTA_CUDNN_VIRTUAL, 0, b->type, (const int64_t[4]){a->batch, a->heads, a->keys, a->dim},
        (const int64_t[4]){a->stride[1][0], a->stride[1][1], a->stride[1][2], 1});
    rota_cudnn_reshape(b->graph, k, k_again);
    rota_cudnn_matmul(b->graph, ds, k_again, dq);
}

/* ---- Plans ---- */

static const rota_cudnn_attention *about_of(const rota_cudnn_kept *kept) {
    return (const rota_cudnn_attention *)kept->about;
}

/* From 9.6 on cuDNN counts the keys of causal attention from the end; 9.10.0 and 9.10.1 compute attention
 * wrongly, and up to 9.15 backward wants keys in whole tiles (the checks of cuDNN's frontend). From compute
 * capability 10.0 on the graph of backward alone doesn't say that sums have a fixed order. */
static rota_status refuse_known(const rota_cudnn_attention *a, const rota_cuda_target *target) {
    const uint64_t version = rota_cudnn_version();
    const bool wrong = version == 91000 || version == 91001;
    const bool in_tiles = !a->backward || version > 91500 || a->keys % 128 == 0;
    if (version == 0) return rota_fail(ROTA_UNSUPPORTED, "cuDNN is not there");
    if (version < 90600 || wrong || !in_tiles || (a->backward && a->queries == 1 && a->keys == 1))
        return rota_fail(ROTA_UNSUPPORTED, "cuDNN %llu is not used for this", (unsigned long long)version);
    if (a->backward && target->compute_capability >= 100)
        return rota_fail(ROTA_UNSUPPORTED, "cuDNN's sums on %s may have no fixed order", target->name);
    if (a->dim % 8 != 0) return rota_fail(ROTA_UNSUPPORTED, "cuDNN wants heads of a multiple of 8 columns");
    /* Rows at multiples of 16 bytes, none that repeat. */
    for (int i = 0; i < 4; i++) {
        const uint32_t extent[3] = {a->batch, a->heads, i == 0 || i == 3 ? a->queries : a->keys};
        for (int axis = 0; axis < 3; axis++)
            if (extent[axis] > 1 && (a->stride[i][axis] % 8 != 0 || a->stride[i][axis] == 0))
                return rota_fail(ROTA_UNSUPPORTED, "cuDNN wants rows at multiples of 16 bytes");
    }
    return ROTA_OK;
}

static rota_status make(rota_cudnn_kept *kept, const rota_cuda_target *target) {
    const rota_cudnn_attention *about = about_of(kept);
    ROTA_TRY(refuse_known(about, target));
    ROTA_TRY(rota_cudnn_handle(&kept->handle));
    builder b = {.about = about,
                 .graph = &kept->plan.graph,
                 .type = about->dtype == ROTA_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16};
    b.scale = value(&b, SCALE, CUDNN_DATA_FLOAT);
    if (about->causal) b.hidden = value(&b, HIDDEN, CUDNN_DATA_FLOAT);
    if (about->backward)
        describe_backward(&b);
    else
        describe_forward(&b);
    const rota_cudnn_wish wish = {.way_count = 1, .workspace_bytes_max = UINT64_MAX};
    return rota_cudnn_plan_make(&kept->plan, &wish, kept->handle);
}

static void say(const rota_cudnn_kept *kept, const rota_cuda_target *target) {
    rota_log_write(target->log, ROTA_LOG_WARNING, "rota's own kernels take attention%s on %s: %s",
                   about_of(kept)->backward ? "'s gradient" : "", target->name, kept->why);
}

static void say_not_made(const rota_cudnn_kept *kept, const rota_cuda_target *target) {
    if (kept->handle || kept->status != ROTA_UNSUPPORTED) say(kept, target); /* it was asked */
}

static rota_cudnn_keeper keeper = {
    .about_bytes = sizeof(rota_cudnn_attention), .make = make, .say = say_not_made};

bool rota_cudnn_attention_takes(const rota_cudnn_attention *about, const rota_cuda_target *target,
                                char out_why[ROTA_ERROR_MESSAGE_MAX]) {
    rota_cudnn_kept *kept = NULL;
    if (out_why) out_why[0] = 0;
    if (!rota_cudnn_present()) return false;
    rota_status status = rota_cudnn_kept_get(&keeper, about, target, &kept);
    if (status == ROTA_OK) status = kept->status;
    if (status == ROTA_OK) return true;
    if (out_why) snprintf(out_why, ROTA_ERROR_MESSAGE_MAX, "%s", kept ? kept->why : rota_last_error());
    return false;
}

uint64_t rota_cudnn_attention_workspace(const rota_cudnn_attention *about, const rota_cuda_target *target) {
    rota_cudnn_kept *kept;
    if (rota_cudnn_kept_get(&keeper, about, target, &kept) != ROTA_OK || kept->status != ROTA_OK) return 0;
    return kept->plan.ways[0].workspace_bytes;
}

rota_status rota_cudnn_attention_run(const rota_cudnn_attention *about, const rota_cuda_target *target,
                                     const rota_cudnn_attention_operands *o, uint64_t workspace,
                                     uint64_t workspace_bytes, void *stream) {
    rota_cudnn_kept *kept;
    ROTA_TRY(rota_cudnn_kept_get(&keeper, about, target, &kept));
    if (kept->status != ROTA_OK) return rota_fail(kept->status, "%s", kept->why);
    if (workspace_bytes < kept->plan.ways[0].workspace_bytes)
        return rota_fail(ROTA_INTERNAL, "attention by cuDNN got %llu bytes of workspace, it wants %llu",
                         (unsigned long long)workspace_bytes,
                         (unsigned long long)kept->plan.ways[0].workspace_bytes);
    float scale = about->scale, one = 1.0f, hidden = rota_cudnn_version() < 91000 ? -FLT_MAX : -INFINITY;
    int32_t keys = (int32_t)about->keys, queries = (int32_t)about->queries;
    const struct {
        int64_t id;
        bool wanted;
        void *pointer;
    } all[] = {
        {Q, true, rota_cudnn_address(o->q)},
        {K, true, rota_cudnn_address(o->k)},
        {V, true, rota_cudnn_address(o->v)},
        {OUT, true, rota_cudnn_address(o->out)},
        {LSE, true, rota_cudnn_address(o->lse)},
        {SCALE, true, &scale},
        {HIDDEN, about->causal, &hidden},
        {KEYS, about->causal && keys != queries, &keys},
        {QUERIES, about->causal && keys != queries, &queries},
        {DOUT, about->backward, rota_cudnn_address(o->dout)},
        {DQ, about->backward, rota_cudnn_address(o->dq)},
        {DK, about->backward, rota_cudnn_address(o->dk)},
        {DV, about->backward, rota_cudnn_address(o->dv)},
        {SUMS, about->backward, rota_cudnn_address(o->sums)},
        {ONE, about->backward, &one},
    };
    int64_t ids[ROTA_CUDNN_OPERANDS_MAX];
    void *pointers[ROTA_CUDNN_OPERANDS_MAX];
    _Static_assert(sizeof all / sizeof *all <= ROTA_CUDNN_OPERANDS_MAX, "room for all");
    uint32_t count = 0;
    const uint64_t last_bits =
        o->q | o->k | o->v | o->out | o->lse | o->dout | o->dq | o->dk | o->dv | o->sums;
    if (last_bits % 16 != 0) /* in a view of a buffer that begins there */
        return rota_fail(ROTA_UNSUPPORTED, "an operand of attention is at no multiple of 16 bytes");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i].wanted) continue;
        ids[count] = all[i].id;
        pointers[count++] = all[i].pointer;
    }
    rota_cudnn_lock();
    if (!kept->failed && rota_cudnn_run(&kept->plan.ways[0], kept->handle, count, ids, pointers,
                                        rota_cudnn_address(workspace), stream) != ROTA_OK) {
        kept->failed = 1;
        snprintf(kept->why, sizeof kept->why, "%s", rota_last_error());
        say(kept, target);
    }
    const rota_status status = kept->failed ? rota_fail(ROTA_UNSUPPORTED, "%s", kept->why) : ROTA_OK;
    rota_cudnn_unlock();
    return status;
}

#else

bool rota_cudnn_attention_takes(const rota_cudnn_attention *about, const rota_cuda_target *target,
                                char out_why[ROTA_ERROR_MESSAGE_MAX]) {
    (void)about, (void)target;
    if (out_why) out_why[0] = 0;
    return false;
}

uint64_t rota_cudnn_attention_workspace(const rota_cudnn_attention *about, const rota_cuda_target *target) {
    (void)about, (void)target;
    return 0;
}

rota_status rota_cudnn_attention_run(const rota_cudnn_attention *about, const rota_cuda_target *target,
                                     const rota_cudnn_attention_operands *operands, uint64_t workspace,
                                     uint64_t workspace_bytes, void *stream) {
    (void)about, (void)target, (void)operands, (void)workspace, (void)workspace_bytes, (void)stream;
    return rota_fail(ROTA_UNSUPPORTED, "built without cuDNN's headers");
}

#endif
