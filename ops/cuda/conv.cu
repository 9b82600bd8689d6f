/* CUDA kernels: conv2d, conv2d_backward_input, conv2d_backward_weight. Products of matrices that are gathered
 * as they are staged, in tiles of TILE x TILE results a block; each thread keeps PATCH x PATCH sums, over k in
 * order.
 *
 *                   rows             columns                      k, summed over
 *     FORWARD       channels of y    batch x windows of a plane   channels of x x window
 *     INPUT         channels of x    batch x elements of a plane  channels of y x window
 *     WEIGHT        channels of y    channels of x x window       a chunk of batch x windows of a plane */
#include "ops/cuda/values.cuh"
#include "ops/window_params.h"

enum conv_product { FORWARD, INPUT, WEIGHT };

constexpr uint32_t TILE = ROTA_CONV_TILE, PATCH = 4, DEPTH = 16, SIDE = TILE / PATCH, THREADS = SIDE * SIDE;
constexpr uint32_t LOADS = TILE * DEPTH / THREADS;
constexpr uint32_t PITCH = TILE + 4; /* against bank conflicts; whole vectors */
static_assert(THREADS == ROTA_CUDA_THREADS, "launch.c");

/* A tap: a channel, and how far it is from the window's first element of x, padding taken off. */
struct tap {
    uint32_t channel;
    int32_t row, column;
};
/* Where a column of a side that counts through images is: the image, and the row and column of its plane. */
struct spot {
    uint32_t image;
    int32_t row, column;
};

struct sizes {
    const rota_conv_params &p;
    uint32_t window, in_plane, out_plane;
    ROTA_DEVICE sizes(const rota_conv_params &p)
        : p(p), window(p.window[0] * p.window[1]), in_plane(p.in[0] * p.in[1]), out_plane(p.out[0] * p.out[1]) {}
    ROTA_DEVICE bool last() const { return p.flags & ROTA_CONV_CHANNELS_LAST; }
    /* Where an image's element is, of so many channels in all groups. */
    ROTA_DEVICE uint64_t element(uint32_t image, uint32_t channels, uint32_t channel, uint32_t plane,
                                 uint32_t position) const {
        return last() ? (static_cast<uint64_t>(image) * plane + position) * channels + channel
                      : (static_cast<uint64_t>(image) * channels + channel) * plane + position;
    }
    /* ... and one of w, by its channel of y, counted through groups, and column, a channel of x and an element of the
     * window. */
    ROTA_DEVICE uint64_t weight(uint64_t row, uint32_t column) const {
        if (!last()) return row * p.in_channels * window + column;
        return (row * window + column % window) * p.in_channels + column / window;
    }
    ROTA_DEVICE tap tap_of(uint32_t k) const {
        const uint32_t in_window = k % window;
        const int32_t row = in_window / p.window[1] * p.dilation[0], column = in_window % p.window[1] * p.dilation[1];
        return {k / window, row - static_cast<int32_t>(p.padding[0]), column - static_cast<int32_t>(p.padding[1])};
    }
    ROTA_DEVICE spot spot_of(uint32_t position, uint32_t width, uint32_t plane) const {
        const uint32_t rest = position % plane;
        return {position / plane, static_cast<int32_t>(rest / width), static_cast<int32_t>(rest % width)};
    }
};

/* What the tap of the window at a spot reads of x. */
template <bool HALF>
ROTA_DEVICE float x_of(const sizes &s, const values<HALF> &x, uint32_t group, const spot &where, const tap &t) {
    const int32_t row = where.row * static_cast<int32_t>(s.p.stride[0]) + t.row;
    const int32_t column = where.column * static_cast<int32_t>(s.p.stride[1]) + t.column;
    if (static_cast<uint32_t>(row) >= s.p.in[0] || static_cast<uint32_t>(column) >= s.p.in[1]) return 0.0f;
    return x.at(s.element(where.image, s.p.groups * s.p.in_channels, group * s.p.in_channels + t.channel, s.in_plane,
                          row * s.p.in[1] + column));
}

/* The gradient of the window whose tap reads x's element at a spot; 0 if there is none. */
template <bool HALF>
ROTA_DEVICE float dy_of(const sizes &s, const values<HALF> &dy, uint32_t group, const spot &where, const tap &t) {
    const int32_t row = where.row - t.row, column = where.column - t.column;
    if (row < 0 || column < 0) return 0.0f;
    const uint32_t window_row = row / s.p.stride[0], window_column = column / s.p.stride[1];
    if (window_row * s.p.stride[0] != row || window_column * s.p.stride[1] != column || window_row >= s.p.out[0] ||
        window_column >= s.p.out[1])
        return 0.0f;
    return dy.at(s.element(where.image, s.p.groups * s.p.out_channels, group * s.p.out_channels + t.channel,
                           s.out_plane, window_row * s.p.out[1] + window_column));
}

/* A block's tile: where it begins, and k of it. */
struct conv_block {
    uint32_t rows, columns, row, column, group, piece;
    uint32_t first, last;
    bool beyond; /* the padding of a folded grid */
};

template <conv_product PRODUCT> ROTA_DEVICE conv_block block_of(const sizes &s) {
    const rota_conv_params &p = s.p;
    conv_block b = {};
    uint32_t chunks = 1;
    b.rows = PRODUCT == INPUT ? p.in_channels : p.out_channels;
    if (PRODUCT == WEIGHT) {
        const uint32_t positions = p.batch * s.out_plane;
        b.columns = p.in_channels * s.window;
        chunks = (positions - 1) / p.chunk + 1;
        b.last = positions;
    } else {
        b.columns = p.batch * (PRODUCT == INPUT ? s.in_plane : s.out_plane);
        b.last = (PRODUCT == INPUT ? p.out_channels : p.in_channels) * s.window;
    }
    const uint32_t row_tiles = (b.rows - 1) / TILE + 1, column_tiles = (b.columns - 1) / TILE + 1;
    uint64_t id = rota_group_index();
    b.row = static_cast<uint32_t>(id % row_tiles) * TILE;
    id /= row_tiles;
    b.column = static_cast<uint32_t>(id % column_tiles) * TILE;
    id /= column_tiles;
    b.group = static_cast<uint32_t>(id % p.groups);
    id /= p.groups;
    b.beyond = id >= chunks;
    b.piece = static_cast<uint32_t>(id);
    if (PRODUCT == WEIGHT) {
        b.first = b.piece * p.chunk;
        b.last = b.last - b.first < p.chunk ? b.last : b.first + p.chunk;
    }
    return b;
}

/* Both tiles k-major. */
struct conv_tiles {
    float left[DEPTH][PITCH], right[DEPTH][PITCH];
};

/* Rows and columns of a step of the gradient of w: both along k, which memory runs along. */
template <bool HALF, typename A>
ROTA_DEVICE void stage_weight(const A &args, const sizes &s, const conv_block &b, const tap (&taps)[LOADS], uint32_t k,
                              conv_tiles &tiles) {
    const values<HALF> x(rota_operand<const void>(args, 0), 0, s.p.dtype);
    const values<HALF> dy(rota_operand<const void>(args, 1), 0, s.p.dtype);
    const uint32_t depth = b.last - k, in_k = threadIdx.x % DEPTH, first = threadIdx.x / DEPTH;
    const spot window = s.spot_of(k + min(in_k, depth - 1), s.p.out[1], s.out_plane);
    const uint32_t channels = s.p.groups * s.p.out_channels, channel = b.group * s.p.out_channels + b.row;
    const uint32_t position = window.row * s.p.out[1] + window.column;
#pragma unroll
    for (uint32_t l = 0; l < LOADS; l++) {
        const uint32_t r = first + l * (THREADS / DEPTH);
        float left = 0.0f, right = 0.0f;
        if (in_k < depth && b.row + r < b.rows)
            left = dy.at(s.element(window.image, channels, channel + r, s.out_plane, position));
        if (in_k < depth && b.column + r < b.columns) right = x_of<HALF>(s, x, b.group, window, taps[l]);
        tiles.left[in_k][r] = left;
        tiles.right[in_k][r] = right;
    }
}

/* ... of the others: rows of weights along k, columns along positions. */
template <bool HALF, conv_product PRODUCT, typename A>
ROTA_DEVICE void stage(const A &args, const sizes &s, const conv_block &b, const spot &column, uint32_t k,
                       conv_tiles &tiles) {
    const values<HALF> x(rota_operand<const void>(args, 0), 0, s.p.dtype);
    const values<HALF> w(rota_operand<const void>(args, 1), 0, s.p.dtype);
    const uint32_t depth = b.last - k, left_k = threadIdx.x % DEPTH, left_row = threadIdx.x / DEPTH;
    const uint32_t right_column = threadIdx.x % TILE, right_first = threadIdx.x / TILE;
    const uint32_t channel = (k + left_k) / s.window, in_window = (k + left_k) % s.window;
#pragma unroll
    for (uint32_t l = 0; l < LOADS; l++) {
        const uint32_t r = left_row + l * (THREADS / DEPTH), right_k = right_first + l * (THREADS / TILE);
        float left = 0.0f, right = 0.0f;
        if (b.row + r < b.rows && left_k < depth)
            left = PRODUCT == INPUT
                       ? w.at(s.weight(b.group * s.p.out_channels + channel, (b.row + r) * s.window + in_window))
                       : w.at(s.weight(b.group * b.rows + b.row + r, k + left_k));
        if (b.column + right_column < b.columns && right_k < depth)
            right = PRODUCT == INPUT ? dy_of<HALF>(s, x, b.group, column, s.tap_of(k + right_k))
                                     : x_of<HALF>(s, x, b.group, column, s.tap_of(k + right_k));
        tiles.left[left_k][r] = left;
        tiles.right[right_k][right_column] = right;
    }
}

template <bool HALF, conv_product PRODUCT, typename A>
ROTA_DEVICE void write(const A &args, const sizes &s, const conv_block &b, const float (&total)[PATCH][PATCH]) {
    const uint32_t x = threadIdx.x % SIDE * PATCH, y = threadIdx.x / SIDE * PATCH;
    const uint32_t plane = PRODUCT == INPUT ? s.in_plane : s.out_plane;
#pragma unroll
    for (uint32_t i = 0; i < PATCH; i++)
#pragma unroll
        for (uint32_t j = 0; j < PATCH; j++) {
            const uint32_t row = b.row + y + i, column = b.column + x + j;
            if (row >= b.rows || column >= b.columns) continue;
            if (PRODUCT == WEIGHT) {
                const uint64_t first = static_cast<uint64_t>(b.piece * s.p.groups + b.group) * b.rows + row;
                rota_operand<float>(args, 2)[s.weight(first, column)] = total[i][j];
                continue;
            }
            const values<HALF> bias(rota_operand<const void>(args, 2), 0, s.p.dtype),
                out(rota_operand<void>(args, 3), 0, s.p.dtype);
            const float added = s.p.flags & ROTA_CONV_BIAS ? bias.at(b.group * b.rows + row) : 0.0f;
            const uint64_t to =
                s.element(column / plane, s.p.groups * b.rows, b.group * b.rows + row, plane, column % plane);
            out.put(to, total[i][j] + added);
        }
}

/* A result of few rows in a group: an element a thread, over k in order. */
template <bool HALF, conv_product PRODUCT, typename A> ROTA_DEVICE void convolve_few(const A &args) {
    const sizes s(args.params);
    const rota_conv_params &p = s.p;
    const uint32_t rows = PRODUCT == INPUT ? p.in_channels : p.out_channels;
    const uint32_t plane = PRODUCT == INPUT ? s.in_plane : s.out_plane, columns = p.batch * plane;
    const uint32_t column_groups = (columns - 1) / THREADS + 1;
    const uint64_t id = rota_group_index(), of_row = id / column_groups;
    const uint64_t column = id % column_groups * THREADS + threadIdx.x;
    if (column >= columns || of_row >= static_cast<uint64_t>(p.groups) * rows) return;
    const uint32_t group = static_cast<uint32_t>(of_row / rows), row = static_cast<uint32_t>(of_row % rows);
    const spot where = s.spot_of(static_cast<uint32_t>(column), PRODUCT == INPUT ? p.in[1] : p.out[1], plane);
    const values<HALF> x(rota_operand<const void>(args, 0), 0, p.dtype);
    const values<HALF> w(rota_operand<const void>(args, 1), 0, p.dtype);
    const values<HALF> bias(rota_operand<const void>(args, 2), 0, p.dtype);
    const values<HALF> out(rota_operand<void>(args, 3), 0, p.dtype);
    const uint32_t channels = PRODUCT == INPUT ? p.out_channels : p.in_channels, all = channels * s.window;
    float sum = 0.0f;
    for (uint32_t k = 0; k < all; k++) {
        const tap t = s.tap_of(k);
        if (PRODUCT == INPUT)
            sum = fmaf(w.at(s.weight(group * channels + t.channel, row * s.window + k % s.window)),
                       dy_of<HALF>(s, x, group, where, t), sum);
        else
            sum = fmaf(w.at(s.weight(group * rows + row, k)), x_of<HALF>(s, x, group, where, t), sum);
    }
    const float added = p.flags & ROTA_CONV_BIAS ? bias.at(group * rows + row) : 0.0f;
    out.put(s.element(where.image, p.groups * rows, group * rows + row, plane, static_cast<uint32_t>(column % plane)),
            sum + added);
}

template <bool HALF, conv_product PRODUCT, typename A> ROTA_DEVICE void convolve(const A &args, conv_tiles &tiles) {
    const sizes s(args.params);
    const conv_block b = block_of<PRODUCT>(s);
    if constexpr (PRODUCT != WEIGHT)
        if (b.rows <= ROTA_CONV_FEW && b.last <= ROTA_CONV_SHORT) {
            convolve_few<HALF, PRODUCT>(args);
            return;
        }
    if (b.beyond) return;
    const uint32_t x = threadIdx.x % SIDE * PATCH, y = threadIdx.x / SIDE * PATCH;
    tap taps[LOADS] = {};
    spot column = {};
    if (PRODUCT == WEIGHT) {
#pragma unroll
        for (uint32_t l = 0; l < LOADS; l++)
            taps[l] = s.tap_of(min(b.column + threadIdx.x / DEPTH + l * (THREADS / DEPTH), b.columns - 1));
    } else {
        column = s.spot_of(min(b.column + threadIdx.x % TILE, b.columns - 1), PRODUCT == INPUT ? s.p.in[1] : s.p.out[1],
                           PRODUCT == INPUT ? s.in_plane : s.out_plane);
    }
    float total[PATCH][PATCH] = {};
    for (uint64_t k = b.first; k < b.last; k += DEPTH) {
        if constexpr (PRODUCT == WEIGHT)
            stage_weight<HALF>(args, s, b, taps, static_cast<uint32_t>(k), tiles);
        else
            stage<HALF, PRODUCT>(args, s, b, column, static_cast<uint32_t>(k), tiles);
        __syncthreads();
#pragma unroll
        for (uint32_t d = 0; d < DEPTH; d++) {
            const float4 left = *reinterpret_cast<const float4 *>(&tiles.left[d][y]);
            const float4 right = *reinterpret_cast<const float4 *>(&tiles.right[d][x]);
            const float u[PATCH] = {left.x, left.y, left.z, left.w}, v[PATCH] = {right.x, right.y, right.z, right.w};
#pragma unroll
            for (uint32_t i = 0; i < PATCH; i++)
#pragma unroll
                for (uint32_t j = 0; j < PATCH; j++) total[i][j] = fmaf(u[i], v[j], total[i][j]);
        }
        __syncthreads();
    }
    write<HALF, PRODUCT>(args, s, b, total);
}

#define CONVOLUTION(name, operands, product)                                                                           \
    ROTA_KERNEL(name, operands, rota_conv_params, THREADS) {                                                           \
        __shared__ __align__(16) conv_tiles tiles;                                                                     \
        if (args.params.dtype == DTYPE_F32)                                                                            \
            convolve<false, product>(args, tiles);                                                                     \
        else                                                                                                           \
            convolve<true, product>(args, tiles);                                                                      \
    }
CONVOLUTION(conv2d, 4, FORWARD)
CONVOLUTION(conv2d_backward_input, 4, INPUT)
CONVOLUTION(conv2d_backward_weight, 3, WEIGHT)
