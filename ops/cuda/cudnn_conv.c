/* Convolutions as graphs of one operation of cuDNN's, and their plans. */
#include "ops/cuda/cudnn_conv.h"

#include <stdio.h>
#include "ops/tensor.h"

void rota_cudnn_conv_describe(const rota_cudnn_conv *about, char out_text[ROTA_CUDNN_CONV_TEXT_MAX]) {
    static const char *const names[] = {"conv2d", "conv2d's gradient by x", "conv2d's gradient by w"};
    const rota_conv_params *p = &about->p;
    snprintf(out_text, ROTA_CUDNN_CONV_TEXT_MAX,
             "%s of %s%s%s [%u, %u, %u, %u], %u channels by windows of %u x %u", names[about->result],
             rota_dtype_name((rota_dtype)p->dtype), about->tf32 ? " (tf32)" : "",
             p->flags & ROTA_CONV_CHANNELS_LAST ? ", channels last," : "", p->batch,
             p->in_channels * p->groups, p->in[0], p->in[1], p->out_channels * p->groups, p->window[0],
             p->window[1]);
}

#if __has_include(<cudnn.h>)

#include "base/log.h"
#include "ops/cuda/cudnn_kept.h"

/* Tensors, by which a plan's call names them. */
enum { WIDE = 1, W, NARROW };

/* Ways that are made, of which each is measured. */
#define WAYS 8
/* Room for both sides in another order of their axes, and for sums in pieces. */
#define WORKSPACE_BYTES_MAX (UINT64_C(1) << 29)

#define NOTE(name) (1u << CUDNN_NUMERICAL_NOTE_##name)
/* Never: another result each time, sums in less than f32, tiles of Winograd's that lose digits of f32. */
#define REFUSED                                                                                              \
    (NOTE(NONDETERMINISTIC) | NOTE(REDUCED_PRECISION_REDUCTION) | NOTE(WINOGRAD_TILE_6x6) |                  \
     NOTE(WINOGRAD_TILE_13x13))
/* Of f32 by its own numbers: an engine with matrix units rounds them to TF32. */
#define REFUSED_F32 (REFUSED | NOTE(DOWN_CONVERT_INPUTS))
#define REFUSED_TF32 NOTE(TENSOR_CORE)

static const rota_cudnn_conv *about_of(const rota_cudnn_kept *kept) {
    return (const rota_cudnn_conv *)kept->about;
}

static void say(const rota_cudnn_kept *kept, const rota_cuda_target *target, const char *what) {
    char text[ROTA_CUDNN_CONV_TEXT_MAX];
    rota_cudnn_conv_describe(about_of(kept), text);
    rota_log_write(target->log, ROTA_LOG_WARNING, "%s does not take %s on %s: %s", what, text, target->name,
                   kept->why);
}

/* Contiguous, with channels where the parameters say that they are. */
static cudnnBackendDescriptor_t tensor(rota_cudnn_graph *graph, int64_t id, const rota_conv_params *p,
                                       int64_t outer, int64_t channels, const uint32_t size[2]) {
    const rota_dtype dtype = (rota_dtype)p->dtype;
    const bool last = p->flags & ROTA_CONV_CHANNELS_LAST;
    const cudnnDataType_t type = dtype == ROTA_F32   ? CUDNN_DATA_FLOAT
                                 : dtype == ROTA_F16 ? CUDNN_DATA_HALF
                                                     : CUDNN_DATA_BFLOAT16;
    const int64_t plane = (int64_t)size[0] * size[1];
    return rota_cudnn_tensor(graph, ROTA_CUDNN_IN_MEMORY, id, type,
                             (const int64_t[4]){outer, channels, size[0], size[1]},
                             last ? (const int64_t[4]){channels * plane, 1, size[1] * channels, channels}
                                  : (const int64_t[4]){channels * plane, plane, size[1], 1});
}

static rota_status make(rota_cudnn_kept *kept, const rota_cuda_target *target) {
    (void)target;
    static const rota_cudnn_product products[] = {[ROTA_CUDNN_CONV_NARROW] = ROTA_CUDNN_FORWARD,
                                                  [ROTA_CUDNN_CONV_WIDE] = ROTA_CUDNN_INPUT,
                                                  [ROTA_CUDNN_CONV_W] = ROTA_CUDNN_WEIGHT};
    const rota_cudnn_conv *about = about_of(kept);
    const rota_conv_params *p = &about->p;
    const rota_dtype dtype = (rota_dtype)p->dtype;
    const int64_t in = (int64_t)p->groups * p->in_channels, out = (int64_t)p->groups * p->out_channels;
    rota_cudnn_wish wish = {
        .refused_notes = REFUSED, .way_count = WAYS, .workspace_bytes_max = WORKSPACE_BYTES_MAX};
    if (dtype == ROTA_F32) wish.refused_notes = REFUSED_F32 | (about->tf32 ? 0 : REFUSED_TF32);
    ROTA_TRY(rota_cudnn_handle(&kept->handle));
    rota_cudnn_window window;
    for (int i = 0; i < 2; i++) {
        window.stride[i] = p->stride[i];
        window.padding[i] = p->padding[i];
        window.dilation[i] = p->dilation[i];
    }
    rota_cudnn_graph *graph = &kept->plan.graph;
    cudnnBackendDescriptor_t wide = tensor(graph, WIDE, p, p->batch, in, p->in);
    cudnnBackendDescriptor_t w = tensor(graph, W, p, out, p->in_channels, p->window);
    cudnnBackendDescriptor_t narrow = tensor(graph, NARROW, p, p->batch, out, p->out);
    rota_cudnn_convolution(graph, products[about->result], &window, wide, w, narrow);
    return rota_cudnn_plan_make(&kept->plan, &wish, kept->handle);
}

static void say_not_made(const rota_cudnn_kept *kept, const rota_cuda_target *target) {
    say(kept, target, "cuDNN");
}

static rota_cudnn_keeper keeper = {.about_bytes = sizeof(rota_cudnn_conv), .make = make, .say = say_not_made};

static rota_status with_plan(const rota_cudnn_conv *about, const rota_cuda_target *target,
                             rota_cudnn_kept **out_kept) {
    if (!rota_cudnn_present()) return rota_fail(ROTA_UNSUPPORTED, "cuDNN is not there");
    ROTA_TRY(rota_cudnn_kept_get(&keeper, about, target, out_kept));
    return (*out_kept)->status == ROTA_OK ? ROTA_OK : rota_fail((*out_kept)->status, "%s", (*out_kept)->why);
}

uint32_t rota_cudnn_conv_ways(const rota_cudnn_conv *about, const rota_cuda_target *target,
                              char out_why[ROTA_ERROR_MESSAGE_MAX]) {
    rota_cudnn_kept *kept;
    if (out_why) out_why[0] = 0;
    if (with_plan(about, target, &kept) == ROTA_OK) return kept->plan.way_count;
    if (out_why) snprintf(out_why, ROTA_ERROR_MESSAGE_MAX, "%s", rota_last_error());
    return 0;
}

int64_t rota_cudnn_conv_engine(const rota_cudnn_conv *about, const rota_cuda_target *target, uint32_t way) {
    rota_cudnn_kept *kept;
    if (with_plan(about, target, &kept) != ROTA_OK || way >= kept->plan.way_count) return -1;
    return kept->plan.ways[way].engine;
}

uint64_t rota_cudnn_conv_workspace(const rota_cudnn_conv *about, const rota_cuda_target *target,
                                   uint32_t way) {
    rota_cudnn_kept *kept;
    uint64_t most = 0;
    if (with_plan(about, target, &kept) != ROTA_OK) return 0;
    for (uint32_t i = 0; i < kept->plan.way_count; i++)
        if ((way == ROTA_CUDNN_CONV_ANY || way == i) && kept->plan.ways[i].workspace_bytes > most)
            most = kept->plan.ways[i].workspace_bytes;
    return most;
}

/* The lock is held. */
static rota_status run(rota_cudnn_kept *kept, const rota_cuda_target *target, uint32_t way,
                       const rota_cudnn_conv_operands *operands, uint64_t workspace, void *stream) {
    const int64_t ids[] = {WIDE, W, NARROW};
    void *const pointers[] = {rota_cudnn_address(operands->wide), rota_cudnn_address(operands->w),
                              rota_cudnn_address(operands->narrow)};
    if (kept->failed >> way & 1u) return rota_fail(ROTA_UNSUPPORTED, "%s", kept->why);
    const rota_status status = rota_cudnn_run(&kept->plan.ways[way], kept->handle, 3, ids, pointers,
                                              rota_cudnn_address(workspace), stream);
    if (status == ROTA_OK) return ROTA_OK;
    kept->failed |= 1u << way;
    char what[64];
    snprintf(kept->why, sizeof kept->why, "%s", rota_last_error());
    snprintf(what, sizeof what, "engine %lld of cuDNN", (long long)kept->plan.ways[way].engine);
    say(kept, target, what);
    return rota_fail(ROTA_UNSUPPORTED, "%s", kept->why);
}

rota_status rota_cudnn_conv_run(const rota_cudnn_conv *about, const rota_cuda_target *target, uint32_t way,
                                const rota_cudnn_conv_operands *operands, uint64_t workspace,
                                uint64_t workspace_bytes, void *stream) {
    rota_cudnn_kept *kept;
    ROTA_TRY(with_plan(about, target, &kept));
    if (way >= kept->plan.way_count)
        return rota_fail(ROTA_UNSUPPORTED, "cuDNN has %u ways, %u was asked for", kept->plan.way_count, way);
    if (workspace_bytes < kept->plan.ways[way].workspace_bytes)
        return rota_fail(
            ROTA_UNSUPPORTED, "a convolution by cuDNN got %llu bytes of workspace, it wants %llu",
            (unsigned long long)workspace_bytes, (unsigned long long)kept->plan.ways[way].workspace_bytes);
    if ((operands->wide | operands->w | operands->narrow) % 16 !=
        0) /* in a view of a buffer that begins there */
        return rota_fail(ROTA_UNSUPPORTED, "an operand of a convolution is at no multiple of 16 bytes");
    rota_cudnn_lock();
    const rota_status status = run(kept, target, way, operands, workspace, stream);
    rota_cudnn_unlock();
    return status;
}

#else

uint32_t rota_cudnn_conv_ways(const rota_cudnn_conv *about, const rota_cuda_target *target,
                              char out_why[ROTA_ERROR_MESSAGE_MAX]) {
    (void)about, (void)target;
    if (out_why) out_why[0] = 0;
    return 0;
}

int64_t rota_cudnn_conv_engine(const rota_cudnn_conv *about, const rota_cuda_target *target, uint32_t way) {
    (void)about, (void)target, (void)way;
    return -1;
}

uint64_t rota_cudnn_conv_workspace(const rota_cudnn_conv *about, const rota_cuda_target *target,
                                   uint32_t way) {
    (void)about, (void)target, (void)way;
    return 0;
}

rota_status rota_cudnn_conv_run(const rota_cudnn_conv *about, const rota_cuda_target *target, uint32_t way,
                                const rota_cudnn_conv_operands *operands, uint64_t workspace,
                                uint64_t workspace_bytes, void *stream) {
    (void)about, (void)target, (void)way, (void)operands, (void)workspace, (void)workspace_bytes,
        (void)stream;
    return rota_fail(ROTA_UNSUPPORTED, "built without cuDNN's headers");
}

#endif
