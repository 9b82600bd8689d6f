/* rota_kernel_max_pool_backward: an invocation per element of x, which looks through the windows that reach over it. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define VALUE_ID 2
#include "value.glsl"

layout(local_size_x = 256) in;

ROTA_KERNEL_BEGIN(3) /* dy, index, dx */
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

/* The windows that reach over an element along an axis, [first, last). */
void windows_over(uint axis, uint element, out uint first, out uint last) {
    const uint from = element + pc.padding[axis], reach = (pc.window[axis] - 1u) * pc.dilation[axis];
    first = from > reach ? (from - reach - 1u) / pc.stride[axis] + 1u : 0u;
    last = min(from / pc.stride[axis] + 1u, pc.out_size[axis]);
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
    for (uint r = row; r < row_end; ++r)
        for (uint c = column; c < column_end; ++c) {
            const uint window = (plane + r * pc.out_size[1] + c) * pc.channels + channel;
            if (load_i32(rota_operand(1), window) == int(element)) sum += get(rota_operand(0), window);
        }
    put(rota_operand(2), result, sum);
}
