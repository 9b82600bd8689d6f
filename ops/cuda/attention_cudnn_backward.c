/* The gradient of attention by cuDNN as a library node: the kernel's parameters as cuDNN wants them, pieces
 * of what would want too large a workspace, and what is left to rota's own kernels: those for Hopper, which are
 * measured beside cuDNN's, and those for any GPU. */
#include "ops/cuda/attention_cudnn_backward.h"

#include <string.h>

#include "ops/attention.h"
#include "ops/cuda/attention_choice.h"
#include "ops/cuda/attention_cudnn.h"
#include "ops/cuda/attention_sm90.h"
#include "ops/cuda/image.h"

/* Backward in a fixed order keeps 2 bytes for each score in its workspace (cuDNN pads both lengths to whole
 * tiles). What goes beyond this is computed piece by piece, one after the other, each with a tail of its own.
 */
#define SCORES_BYTES_MAX (UINT64_C(1) << 30)
#define TILE 128u
#define ELEMENT_BYTES 2u

static uint32_t largest_divisor(uint32_t of, uint64_t at_most) {
    uint32_t d = of < at_most ? of : (uint32_t)at_most;
    while (d > 1 && of % d != 0) d--;
    return d;
}

static uint64_t in_tiles(uint32_t rows) {
    return ((uint64_t)rows + TILE - 1) / TILE * TILE;
}

/* How much of it a piece has: some batches or some heads, all pieces the same. False: one head is too much,
 * or pieces would begin at odd places. */
static bool piece_of(const rota_cudnn_attention *whole, rota_cudnn_attention *out_piece) {
    const uint64_t fit =
        SCORES_BYTES_MAX / (in_tiles(whole->queries) * in_tiles(whole->keys) * ELEMENT_BYTES);
    *out_piece = *whole;
    if (fit == 0) return false;
    out_piece->heads = largest_divisor(whole->heads, fit);
    out_piece->batch =
        out_piece->heads == whole->heads ? largest_divisor(whole->batch, fit / whole->heads) : 1;
    if (out_piece->batch == whole->batch && out_piece->heads == whole->heads) return true;
    /* Every one's operands begin at multiples of 16 bytes, lse too. */
    bool even = whole->queries % 4 == 0;
    for (int i = 0; i < 4; i++)
        for (int axis = 0; axis < 2; axis++) {
            const uint32_t extent = axis == 0 ? whole->batch : whole->heads;
            even = even && (extent == 1 || (whole->stride[i][axis] % 8 == 0 && whole->stride[i][axis] != 0));
        }
    return even;
}

static rota_cudnn_attention backward_of(const rota_attention_backward_params *p) {
    rota_cudnn_attention about =
        rota_attention_about(true, p->flags, p->scale, p->batch, p->heads, p->queries, p->keys, p->dim);
    memcpy(about.stride[0], p->q_stride, sizeof p->q_stride);
    memcpy(about.stride[1], p->kv_stride, sizeof p->kv_stride);
    memcpy(about.stride[2], p->kv_stride, sizeof p->kv_stride);
    memcpy(about.stride[3], p->out_stride, sizeof p->out_stride);
    return about;
}

static bool is_worth_it(const rota_attention_backward_params *p, uint32_t slot_mask) {
    return rota_attention_is_worth_it(p->flags, slot_mask, (uint64_t)p->batch * p->heads, p->queries, p->keys,
                                      p->dim);
}

static bool cudnn_takes(const rota_attention_backward_params *p, const rota_cuda_target *target) {
    const rota_cudnn_attention whole = backward_of(p);
    rota_cudnn_attention piece;
    return piece_of(&whole, &piece) && rota_cudnn_attention_takes(&piece, target, NULL);
}

bool rota_cuda_attention_backward_by_cudnn(const rota_attention_backward_params *p, uint32_t slot_mask,
                                           const rota_cuda_target *target) {
    return is_worth_it(p, slot_mask) && cudnn_takes(p, target);
}

bool rota_cuda_attention_backward_as_one(const rota_attention_backward_params *p, uint32_t slot_mask,
                                         const rota_cuda_target *target) {
    return is_worth_it(p, slot_mask) && (rota_attention_sm90_takes(p, target) || cudnn_takes(p, target));
}

uint64_t rota_cuda_workspace_attention_backward(const void *params, const uint64_t *operand_bytes,
                                                const rota_cuda_target *target) {
    (void)operand_bytes;
    const rota_cudnn_attention whole = backward_of(params);
    rota_cudnn_attention piece;
    const uint64_t by_sm90 = rota_attention_sm90_workspace(params, target);
    bool known; /* what is, stays */
    if (rota_attention_choice_find(&whole, target, ROTA_ATTENTION_BY_SM90, &known) == ROTA_ATTENTION_BY_SM90)
        return by_sm90; /* by table, too: rota's other kernels want none, and where that isn't taken it is 0 */
    const uint64_t by_cudnn = piece_of(&whole, &piece) ? rota_cudnn_attention_workspace(&piece, target) : 0;
    return by_cudnn > by_sm90 ? by_cudnn : by_sm90;
}

static uint64_t element_of(const uint32_t stride[3], uint32_t batch, uint32_t head) {
    return ((uint64_t)batch * stride[0] + (uint64_t)head * stride[1]) * ELEMENT_BYTES;
}

static rota_status backward_by_cudnn(const rota_cuda_call *call) {
    const rota_attention_backward_params *p = call->params;
    const rota_cudnn_attention whole = backward_of(p);
    rota_cudnn_attention piece;
    if (!piece_of(&whole, &piece))
        return rota_fail(ROTA_UNSUPPORTED, "cuDNN takes no piece of this attention");
    const uint64_t *o = call->operands;
    uint64_t bytes;
    const uint64_t workspace = rota_attention_workspace(call, ROTA_ATTENTION_BACKWARD_OPERANDS, &bytes);
    for (uint32_t b = 0; b < p->batch; b += piece.batch)
        for (uint32_t h = 0; h < p->heads; h += piece.heads) {
            const uint64_t q = element_of(p->q_stride, b, h), kv = element_of(p->kv_stride, b, h),
                           out = element_of(p->out_stride, b, h),
                           row = ((uint64_t)b * p->heads + h) * p->queries;
            const rota_cudnn_attention_operands operands = {
                .q = o[ROTA_ATTENTION_BACKWARD_Q] + q,
                .k = o[ROTA_ATTENTION_BACKWARD_K] + kv,
                .v = o[ROTA_ATTENTION_BACKWARD_V] + kv,
                .out = o[ROTA_ATTENTION_BACKWARD_OUT] + out,
                .lse = o[ROTA_ATTENTION_BACKWARD_LSE] + row * sizeof(float),
                .dout = o[ROTA_ATTENTION_BACKWARD_DOUT] + out,
                .dq = o[ROTA_ATTENTION_BACKWARD_DQ] + q,
                .dk = o[ROTA_ATTENTION_BACKWARD_DK] + kv,
                .dv = o[ROTA_ATTENTION_BACKWARD_DV] + kv,
                .sums = o[ROTA_ATTENTION_BACKWARD_STATS],
            };
            ROTA_TRY(
                rota_cudnn_attention_run(&piece, call->target, &operands, workspace, bytes, call->stream));
        }
    return ROTA_OK;
}

static rota_status backward_by_rota(const rota_cuda_call *call) {
    rota_kernel_part parts[ROTA_KERNEL_PARTS_MAX] = {0};
    const uint32_t count = rota_attention_backward_parts(call->params, parts);
    for (uint32_t i = 0; i < count; i++)
        ROTA_TRY(rota_cuda_image_run_node(parts[i].kernel, call, parts[i].operand, parts[i].params));
    return ROTA_OK;
}

static rota_status backward_by_sm90(const rota_cuda_call *call) {
    uint64_t bytes;
    const uint64_t workspace = rota_attention_workspace(call, ROTA_ATTENTION_BACKWARD_OPERANDS, &bytes);
    return rota_attention_sm90_run(call, workspace, bytes);
}

static rota_status backward_by(rota_attention_way way, const rota_cuda_call *call) {
    switch (way) {
    case ROTA_ATTENTION_BY_CUDNN:
        return backward_by_cudnn(call);
    case ROTA_ATTENTION_BY_SM90:
        return backward_by_sm90(call);
    default:
        return backward_by_rota(call);
    }
}

/* The way that was measured; else cuDNN's, or, where that isn't to be had, that of Hopper; by table that of Hopper, or,
 * where that isn't to be had, rota's for any GPU. */
static rota_attention_way way_of(const rota_cuda_call *call, const rota_cudnn_attention *about,
                                 bool *out_known) {
    const bool by_sm90 = rota_attention_sm90_takes(call->params, call->target);
    const rota_attention_way way = rota_attention_choice_find(
        about, call->target, by_sm90 ? ROTA_ATTENTION_BY_SM90 : ROTA_ATTENTION_BY_ROTA, out_known);
    return *out_known || cudnn_takes(call->params, call->target) ? way : ROTA_ATTENTION_BY_SM90;
}

rota_status rota_cuda_call_attention_backward(const rota_cuda_call *call) {
    const rota_cudnn_attention about = backward_of(call->params);
    bool known;
    const rota_attention_way way = way_of(call, &about, &known);
    const rota_status status = call->again ? ROTA_UNSUPPORTED : backward_by(way, call);
    if (status == ROTA_UNSUPPORTED) return backward_by_rota(call);
    if (status == ROTA_OK && !known) rota_attention_choice_keep(&about, call->target, way);
    return status;
}

/* Lets cuDNN load its code, which it does when it first runs, and measures all ways if that was not done
 * before. */
rota_status rota_cuda_tune_attention_backward(const rota_cuda_call *call) {
    const rota_attention_work work = {.about = backward_of(call->params),
                                      .first_result = ROTA_ATTENTION_BACKWARD_DQ,
                                      .result_count = 3,
                                      .by_sm90 = rota_attention_sm90_takes(call->params, call->target)};
    bool known;
    rota_attention_way way = way_of(call, &work.about, &known);
    if (known && way != ROTA_ATTENTION_BY_CUDNN) return ROTA_OK;
    rota_status status = cudnn_takes(call->params, call->target) ? backward_by_cudnn(call) : ROTA_UNSUPPORTED;
    rota_attention_measuring *measuring;
    if (!known && (status == ROTA_OK || (status == ROTA_UNSUPPORTED && work.by_sm90))) {
        status = rota_attention_measure_begin(&work, call, &measuring);
        while (status == ROTA_OK && rota_attention_measure_next(measuring, &way))
            rota_attention_measure_ran(measuring, backward_by(way, call));
        if (status == ROTA_OK) status = rota_attention_measure_end(measuring);
    }
    return status == ROTA_UNSUPPORTED ? ROTA_OK
                                      : status; /* the call goes the other way, or says why it can't */
}
