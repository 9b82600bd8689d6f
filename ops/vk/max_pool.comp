/* rota_kernel_max_pool: an invocation per window. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 2
#include "value.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(3) /* x, y, index */
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

/* The elements of x in a window along an axis: the first, and how many. */
void taps_of(uint axis, uint position, out int first, out int count) {
    const int size = int(pc.in_size[axis]), dilation = int(pc.dilation[axis]), window = int(pc.window[axis]);
    const int begin = int(position * pc.stride[axis]) - int(pc.padding[axis]);
    const int skipped = begin < 0 ? (-begin - 1) / dilation + 1 : 0;
    first = begin + skipped * dilation;
    count = first < size ? clamp((size - first - 1) / dilation + 1, 0, max(window - skipped, 0)) : 0;
}

void main() {
    if (rota_beyond(pc.planes * pc.out_size[0] * pc.out_size[1] * pc.channels)) return;
    const uint result = rota_index(), channel = result % pc.channels, in_plane = result / pc.channels;
    const uint position = in_plane % (pc.out_size[0] * pc.out_size[1]);
    const uint plane = in_plane / (pc.out_size[0] * pc.out_size[1]) * pc.in_size[0] * pc.in_size[1];
    int row, rows, column, columns, found = -1;
    taps_of(0u, position / pc.out_size[1], row, rows);
    taps_of(1u, position % pc.out_size[1], column, columns);
    float most = ROTA_NEGATIVE_INFINITY;
    for (int r = 0; r < rows; ++r)
        for (int c = 0; c < columns; ++c) {
            const int element = (row + r * int(pc.dilation[0])) * int(pc.in_size[1]) + column + c * int(pc.dilation[1]);
            const float value = get(rota_operand(0), (plane + uint(element)) * pc.channels + channel);
            if (found >= 0 && !(value > most) && !(isnan(value) && !isnan(most))) continue;
            most = value;
            found = element;
        }
    put(rota_operand(1), result, most);
    rota_i32(element_at(rota_operand(2), result)).v[0] = found;
}
