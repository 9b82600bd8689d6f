/* Products of 16-bit matrices on Hopper whose rows lie unevenly (matmul_evened.cu), launched on a stream: operands are
 * moved to even rows in workspace, results stored as they lie. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_MATMUL_EVENED_H
#define ROTA_OPS_CUDA_MATMUL_EVENED_H

#include "ops/cuda/matmul_evened_params.h"
#include "ops/cuda/matmul_sm90.h"

/* What such a product does, by its parameters alone. */
typedef struct rota_matmul_evened {
    rota_matmul_params params;  /* of the product once operands are moved */
    rota_matmul_moved moved[2]; /* a, b; rows is 0 where it stays */
    uint64_t offset[2];         /* of what is moved, in the workspace, in bytes */
    uint64_t workspace_bytes;
    bool by_threads; /* c is stored by the threads: its rows are uneven, or f32 */
} rota_matmul_evened;
void rota_matmul_evened_of(const rota_matmul_params *params, rota_matmul_evened *out_evened);

/* An operand is moved only where each of its bytes takes part in so many multiplications at least: on an H200 its way
 * through memory then costs less than the matrix units idle in other kernels. */
#define ROTA_MATMUL_EVENED_REUSE 16u

/* Why the kernels don't take the product, as the rest of a sentence; NULL: they do. They take f16 and bf16 on a device
 * of compute capability 9.0, one batch without an epilogue, with results of that type or f32 (added to what is there,
 * too), of which some rows are no multiple of 16 bytes apart. */
const char *rota_matmul_evened_refuses(const rota_matmul_params *params, rota_dtype dtype,
                                       const rota_cuda_target *target);
bool rota_matmul_evened_takes(const rota_matmul_params *params, rota_dtype dtype,
                              const rota_cuda_target *target);

/* Bytes of workspace that it works with, at a multiple of 256; 0: none, or it isn't taken. Epilogues don't count: they
 * may come after the product. */
uint64_t rota_matmul_evened_workspace(const rota_matmul_params *params, rota_dtype dtype,
                                      const rota_cuda_target *target);

/* Whether a call has what the kernels need, of a product that they take: the workspace, and at multiples of 16 bytes
 * that and whatever is not moved; of other operands any element. */
bool rota_matmul_evened_fits(const rota_cuda_call *call);

/* Without a measurement (of plans that are deterministic, say): whether it is taken by its parameters. */
#define ROTA_MATMUL_EVENED_TABLE_MIN (UINT64_C(1) << 30) /* multiplications */
bool rota_matmul_evened_by_table(const rota_matmul_params *params);

/* A product with an epilogue that rota_linear_sm90_takes once its operands are moved, some of which must be. */
bool rota_linear_evened_takes(const rota_matmul_params *params, rota_dtype dtype,
                              const rota_cuda_target *target);

/* Puts the moving alone on call->stream: with other kernels behind it, of these parameters and operands. UNSUPPORTED:
 * the workspace is too small. */
rota_status rota_matmul_evened_move(const rota_cuda_call *call, rota_matmul_evened *out_evened,
                                    uint64_t out_operands[3]);

/* Puts the product on call->stream. For what is taken and fits. The tile: of rota_matmul_sm90_tiles. */
rota_status rota_matmul_evened_run(const rota_cuda_call *call, rota_dtype dtype, uint32_t tile);

#endif
