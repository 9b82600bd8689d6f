/* The kernel attention_backward: its operands, and what it is made of where no library does all of it.
 * Internal. */
#ifndef ROTA_OPS_ATTENTION_H
#define ROTA_OPS_ATTENTION_H

#include "ops/kernels.h"

/* Places of the operands of rota_kernel_attention_backward. Where q, k and v lie between one another in one
 * tensor (columns of one product), dq, dk and dv do too, and fill it: each is WRITE, dq's range is that of
 * all three, and the flags say that dk and dv have gaps. */
enum {
    ROTA_ATTENTION_BACKWARD_Q,
    ROTA_ATTENTION_BACKWARD_K,
    ROTA_ATTENTION_BACKWARD_V,
    ROTA_ATTENTION_BACKWARD_OUT,
    ROTA_ATTENTION_BACKWARD_DOUT,
    ROTA_ATTENTION_BACKWARD_LSE,
    ROTA_ATTENTION_BACKWARD_STATS,
    ROTA_ATTENTION_BACKWARD_DQ,
    ROTA_ATTENTION_BACKWARD_DK,
    ROTA_ATTENTION_BACKWARD_DV,
    ROTA_ATTENTION_BACKWARD_OPERANDS,
    /* Of rota_kernel_attention_dropout_backward alone, which has the others too. */
    ROTA_ATTENTION_BACKWARD_DRAW = ROTA_ATTENTION_BACKWARD_OPERANDS
};

/* prepare, query, key_value; the count. */
uint32_t rota_attention_backward_parts(const rota_attention_backward_params *params,
                                       rota_kernel_part *out_parts);

/* The same with dropout of the probabilities. */
uint32_t rota_attention_dropout_backward_parts(const rota_attention_backward_params *params,
                                               rota_kernel_part *out_parts);

/* What the kernels of such parts get of them: all but the scale and what is the node's. */
void rota_attention_drop_backward_params_of(const rota_attention_backward_params *params,
                                            rota_attention_drop_backward_params *out);

#endif
