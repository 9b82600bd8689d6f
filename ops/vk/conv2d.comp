/* rota_kernel_conv2d, and with BACKWARD_INPUT or BACKWARD_WEIGHT its gradients: products of matrices that are
 * gathered as they are staged, in tiles of TILE x TILE results a workgroup; each invocation keeps PATCH x PATCH
 * sums, over k in order.
 *
 *                       rows             columns                      k, summed over
 *     conv2d            channels of y    batch x places of windows    channels of x x window
 *     BACKWARD_INPUT    channels of x    batch x elements of x        channels of y x window
 *     BACKWARD_WEIGHT   channels of y    channels of x x window       a chunk of batch x places of windows */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 2
#include "value.glsl"

const uint TILE = 64u, PATCH = 4u, DEPTH = 16u, SIDE = TILE / PATCH, THREADS = SIDE * SIDE;
const uint LOADS = TILE * DEPTH / THREADS, PITCH = TILE + 4u; /* four more, against bank conflicts */

layout(local_size_x = 256) in;

#ifdef BACKWARD_WEIGHT
ROTA_KERNEL_BEGIN(3) /* x, dy, partial */
#else
ROTA_KERNEL_BEGIN(4) /* x or dy, w, bias, y or dx */
#endif
uint batch;
uint groups;
uint in_channels;
uint out_channels;
uint in_size[2];
uint out_size[2];
uint window[2];
uint stride[2];
uint padding[2];
uint dilation[2];
uint flags;
uint chunk;
uint dtype;
ROTA_KERNEL_END

const uint BIAS = 1u, CHANNELS_LAST = 4u, FEW = 4u, SHORT = 8192u; /* window_params.h: ROTA_CONV_FEW, ROTA_CONV_SHORT */

shared float left_tile[DEPTH][PITCH], right_tile[DEPTH][PITCH];

uint window_size() { return pc.window[0] * pc.window[1]; }
uint in_plane() { return pc.in_size[0] * pc.in_size[1]; }
uint out_plane() { return pc.out_size[0] * pc.out_size[1]; }

bool channels_last() { return (pc.flags & CHANNELS_LAST) != 0u; }
/* Where an image's element is, of so many channels in all groups. */
uint element(uint image, uint channels, uint channel, uint plane, uint position) {
    return channels_last() ? (image * plane + position) * channels + channel
                           : (image * channels + channel) * plane + position;
}
/* ... and one of w, by its channel of y, counted through groups, and column, a channel of x and an element of the
 * window. */
uint weight(uint row, uint column) {
    if (!channels_last()) return row * pc.in_channels * window_size() + column;
    return (row * window_size() + column % window_size()) * pc.in_channels + column / window_size();
}

/* A tap: a channel, and how far it is from the window's first element of x, padding taken off. */
struct tap {
    uint channel;
    ivec2 shift;
};
tap tap_of(uint k) {
    const uint in_window = k % window_size();
    return tap(k / window_size(), ivec2(int(in_window / pc.window[1] * pc.dilation[0]) - int(pc.padding[0]),
                                        int(in_window % pc.window[1] * pc.dilation[1]) - int(pc.padding[1])));
}

/* A column of the sides whose positions count through images: which image, and where in it. */
struct spot {
    uint image;
    ivec2 coordinate;
};
spot spot_of(uint position, uint width, uint plane) {
    const uint rest = position % plane;
    return spot(position / plane, ivec2(rest / width, rest % width));
}

/* What the tap of a window at `where` reads of x. */
float x_of(uint group, spot where, tap t) {
    const ivec2 from = where.coordinate * ivec2(pc.stride[0], pc.stride[1]) + t.shift;
    const ivec2 size = ivec2(pc.in_size[0], pc.in_size[1]);
    if (any(lessThan(from, ivec2(0))) || any(greaterThanEqual(from, size))) return 0.0;
    return get(rota_operand(0),
               element(where.image, pc.groups * pc.in_channels, group * pc.in_channels + t.channel, in_plane(),
                       uint(from.x) * pc.in_size[1] + uint(from.y)));
}

/* The gradient of the window whose tap reads x's element `where`; 0 if there is none. */
float dy_of(uint group, spot where, tap t) {
    const ivec2 from = where.coordinate - t.shift, strides = ivec2(pc.stride[0], pc.stride[1]);
    if (any(lessThan(from, ivec2(0)))) return 0.0;
    const ivec2 position = from / strides;
    const ivec2 size = ivec2(pc.out_size[0], pc.out_size[1]);
    if (position * strides != from || any(greaterThanEqual(position, size))) return 0.0;
    return get(rota_operand(0),
               element(where.image, pc.groups * pc.out_channels, group * pc.out_channels + t.channel, out_plane(),
                       uint(position.x) * pc.out_size[1] + uint(position.y)));
}

#ifndef BACKWARD_WEIGHT
/* Element (row, column) of a group's result by one invocation, over k in order. */
float sum_of(uint group, uint row, uint rows, spot where) {
    float sum = 0.0;
#ifdef BACKWARD_INPUT
    const uint channels = pc.out_channels;
#else
    const uint channels = pc.in_channels;
#endif
    const uint taps = channels * window_size();
    for (uint k = 0u; k < taps; ++k) {
        const tap t = tap_of(k);
#ifdef BACKWARD_INPUT
        const uint w = weight(group * channels + t.channel, row * window_size() + k % window_size());
        sum = fma(get(rota_operand(1), w), dy_of(group, where, t), sum);
#else
        sum = fma(get(rota_operand(1), weight(group * rows + row, k)), x_of(group, where, t), sum);
#endif
    }
    return sum;
}

void put_sum(uint group, uint row, uint rows, uint column, uint plane, float sum) {
    if ((pc.flags & BIAS) != 0u) sum += get(rota_operand(2), group * rows + row);
    put(rota_operand(3), element(column / plane, pc.groups * rows, group * rows + row, plane, column % plane), sum);
}

/* A few rows: an invocation per element. */
void run_few(uint rows, uint columns, uint width, uint plane) {
    const uint column_groups = (columns - 1u) / gl_WorkGroupSize.x + 1u, id = rota_group_index();
    const uint column = id % column_groups * gl_WorkGroupSize.x + gl_LocalInvocationIndex, of_row = id / column_groups;
    if (column >= columns || of_row >= pc.groups * rows) return;
    const uint group = of_row / rows, row = of_row % rows;
    put_sum(group, row, rows, column, plane, sum_of(group, row, rows, spot_of(column, width, plane)));
}
#endif

void main() {
#if defined(BACKWARD_INPUT)
    const uint rows = pc.in_channels, columns = pc.batch * in_plane(), last = pc.out_channels * window_size();
    const uint chunks = 1u;
#elif defined(BACKWARD_WEIGHT)
    const uint rows = pc.out_channels, columns = pc.in_channels * window_size();
    const uint positions = pc.batch * out_plane(), chunks = (positions - 1u) / pc.chunk + 1u;
#else
    const uint rows = pc.out_channels, columns = pc.batch * out_plane(), last = pc.in_channels * window_size();
    const uint chunks = 1u;
#endif
#if defined(BACKWARD_INPUT)
    if (rows <= FEW && last <= SHORT) {
        run_few(rows, columns, pc.in_size[1], in_plane());
        return;
    }
#elif !defined(BACKWARD_WEIGHT)
    if (rows <= FEW && last <= SHORT) {
        run_few(rows, columns, pc.out_size[1], out_plane());
        return;
    }
#endif
    const uint row_tiles = (rows - 1u) / TILE + 1u, column_tiles = (columns - 1u) / TILE + 1u;
    uint id = rota_group_index();
    const uint row = id % row_tiles * TILE;
    id /= row_tiles;
    const uint column = id % column_tiles * TILE;
    id /= column_tiles;
    const uint group = id % pc.groups, piece = id / pc.groups;
    if (piece >= chunks) return;
    const uint t = gl_LocalInvocationIndex, x = t % SIDE * PATCH, y = t / SIDE * PATCH;
    /* Rows are staged along k, which memory runs along. */
    const uint left_k = t % DEPTH, left_row = t / DEPTH;
#ifdef BACKWARD_WEIGHT
    const uint first = piece * pc.chunk;
    const uint last = positions - first < pc.chunk ? positions : first + pc.chunk;
    tap taps[LOADS];
    [[unroll]] for (uint l = 0u; l < LOADS; ++l)
        taps[l] = tap_of(min(column + left_row + l * (THREADS / DEPTH), columns - 1u));
#else
    const uint first = 0u;
    const uint right_column = t % TILE, right_k = t / TILE;
#ifdef BACKWARD_INPUT
    const spot where = spot_of(min(column + right_column, columns - 1u), pc.in_size[1], in_plane());
#else
    const spot where = spot_of(min(column + right_column, columns - 1u), pc.out_size[1], out_plane());
#endif
#endif

    float total[PATCH][PATCH];
    [[unroll]] for (uint i = 0u; i < PATCH; ++i) [[unroll]] for (uint j = 0u; j < PATCH; ++j) total[i][j] = 0.0;
    for (uint step = 0u, steps = (last - first - 1u) / DEPTH + 1u; step < steps; ++step) {
        const uint k = first + step * DEPTH, depth = last - k;
#ifdef BACKWARD_WEIGHT
        const spot where = spot_of(k + min(left_k, depth - 1u), pc.out_size[1], out_plane());
        const uint position = uint(where.coordinate.x) * pc.out_size[1] + uint(where.coordinate.y);
        const uint channels = pc.groups * pc.out_channels, channel = group * pc.out_channels + row;
#endif
        [[unroll]] for (uint l = 0u; l < LOADS; ++l) {
            const uint r = left_row + l * (THREADS / DEPTH);
            float left = 0.0, right = 0.0;
#ifdef BACKWARD_WEIGHT
            if (left_k < depth) {
                if (row + r < rows)
                    left = get(rota_operand(1), element(where.image, channels, channel + r, out_plane(), position));
                if (column + r < columns) right = x_of(group, where, taps[l]);
            }
            right_tile[left_k][r] = right;
#else
            if (row + r < rows && left_k < depth) {
#ifdef BACKWARD_INPUT
                const uint of_channel = (k + left_k) / window_size(), in_window = (k + left_k) % window_size();
                left = get(rota_operand(1),
                           weight(group * pc.out_channels + of_channel, (row + r) * window_size() + in_window));
#else
                left = get(rota_operand(1), weight(group * rows + row + r, k + left_k));
#endif
            }
            const uint right_of = right_k + l * (THREADS / TILE);
            if (column + right_column < columns && right_of < depth)
#ifdef BACKWARD_INPUT
                right = dy_of(group, where, tap_of(k + right_of));
#else
                right = x_of(group, where, tap_of(k + right_of));
#endif
            right_tile[right_of][right_column] = right;
#endif
            left_tile[left_k][r] = left;
        }
        barrier();
        [[unroll]] for (uint d = 0u; d < DEPTH; ++d) {
            float left[PATCH], right[PATCH];
            [[unroll]] for (uint i = 0u; i < PATCH; ++i) {
                left[i] = left_tile[d][y + i];
                right[i] = right_tile[d][x + i];
            }
            [[unroll]] for (uint i = 0u; i < PATCH; ++i)
                [[unroll]] for (uint j = 0u; j < PATCH; ++j) total[i][j] = fma(left[i], right[j], total[i][j]);
        }
        barrier();
    }

    [[unroll]] for (uint j = 0u; j < PATCH; ++j) {
        const uint to = column + x + j;
        if (to >= columns) continue;
        [[unroll]] for (uint i = 0u; i < PATCH; ++i) {
            const uint from = row + y + i;
            if (from >= rows) continue;
#ifdef BACKWARD_WEIGHT
            store(rota_operand(2), weight((piece * pc.groups + group) * rows + from, to), total[i][j]);
#else
#ifdef BACKWARD_INPUT
            const uint plane = in_plane();
#else
            const uint plane = out_plane();
#endif
            put_sum(group, from, rows, to, plane, total[i][j]);
#endif
        }
    }
}
