/* Attention with dropout of the probabilities: operands, parameters, and what each kernel computes. Formulas and flags
 * that it has in common with attention are in attention_params.h. C and CUDA C++; see kernel_params.h. */
#ifndef ROTA_OPS_ATTENTION_DROP_PARAMS_H
#define ROTA_OPS_ATTENTION_DROP_PARAMS_H

#include <stdint.h>

/* ---- attention_draw: draw:WRITE, a rota_attention_draw: what attention_dropout and its gradients read of their
 * dropout. Its parameters are what it writes. ---- */

typedef struct rota_attention_draw {
    uint32_t threshold; /* min(round(p * 2^32), 2^32 - 1) */
    float kept;         /* 1 / (1 - p) */
    uint32_t stream;    /* tells apart the dropouts of one graph */
    uint32_t seed;      /* bindable 0 "seed", varies by step */
    uint32_t step;      /* bindable 1 "step", varies by step */
    float scale;        /* of the scores */
    uint32_t first;     /* of a tape of one of several ranks: heads of the whole before its own */
    uint32_t unused;
} rota_attention_draw;

/* ---- attention_dropout: q, k, v, out, lse as attention has them, draw:READ. p = softmax(s); out = (m * p) v with m
 * = kept where word(e) >= threshold, else 0, of the element e = ((first + batch * heads + head) * queries + query) *
 * keys + key of p; word(e) is word e % 4 of Philox4x32-10 with counter {e / 4 % 2^32, stream, step, e / 2^34} and key
 * {seed, 0}, which is what dropout draws for p in memory. lse is that of s. ---- */

typedef struct rota_attention_drop_params {
    uint32_t batch, heads, queries, keys;
    uint16_t dim, flags; /* as attention's */
    uint32_t q_stride[3], k_stride[3], v_stride[3], out_stride[3];
} rota_attention_drop_params;

/* ---- attention_dropout_backward_query, attention_dropout_backward_key_value: operands as attention_backward_query
 * and _key_value have them, then draw:READ. dp = m * (dout v^T), ds = p * (dp - delta), dv = (m * p)^T dout ----
 * ---- attention_dropout_backward, with rota_attention_backward_params: as attention_backward, then draw:READ: what
 * attention_backward_prepare and those two do. ---- */

typedef struct rota_attention_drop_backward_params {
    uint32_t batch, heads, queries, keys;
    uint16_t dim, flags;
    uint32_t q_stride[3], kv_stride[3], out_stride[3];
} rota_attention_drop_backward_params;

#endif
