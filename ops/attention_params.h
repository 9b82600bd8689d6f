/* The operands and flags of attention's nodes that may go to a library. Apart from kernel_params.h, since no
 * CUDA image reads them. */
#ifndef ROTA_OPS_ATTENTION_PARAMS_H
#define ROTA_OPS_ATTENTION_PARAMS_H

/* ---- attention_backward, with rota_attention_backward_params: q:READ, k:READ, v:READ, out:READ, dout:READ,
 * lse:READ, stats:WRITE, dq:WRITE, dk:WRITE, dv:WRITE (these three READWRITE where they have gaps, as flags
 * say). What attention_backward_prepare, _query and _key_value do; runs as one call of a library where there
 * is one that does it, else as those three (rota_kernel.parts). ---- */

/* In the flags of attention and of attention_backward, beside ROTA_ATTENTION_CAUSAL. Every operand's first
 * element is at a multiple of 16 bytes of its buffer: */
#define ROTA_ATTENTION_ALIGNED_16 2u
/* The operand is READWRITE: */
#define ROTA_ATTENTION_DQ_GAPS 4u
#define ROTA_ATTENTION_DK_GAPS 8u
#define ROTA_ATTENTION_DV_GAPS 16u
#define ROTA_ATTENTION_NODE_FLAGS                                                                            \
    (ROTA_ATTENTION_ALIGNED_16 | ROTA_ATTENTION_DQ_GAPS | ROTA_ATTENTION_DK_GAPS | ROTA_ATTENTION_DV_GAPS)

#endif
