/* A product whose result goes through GELU's gradient, as one node (fuse_gelu.c). On CUDA devices alone. Internal. */
#ifndef ROTA_OPS_CUDA_GELU_PRODUCT_CUDA_H
#define ROTA_OPS_CUDA_GELU_PRODUCT_CUDA_H

#include "graph/graph.h"
#include "ops/kernel_params.h"

/* ---- gelu_product, with rota_linear_params: a:READ, b:READ, kept:READ [m, n], dz:WRITE [m, n], partial:WRITE
 * f32 [ceil(m / chunk), n]. What matmul does, and then linear_gelu_gradient of that; a device may leave the
 * product's result unrounded between the two. ---- */

enum {
    ROTA_CUDA_GELU_PRODUCT_A,
    ROTA_CUDA_GELU_PRODUCT_B,
    ROTA_CUDA_GELU_PRODUCT_KEPT,
    ROTA_CUDA_GELU_PRODUCT_DZ,
    ROTA_CUDA_GELU_PRODUCT_PARTIAL,
    ROTA_CUDA_GELU_PRODUCT_OPERANDS
};

#ifdef ROTA_HAVE_CUDA

extern const rota_kernel rota_cuda_gelu_product;

/* Whether the device has a kernel that does both, for these shapes and this chunk. */
bool rota_cuda_gelu_product_takes(const rota_linear_params *params, const rota_cuda_target *target);

#else /* without the toolkit's headers there is no CUDA executor either */

#define rota_cuda_gelu_product ((const rota_kernel){.name = "gelu_product"})
static inline bool rota_cuda_gelu_product_takes(const rota_linear_params *params, const rota_cuda_target *target) {
    (void)params, (void)target;
    return false;
}

#endif
#endif
