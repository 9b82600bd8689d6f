/* rota_kernel_avg_pool: an invocation per window. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 2
#include "value.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(2) /* x, y */
uint planes;
uint in_size[2];
uint out_size[2];
uint window[2];
uint stride[2];
uint padding[2];
uint dilation[2];
uint flags;
uint dtype;
uint channels;
ROTA_KERNEL_END

const uint PADDED = 1u;

/* The elements of x in a window along an axis: the first, and how many. */
void taps_of(uint axis, uint position, out int first, out int count) {
    const int size = int(pc.in_size[axis]), dilation = int(pc.dilation[axis]), window = int(pc.window[axis]);
    const int begin = int(position * pc.stride[axis]) - int(pc.padding[axis]);
    const int skipped = begin < 0 ? (-begin - 1) / dilation + 1 : 0;
    first = begin + skipped * dilation;
    count = first < size ? clamp((size - first - 1) / dilation + 1, 0, max(window - skipped, 0)) : 0;
}

/* How many of a window are in x with its padding, along an axis. */
int padded_of(uint axis, uint position) {
    const int begin = int(position * pc.stride[axis]) - int(pc.padding[axis]);
    return min(int(pc.window[axis]), int(pc.in_size[axis] + pc.padding[axis]) - begin);
}

void main() {
    if (rota_beyond(pc.planes * pc.out_size[0] * pc.out_size[1] * pc.channels)) return;
    const uint result = rota_index(), channel = result % pc.channels, in_plane = result / pc.channels;
    const uint position = in_plane % (pc.out_size[0] * pc.out_size[1]);
    const uint plane = in_plane / (pc.out_size[0] * pc.out_size[1]) * pc.in_size[0] * pc.in_size[1];
    const uint of_row = position / pc.out_size[1], of_column = position % pc.out_size[1];
    int row, rows, column, columns;
    taps_of(0u, of_row, row, rows);
    taps_of(1u, of_column, column, columns);
    float sum = 0.0;
    for (int r = 0; r < rows; ++r)
        for (int c = 0; c < columns; ++c)
            sum += get(rota_operand(0),
                       (plane + uint((row + r) * int(pc.in_size[1]) + column + c)) * pc.channels + channel);
    const float of = (pc.flags & PADDED) != 0u ? float(padded_of(0u, of_row)) * float(padded_of(1u, of_column))
                                               : float(rows) * float(columns);
    put(rota_operand(1), result, rows > 0 && columns > 0 ? sum / of : 0.0);
}
