/* Softmax, rotary positions, attention: operands, parameters, and what each computes.
 * C and CUDA C++; see kernel_params.h. */
#ifndef ROTA_OPS_ATTENTION_PARAMS_H
#define ROTA_OPS_ATTENTION_PARAMS_H

#include <stdint.h>

/* ---- softmax: x:READ, y:WRITE [rows, n]; in place y on x. y = softmax(scale * x) along n, the maximum
 * subtracted. causal: row r is query r % queries and sees keys k <= query + n - queries; the rest is 0 in y
 * and not read. LOG: y = log of that (not causal).
 * ---- softmax_backward: y:READ, dy:READ, dx:WRITE; in place dx on dy. dx = scale * y * (dy - sum(y * dy));
 * causal: 0 and not read where masked. LOG: dx = scale * (dy - exp(y) * sum(dy)) ----
 * ---- causal_mask: x:READ, y:WRITE [rows, n]; in place. y = value where masked as above, else x ---- */

typedef struct rota_softmax_params {
    uint32_t rows, n;
    uint32_t causal;
    uint32_t queries; /* rows of one matrix; divides rows; 1 <= queries <= n if causal */
    float scale;
    uint32_t log; /* bool */
    uint32_t dtype;
} rota_softmax_params;

typedef struct rota_causal_mask_params {
    uint32_t rows, n, queries;
    float value;
    uint32_t dtype;
} rota_causal_mask_params;

/* ---- rope: x:READ, y:WRITE [rows, dim]; in place y on x. Row r is at position offset + r % sequence. Pair i
 * of rotary / 2 is (i, i + rotary / 2), or with INTERLEAVED (2 i, 2 i + 1), and is turned by position *
 * base^(-2 i / rotary), with INVERSE backwards; columns from `rotary` on stay ---- */

#define ROTA_ROPE_INTERLEAVED 1u
#define ROTA_ROPE_INVERSE 2u

typedef struct rota_rope_params {
    uint32_t rows, sequence, dim, rotary;
    uint32_t flags;
    float base;
    uint32_t offset; /* bindable 0 "offset", varies by step */
    uint32_t dtype;
} rota_rope_params;

/* ---- attention: q:READ [batch, heads, queries, dim], k:READ, v:READ [batch, heads, keys, dim], out:WRITE
 * (READWRITE where it has gaps) like q, lse:WRITE [batch, heads, queries] contiguous. Strides for batch,
 * head, sequence; dim has stride 1. s = scale * q k^T; causal: query i sees keys j <= i + keys - queries; out
 * = softmax(s) v; lse of each row of s ---- */

#define ROTA_ATTENTION_CAUSAL 1u
/* ... and, from this bit on, the dtype of q, k, v, out and their gradients: f32, f16 or bf16. Stats and lse
 * are f32. */
#define ROTA_ATTENTION_DTYPE_SHIFT 8

typedef struct rota_attention_params {
    uint32_t batch, heads, queries, keys, dim;
    uint32_t flags;
    float scale;
    uint32_t q_stride[3], k_stride[3], v_stride[3], out_stride[3];
} rota_attention_params;

/* ---- attention_backward_prepare: out:READ, dout:READ (both strided as out), lse:READ, stats:WRITE [batch,
 * heads, queries, 2]. stats = {lse, sum over dim of out * dout} ----
 * ---- attention_backward_query: q:READ, k:READ, v:READ, dout:READ, stats:READ, dq:WRITE (READWRITE where it
 * has gaps) ----
 * ---- attention_backward_key_value: q:READ, k:READ, v:READ, dout:READ, stats:READ, dk:WRITE, dv:WRITE
 * (likewise) ---- With p = exp(scale * q k^T - lse) (0 where masked), dp = dout v^T, ds = p * (dp - delta):
 * dq = scale * ds k, dk = scale * ds^T q, dv = p^T dout. q and dq share strides, k, v, dk and dv share
 * strides, out and dout share strides. ---- */

typedef struct rota_attention_backward_params {
    uint32_t batch, heads, queries, keys, dim;
    uint32_t flags;
    float scale;
    uint32_t q_stride[3], kv_stride[3], out_stride[3];
} rota_attention_backward_params;

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
