/* Convolutions and pooling by name: each fills in a use and applies it; of one axis as of height 1. */
#include "base/given.h"
#include "base/sized_copy.h"
#include "ops/apply.h"
#include "ops/op.h"

static void pair(uint32_t *to, const uint32_t *given, bool one_axis, uint32_t of_height, uint32_t instead) {
    to[0] = one_axis ? of_height : given[0] ? given[0] : instead;
    to[1] = given[one_axis ? 0 : 1] ? given[one_axis ? 0 : 1] : instead;
}

/* ---- Convolutions ---- */

/* With a height of 1 where x and w have none; `y`: into it, if it has a buffer. Of a gradient by the weights, w is dy
 * and their window `extent`. */
static rota_status conv_of(rota_tape *tape, uint32_t op, bool one_axis, rota_tensor x, rota_tensor w,
                           const uint32_t extent[2], const rota_conv *options, rota_tensor *y) {
    rota_conv room = ROTA_CONV();
    const rota_conv *o = options ? ROTA_SIZED_IN(rota_conv, options, &room) : &room;
    if (!o) return ROTA_INVALID_ARGUMENT;
    rota_op_use use = {.op = rota_op_at(op),
                       .input_count = 3,
                       .output_count = 1,
                       .inputs = {x, w, o->bias},
                       .outputs = {*y},
                       .attributes = {.window = {.groups = o->groups ? o->groups : 1}}};
    rota_op_window *a = &use.attributes.window;
    pair(a->stride, o->stride, one_axis, 1, 1);
    pair(a->padding, o->padding, one_axis, 0, 0);
    pair(a->dilation, o->dilation, one_axis, 1, 1);
    if (op == ROTA_OP_conv_transpose2d) pair(a->output_padding, o->output_padding, one_axis, 0, 0);
    if (op == ROTA_OP_conv2d_backward_weight) {
        use.input_count = 2;
        if (o->bias.buffer)
            return rota_op_fail(use.op, ROTA_INVALID_ARGUMENT, "a bias is given; expected ROTA_TENSOR_NONE");
        for (uint32_t i = 0; i < 2; i++) a->extent[i] = extent[i];
    }
    a->allow_tf32 = o->allow_tf32;
    a->channels_last = o->channels_last && !one_axis;
    ROTA_TRY(rota_tape_apply(tape, &use, use.op->name));
    *y = use.outputs[0];
    return ROTA_OK;
}

static rota_status conv(rota_tape *tape, uint32_t op, bool one_axis, rota_tensor x, rota_tensor w,
                        const rota_conv *options, rota_tensor *y) {
    return conv_of(tape, op, one_axis, x, w, (const uint32_t[2]){0, 0}, options, y);
}

rota_status rota_op_conv2d(rota_tape *tape, rota_tensor x, rota_tensor w, const rota_conv *options,
                           rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    return conv(tape, ROTA_OP_conv2d, false, x, w, options, out_y);
}

rota_status rota_op_conv2d_into(rota_tape *tape, rota_tensor x, rota_tensor w, const rota_conv *options,
                                rota_tensor y) {
    ROTA_GIVEN(tape);
    if (!y.buffer) return rota_fail(ROTA_INVALID_ARGUMENT, "op 'conv2d': the destination is missing");
    return conv(tape, ROTA_OP_conv2d, false, x, w, options, &y);
}

rota_status rota_op_conv_transpose2d(rota_tape *tape, rota_tensor x, rota_tensor w, const rota_conv *options,
                                     rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    return conv(tape, ROTA_OP_conv_transpose2d, false, x, w, options, out_y);
}

rota_status rota_op_conv2d_backward_weight(rota_tape *tape, rota_tensor x, rota_tensor dy, uint32_t kh,
                                           uint32_t kw, const rota_conv *options, rota_tensor *out_dw) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_dw);
    *out_dw = ROTA_TENSOR_NONE;
    return conv_of(tape, ROTA_OP_conv2d_backward_weight, false, x, dy, (const uint32_t[2]){kh, kw}, options,
                   out_dw);
}

/* x [a, b, length] as [a, b, 1, length]. */
static rota_status with_height(const char *op, const char *name, const rota_tensor *x, rota_tensor *out) {
    char text[ROTA_TENSOR_TEXT_MAX];
    if (x->rank != 3)
        return rota_fail(ROTA_INVALID_ARGUMENT, "op '%s': %s is %s; expected three axes", op, name,
                         rota_tensor_describe(x, text, sizeof text));
    return rota_tensor_reshape(x, ROTA_SHAPE(x->shape[0], x->shape[1], 1, x->shape[2]), out);
}

static rota_status without_height(rota_tensor *y) {
    return rota_tensor_reshape(y, ROTA_SHAPE(y->shape[0], y->shape[1], y->shape[3]), y);
}

static rota_status conv1d(rota_tape *tape, rota_tensor x, rota_tensor w, const rota_conv *options,
                          rota_tensor *out_y) {
    rota_tensor y = ROTA_TENSOR_NONE;
    ROTA_TRY(with_height("conv1d", "x", &x, &x));
    ROTA_TRY(with_height("conv1d", "w", &w, &w));
    ROTA_TRY(conv(tape, ROTA_OP_conv2d, true, x, w, options, &y));
    ROTA_TRY(without_height(&y));
    *out_y = y;
    return ROTA_OK;
}

rota_status rota_op_conv1d(rota_tape *tape, rota_tensor x, rota_tensor w, const rota_conv *options,
                           rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    ROTA_TAPE_AS_OP(tape, "conv1d", conv1d(tape, x, w, options, out_y));
}

/* ---- Pooling ---- */

static bool is_max(uint32_t op) {
    return op == ROTA_OP_max_pool2d || op == ROTA_OP_max_pool2d_backward;
}

static void pool_attributes(const rota_pool *o, uint32_t op, bool one_axis, rota_op_window *a) {
    *a = (rota_op_window){.ceil_mode = o->ceil_mode,
                          .exclude_padding = !is_max(op) && o->exclude_padding,
                          .channels_last = o->channels_last && !one_axis};
    pair(a->extent, o->window, one_axis, 1, 0);
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t given = o->stride[one_axis ? 0 : i];
        a->stride[i] = given && !(one_axis && i == 0) ? given : a->extent[i];
    }
    pair(a->padding, o->padding, one_axis, 0, 0);
    pair(a->dilation, o->dilation, one_axis, 1, 1);
}

static rota_status pool(rota_tape *tape, uint32_t op, bool one_axis, rota_tensor x, const rota_pool *options,
                        rota_tensor *out_y, rota_tensor *out_index) {
    rota_pool room;
    const rota_pool *o = ROTA_SIZED_IN(rota_pool, options, &room);
    if (!o) return ROTA_INVALID_ARGUMENT;
    rota_op_use use = {
        .op = rota_op_at(op), .input_count = 1, .output_count = is_max(op) ? 2 : 1, .inputs = {x}};
    pool_attributes(o, op, one_axis, &use.attributes.window);
    if (one_axis) ROTA_TRY(with_height(is_max(op) ? "max_pool1d" : "avg_pool1d", "x", &x, &use.inputs[0]));
    ROTA_TRY(rota_tape_apply(tape, &use, use.op->name));
    for (uint32_t i = 0; i < use.output_count && one_axis; i++) ROTA_TRY(without_height(&use.outputs[i]));
    *out_y = use.outputs[0];
    if (out_index) *out_index = use.outputs[1];
    return ROTA_OK;
}

static rota_status pool_backward(rota_tape *tape, uint32_t op, rota_tensor dy, rota_tensor index,
                                 const uint32_t size[2], const rota_pool *options, rota_tensor *out_dx) {
    rota_pool room;
    const rota_pool *o = ROTA_SIZED_IN(rota_pool, options, &room);
    if (!o) return ROTA_INVALID_ARGUMENT;
    rota_op_use use = {
        .op = rota_op_at(op), .input_count = is_max(op) ? 2 : 1, .output_count = 1, .inputs = {dy, index}};
    pool_attributes(o, op, false, &use.attributes.window);
    for (uint32_t i = 0; i < 2; i++) use.attributes.window.size[i] = size[i];
    ROTA_TRY(rota_tape_apply(tape, &use, use.op->name));
    *out_dx = use.outputs[0];
    return ROTA_OK;
}

rota_status rota_op_max_pool2d(rota_tape *tape, rota_tensor x, const rota_pool *options, rota_tensor *out_y,
                               rota_tensor *out_index) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(options);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    if (out_index) *out_index = ROTA_TENSOR_NONE;
    return pool(tape, ROTA_OP_max_pool2d, false, x, options, out_y, out_index);
}

rota_status rota_op_avg_pool2d(rota_tape *tape, rota_tensor x, const rota_pool *options, rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(options);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    return pool(tape, ROTA_OP_avg_pool2d, false, x, options, out_y, NULL);
}

rota_status rota_op_max_pool2d_backward(rota_tape *tape, rota_tensor dy, rota_tensor index, uint32_t height,
                                        uint32_t width, const rota_pool *options, rota_tensor *out_dx) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(options);
    ROTA_GIVEN(out_dx);
    *out_dx = ROTA_TENSOR_NONE;
    return pool_backward(tape, ROTA_OP_max_pool2d_backward, dy, index, (const uint32_t[2]){height, width},
                         options, out_dx);
}

rota_status rota_op_avg_pool2d_backward(rota_tape *tape, rota_tensor dy, uint32_t height, uint32_t width,
                                        const rota_pool *options, rota_tensor *out_dx) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(options);
    ROTA_GIVEN(out_dx);
    *out_dx = ROTA_TENSOR_NONE;
    return pool_backward(tape, ROTA_OP_avg_pool2d_backward, dy, ROTA_TENSOR_NONE,
                         (const uint32_t[2]){height, width}, options, out_dx);
}

rota_status rota_op_max_pool1d(rota_tape *tape, rota_tensor x, const rota_pool *options, rota_tensor *out_y,
                               rota_tensor *out_index) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(options);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    if (out_index) *out_index = ROTA_TENSOR_NONE;
    ROTA_TAPE_AS_OP(tape, "max_pool1d", pool(tape, ROTA_OP_max_pool2d, true, x, options, out_y, out_index));
}

rota_status rota_op_avg_pool1d(rota_tape *tape, rota_tensor x, const rota_pool *options, rota_tensor *out_y) {
    ROTA_GIVEN(tape);
    ROTA_GIVEN(options);
    ROTA_GIVEN(out_y);
    *out_y = ROTA_TENSOR_NONE;
    ROTA_TAPE_AS_OP(tape, "avg_pool1d", pool(tape, ROTA_OP_avg_pool2d, true, x, options, out_y, NULL));
}
