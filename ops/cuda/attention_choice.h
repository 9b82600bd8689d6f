/* Which way attention takes on a CUDA device where cuDNN, or rota's kernels for Hopper, take it: those or rota's
 * kernels for any GPU, whichever was measured to be the fastest, and the last where the others fail after all.
 * Internal; not installed. */
#ifndef ROTA_OPS_CUDA_ATTENTION_CHOICE_H
#define ROTA_OPS_CUDA_ATTENTION_CHOICE_H

#include "ops/cuda/cudnn_attention.h"

typedef enum rota_attention_way {
    ROTA_ATTENTION_BY_CUDNN = 1,
    ROTA_ATTENTION_BY_ROTA = 2,
    ROTA_ATTENTION_BY_SM90 = 3 /* attention_sm90.h; of gradients */
} rota_attention_way;

/* All of a node's work. */
typedef struct rota_attention_work {
    rota_cudnn_attention about;
    uint32_t first_result, result_count; /* operands that are compared run with run */
    bool by_sm90;                        /* this way too can be tried */
} rota_attention_work;

/* The way that was measured or kept, else cuDNN; where nothing may be chosen by measuring (rota_cuda_target.by_table),
 * the caller's `by_table`: not cuDNN, whose need not be the same bits in two runs. */
rota_attention_way rota_attention_choice_find(const rota_cudnn_attention *about,
                                              const rota_cuda_target *target, rota_attention_way by_table,
                                              bool *out_known);

/* The way was taken, unmeasured, and is from now on, for the life of the process: what is computed to the last
 * bit shall not depend on which plan was made before a measurement. */
void rota_attention_choice_keep(const rota_cudnn_attention *about, const rota_cuda_target *target,
                                rota_attention_way way);

/* Measuring the ways, which their owner puts on the stream (measure.h): where cuDNN's is the faster it is run
 * twice more, since a way that isn't the same bits in two runs is not taken. Overwrites the operands. `work` and
 * `call` are there until the end, which remembers what is taken. */
typedef struct rota_attention_measuring rota_attention_measuring;
rota_status rota_attention_measure_begin(const rota_attention_work *work, const rota_cuda_call *call,
                                         rota_attention_measuring **out_measuring);
bool rota_attention_measure_next(rota_attention_measuring *measuring, rota_attention_way *out_way);
void rota_attention_measure_ran(rota_attention_measuring *measuring, rota_status status);
rota_status rota_attention_measure_end(rota_attention_measuring *measuring);

#endif
