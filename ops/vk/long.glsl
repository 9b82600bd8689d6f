/* Parameters of the kernels that walk long axes by chunks, as rota_long_params (ops/long_axis.c). ROTA_LONG(3): with
 * three operands. */
#include "each.glsl"

#define ROTA_LONG(operands)                                                                                  \
    ROTA_KERNEL_BEGIN(operands)                                                                              \
    uint outer;                                                                                              \
    uint n;                                                                                                  \
    uint inner;                                                                                              \
    uint chunk;                                                                                              \
    uint k;                                                                                                  \
    uint reverse;                                                                                            \
    float scale;                                                                                             \
    uint dtype;                                                                                              \
    ROTA_KERNEL_END                                                                                          \
    uint chunk_count() { return (pc.n - 1u) / pc.chunk + 1u; }                                               \
    uint chunk_end(uint begin) { return pc.n - begin < pc.chunk ? pc.n : begin + pc.chunk; }
