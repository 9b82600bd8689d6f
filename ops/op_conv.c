/* Ops: conv2d, conv_transpose2d, conv2d_backward_weight. Either of the first is the other's gradient by its input:
 * with the side that windows slide over called wide and the side with an element per window narrow, conv2d goes from
 * wide to narrow, conv_transpose2d from narrow to wide, and the weight's gradient is made of both. */
#include "ops/conv.h"
#include "ops/kernel_objects.h"
#include "ops/op.h"
#include "ops/op_rules.h"
#include "ops/window.h"

enum { CONV, TRANSPOSE, WEIGHT };

static bool is_transposed(const rota_op_use *use) {
    return use->op == &rota_ops_conv[TRANSPOSE];
}

static rota_status fail_shapes(const rota_op_use *use, const char *expected) {
    char x[ROTA_TENSOR_TEXT_MAX], w[ROTA_TENSOR_TEXT_MAX];
    return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "x is %s, w is %s, of %u groups; expected %s",
                        rota_tensor_describe(&use->inputs[0], x, sizeof x),
                        rota_tensor_describe(&use->inputs[1], w, sizeof w), use->attributes.window.groups,
                        expected);
}

static rota_status fail_ranks(const rota_op_use *use) {
    static const char *const expected[2][2] = {{"[batch, in, height, width] and [out, in / groups, kh, kw]",
                                                "[batch, in, height, width] and [in, out / groups, kh, kw]"},
                                               {"[batch, height, width, in] and [out, kh, kw, in / groups]",
                                                "[batch, height, width, in] and [in, kh, kw, out / groups]"}};
    return fail_shapes(use, expected[use->attributes.window.channels_last][is_transposed(use)]);
}

/* Ranks, channels and groups. `channels`: those of the result. */
static rota_status check_channels(const rota_op_use *use, uint64_t *out_channels) {
    const rota_tensor *x = &use->inputs[0], *w = &use->inputs[1], *bias = &use->inputs[2];
    const rota_op_window *a = &use->attributes.window;
    const uint64_t groups = a->groups;
    const uint32_t c = rota_window_channels(a), first = rota_window_first(a);
    const bool transposed = is_transposed(use);
    char text[ROTA_TENSOR_TEXT_MAX];
    if (x->rank != 4 || w->rank != 4) return fail_ranks(use);
    if (groups == 0 || w->shape[0] % groups != 0)
        return fail_shapes(use, "groups of as many of w's first axis each");
    if (transposed ? x->shape[c] != w->shape[0] : x->shape[c] != w->shape[c] * groups)
        return fail_shapes(use, transposed ? "as many channels of x as w's first axis is long"
                                           : "as many channels of x as w has for them in all groups");
    if (w->shape[first] == 0 || w->shape[first + 1] == 0)
        return fail_shapes(use, "a window of at least one element");
    *out_channels = transposed ? w->shape[c] * groups : w->shape[0];
    const bool has_bias = bias->buffer || bias->rank > 0; /* an example's has no buffer */
    if (has_bias && (bias->rank != 1 || bias->shape[0] != *out_channels))
        return rota_op_fail(use->op, ROTA_INVALID_ARGUMENT, "bias is %s; expected %s [%llu]",
                            rota_tensor_describe(bias, text, sizeof text), rota_dtype_name(x->dtype),
                            (unsigned long long)*out_channels);
    return ROTA_OK;
}

static rota_status shape_conv(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0], *w = &use->inputs[1];
    const rota_op_window *a = &use->attributes.window;
    const uint32_t first = rota_window_first(a);
    rota_dtype dtype;
    uint64_t channels, size[2];
    ROTA_TRY(rota_shape_require_real(use, 7, &dtype));
    ROTA_TRY(rota_window_check(use));
    ROTA_TRY(check_channels(use, &channels));
    for (uint32_t i = 0; i < 2; i++)
        ROTA_TRY(rota_window_count(use, i, x->shape[first + i], w->shape[first + i], false, &size[i]));
    return rota_window_image(a, dtype, x->shape[0], channels, size, out);
}

static rota_status shape_transpose(const rota_op_use *use, rota_tensor *out) {
    static const char *const axes[2] = {"height", "width"};
    const rota_tensor *x = &use->inputs[0], *w = &use->inputs[1];
    const rota_op_window *a = &use->attributes.window;
    const uint32_t first = rota_window_first(a);
    rota_dtype dtype;
    uint64_t channels, size[2], windows;
    ROTA_TRY(rota_shape_require_real(use, 7, &dtype));
    ROTA_TRY(rota_window_check(use));
    ROTA_TRY(check_channels(use, &channels));
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t rest = a->output_padding[i];
        if (rest >= a->stride[i] && rest >= a->dilation[i])
            return rota_op_fail(
                use->op, ROTA_INVALID_ARGUMENT,
                "output_padding along %s is %u, stride %u and dilation %u; expected less than one of them",
                axes[i], rest, a->stride[i], a->dilation[i]);
        const uint64_t of_x = x->shape[first + i], of_w = w->shape[first + i];
        if (of_x == 0 || of_x > INT32_MAX || of_w > INT32_MAX)
            return fail_shapes(use, "1 to 2^31 - 1 elements along height and width");
        const uint64_t padded = (of_x - 1) * a->stride[i] + rota_window_reach(of_w, a->dilation[i]);
        const uint64_t padding = 2 * (uint64_t)a->padding[i];
        if (padded + rest <= padding)
            return rota_op_fail(
                use->op, ROTA_INVALID_ARGUMENT,
                "the windows reach over %llu elements along %s, of which padding takes %llu; expected some "
                "to be left",
                (unsigned long long)padded, axes[i], (unsigned long long)padding);
        size[i] = padded + rest - padding;
        ROTA_TRY(rota_window_count(use, i, size[i], of_w, false, &windows)); /* not too many */
    }
    return rota_window_image(a, dtype, x->shape[0], channels, size, out);
}

static rota_status shape_weight(const rota_op_use *use, rota_tensor *out) {
    const rota_tensor *x = &use->inputs[0], *dy = &use->inputs[1];
    const rota_op_window *a = &use->attributes.window;
    const uint32_t c = rota_window_channels(a), first = rota_window_first(a);
    char text[2][ROTA_TENSOR_TEXT_MAX];
    rota_dtype dtype;
    uint64_t size[2] = {0, 0};
    ROTA_TRY(rota_shape_require_real(use, 3, &dtype));
    ROTA_TRY(rota_window_check(use));
    bool fits = x->rank == 4 && dy->rank == 4 && x->shape[0] == dy->shape[0] && a->groups != 0 &&
                x->shape[c] % a->groups == 0 && dy->shape[c] % a->groups == 0;
    for (uint32_t i = 0; fits && i < 2; i++) {
        ROTA_TRY(rota_window_count(use, i, x->shape[first + i], a->extent[i], false, &size[i]));
        fits = dy->shape[first + i] == size[i];
    }
    if (!fits)
        return rota_op_fail(
            use->op, ROTA_INVALID_ARGUMENT,
            "x is %s, dy is %s, of %u groups; expected %s, both of whole groups, oh and ow as conv2d makes "
            "them of x",
            rota_tensor_describe(x, text[0], sizeof text[0]),
            rota_tensor_describe(dy, text[1], sizeof text[1]), a->groups,
            a->channels_last ? "[batch, height, width, in] and [batch, oh, ow, out]"
                             : "[batch, in, height, width] and [batch, out, oh, ow]");
    return rota_window_image(a, dtype, dy->shape[c], x->shape[c] / a->groups,
                             (const uint64_t[2]){a->extent[0], a->extent[1]}, out);
}

static rota_conv_params params_of(const rota_op_window *a, const rota_tensor *wide, const rota_tensor *narrow,
                                  const rota_tensor *w) {
    const uint32_t c = rota_window_channels(a), first = rota_window_first(a);
    rota_conv_params params = {.batch = (uint32_t)wide->shape[0],
                               .groups = a->groups,
                               .in_channels = (uint32_t)wide->shape[c] / a->groups,
                               .out_channels = (uint32_t)narrow->shape[c] / a->groups,
                               .flags = (a->allow_tf32 ? ROTA_CONV_TF32 : 0) |
                                        (a->channels_last ? ROTA_CONV_CHANNELS_LAST : 0),
                               .dtype = wide->dtype};
    for (uint32_t i = 0; i < 2; i++) {
        params.in[i] = (uint32_t)wide->shape[first + i];
        params.out[i] = (uint32_t)narrow->shape[first + i];
        params.window[i] = (uint32_t)w->shape[first + i];
        params.stride[i] = a->stride[i];
        params.padding[i] = a->padding[i];
        params.dilation[i] = a->dilation[i];
    }
    return params;
}

static rota_conv_params params_of_conv(const rota_op_use *use) {
    const rota_tensor *x = &use->inputs[0], *y = &use->outputs[0];
    const bool transposed = is_transposed(use);
    return params_of(&use->attributes.window, transposed ? y : x, transposed ? x : y, &use->inputs[1]);
}

/* y of x and w, from wide to narrow or back. */
static rota_status run(rota_tape *tape, rota_conv_params params, bool back, const rota_tensor *x,
                       const rota_tensor *w, const rota_tensor *bias, const rota_tensor *y) {
    rota_tensor from, weight, added;
    ROTA_TRY(rota_record_contiguous(tape, x, &from));
    ROTA_TRY(rota_record_contiguous(tape, w, &weight));
    added = weight;
    if (bias && bias->buffer) {
        ROTA_TRY(rota_record_contiguous(tape, bias, &added));
        params.flags |= ROTA_CONV_BIAS;
    }
    const rota_access accesses[] = {rota_tensor_access(&from, ROTA_READ),
                                    rota_tensor_access(&weight, ROTA_READ),
                                    rota_tensor_access(&added, ROTA_READ), rota_tensor_write(y)};
    return rota_tape_kernel(tape, back ? &rota_kernel_conv2d_backward_input : &rota_kernel_conv2d, accesses,
                            4, &params, NULL, 0);
}

static rota_status record_conv(rota_tape *tape, rota_op_use *use) {
    return run(tape, params_of_conv(use), is_transposed(use), &use->inputs[0], &use->inputs[1],
               &use->inputs[2], &use->outputs[0]);
}

/* The sums of chunks, added up; those of one chunk in f32 are the gradient. */
static rota_status run_weight(rota_tape *tape, rota_conv_params params, const rota_tensor *wide,
                              const rota_tensor *narrow, const rota_tensor *dw) {
    rota_tensor x, dy, partial;
    params.chunk = rota_conv_chunk(&params);
    const uint64_t chunks = rota_conv_chunks(&params);
    ROTA_TRY(rota_record_contiguous(tape, wide, &x));
    ROTA_TRY(rota_record_contiguous(tape, narrow, &dy));
    rota_access accesses[ROTA_CONV_WEIGHT_OPERANDS] = {
        rota_tensor_access(&x, ROTA_READ), rota_tensor_access(&dy, ROTA_READ), rota_tensor_write(dw)};
    if (chunks == 1 && dw->dtype == ROTA_F32)
        return rota_tape_kernel(tape, &rota_kernel_conv2d_backward_weight, accesses, 3, &params, NULL, 0);
    ROTA_TRY(
        rota_tape_temporary(tape, "partial", ROTA_F32, ROTA_SHAPE(chunks, rota_tensor_count(dw)), &partial));
    accesses[ROTA_CONV_WEIGHT_DW] = accesses[ROTA_CONV_WEIGHT_PARTIAL];
    accesses[ROTA_CONV_WEIGHT_PARTIAL] = rota_tensor_write(&partial);
    return rota_tape_kernel(tape, &rota_kernel_conv2d_weight_gradient, accesses, ROTA_CONV_WEIGHT_OPERANDS,
                            &params, NULL, 0);
}

static rota_status record_weight(rota_tape *tape, rota_op_use *use) {
    const rota_tensor *x = &use->inputs[0], *dy = &use->inputs[1], *dw = &use->outputs[0];
    return run_weight(tape, params_of(&use->attributes.window, x, dy, dw), x, dy, dw);
}

static rota_status gradient_of_weight(rota_tape *tape, const rota_conv_params *params, const rota_tensor *w,
                                      const rota_tensor *wide, const rota_tensor *narrow) {
    rota_gradient_write write;
    if (!rota_gradient_wanted(tape, w)) return ROTA_OK;
    ROTA_TRY(rota_gradient_begin(tape, w, &write));
    ROTA_TRY(run_weight(tape, *params, wide, narrow, &write.dx));
    return rota_gradient_end(tape, w, &write);
}

static rota_status gradient_of_bias(rota_tape *tape, bool channels_last, const rota_tensor *bias,
                                    const rota_tensor *dy) {
    if (!bias->buffer || !rota_gradient_wanted(tape, bias)) return ROTA_OK;
    rota_tensor per_channel = *bias, contribution;
    if (!channels_last) ROTA_TRY(rota_tensor_reshape(bias, ROTA_SHAPE(bias->shape[0], 1, 1), &per_channel));
    ROTA_TRY(rota_record_contiguous(tape, dy, &contribution));
    return rota_gradient_add(tape, &per_channel, &contribution, 1.0f);
}

static rota_status gradient_conv(rota_tape *tape, const rota_op_use *use) {
    const rota_conv_params params = params_of_conv(use);
    const rota_tensor *x = &use->inputs[0], *w = &use->inputs[1], *dy = rota_gradient_output(tape, 0);
    const bool transposed = is_transposed(use);
    ROTA_TRY(gradient_of_bias(tape, use->attributes.window.channels_last, &use->inputs[2], dy));
    ROTA_TRY(gradient_of_weight(tape, &params, w, transposed ? dy : x, transposed ? x : dy));
    if (!rota_gradient_wanted(tape, x)) return ROTA_OK;
    rota_gradient_write write;
    ROTA_TRY(rota_gradient_begin(tape, x, &write));
    ROTA_TRY(run(tape, params, !transposed, dy, w, NULL, &write.dx));
    return rota_gradient_end(tape, x, &write);
}

/* ---- Examples ---- */

typedef struct conv_example {
    const char *label;
    rota_dtype dtype;
    uint64_t x[4], w[4];
    bool bias;
    rota_op_window window;
} conv_example;

/* clang-format off */
#define WINDOW(GROUPS, SH, SW, PH, PW, DH, DW)                                                               \
    {.groups = (GROUPS), .stride = {SH, SW}, .padding = {PH, PW}, .dilation = {DH, DW}}
#define LAST(GROUPS, SH, SW, PH, PW, DH, DW)                                                                 \
    {.groups = (GROUPS), .stride = {SH, SW}, .padding = {PH, PW}, .dilation = {DH, DW}, .channels_last = true}
static const conv_example conv_examples[] = {
    {"3 x 3, padded", ROTA_F32, {2, 3, 7, 9}, {5, 3, 3, 3}, true, WINDOW(1, 1, 1, 1, 1, 1, 1)},
    {"strided, dilated", ROTA_F32, {2, 4, 11, 8}, {6, 4, 3, 2}, true, WINDOW(1, 2, 3, 2, 1, 2, 1)},
    {"groups", ROTA_F32, {3, 6, 5, 7}, {4, 3, 3, 1}, false, WINDOW(2, 1, 2, 1, 0, 1, 1)},
    {"a channel a group", ROTA_F32, {2, 5, 6, 8}, {10, 1, 3, 3}, true, WINDOW(5, 1, 1, 1, 1, 1, 1)},
    {"1 x 1", ROTA_F32, {2, 37, 3, 5}, {19, 37, 1, 1}, false, WINDOW(1, 1, 1, 0, 0, 1, 1)},
    {"one element", ROTA_F32, {1, 1, 1, 1}, {1, 1, 1, 1}, true, WINDOW(1, 1, 1, 0, 0, 1, 1)},
    {"height 1", ROTA_F32, {2, 3, 1, 33}, {4, 3, 1, 5}, true, WINDOW(1, 1, 2, 0, 2, 1, 1)},
    {"more than one tile", ROTA_F32, {1, 2, 18, 35}, {66, 2, 3, 4}, true, WINDOW(1, 1, 1, 0, 0, 1, 1)},
    {"long sums", ROTA_F32, {2, 40, 6, 7}, {3, 40, 3, 3}, true, WINDOW(1, 2, 1, 1, 0, 1, 1)},
    {"padding beyond the window", ROTA_F32, {1, 2, 4, 3}, {3, 2, 2, 2}, true, WINDOW(1, 3, 1, 5, 4, 1, 1)},
    {"3 x 3, padded, f16", ROTA_F16, {2, 3, 7, 9}, {5, 3, 3, 3}, true, WINDOW(1, 1, 1, 1, 1, 1, 1)},
    {"groups, strided, bf16", ROTA_BF16, {3, 6, 9, 7}, {4, 3, 3, 1}, true, WINDOW(2, 2, 2, 1, 0, 1, 1)},
    {"channels last", ROTA_F32, {2, 7, 9, 3}, {5, 3, 2, 3}, true, LAST(1, 1, 2, 1, 0, 1, 2)},
    {"channels last, groups, strided, bf16", ROTA_BF16, {3, 9, 7, 6}, {4, 3, 2, 3}, true,
     LAST(2, 2, 2, 1, 1, 1, 1)},
    {"channels last, more than one tile", ROTA_F32, {1, 18, 11, 70}, {66, 3, 3, 70}, false,
     LAST(1, 1, 1, 1, 1, 1, 1)},
    {"more than one tile, f16", ROTA_F16, {1, 2, 18, 35}, {66, 2, 3, 4}, false, WINDOW(1, 1, 1, 0, 0, 1, 1)},
}, large_convs[] = {
    {"8 x 64 x 56 x 56, 3 x 3", ROTA_F32, {8, 64, 56, 56}, {64, 64, 3, 3}, false, WINDOW(1, 1, 1, 1, 1, 1, 1)},
    {"8 x 64 x 56 x 56, 3 x 3, bf16", ROTA_BF16, {8, 64, 56, 56}, {64, 64, 3, 3}, false, WINDOW(1, 1, 1, 1, 1, 1, 1)},
    {"8 x 56 x 56 x 64, channels last, 3 x 3, bf16", ROTA_BF16, {8, 56, 56, 64}, {64, 3, 3, 64}, false,
     LAST(1, 1, 1, 1, 1, 1, 1)},
    {"8 x 256 x 28 x 28, 1 x 1", ROTA_F32, {8, 256, 28, 28}, {128, 256, 1, 1}, false, WINDOW(1, 1, 1, 0, 0, 1, 1)},
}, transpose_examples[] = {
    {"3 x 3, padded", ROTA_F32, {2, 5, 7, 9}, {5, 3, 3, 3}, true, WINDOW(1, 1, 1, 1, 1, 1, 1)},
    {"twice as large", ROTA_F32, {2, 6, 5, 4}, {6, 3, 4, 4}, true, WINDOW(1, 2, 2, 1, 1, 1, 1)},
    {"groups, dilated", ROTA_F32, {2, 4, 5, 6}, {4, 3, 3, 2}, false, WINDOW(2, 2, 3, 1, 0, 2, 1)},
    {"one element", ROTA_F32, {1, 1, 1, 1}, {1, 1, 1, 1}, true, WINDOW(1, 1, 1, 0, 0, 1, 1)},
    {"more than one tile", ROTA_F32, {1, 3, 9, 20}, {3, 67, 2, 3}, true, WINDOW(1, 2, 1, 0, 0, 1, 1)},
    {"with a rest", ROTA_F32, {2, 3, 4, 5}, {3, 4, 3, 3}, true,
     {.groups = 1, .stride = {2, 3}, .padding = {1, 1}, .dilation = {1, 1}, .output_padding = {1, 2}}},
    {"twice as large, f16", ROTA_F16, {2, 6, 5, 4}, {6, 3, 4, 4}, true, WINDOW(1, 2, 2, 1, 1, 1, 1)},
    {"channels last, groups", ROTA_F32, {2, 5, 6, 4}, {4, 3, 2, 3}, true, LAST(2, 2, 3, 1, 0, 2, 1)},
    {"channels last, twice as large, f16", ROTA_F16, {2, 5, 4, 6}, {6, 4, 4, 3}, false,
     LAST(1, 2, 2, 1, 1, 1, 1)},
    {"groups, bf16", ROTA_BF16, {2, 4, 5, 6}, {4, 3, 3, 2}, true, WINDOW(2, 2, 3, 1, 0, 2, 1)},
}, large_transposes[] = {
    {"8 x 128 x 14 x 14, 4 x 4, to twice as large", ROTA_F32, {8, 128, 14, 14}, {128, 64, 4, 4}, false,
     WINDOW(1, 2, 2, 1, 1, 1, 1)},
};
/* clang-format on */
#define COUNT_OF(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

static void fill_in(const conv_example *e, bool transposed, rota_op_example *out) {
    const uint32_t c = rota_window_channels(&e->window), first = rota_window_first(&e->window);
    const uint64_t channels = transposed ? e->w[c] * e->window.groups : e->w[0];
    *out = (rota_op_example){.label = e->label};
    rota_example_input(out, 0, e->dtype, 4, e->x, ROTA_FILL_UNIFORM);
    rota_example_input(out, 1, e->dtype, 4, e->w, ROTA_FILL_UNIFORM);
    if (e->bias)
        rota_example_input(out, 2, e->dtype, 1, &channels, ROTA_FILL_UNIFORM);
    else
        rota_example_absent(out, 2);
    out->use.attributes.window = e->window;
    rota_tensor y;
    rota_op_use use = out->use;
    use.op = &rota_ops_conv[transposed ? TRANSPOSE : CONV];
    if ((transposed ? shape_transpose : shape_conv)(&use, &y) != ROTA_OK) return;
    /* A product for each element of w and each position that its window comes to. */
    const uint64_t positions = transposed ? e->x[0] * e->x[first] * e->x[first + 1]
                                          : y.shape[0] * y.shape[first] * y.shape[first + 1];
    out->flops = 2.0 * (double)rota_tensor_count(&use.inputs[1]) * (double)positions;
    rota_example_bytes(out, &y, 1);
}

/* conv2d's, with its result as what the gradient is of. */
static bool example_weight(uint32_t index, uint32_t size, rota_op_example *out) {
    if (index >= (size ? COUNT_OF(large_convs) : COUNT_OF(conv_examples))) return false;
    const conv_example *e = size ? &large_convs[index] : &conv_examples[index];
    rota_op_example conv;
    rota_tensor y;
    fill_in(e, false, &conv);
    rota_op_use use = conv.use;
    use.op = &rota_ops_conv[CONV];
    if (shape_conv(&use, &y) != ROTA_OK) return false;
    *out = (rota_op_example){.label = e->label, .flops = conv.flops, .bytes = conv.bytes};
    rota_example_input(out, 0, e->dtype, 4, e->x, ROTA_FILL_UNIFORM);
    rota_example_input(out, 1, e->dtype, 4, y.shape, ROTA_FILL_UNIFORM);
    out->use.attributes.window = e->window;
    for (uint32_t i = 0; i < 2; i++)
        out->use.attributes.window.extent[i] = (uint32_t)e->w[rota_window_first(&e->window) + i];
    return true;
}

static bool example_conv(uint32_t index, uint32_t size, rota_op_example *out) {
    if (index >= (size ? COUNT_OF(large_convs) : COUNT_OF(conv_examples))) return false;
    fill_in(size ? &large_convs[index] : &conv_examples[index], false, out);
    return true;
}

static bool example_transpose(uint32_t index, uint32_t size, rota_op_example *out) {
    if (index >= (size ? COUNT_OF(large_transposes) : COUNT_OF(transpose_examples))) return false;
    fill_in(size ? &large_transposes[index] : &transpose_examples[index], true, out);
    return true;
}

static const rota_kernel *const conv_kernels[] = {&rota_kernel_conv2d, &rota_kernel_copy_strided, NULL};
static const rota_kernel *const transpose_kernels[] = {&rota_kernel_conv2d_backward_input,
                                                       &rota_kernel_copy_strided, NULL};
static const rota_kernel *const weight_kernels[] = {&rota_kernel_conv2d_weight_gradient,
                                                    &rota_kernel_conv2d_backward_weight,
                                                    &rota_kernel_copy_strided, NULL};

/* clang-format off */
#define WINDOW_ATTRIBUTES                                                                                    \
    ATTRIBUTE(stride_h, window.stride[0]), ATTRIBUTE(stride_w, window.stride[1]),                            \
        ATTRIBUTE(padding_h, window.padding[0]), ATTRIBUTE(padding_w, window.padding[1]),                    \
        ATTRIBUTE(dilation_h, window.dilation[0]), ATTRIBUTE(dilation_w, window.dilation[1]),                \
        ATTRIBUTE(groups, window.groups), ATTRIBUTE(allow_tf32, window.allow_tf32),                          \
        ATTRIBUTE(channels_last, window.channels_last)
#define CONVOLUTION                                                                                          \
    .input_count = 3, .optional_inputs = 4, .output_count = 1, .input_names = {"x", "w", "bias"},            \
    .output_names = {"y"}, .input_modes = {ROTA_READ, ROTA_READ, ROTA_READ}, .record = record_conv,          \
    .gradient = gradient_conv, .differentiable = 7, .saved_inputs = 3
/* clang-format on */

const rota_op rota_ops_conv[] = {
    {
        .name = "conv2d",
        CONVOLUTION,
        .attributes = ATTRIBUTES(WINDOW_ATTRIBUTES),
        .kernels = conv_kernels,
        .shape = shape_conv,
        .example = example_conv,
    },
    {
        .name = "conv_transpose2d",
        CONVOLUTION,
        .attributes = ATTRIBUTES(WINDOW_ATTRIBUTES, ATTRIBUTE(output_padding_h, window.output_padding[0]),
                                 ATTRIBUTE(output_padding_w, window.output_padding[1])),
        .kernels = transpose_kernels,
        .shape = shape_transpose,
        .example = example_transpose,
    },
    {
        .name = "conv2d_backward_weight",
        .input_count = 2,
        .output_count = 1,
        .input_names = {"x", "dy"},
        .output_names = {"dw"},
        .input_modes = {ROTA_READ, ROTA_READ},
        .attributes = ATTRIBUTES(ATTRIBUTE(window_h, window.extent[0]), ATTRIBUTE(window_w, window.extent[1]),
                                 WINDOW_ATTRIBUTES),
        .of_nothing = ROTA_OF_NOTHING_ZERO,
        .kernels = weight_kernels,
        .shape = shape_weight,
        .record = record_weight,
        .example = example_weight,
    },
    {0},
};
