/* rota_kernel_copy_strided: y[...] = x[...] (scaled, added), one element an invocation. Elements of 4 bytes, with
 * HALF of 2, and with BYTES of 1, which are only moved. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define DTYPE_ID 4
#ifdef BYTES
#define ROTA_USE_BYTES
#endif
#include "typed.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 2) const uint FLAGS = 0u;
layout(constant_id = 3) const uint DIMS = 6u; /* innermost dimensions in use */
const uint COPY_SCALE = 1u, COPY_ACCUMULATE = 2u;

ROTA_KERNEL_BEGIN(2)
uint count;
uint flags;
float alpha;
uint dtype;
uint x_offset;
uint y_offset;
uint shape[6];
uint x_stride[6];
uint y_stride[6];
ROTA_KERNEL_END

void main() {
    const uint i = rota_index();
    if (rota_beyond(pc.count)) return;
    uint rest = i;
    uint64_t from = pc.x_offset, to = pc.y_offset;
    [[unroll]] for (int d = 5; d >= 0; --d) {
        if (6u - uint(d) > DIMS) break;
        const uint index = 6u - uint(d) == DIMS ? rest : rest % pc.shape[d];
        rest /= pc.shape[d];
        from += uint64_t(index) * pc.x_stride[d];
        to += uint64_t(index) * pc.y_stride[d];
    }
    const uint64_t x = rota_operand(0), y = rota_operand(1);
    if (FLAGS == 0u) { /* as bits: integers, and NaNs unchanged */
#if defined(BYTES)
        rota_u8(y + to).v[0] = rota_u8(x + from).v[0];
#elif defined(HALF)
        rota_u16(y + to * 2ul).v[0] = rota_u16(x + from * 2ul).v[0];
#else
        rota_u32(y + to * 4ul).v[0] = rota_u32(x + from * 4ul).v[0];
#endif
        return;
    }
    const float value = ((FLAGS & COPY_SCALE) != 0u ? pc.alpha : 1.0) * load_any(x, from);
    store_any(y, to, (FLAGS & COPY_ACCUMULATE) != 0u ? load_any(y, to) + value : value);
}
