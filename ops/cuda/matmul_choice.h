/* Which way a matrix product takes on a CUDA device: an algorithm of cuBLASLt or one of rota's Hopper
 * kernels, whichever was measured to be the fastest on this device for this product. Internal; not installed.
 */
#ifndef ROTA_OPS_CUDA_MATMUL_CHOICE_H
#define ROTA_OPS_CUDA_MATMUL_CHOICE_H

#include "ops/cuda/cublaslt.h"
#include "ops/cuda/matmul_evened.h"
#include "ops/cuda/matmul_sm90.h"
#include "ops/cuda/measure.h"

typedef enum rota_matmul_way {
    ROTA_MATMUL_BY_CUBLASLT = 1,
    ROTA_MATMUL_BY_SM90 = 2,
    ROTA_MATMUL_SEPARATELY = 3, /* of a product with an epilogue: that is a kernel of its own */
    ROTA_MATMUL_BY_EVENED = 4   /* rota's, of uneven rows (matmul_evened.h) */
} rota_matmul_way;

/* Kept in files: plain bytes. */
typedef struct rota_matmul_choice {
    uint32_t way;  /* rota_matmul_way */
    uint32_t tile; /* rota_matmul_sm90_tiles; 0 of a product with an epilogue */
    rota_cublaslt_algorithm algorithm;
} rota_matmul_choice;

#define ROTA_MATMUL_CANDIDATES_MAX ROTA_MEASURE_CANDIDATES_MAX

/* Of rota's tiles, those that waste more than this by idle multiprocessors (rota_matmul_sm90_cost) aren't measured. */
#define ROTA_MATMUL_COST_MAX 1.4

/* What came of measuring a product, kept beside the choice so that it can be said why (matmul_why.c). Plain bytes. */
typedef struct rota_matmul_candidate {
    rota_matmul_choice choice;
    rota_measured measured;
} rota_matmul_candidate;
typedef struct rota_matmul_report {
    uint32_t count, unused;
    rota_matmul_candidate candidates[ROTA_MATMUL_CANDIDATES_MAX];
} rota_matmul_report;

/* All that the fastest way depends on, as a key of ops/cuda/choices.h. */
void rota_matmul_choice_key(const rota_matmul_params *params, rota_dtype dtype,
                            const rota_cuda_target *target, char *out_key, size_t capacity);

/* What was measured before; false: nothing that holds, or by table, where nothing is kept either. */
bool rota_matmul_choice_find(const rota_matmul_params *params, rota_dtype dtype,
                             const rota_cuda_target *target, rota_matmul_choice *out_choice);

/* Where a choice and what is known of it came from. */
typedef struct rota_matmul_origin {
    bool is_read;  /* an earlier process measured it, and left it in the cache */
    bool is_known; /* the report is there: it was measured, by an edition of rota that keeps times */
} rota_matmul_origin;
/* Of a product that rota_matmul_choice_find finds. */
rota_matmul_origin rota_matmul_choice_report(const rota_matmul_params *params, rota_dtype dtype,
                                             const rota_cuda_target *target, rota_matmul_report *out_report);

/* Remembers a choice for the life of the process that was not measured (no memory for it was free, say): what
 * a product computes to the last bit shall not depend on which of its plans was made before a measurement. */
void rota_matmul_choice_keep(const rota_matmul_params *params, rota_dtype dtype,
                             const rota_cuda_target *target, const rota_matmul_choice *choice);

/* Measures the candidates for a product alone on call->stream and remembers the fastest. `extra`: as of
 * rota_cublaslt_open. Overwrites the operands. */
rota_status rota_matmul_choice_measure(const rota_cuda_call *call, rota_dtype dtype,
                                       const rota_cublaslt_extra *extra);

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
/* Puts it there: by cuBLASLt, or, of a product alone, by rota's Hopper kernels. */
rota_status rota_matmul_measure_put(rota_matmul_measuring *measuring, const rota_matmul_choice *choice);
void rota_matmul_measure_ran(rota_matmul_measuring *measuring, rota_status status);
/* Remembers the fastest. */
rota_status rota_matmul_measure_end(rota_matmul_measuring *measuring);

#endif
