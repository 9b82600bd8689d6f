/* Convolutions by cuDNN as library nodes: a kernel's parameters and operands as cuDNN wants them, which of its
 * engines or of rota's own kernels is measured to be the fastest, and what is left to rota's. */
#include "ops/cuda/conv_cudnn.h"

#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "ops/conv.h"
#include "ops/cuda/choices.h"
#include "ops/cuda/cudnn_conv.h"
#include "ops/cuda/image.h"
#include "ops/cuda/measure.h"
#include "ops/kernel_objects.h"

/* Multiplications that are worth a plan and its measurement. */
#define SMALL_MULTIPLICATIONS (UINT64_C(1) << 24)

/* ---- The kernels that it may stand in for ---- */

typedef struct form {
    const rota_kernel *kernel;
    rota_cudnn_conv_result result;
    uint8_t wide, w, narrow; /* which operands these are */
    uint8_t bias;            /* where it is added, if at all */
    uint8_t operand_count;   /* behind them the workspace */
} form;

static const form forward = {&rota_kernel_conv2d, ROTA_CUDNN_CONV_NARROW, 0, 1, 3, 2, 4},
                  input = {&rota_kernel_conv2d_backward_input, ROTA_CUDNN_CONV_WIDE, 3, 1, 0, 2, 4},
                  weight = {&rota_kernel_conv2d_backward_weight, ROTA_CUDNN_CONV_W, 0, 2, 1, 0, 3},
                  weight_gradient = {&rota_kernel_conv2d_weight_gradient,
                                     ROTA_CUDNN_CONV_W,
                                     ROTA_CONV_WEIGHT_X,
                                     ROTA_CONV_WEIGHT_DW,
                                     ROTA_CONV_WEIGHT_DY,
                                     0,
                                     ROTA_CONV_WEIGHT_OPERANDS};

static rota_cudnn_conv about_of(const form *f, const rota_conv_params *p) {
    rota_cudnn_conv about;
    memset(&about, 0, sizeof about);
    about.result = (uint32_t)f->result;
    about.tf32 = p->dtype == ROTA_F32 && (p->flags & ROTA_CONV_TF32) != 0;
    about.p = *p;
    about.p.flags &= ROTA_CONV_CHANNELS_LAST;
    about.p.chunk = 0;
    return about;
}

static bool is_worth_it(const form *f, const rota_conv_params *p, const rota_cuda_target *target) {
    const uint64_t window = (uint64_t)p->window[0] * p->window[1] * p->in_channels * p->out_channels;
    const uint64_t positions = (uint64_t)p->batch * p->groups * p->out[0] * p->out[1];
    if (positions < SMALL_MULTIPLICATIONS / window) return false;
    const rota_cudnn_conv about = about_of(f, p);
    return rota_cudnn_conv_ways(&about, target, NULL) > 0;
}

/* ---- Either way ---- */

/* y += bias of its channel. */
static rota_status add_bias(const form *f, const rota_cuda_call *call) {
    const rota_conv_params *p = call->params;
    const bool narrow = f->result == ROTA_CUDNN_CONV_NARROW;
    const uint8_t y = narrow ? f->narrow : f->wide, operands[] = {y, f->bias, y};
    const uint32_t *plane = narrow ? p->out : p->in;
    rota_binary_params add = {.op = ROTA_BINARY_ADD, .dtype = p->dtype};
    for (uint32_t i = 0; i < ROTA_KERNEL_DIMS; i++) add.shape[i] = 1;
    const uint32_t channels = p->groups * (narrow ? p->out_channels : p->in_channels);
    const uint32_t axis = ROTA_KERNEL_DIMS - (p->flags & ROTA_CONV_CHANNELS_LAST ? 1 : 2); /* of channels */
    add.shape[ROTA_KERNEL_DIMS - 3] = p->batch;
    add.shape[ROTA_KERNEL_DIMS - 2] = add.shape[ROTA_KERNEL_DIMS - 1] = plane[0] * plane[1];
    add.shape[axis] = channels;
    add.b_stride[axis] = 1;
    add.count = p->batch * channels * plane[0] * plane[1];
    return rota_cuda_image_run_node(&rota_kernel_binary, call, operands, &add);
}

static rota_status run_cudnn(const form *f, const rota_cuda_call *call, const rota_cudnn_conv *about,
                             uint32_t way) {
    const rota_conv_params *p = call->params;
    const bool has_room = call->operand_count > f->operand_count;
    const rota_cudnn_conv_operands operands = {
        .wide = call->operands[f->wide], .w = call->operands[f->w], .narrow = call->operands[f->narrow]};
    ROTA_TRY(rota_cudnn_conv_run(about, call->target, way, &operands,
                                 has_room ? call->operands[f->operand_count] : 0,
                                 has_room ? call->operand_bytes[f->operand_count] : 0, call->stream));
    return p->flags & ROTA_CONV_BIAS ? add_bias(f, call) : ROTA_OK;
}

static rota_status run_rota(const form *f, const rota_cuda_call *call) {
    if (f != &weight_gradient)
        return rota_cuda_image_run(f->kernel, call, call->operands, call->operand_bytes, call->params);
    rota_kernel_part parts[ROTA_KERNEL_PARTS_MAX] = {0};
    const uint32_t count = rota_conv_weight_parts(call->params, parts);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t addresses[ROTA_KERNEL_OPERANDS_MAX], bytes[ROTA_KERNEL_OPERANDS_MAX];
        for (uint32_t k = 0; k < parts[i].operand_count; k++) {
            addresses[k] = call->operands[parts[i].operand[k]];
            bytes[k] = call->operand_bytes[parts[i].operand[k]];
        }
        ROTA_TRY(rota_cuda_image_run(parts[i].kernel, call, addresses, bytes, parts[i].params));
    }
    return ROTA_OK;
}

/* ---- Which way ---- */

/* Kept in files: plain bytes. */
typedef struct choice {
    uint32_t way; /* 0: rota's own kernel; else cuDNN's way with this number less 1 */
    uint32_t zero;
    int64_t engine; /* of cuDNN's */
} choice;

static void key_of(const rota_cudnn_conv *about, const rota_cuda_target *target,
                   char out_key[ROTA_CHOICE_KEY_MAX]) {
    const rota_conv_params *p = &about->p;
    snprintf(out_key, ROTA_CHOICE_KEY_MAX,
             "conv2d%s %u|%s|%u|%s|cudnn %llu|%u %u|%u %u %u %u|%u %u|%u %u|%u %u|%u %u|%u %u|%u %u%s",
             rota_choices_mark(target), about->result, target->name, target->multiprocessors, target->driver,
             (unsigned long long)rota_cudnn_version(), p->dtype, about->tf32, p->batch, p->groups,
             p->in_channels, p->out_channels, p->in[0], p->in[1], p->out[0], p->out[1], p->window[0],
             p->window[1], p->stride[0], p->stride[1], p->padding[0], p->padding[1], p->dilation[0],
             p->dilation[1], p->flags & ROTA_CONV_CHANNELS_LAST ? "|last" : "");
}

/* What was measured, if cuDNN still has it; else cuDNN's best guess. */
static choice find_choice(const rota_cudnn_conv *about, const rota_cuda_target *target, bool *out_known) {
    char key[ROTA_CHOICE_KEY_MAX];
    choice chosen = {0};
    key_of(about, target, key);
    *out_known = rota_choices_find(target->cache_dir, key, &chosen, sizeof chosen);
    if (*out_known && chosen.way && rota_cudnn_conv_engine(about, target, chosen.way - 1) != chosen.engine)
        *out_known = false;
    return *out_known ? chosen : (choice){.way = 1, .engine = rota_cudnn_conv_engine(about, target, 0)};
}

/* Of a choice that was not measured it is kept for the life of the process alone: what is computed to the last bit
 * shall not depend on which plan was made before a measurement. */
static void keep_choice(const rota_cudnn_conv *about, const rota_cuda_target *target, choice chosen,
                        bool measured) {
    char key[ROTA_CHOICE_KEY_MAX];
    key_of(about, target, key);
    rota_choices_remember(measured ? target->cache_dir : NULL, key, &chosen, sizeof chosen);
}

static void say_choice(const rota_cudnn_conv *about, const rota_cuda_target *target, choice chosen,
                       uint32_t ways) {
    char text[ROTA_CUDNN_CONV_TEXT_MAX];
    rota_cudnn_conv_describe(about, text);
    if (chosen.way)
        rota_log_write(target->log, ROTA_LOG_INFO,
                       "%s on %s: engine %lld of cuDNN is the fastest of %u ways and rota's own kernel", text,
                       target->name, (long long)chosen.engine, ways);
    else
        rota_log_write(target->log, ROTA_LOG_INFO,
                       "%s on %s: rota's own kernel is faster than %u ways of cuDNN", text, target->name,
                       ways);
}

/* Overwrites the operands. */
static rota_status measure(const form *f, const rota_cuda_call *call, const rota_cudnn_conv *about) {
    const uint32_t ways = rota_cudnn_conv_ways(about, call->target, NULL);
    rota_measure *measure;
    uint32_t candidate, best = 0;
    ROTA_TRY(rota_measure_fill((CUstream)call->stream, (rota_dtype)about->p.dtype, call->operands,
                               call->operand_bytes, call->operand_count));
    ROTA_TRY(rota_measure_begin((CUstream)call->stream, ways + 1, &measure));
    while (rota_measure_next(measure, &candidate))
        rota_measure_ran(measure,
                         candidate < ways ? run_cudnn(f, call, about, candidate) : run_rota(f, call));
    ROTA_TRY(rota_measure_end(measure, &best));
    choice chosen = {0};
    if (best < ways)
        chosen = (choice){.way = best + 1, .engine = rota_cudnn_conv_engine(about, call->target, best)};
    say_choice(about, call->target, chosen, ways);
    keep_choice(about, call->target, chosen, true);
    return ROTA_OK;
}

/* Lets cuDNN load its code, which it does when it first runs, and measures all ways if that was not done before. */
static rota_status tune(const form *f, const rota_cuda_call *call) {
    const rota_cudnn_conv about = about_of(f, call->params);
    bool known;
    const choice chosen = find_choice(&about, call->target, &known);
    if (known && !chosen.way) return ROTA_OK;
    const rota_status status = known ? run_cudnn(f, call, &about, chosen.way - 1) : measure(f, call, &about);
    return status == ROTA_UNSUPPORTED ? ROTA_OK
                                      : status; /* the call goes the other way, or says why it can't */
}

static rota_status call_conv(const form *f, const rota_cuda_call *call) {
    const rota_cudnn_conv about = about_of(f, call->params);
    bool known;
    const choice chosen = find_choice(&about, call->target, &known);
    rota_status status = ROTA_UNSUPPORTED;
    if (chosen.way && !call->again) status = run_cudnn(f, call, &about, chosen.way - 1);
    if (status == ROTA_UNSUPPORTED) return run_rota(f, call);
    if (status == ROTA_OK && !known) keep_choice(&about, call->target, chosen, false);
    return status;
}

/* Before it is measured: of the way that wants most. */
static uint64_t workspace_of(const form *f, const void *params, const rota_cuda_target *target) {
    const rota_cudnn_conv about = about_of(f, params);
    bool known;
    const choice chosen = find_choice(&about, target, &known);
    if (known && !chosen.way) return 0;
    return rota_cudnn_conv_workspace(&about, target, known ? chosen.way - 1 : ROTA_CUDNN_CONV_ANY);
}

/* ---- The library nodes ---- */

#define NODE(replaced, of, operands)                                                                         \
    static rota_status call_##of(const rota_cuda_call *call) {                                               \
        return call_conv(&of, call);                                                                         \
    }                                                                                                        \
    static rota_status tune_##of(const rota_cuda_call *call) {                                               \
        return tune(&of, call);                                                                              \
    }                                                                                                        \
    static uint64_t workspace_##of(const void *params, const uint64_t *operand_bytes,                        \
                                   const rota_cuda_target *target) {                                         \
        (void)operand_bytes;                                                                                 \
        return workspace_of(&of, params, target);                                                            \
    }                                                                                                        \
    static const rota_kernel of##_by_cudnn = {                                                               \
        .name = #replaced "_cudnn",                                                                          \
        .operand_count = (operands),                                                                         \
        .param_bytes = sizeof(rota_conv_params),                                                             \
        .flags = ROTA_KERNEL_PURE,                                                                           \
        .cuda = {.call = call_##of, .tune = tune_##of, .workspace = workspace_##of},                         \
    };
NODE(conv2d, forward, 4)
NODE(conv2d_backward_input, input, 4)
NODE(conv2d_backward_weight, weight, 3)

const rota_kernel *rota_cuda_select_conv2d(const void *params, const uint64_t *operand_bytes,
                                           uint32_t slot_mask, const rota_cuda_target *target) {
    (void)operand_bytes, (void)slot_mask;
    return is_worth_it(&forward, params, target) ? &forward_by_cudnn : NULL;
}

const rota_kernel *rota_cuda_select_conv2d_backward_input(const void *params, const uint64_t *operand_bytes,
                                                          uint32_t slot_mask,
                                                          const rota_cuda_target *target) {
    (void)operand_bytes, (void)slot_mask;
    return is_worth_it(&input, params, target) ? &input_by_cudnn : NULL;
}

/* What has several chunks is a part of conv2d_weight_gradient, which asked for itself. */
const rota_kernel *rota_cuda_select_conv2d_backward_weight(const void *params, const uint64_t *operand_bytes,
                                                           uint32_t slot_mask,
                                                           const rota_cuda_target *target) {
    const rota_conv_params *p = params;
    (void)operand_bytes, (void)slot_mask;
    if (p->dtype != ROTA_F32 || rota_conv_chunks(p) > 1) return NULL;
    return is_worth_it(&weight, p, target) ? &weight_by_cudnn : NULL;
}

bool rota_cuda_conv_weight_by_cudnn(const rota_conv_params *p, const rota_cuda_target *target) {
    return is_worth_it(&weight_gradient, p, target);
}

rota_status rota_cuda_call_conv2d_weight_gradient(const rota_cuda_call *call) {
    return call_conv(&weight_gradient, call);
}

rota_status rota_cuda_tune_conv2d_weight_gradient(const rota_cuda_call *call) {
    return tune(&weight_gradient, call);
}

uint64_t rota_cuda_workspace_conv2d_weight_gradient(const void *params, const uint64_t *operand_bytes,
                                                    const rota_cuda_target *target) {
    (void)operand_bytes;
    return workspace_of(&weight_gradient, params, target);
}
