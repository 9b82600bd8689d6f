/* Kernels for axes so long that a workgroup, or an invocation, that walked one alone would take long on a
 * GPU, and on llvmpipe be cut off: on Vulkan they are several kernels that walk chunks, with what each chunk
 * gave in an operand of their own; on the CPU and on CUDA devices they are the one kernel, and that operand
 * is not touched. Internal. */
#ifndef ROTA_OPS_LONG_AXIS_H
#define ROTA_OPS_LONG_AXIS_H

#include "ops/kernels.h"

typedef struct rota_long_params {
    uint32_t outer, n, inner;
    uint32_t chunk;
    uint32_t k; /* of top_k */
    uint32_t reverse;
    float scale;
    uint32_t dtype;
} rota_long_params;

/* The chunk of an axis of n, n if it is not long. */
uint32_t rota_long_chunk(uint32_t n);
/* Whether so many passes over the axis are many: then chunks, if *out_chunk is less than n, which give
 * *out_keys of 8 bytes for a column, or each element is compared with all others, without keys (0). */
bool rota_long_top_k(uint32_t n, uint32_t k, uint32_t *out_chunk, uint64_t *out_keys);

/* top_k_long: x:READ, values:WRITE, index:WRITE, keys:WRITE, or, without keys, x:READ again. */
extern const rota_kernel rota_kernel_top_k_long;
/* cumulative_sum_long: x:READ, y:WRITE, sums:WRITE, totals:WRITE, both f32 [outer, chunks, inner]. */
extern const rota_kernel rota_kernel_cumulative_sum_long;
/* variance_long: x:READ, y:WRITE, mean:WRITE, sums:WRITE f32 [outer, chunks, inner]. */
extern const rota_kernel rota_kernel_variance_long;
/* max_backward_long: x:READ, y:READ, dy:READ, dx:WRITE, first:WRITE u32 [outer, chunks, inner]. */
extern const rota_kernel rota_kernel_max_backward_long;

#endif
