/* Kernels of windows that slide over planes: operands, parameters, and what each computes. C and CUDA C++.
 * kernels.h includes it beside kernel_params.h, not through that, so that of the CUDA images only these
 * kernels' own are made anew when it changes. The rules that hold for all kernels are in kernels.h. */
#ifndef ROTA_OPS_WINDOW_PARAMS_H
#define ROTA_OPS_WINDOW_PARAMS_H

#include <stdint.h>

/* ---- conv2d: x:READ [batch, groups, in_channels, in], w:READ [groups, out_channels, in_channels, window],
 * bias:READ [groups, out_channels], y:WRITE [batch, groups, out_channels, out], where in, window and out are
 * two axes each: y[n, g, o, p] = (bias[g, o] +) sum over i and k of x[n, g, i, p * stride + k * dilation -
 * padding] * w[g, o, i, k], x being 0 outside; one sum in f32 whose order follows from the parameters
 * ---- conv2d_backward_input: dy:READ as y, w:READ, bias:READ [groups, in_channels], dx:WRITE as x: dx[n, g, i,
 * q] = (bias[g, i] +) sum over o, k and those p with p * stride + k * dilation - padding = q of dy[n, g, o, p]
 * * w[g, o, i, k]
 * ---- conv2d_backward_weight: x:READ, dy:READ, partial:WRITE f32 [chunks, groups, out_channels, in_channels,
 * window], chunks = ceil(batch * out / chunk): partial[c, g, o, i, k] = sum over the (n, p) of chunk c, in
 * order of n and p, of x[n, g, i, p * stride + k * dilation - padding] * dy[n, g, o, p]; then summed over c by
 * reduce
 * ---- conv2d_weight_gradient: x:READ, dy:READ, partial:WRITE f32 [chunks, groups, out_channels, in_channels,
 * window], dw:WRITE [groups, out_channels, in_channels, window]. What conv2d_backward_weight and reduce do; runs
 * as one call of a library where there is one for it, which leaves partial as it was ---- */

#define ROTA_CONV_BIAS 1u
/* A library may round the factors of f32's products to TF32. */
#define ROTA_CONV_TF32 2u
/* x and y have their channels, of all groups, last, and w, partial and dw their in_channels: x [batch, in, groups,
 * in_channels], w [groups, out_channels, window, in_channels]. Sums are the same, in the same order. */
#define ROTA_CONV_CHANNELS_LAST 4u

/* Side of the tiles of results that a workgroup or block has. */
#define ROTA_CONV_TILE 64
/* Of a result of up to so many channels in a group, each the sum of up to so many products, an element is an
 * invocation's or thread's own: few of a tile's rows would be in use. The sums are the same, in the same order. */
#define ROTA_CONV_FEW 4
#define ROTA_CONV_SHORT 8192

typedef struct rota_conv_params {
    uint32_t batch, groups;
    uint32_t in_channels, out_channels; /* of a group */
    uint32_t in[2], out[2], window[2];  /* along height and width */
    uint32_t stride[2], padding[2], dilation[2];
    uint32_t flags;
    uint32_t chunk; /* backward_weight: positions of (n, p) that a partial sum covers */
    uint32_t dtype;
} rota_conv_params;

/* ---- max_pool: x:READ [planes, in, channels], y:WRITE [planes, out, channels], index:WRITE i32 [planes, out,
 * channels]; what has its channels first is planes of one. The largest of x's elements in a window of its channel,
 * and where in its plane it is: row * width + column; NaN is above all numbers, and of
 * equal values the first in the order of rows. A window without an element of x: -infinity, and -1
 * ---- max_pool_backward: dy:READ [planes, out, channels], index:READ, dx:WRITE as x. dx[q] = sum of dy[p] with
 * index[p] == q, in order of p
 * ---- avg_pool: x:READ, y:WRITE. The sum of x's elements in a window over how many they are; with PADDED over
 * how many of the window lie in x with its padding. 0 without any; dilation is 1
 * ---- avg_pool_backward: dy:READ, dx:WRITE ---- */

#define ROTA_POOL_PADDED 1u

typedef struct rota_pool_params {
    uint32_t planes;
    uint32_t in[2], out[2], window[2];
    uint32_t stride[2], padding[2], dilation[2];
    uint32_t flags;
    uint32_t dtype;
    uint32_t channels;
} rota_pool_params;

#endif
