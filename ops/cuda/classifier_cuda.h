/* A classifier whose scores are never all there at once: the product that gives them, their loss, its gradient
 * and the products that take that, for some of the rows at a time (fuse_classifier.c). On CUDA devices alone.
 * Internal. */
#ifndef ROTA_OPS_CUDA_CLASSIFIER_CUDA_H
#define ROTA_OPS_CUDA_CLASSIFIER_CUDA_H

#include "graph/graph.h"
#include "ops/kernel_params.h"

/* ---- classifier_in_pieces: x:READ [rows, k], w:READ, labels:READ, losses:WRITE, lse:WRITE, dx:WRITE, dw:WRITE;
 * x, w and dx of loss.dtype, dw of that or f32. For each piece of the rows: scores = x w, as of matmul; then as
 * cross_entropy_in_place has it; dx = dscores w^T, and dw += dscores^T x, or x^T dscores with DW_OF_X, in f32:
 * dw is rounded once, when all pieces are in it. In place dx on x. ---- */

enum {
    ROTA_CUDA_CLASSIFIER_X,
    ROTA_CUDA_CLASSIFIER_W,
    ROTA_CUDA_CLASSIFIER_LABELS,
    ROTA_CUDA_CLASSIFIER_LOSSES,
    ROTA_CUDA_CLASSIFIER_LSE,
    ROTA_CUDA_CLASSIFIER_DX,
    ROTA_CUDA_CLASSIFIER_DW,
    ROTA_CUDA_CLASSIFIER_OPERANDS
};

/* What the parameters of a product have that does not follow from the others'. */
typedef struct rota_cuda_classifier_product {
    uint32_t lda, ldb, ldc;
    uint32_t flags; /* of matmul */
} rota_cuda_classifier_product;

#define ROTA_CUDA_CLASSIFIER_DW_OF_X 1u

typedef struct rota_cuda_classifier_params {
    rota_cross_entropy_params loss; /* of all rows */
    uint32_t k;
    uint32_t piece; /* rows at a time */
    uint32_t flags; /* ROTA_CUDA_CLASSIFIER_DW_OF_X */
    uint32_t dw_dtype;
    rota_cuda_classifier_product scores, dx, dw; /* dw is contiguous */
} rota_cuda_classifier_params;

#ifdef ROTA_HAVE_CUDA

extern const rota_kernel rota_cuda_classifier_in_pieces;

/* Whether the device has all that it is made of. */
bool rota_cuda_classifier_takes(const rota_cuda_target *target);

#else /* without the toolkit's headers there is no CUDA executor either */

#define rota_cuda_classifier_in_pieces ((const rota_kernel){.name = "classifier_in_pieces"})
static inline bool rota_cuda_classifier_takes(const rota_cuda_target *target) {
    (void)target;
    return false;
}

#endif
#endif
