/* Matrix products by cuBLASLt, opened at run time. Internal; not installed. */
#ifndef ROTA_OPS_CUDA_CUBLASLT_H
#define ROTA_OPS_CUDA_CUBLASLT_H

#include "graph/kernel.h"
#include "ops/kernel_params.h"
#include "ops/tensor.h"

/* One way of cuBLASLt's to compute a product; its bytes may be kept for as long as the library's version and
 * the device are the same. */
typedef struct rota_cublaslt_algorithm {
    uint64_t bytes[8];
    uint64_t workspace_bytes;
} rota_cublaslt_algorithm;

/* Device addresses of what an epilogue reads or writes beside the product, as the flags of the product's
 * parameters say (ROTA_LINEAR_EPILOGUE): bias, or the sums of an operand that the library makes; what is kept
 * from before the activation; the residual. 0: not there. */
typedef struct rota_cublaslt_extra {
    uint64_t bias, kept, residual;
    uint64_t scale_a, scale_b; /* with ROTA_MATMUL_SCALED */
} rota_cublaslt_extra;

/* A product described to cuBLASLt: one call of it, or one for each batch that strides can't reach. */
typedef struct rota_cublaslt_product {
    void *handle, *operation, *a, *b, *c; /* a and b as cuBLASLt has them: c^T = b^T a^T, by columns */
    float alpha, beta;
    uint64_t addend; /* what beta multiplies, where that is not c itself */
    uint32_t element_bytes, c_element_bytes;
    uint32_t alignment_max; /* of operands, in bytes, that algorithms are chosen for; 256 by open */
    uint32_t outer[2];      /* batches beyond the strided one */
    uint64_t outer_stride[3][2];
} rota_cublaslt_product;

/* Opens the library on first use. Any thread; may block. */
bool rota_cublaslt_present(void);

/* The library's version number; 0: not present. */
uint64_t rota_cublaslt_version(void);

/* Describes the product; `extra` may be NULL where its flags name nothing of it. A CUDA context is current.
 * UNSUPPORTED: no cuBLASLt, or an epilogue that it has not. */
rota_status rota_cublaslt_open(const rota_matmul_params *params, rota_dtype dtype,
                               const rota_cublaslt_extra *extra, rota_cublaslt_product *out_product);
void rota_cublaslt_close(rota_cublaslt_product *product);

/* The same algorithm with the sum over k in so many parts, added up in f32. UNSUPPORTED: it can't be, or wants more
 * workspace than that. */
rota_status rota_cublaslt_split(const rota_cublaslt_product *product,
                                const rota_cublaslt_algorithm *algorithm, uint32_t parts,
                                uint64_t workspace_bytes, rota_cublaslt_algorithm *out_algorithm);

/* Into how many parts an algorithm divides the sum; 1: it doesn't. */
uint32_t rota_cublaslt_parts(const rota_cublaslt_algorithm *algorithm);

/* What cuBLASLt's heuristics name for operands so aligned and so much workspace, best guess first.
 * UNSUPPORTED: nothing. */
rota_status rota_cublaslt_candidates(const rota_cublaslt_product *product, const uint64_t operands[3],
                                     uint64_t workspace_bytes, rota_cublaslt_algorithm *out_algorithms,
                                     uint32_t capacity, uint32_t *out_count);

/* "algorithm 66, tile 128x256, stages 64xAUTO, cluster 2x1x1, the sum not divided, swizzle 0, ...": what an algorithm
 * is, as cuBLASLt says it, for people. Any thread. */
void rota_cublaslt_describe(const rota_cublaslt_algorithm *algorithm, char *out_text, size_t capacity);

/* Puts the product on `stream`. UNSUPPORTED: this algorithm can't take these operands. */
rota_status rota_cublaslt_run(const rota_cublaslt_product *product, const rota_cublaslt_algorithm *algorithm,
                              const uint64_t operands[3], uint64_t workspace, uint64_t workspace_bytes,
                              void *stream);

/* How batches and operands go into a strided batch and outer ones, by the parameters alone: the batch's
 * extent and strides in elements. For tests. */
void rota_cublaslt_batches(const rota_matmul_params *params, uint32_t *out_count, uint64_t out_stride[3],
                           uint32_t out_outer[2], uint64_t out_outer_stride[3][2]);

#endif
