/* rota's own products of 16-bit matrices on Hopper (matmul_sm90.cu), launched on a stream. Internal; not
 * installed. */
#ifndef ROTA_OPS_CUDA_MATMUL_SM90_H
#define ROTA_OPS_CUDA_MATMUL_SM90_H

#include "graph/kernel.h"
#include "ops/cuda/matmul_sm90_tiles.h"
#include "ops/kernel_params.h"
#include "ops/tensor.h"

#define ROTA_MATMUL_SM90_COUNT_TILE(...) +1
enum { ROTA_MATMUL_SM90_TILE_COUNT = 0 ROTA_MATMUL_SM90_TILES(ROTA_MATMUL_SM90_COUNT_TILE) };

typedef struct rota_matmul_sm90_tile {
    uint32_t rows, columns, warpgroups, stages, cluster_m, cluster_n, group, shared_bytes;
} rota_matmul_sm90_tile;
extern const rota_matmul_sm90_tile rota_matmul_sm90_tiles[ROTA_MATMUL_SM90_TILE_COUNT];

/* An operand as a tensor map describes it: x is the axis that is contiguous in memory. */
typedef struct rota_matmul_sm90_map {
    uint64_t address, extent_x, extent_y, stride_y_bytes;
    uint32_t box_x, box_y; /* of one copy */
} rota_matmul_sm90_map;

/* Whether the kernels take the product at all: f16 or bf16 on a device of compute capability 9.0, one batch,
 * results of the operands' type and not accumulated, rows that begin at multiples of 16 bytes, those of the result
 * ending there, too; the image was built. */
bool rota_matmul_sm90_takes(const rota_matmul_params *params, rota_dtype dtype,
                            const rota_cuda_target *target);

/* Why they don't take it, as the rest of a sentence; NULL: they do. */
const char *rota_matmul_sm90_refuses(const rota_matmul_params *params, rota_dtype dtype,
                                     const rota_cuda_target *target);

/* The same of what must hold whatever becomes of the result, and however far apart rows are. */
const char *rota_matmul_sm90_refuses_operands(const rota_matmul_params *params, rota_dtype dtype,
                                              const rota_cuda_target *target);

/* Multiplications that the tile costs, counting the multiprocessors that idle in the last round, as a share
 * of what the best of the tiles costs: 1 for that one. */
double rota_matmul_sm90_cost(const rota_matmul_params *params, const rota_cuda_target *target, uint32_t tile);

/* The tensor maps of a, b and c; the launch. */
void rota_matmul_sm90_maps(const rota_matmul_params *params, uint32_t tile, const uint64_t operands[3],
                           rota_matmul_sm90_map out_maps[3]);
void rota_matmul_sm90_launch_of(const rota_matmul_params *params, uint32_t tile,
                                const rota_cuda_target *target, rota_cuda_launch *out_launch);

/* Whether the operands' addresses are multiples of 16 bytes, as the copy engine needs. */
bool rota_matmul_sm90_aligned(const uint64_t operands[3]);

/* Puts the product on call->stream. For products that are taken, and aligned. */
rota_status rota_matmul_sm90_run(const rota_cuda_call *call, rota_dtype dtype, uint32_t tile);

/* The same of other parameters and operands than the call's. */
rota_status rota_matmul_sm90_run_of(const rota_cuda_call *call, const rota_matmul_params *params,
                                    rota_dtype dtype, uint32_t tile, const uint64_t operands[3]);

/* Such kernels of another image, which differ in how they store results: by a tensor map, or as they lie. Names by
 * tile, type (f16, bf16) and layout (nn, nt, tn, tt). */
typedef struct rota_matmul_sm90_kernels {
    const void *image;
    const char *const (*names)[2][4];
    bool by_map;
} rota_matmul_sm90_kernels;
rota_status rota_matmul_sm90_put(const rota_cuda_call *call, const rota_matmul_params *params,
                                 rota_dtype dtype, uint32_t tile, const uint64_t operands[3],
                                 const rota_matmul_sm90_kernels *kernels);

/* ---- Products with what follows them (linear_sm90.cuh) ---- */

/* other: the bias (if there is one); of a gradient, f32 sums of c's columns, [ceil(m / ROTA_LINEAR_SM90_ROWS), n]. */
typedef struct rota_linear_sm90_operands {
    uint64_t a, b, c, kept, other;
} rota_linear_sm90_operands;

/* A product with GELU and KEEP, and perhaps BIAS, among its flags, and nothing else of ROTA_LINEAR_EPILOGUE; a not
 * transposed. */
bool rota_linear_sm90_takes(const rota_matmul_params *params, rota_dtype dtype,
                            const rota_cuda_target *target);
/* A product without an epilogue's flags whose result is to be multiplied with GELU's derivative at kept. */
bool rota_linear_sm90_takes_gradient(const rota_matmul_params *params, rota_dtype dtype,
                                     const rota_cuda_target *target);
bool rota_linear_sm90_aligned(const rota_linear_sm90_operands *operands);
rota_status rota_linear_sm90_run(const rota_cuda_call *call, const rota_matmul_params *params,
                                 rota_dtype dtype, bool gradient, const rota_linear_sm90_operands *operands);

#endif
