/* Convolutions and pooling: windows that slide over planes. f32, f16 or bf16, all alike; sums in f32, rounded
 * once. (On CUDA devices a convolution of more than a few million products is cuDNN's where that is the fastest:
 * its sums have a fixed order, too, of products that may be Winograd's; a bias is then added to what was
 * rounded.) The rules that hold for all ops are in ops.h. What has two entries is of the height and of the width;
 * ops of one axis read the first. */
#ifndef ROTA_OPS_OPS_WINDOW_H
#define ROTA_OPS_OPS_WINDOW_H

#include "ops_tape.h"

typedef struct rota_conv {
    size_t struct_size;         /* sizeof, by ROTA_CONV() */
    rota_tensor bias;           /* [out], or ROTA_TENSOR_NONE */
    uint32_t stride[2];         /* elements of x from window to window; 0: 1 */
    uint32_t padding[2];        /* zeroes before x's first and behind its last element */
    uint32_t dilation[2];       /* elements of x from one of a window to the next; 0: 1 */
    uint32_t groups;            /* of channels, each with weights of its own; 0: 1 */
    uint32_t output_padding[2]; /* conv_transpose2d alone */
    bool
        allow_tf32; /* of f32, on CUDA devices: factors may be rounded to TF32's 10 bits of mantissa, which is
                        several times as fast; in gradients, too. Elsewhere it changes nothing */
    bool
        channels_last; /* images are [batch, height, width, channels] and w [out, kh, kw, in / groups], or, of
                           conv_transpose2d, [in, kh, kw, out / groups]; of conv2d and its gradients */
} rota_conv;
#define ROTA_CONV(...) ROTA_SIZED(rota_conv, __VA_ARGS__)

/* x [batch, in, height, width], w [out, in / groups, kh, kw]: y [batch, out, oh, ow], oh = (height + 2 padding
 * - dilation (kh - 1) - 1) / stride + 1, rounded down; y[n, o, p] = bias[o] + sum over i and k of x[n, i, p *
 * stride + k * dilation - padding] * w[o, i, k] (a correlation, as in PyTorch; Dumoulin and Visin, A guide to
 * convolution arithmetic for deep learning, 2016). Output channels of a group read the input channels of that
 * group alone. One node; its gradients of weights are summed up in chunks of positions. `options` may be NULL:
 * strides of 1, and nothing else. */
ROTA_API rota_status rota_op_conv2d(rota_tape *tape, rota_tensor x, rota_tensor w, const rota_conv *options,
                                    rota_tensor *out_y);
ROTA_API rota_status rota_op_conv2d_into(rota_tape *tape, rota_tensor x, rota_tensor w,
                                         const rota_conv *options, rota_tensor y);
/* x [batch, in, length], w [out, in / groups, k]: y [batch, out, ol]; conv2d of height 1, without a copy. */
ROTA_API rota_status rota_op_conv1d(rota_tape *tape, rota_tensor x, rota_tensor w, const rota_conv *options,
                                    rota_tensor *out_y);
/* What conv2d's gradient is by x, as an op: x [batch, in, height, width], w [in, out / groups, kh, kw]: y
 * [batch, out, oh, ow], oh = (height - 1) * stride - 2 padding + dilation (kh - 1) + output_padding + 1; an
 * output_padding is less than the stride or the dilation, and says which of the sizes is meant that conv2d
 * makes x's of. */
ROTA_API rota_status rota_op_conv_transpose2d(rota_tape *tape, rota_tensor x, rota_tensor w,
                                              const rota_conv *options, rota_tensor *out_y);
/* What conv2d's gradient is by w, as an op: x [batch, in, height, width], dy [batch, out, oh, ow]: dw [out, in /
 * groups, kh, kw], dw[o, i, k] = sum over n and p of x[n, i, p * stride + k * dilation - padding] * dy[n, o, p]; oh
 * and ow are those that conv2d makes of x. (conv_transpose2d's gradient by w: x and dy in each other's place.)
 * `options` as conv2d's, without a bias. Has no gradient itself. */
ROTA_API rota_status rota_op_conv2d_backward_weight(rota_tape *tape, rota_tensor x, rota_tensor dy,
                                                    uint32_t kh, uint32_t kw, const rota_conv *options,
                                                    rota_tensor *out_dw);

typedef struct rota_pool {
    size_t struct_size;   /* sizeof, by ROTA_POOL() */
    uint32_t window[2];   /* elements, at least 1 */
    uint32_t stride[2];   /* 0: the window's */
    uint32_t padding[2];  /* at most half the window; no element of it is ever the largest */
    uint32_t dilation[2]; /* of max alone; 0: 1 */
    bool
        ceil_mode; /* sizes are rounded up: a last window may reach out behind the padding, but not begin there */
    bool
        exclude_padding; /* of avg alone: divides by how many elements of x there are in a window, not by how many of x
                             and padding */
    bool channels_last; /* images are [batch, height, width, channels]; of two axes alone */
} rota_pool;
#define ROTA_POOL(...) ROTA_SIZED(rota_pool, __VA_ARGS__)

/* x [batch, channels, height, width]: y [batch, channels, oh, ow], sizes as conv2d's; as in PyTorch. max: NaN
 * if one of the window is; the gradient goes to the first of equal ones. out_index, which may be NULL: where in
 * its plane each is, i32: row * width + column. */
ROTA_API rota_status rota_op_max_pool2d(rota_tape *tape, rota_tensor x, const rota_pool *options,
                                        rota_tensor *out_y, rota_tensor *out_index);
ROTA_API rota_status rota_op_avg_pool2d(rota_tape *tape, rota_tensor x, const rota_pool *options,
                                        rota_tensor *out_y);
/* What their gradients are by x [batch, channels, height, width], as ops: dy and index (i32) [batch, channels, oh,
 * ow], index as max_pool2d gives it: dx as x. `options`: those of the pool. Have no gradients themselves. */
ROTA_API rota_status rota_op_max_pool2d_backward(rota_tape *tape, rota_tensor dy, rota_tensor index,
                                                 uint32_t height, uint32_t width, const rota_pool *options,
                                                 rota_tensor *out_dx);
ROTA_API rota_status rota_op_avg_pool2d_backward(rota_tape *tape, rota_tensor dy, uint32_t height,
                                                 uint32_t width, const rota_pool *options,
                                                 rota_tensor *out_dx);
/* x [batch, channels, length]. */
ROTA_API rota_status rota_op_max_pool1d(rota_tape *tape, rota_tensor x, const rota_pool *options,
                                        rota_tensor *out_y, rota_tensor *out_index);
ROTA_API rota_status rota_op_avg_pool1d(rota_tape *tape, rota_tensor x, const rota_pool *options,
                                        rota_tensor *out_y);

#endif
