/* rota_kernel_avg_pool_backward: an invocation per element of x. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 2
#include "value.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(2) /* dy, dx */
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

/* The windows that reach over an element along an axis, [first, last). */
void windows_over(uint axis, uint element, out uint first, out uint last) {
    const uint from = element + pc.padding[axis], reach = (pc.window[axis] - 1u) * pc.dilation[axis];
    first = from > reach ? (from - reach - 1u) / pc.stride[axis] + 1u : 0u;
    last = min(from / pc.stride[axis] + 1u, pc.out_size[axis]);
}

/* Elements that a window's sum was divided by, along an axis. */
float divisor_of(uint axis, uint position) {
    int first, count;
    taps_of(axis, position, first, count);
    return float((pc.flags & PADDED) != 0u ? padded_of(axis, position) : count);
}

void main() {
    if (rota_beyond(pc.planes * pc.in_size[0] * pc.in_size[1] * pc.channels)) return;
    const uint result = rota_index(), channel = result % pc.channels, in_plane = result / pc.channels;
    const uint element = in_plane % (pc.in_size[0] * pc.in_size[1]);
    const uint plane = in_plane / (pc.in_size[0] * pc.in_size[1]) * pc.out_size[0] * pc.out_size[1];
    uint row, row_end, column, column_end;
    windows_over(0u, element / pc.in_size[1], row, row_end);
    windows_over(1u, element % pc.in_size[1], column, column_end);
    float sum = 0.0;
    for (uint r = row; r < row_end; ++r) {
        const float of_row = divisor_of(0u, r);
        for (uint c = column; c < column_end; ++c)
            sum += get(rota_operand(0), (plane + r * pc.out_size[1] + c) * pc.channels + channel) /
                   (of_row * divisor_of(1u, c));
    }
    put(rota_operand(1), result, sum);
}
