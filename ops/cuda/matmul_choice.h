/* Which way a matrix product takes on a CUDA device: an algorithm of cuBLASLt or one of rota's Hopper
 * kernels, whichever was measured to be the fastest on this device for this product. Internal; not installed.
 */
#ifndef ROTA_OPS_CUDA_MATMUL_CHOICE_H
#define ROTA_OPS_CUDA_MATMUL_CHOICE_H

#include "ops/cuda/cublaslt.h"
#include "ops/cuda/matmul_sm90.h"

typedef enum rota_matmul_way {
    ROTA_MATMUL_BY_CUBLASLT = 1,
    ROTA_MATMUL_BY_SM90 = 2,
    ROTA_MATMUL_SEPARATELY = 3 /* of a product with an epilogue: that is a kernel of its own */
} rota_matmul_way;

/* Kept in files: plain bytes. */
typedef struct rota_matmul_choice {
    uint32_t way;  /* rota_matmul_way */
    uint32_t tile; /* rota_matmul_sm90_tiles; 0 of a product with an epilogue */
    rota_cublaslt_algorithm algorithm;
} rota_matmul_choice;

#define ROTA_MATMUL_CANDIDATES_MAX ROTA_MEASURE_CANDIDATES_MAX

/* All that the fastest way depends on, as a key of ops/cuda/choices.h. */
void rota_matmul_choice_key(const rota_matmul_params *params, rota_dtype dtype,
                            const rota_cuda_target *target, char *out_key, size_t capacity);

/* What was measured before; false: nothing that holds. */
bool rota_matmul_choice_find(const rota_matmul_params *params, rota_dtype dtype,
                             const rota_cuda_target *target, rota_matmul_choice *out_choice);

/* Remembers a choice for the life of the process that was not measured (no memory for it was free, say): what
 * a product computes to the last bit shall not depend on which of its plans was made before a measurement. */
void rota_matmul_choice_keep(const rota_matmul_params *params, rota_dtype dtype,
                             const rota_cuda_target *target, const rota_matmul_choice *choice);

/* Measures the candidates for a product alone on call->stream and remembers the fastest. Overwrites the
 * operands. */
rota_status rota_matmul_choice_measure(const rota_cuda_call *call, rota_dtype dtype);

/* The same, step by step, where somebody else puts some of the candidates on the stream: of a product with an
 * epilogue, whose flags are in the product's parameters. `whole`: the linear kernel's call, whose operands are
 * overwritten; calls and `extra` are there until the end. NULL is given where there is nothing to be measured, and
 * taken by next and end. */
typedef struct rota_matmul_measuring rota_matmul_measuring;
rota_status rota_matmul_measure_begin(const rota_cuda_call *call, rota_dtype dtype,
                                      const rota_cublaslt_extra *extra, const rota_cuda_call *whole,
                                      rota_matmul_measuring **out_measuring);
/* What is to be put on the stream next; false: there is no more. */
bool rota_matmul_measure_next(rota_matmul_measuring *measuring, rota_matmul_choice *out_choice);
/* Puts it there: by cuBLASLt, or, of a product alone, by rota's Hopper kernel. */
rota_status rota_matmul_measure_put(rota_matmul_measuring *measuring, const rota_matmul_choice *choice);
void rota_matmul_measure_ran(rota_matmul_measuring *measuring, rota_status status);
/* Remembers the fastest. */
rota_status rota_matmul_measure_end(rota_matmul_measuring *measuring);

#endif
