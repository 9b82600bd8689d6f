/* The built-in kernels' operands, parameters, and what each computes. Plain C structs and enums only: the
 * CUDA kernels include this file too. The rules that hold for all of them are in kernels.h. */
#ifndef ROTA_OPS_KERNEL_PARAMS_H
#define ROTA_OPS_KERNEL_PARAMS_H

#include <stdint.h>

/* Dimensions that a strided kernel handles, after the op merged what is contiguous. */
#define ROTA_KERNEL_DIMS 6

/* Elements of a field `dtype` (rota_dtype) are f32, f16 or bf16, alike in all operands of real numbers;
 * arithmetic is in f32 and rounded once, to nearest even, where a result is stored. Elements of 2 bytes: two
 * neighbours may share a 4-byte word that belongs to different items; a GPU kernel uses 16-bit stores. */

/* ---- unary: x:READ, y:WRITE; in place y on x. y[i] = f(x[i]) ---- */

typedef enum rota_unary {
    ROTA_UNARY_AFFINE, /* alpha * x + beta, the product rounded before the sum */
    ROTA_UNARY_NEG,
    ROTA_UNARY_EXP,
    ROTA_UNARY_LOG,
    ROTA_UNARY_SQRT,
    ROTA_UNARY_RELU,
    ROTA_UNARY_GELU, /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    ROTA_UNARY_SILU, /* x / (1 + exp(-x)) */
    ROTA_UNARY_ABS,
    ROTA_UNARY_SQUARE,
    ROTA_UNARY_RECIPROCAL,
    ROTA_UNARY_RSQRT,
    ROTA_UNARY_TANH,
    ROTA_UNARY_SIGMOID,
    ROTA_UNARY_SIN,
    ROTA_UNARY_COS,
    ROTA_UNARY_SIGN, /* -1, 0 or 1; NaN of NaN */
    ROTA_UNARY_FLOOR,
    ROTA_UNARY_CEIL,
    ROTA_UNARY_ROUND,      /* halves to even */
    ROTA_UNARY_GELU_ERF,   /* 0.5 x (1 + erf(x / sqrt 2)) */
    ROTA_UNARY_SOFTPLUS,   /* log(1 + exp(x)) */
    ROTA_UNARY_HARDSWISH,  /* x * min(max(x + 3, 0), 6) / 6 */
    ROTA_UNARY_LEAKY_RELU, /* x > 0 ? x : alpha * x */
    ROTA_UNARY_ELU,        /* x > 0 ? x : alpha * (exp(x) - 1) */
    ROTA_UNARY_POW,        /* x^alpha; of a negative x NaN unless alpha is a whole number */
    ROTA_UNARY_CLAMP,      /* min(max(x, alpha), beta); NaN of NaN */
    ROTA_UNARY_SOFTCAP,    /* alpha * tanh(x / alpha) */
    ROTA_UNARY_COUNT
} rota_unary;

typedef struct rota_unary_params {
    uint32_t count;
    uint32_t op; /* rota_unary */
    float alpha; /* bindable 0 "alpha" */
    float beta;  /* bindable 1 "beta" */
    uint32_t dtype;
} rota_unary_params;

/* ---- unary_backward: v:READ, dy:READ, dx:WRITE; in place dx on dy (not on v). dx[i] = dy[i] * f'
 * v is the op's output y for EXP (y), SQRT (0.5 / y), RECIPROCAL (-y^2), RSQRT (-0.5 y^3), TANH (1 - y^2) and
 * SIGMOID (y (1 - y)), else its input x. Where f has a corner: RELU 1 where x > 0, LEAKY_RELU likewise, ABS 0
 * at 0, CLAMP 1 where alpha <= x <= beta. 0 for SIGN, FLOOR, CEIL, ROUND. Params: rota_unary_params, beta
 * used by CLAMP only. ---- */

/* ---- binary: a:READ, b:READ, y:WRITE; in place y on a. a and y contiguous, b strided (b_stride 0 repeats)
 * ---- */

typedef enum rota_binary {
    ROTA_BINARY_ADD,
    ROTA_BINARY_SUB,
    ROTA_BINARY_MUL,
    ROTA_BINARY_DIV,
    ROTA_BINARY_RSUB,    /* b - a */
    ROTA_BINARY_RDIV,    /* b / a */
    ROTA_BINARY_MINIMUM, /* NaN if either is */
    ROTA_BINARY_MAXIMUM,
    ROTA_BINARY_POW,      /* a^b, as of unary */
    ROTA_BINARY_SILU_MUL, /* silu(a) * b */
    ROTA_BINARY_ADD_GELU, /* gelu(a + b), the tanh form */
    ROTA_BINARY_EQ,       /* 1 where it holds, else 0; false of NaN, but NE true */
    ROTA_BINARY_NE,
    ROTA_BINARY_LT,
    ROTA_BINARY_LE,
    ROTA_BINARY_GT,
    ROTA_BINARY_GE,
    ROTA_BINARY_COUNT
} rota_binary;

typedef struct rota_binary_params {
    uint32_t count; /* product of shape */
    uint32_t op;    /* rota_binary */
    uint32_t shape[ROTA_KERNEL_DIMS];
    uint32_t b_stride[ROTA_KERNEL_DIMS];
    uint32_t dtype;
} rota_binary_params;

/* ---- binary_backward: a:READ, b:READ, dy:READ, da:WRITE, db:WRITE; all but b contiguous, b strided as
 * above, all of them of y's shape. In place da on dy. Without a flag its operand is bound to dy's range and
 * READ. MINIMUM, MAXIMUM: half to each where they are alike. POW: da = dy b a^(b - 1), db = dy y log a (0
 * where a is 0 and b >= 0). ADD_GELU: da and db alike. ops MINIMUM to ADD_GELU. ---- */

#define ROTA_BINARY_BACKWARD_A 1u
#define ROTA_BINARY_BACKWARD_B 2u

typedef struct rota_binary_backward_params {
    uint32_t count;
    uint32_t op;
    uint32_t flags;
    uint32_t dtype;
    uint32_t shape[ROTA_KERNEL_DIMS];
    uint32_t b_stride[ROTA_KERNEL_DIMS];
} rota_binary_backward_params;

/* ---- where: c:READ, a:READ, b:READ, y:WRITE; in place y on a. y = (c != 0) != INVERT ? a : b, as bits; c
 * and b strided (0 repeats), a and y contiguous. With NUMBER `number` stands for b, whose operand is bound to
 * c's range. ---- */

#define ROTA_WHERE_INVERT 1u
#define ROTA_WHERE_NUMBER 2u

typedef struct rota_where_params {
    uint32_t count;
    uint32_t flags;
    float number;
    uint32_t dtype;
    uint32_t shape[ROTA_KERNEL_DIMS];
    uint32_t c_stride[ROTA_KERNEL_DIMS];
    uint32_t b_stride[ROTA_KERNEL_DIMS];
} rota_where_params;

/* ---- copy_strided: x:READ, y:WRITE (READWRITE where y has gaps or accumulates). Elements of any dtype.
 * y[...] = x[...]; with SCALE (real numbers only) y = alpha * x; with ACCUMULATE (likewise) y += alpha * x.
 * y's elements are all distinct; x may repeat (stride 0). ---- */

#define ROTA_COPY_SCALE 1u
#define ROTA_COPY_ACCUMULATE 2u

typedef struct rota_copy_strided_params {
    uint32_t count;
    uint32_t flags;
    float alpha;
    uint32_t dtype;
    uint32_t x_offset; /* in elements, 0 or 1: 2-byte elements may start between multiples of 4 bytes */
    uint32_t y_offset;
    uint32_t shape[ROTA_KERNEL_DIMS];
    uint32_t x_stride[ROTA_KERNEL_DIMS];
    uint32_t y_stride[ROTA_KERNEL_DIMS];
} rota_copy_strided_params;

/* ---- cast: x:READ, y:WRITE. Contiguous; f32, f16, bf16 among each other, round to nearest even; f32, f16,
 * bf16 to i32 towards 0, outside the nearest, NaN 0; i32 to them through f32 ---- */

typedef struct rota_cast_params {
    uint32_t count;
    uint32_t from, to; /* rota_dtype */
} rota_cast_params;

/* ---- reduce: x:READ, y:WRITE. x is [outer, n, inner], y is [outer, ceil(n / chunk), inner]:
 * y[o, c, i] = scale * (sum, maximum, minimum or sum of squares of x[o, k, i], k in [c * chunk, min(n, (c +
 * 1) * chunk))). A long axis is reduced in two nodes, f32 in between. MAX, MIN: NaN if any is NaN; scale
 * is 1. ---- */

typedef enum rota_reduce {
    ROTA_REDUCE_SUM,
    ROTA_REDUCE_MAX,
    ROTA_REDUCE_SUM_SQUARES,
    ROTA_REDUCE_MIN,
    ROTA_REDUCE_COUNT
} rota_reduce;

typedef struct rota_reduce_params {
    uint32_t op; /* rota_reduce */
    uint32_t outer, n, inner;
    uint32_t chunk;
    float scale;
    uint32_t from, to; /* dtypes of x and y */
} rota_reduce_params;

/* ---- max_backward, of MAX and MIN: x:READ, y:READ, dy:READ, dx:WRITE. y, dy [outer, inner]; dx[o, k, i] =
 * dy[o, i] at the first k with x == y, else 0. ---- */

typedef struct rota_max_backward_params {
    uint32_t outer, n, inner;
    uint32_t dtype;
} rota_max_backward_params;

/* ---- gather: x:READ [outer, n, inner], index:READ i32 [outer, m, inner], y:WRITE. y[o, j, i] = x[o,
 * index[o, j, i], i]
 * ---- scatter_add: x:READ [outer, m, inner], index:READ i32, y:READWRITE f32 [outer, n, inner]. y[o,
 * index[o, j, i], i] += x[o, j, i] in order of j; an index outside is skipped on a GPU ---- */

typedef struct rota_gather_params {
    uint32_t outer, n, m, inner;
    uint32_t dtype; /* of x and, of gather, y */
} rota_gather_params;

/* ---- one_hot: index:READ i32 [rows], y:WRITE [rows, classes]. y = 1 where class == index, else 0 ---- */

typedef struct rota_one_hot_params {
    uint32_t rows, classes;
    uint32_t dtype;
} rota_one_hot_params;

/* ---- top_k: x:READ [outer, n, inner], values:WRITE [outer, k, inner], index:WRITE i32 likewise. The k
 * largest along the axis, in order; NaN is above all numbers, and of equal values the one with the smaller
 * index. Reads x k times: k is meant to be small. ---- */

typedef struct rota_top_k_params {
    uint32_t outer, n, inner, k;
    uint32_t dtype;
} rota_top_k_params;

/* ---- cumulative_sum: x:READ, y:WRITE [outer, n, inner]. y[o, k, i] = sum of x[o, 0..k, i]; reverse: of x[o,
 * k..n - 1, i] ---- */

typedef struct rota_cumulative_sum_params {
    uint32_t outer, n, inner;
    uint32_t reverse;
    uint32_t dtype;
} rota_cumulative_sum_params;

/* ---- variance: x:READ [outer, n, inner], y:WRITE [outer, inner], mean:WRITE f32 [outer, inner]. y = scale *
 * sum of (x - mean)^2, two passes
 * ---- variance_backward: x:READ, mean:READ, dy:READ, dx:WRITE. dx = 2 * scale * dy * (x - mean) ---- */

typedef struct rota_variance_params {
    uint32_t outer, n, inner;
    float scale; /* 1 / (n - correction) */
    uint32_t dtype;
} rota_variance_params;

/* ---- matmul, matmul_f16, matmul_bf16: a:READ, b:READ, c:WRITE (READWRITE with ACCUMULATE or gaps).
 * For each of batch[0] * batch[1] * batch[2] batches, c[i, j] = alpha * sum_p a(i, p) * b(p, j) (+ c[i, j]).
 * a(i, p) is a[i * lda + p], or a[p * lda + i] with TRANSPOSE_A; b(p, j) is b[p * ldb + j], or b[j * ldb + p]
 * with TRANSPOSE_B; c[i * ldc + j]. matmul: all f32. matmul_f16 and _bf16: a and b of that type, sums in f32,
 * c f32 or of that type (c_dtype). ---- */

#define ROTA_MATMUL_TRANSPOSE_A 1u
#define ROTA_MATMUL_TRANSPOSE_B 2u
#define ROTA_MATMUL_ACCUMULATE 4u /* c f32 only */
/* A promise: a, b and c begin at multiples of 16 bytes. Changes no result; lets a device take a kernel that
 * needs it. */
#define ROTA_MATMUL_ALIGNED_16 8u

typedef struct rota_matmul_params {
    uint32_t m, n, k;
    uint32_t lda, ldb, ldc;
    uint32_t flags;
    uint32_t c_dtype; /* rota_dtype */
    float alpha;
    uint32_t batch[3];
    uint32_t a_batch_stride[3], b_batch_stride[3], c_batch_stride[3];
} rota_matmul_params;

/* ---- Kernels with a field `dtype` (rota_dtype) have their data in f32, f16 or bf16, calculate in f32 and
 * round once when they store; what is called stats, loss, lse, partial or params below is f32. ---- */

/* ---- embedding: table:READ [classes, dim], index:READ i32 [rows], y:WRITE [rows, dim]. y[r] =
 * table[index[r]] ----
 * ---- embedding_backward: dy:READ [rows, dim], index:READ i32 [rows], dtable:WRITE (READWRITE with
 * accumulate) [classes, dim]. dtable[c] = (dtable[c] +) sum of dy[r] with index[r] == c, in order of r (on
 * CUDA in another that follows from the index); 0 where none. 16-bit: rounded once a sum, but on CUDA again
 * after each 5632 rows or so of one block's classes ----
 */

typedef struct rota_embedding_params {
    uint32_t rows, dim, classes;
    uint32_t accumulate; /* backward only */
    uint32_t dtype;
} rota_embedding_params;

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

/* ---- layernorm: x:READ [rows, dim], weight:READ [dim], bias:READ [dim], y:WRITE [rows, dim], stats:WRITE
 * [rows, 2]. y = (x - mean) * rstd * weight + bias, rstd = 1 / sqrt(variance + eps), variance over dim
 * (divisor dim), two passes; stats[r] = {mean, rstd}.
 * ---- layernorm_backward: x:READ, weight:READ, stats:READ, dy:READ, dx:WRITE (READWRITE with ACCUMULATE); in
 * place dx on dy. With g = dy * weight, h = (x - mean) * rstd: dx = (dx +) rstd * (g - mean(g) - h * mean(g *
 * h)) ----
 * ---- layernorm_backward_weight: x:READ, stats:READ, dy:READ, partial:WRITE [2, chunks, dim], chunks =
 * ceil(rows / chunk): partial[0, c] = sum over the rows of chunk c of dy * h, partial[1, c] = of dy; then
 * summed over c by reduce ----
 * ---- layernorm_gradient: x:READ, weight:READ, stats:READ, dy:READ, dx:WRITE (READWRITE with ACCUMULATE),
 * partial:WRITE; in place dx on dy. layernorm_backward and layernorm_backward_weight in one pass over x and
 * dy where a device has that, else as those two (rota_kernel.parts). rmsnorm_gradient likewise ----
 * ---- rmsnorm: x:READ, weight:READ, y:WRITE, stats:WRITE [rows]. rstd = 1 / sqrt(mean(x^2) + eps),
 * y = x * rstd * weight ----
 * ---- rmsnorm_backward: x:READ, weight:READ, stats:READ, dy:READ, dx:WRITE (READWRITE with ACCUMULATE); in
 * place dx on dy. g = dy * weight, h = x * rstd: dx = (dx +) rstd * (g - h * mean(g * h)) ----
 * ---- rmsnorm_backward_weight: x:READ, stats:READ, dy:READ, partial:WRITE [chunks, dim] ----
 * ---- residual_layernorm: x:READ, r:READ, weight:READ, bias:READ, sum:WRITE, y:WRITE, stats:WRITE; in place
 * sum on x or r. sum = x + r, rounded to its dtype; y and stats: layernorm of that ---- */

#define ROTA_NORM_WEIGHT 1u
#define ROTA_NORM_BIAS 2u
#define ROTA_NORM_ACCUMULATE 4u /* backward only */

typedef struct rota_norm_params {
    uint32_t rows, dim;
    uint32_t flags; /* which of weight and bias are there; absent: 1 and 0 */
    float eps;
    uint32_t chunk; /* rows a partial sum covers; _backward_weight and _gradient only */
    uint32_t dtype;
} rota_norm_params;

/* ---- Batch norm of x [outer, channels, inner]; mean and spread f32 [channels], spread being 1 /
 * sqrt(variance + eps), or with VARIANCE the variance; h = (x - mean) / sqrt(variance + eps). An absent
 * operand is bound to another that is read.
 * ---- batch_norm_sums: x:READ, mean:READ, spread:READ, dy:READ, partial:WRITE [1 or 2, chunks, channels],
 * chunks = ceil(outer * inner / chunk). Sums over the elements [c * chunk, ...) of each channel: MEAN of x,
 * SQUARES of (x - mean)^2, BACKWARD of dy * h and of dy ----
 * ---- batch_norm_update: mean:READ, variance:READ, running_mean:READWRITE, running_variance:READWRITE,
 * rstd:WRITE, all [channels]. rstd = 1 / sqrt(variance + eps); running = (1 - momentum) * running + momentum
 * * (mean, or variance * n / (n - 1)), n = outer * inner ----
 * ---- batch_norm: x:READ, mean:READ, spread:READ, weight:READ, bias:READ, y:WRITE; in place y on x. y = h *
 * weight + bias
 * ---- batch_norm_backward: x:READ, mean:READ, spread:READ, weight:READ, dy:READ, sums:READ [2, channels],
 * dx:WRITE; in place dx on dy. dx = weight * rstd * (dy - sums[1] / n - h * sums[0] / n); with VARIANCE
 * weight * rstd * dy ---- */

#define ROTA_BATCH_NORM_MEAN 4u
#define ROTA_BATCH_NORM_SQUARES 8u
#define ROTA_BATCH_NORM_BACKWARD 16u
#define ROTA_BATCH_NORM_VARIANCE 32u

typedef struct rota_batch_norm_params {
    uint32_t outer, channels, inner;
    uint32_t flags; /* ROTA_NORM_WEIGHT, ROTA_NORM_BIAS, and those above */
    uint32_t chunk;
    float eps, momentum;
    uint32_t dtype;
} rota_batch_norm_params;

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

/* ---- cross_entropy: logits:READ [rows, pitch], labels:READ i32 [rows], loss:WRITE [rows], lse:WRITE
 * [rows]. Only the first `classes` of the pitch columns count, the rest are as if not there. lse = max +
 * log(sum(exp(logits - max))), loss = lse - (1 - smoothing) * logits[label] - smoothing * mean(logits); a row
 * whose label is `ignored` has loss 0 ----
 * ---- cross_entropy_mean: loss:READ [rows], labels:READ i32 [rows], mean:WRITE [1], inverse:WRITE [1].
 * inverse = 1 / number of rows whose label is not `ignored`, mean = sum(loss) * inverse ----
 * ---- cross_entropy_backward: logits:READ, labels:READ, lse:READ, dloss:READ [1], inverse:READ [1],
 * dlogits:WRITE [rows, pitch]; in place dlogits on logits. 0 from column `classes` on; else dlogits =
 * (exp(logits - lse) - (1 - smoothing) * (class == label) - smoothing / classes) * dloss[0] * inverse[0]; 0
 * in an ignored row ---- */

typedef struct rota_cross_entropy_params {
    uint32_t rows, classes;
    int32_t ignored;
    float smoothing;
    uint32_t dtype; /* of logits and dlogits */
    uint32_t pitch;
} rota_cross_entropy_params;

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

/* ---- dropout: x:READ, residual:READ, y:WRITE; in place y on x or on residual. y[i] = residual[i] +
 * (word(i) >= threshold ? x[i] * scale : 0), word(i) is word i % 4 of Philox4x32-10 with counter {i / 4,
 * stream, step, 0} and key {seed, 0}. Without has_residual there is none, and its operand is bound to x's
 * range. The gradient is the same kernel on dy. Philox: Salmon et al., Parallel random numbers: as easy as 1,
 * 2, 3, SC 2011. ---- */

typedef struct rota_dropout_params {
    uint32_t count;
    uint32_t threshold; /* min(round(p * 2^32), 2^32 - 1) */
    float scale;        /* 1 / (1 - p) */
    uint32_t stream;    /* tells apart the dropouts of one graph */
    uint32_t seed;      /* bindable 0 "seed", varies by step */
    uint32_t step;      /* bindable 1 "step", varies by step */
    uint32_t has_residual;
    uint32_t dtype;
} rota_dropout_params;

/* ---- index_add: index:READ i32 [rows], y:ACCUMULATE i32 [size]. y[index[r]] += value, atomically ---- */

typedef struct rota_index_add_params {
    uint32_t rows, size;
    int32_t value;
} rota_index_add_params;

/* ---- global_norm: partial:READ [count] (sums of squares), out:WRITE [2]. out[0] = sqrt(sum of partial),
 * out[1] = out[0] > max_norm ? max_norm / out[0] : 1 (NaN where the norm is NaN) ---- */

typedef struct rota_global_norm_params {
    uint32_t count;
    float max_norm;
} rota_global_norm_params;

/* ---- Optimizers. factor:READ [1], g' = factor[0] * g; a negative factor skips the step: nothing but `half`
 * changes. Without FACTOR it is bound to g and 1. half:WRITE with HALF: p rounded to half_dtype; else bound
 * to g. ---- */

#define ROTA_UPDATE_FACTOR 1u
#define ROTA_UPDATE_HALF 2u
#define ROTA_UPDATE_COUPLED                                                                                  \
    4u /* adamw: weight decay is added to the gradient (Adam with L2), not taken from p */
#define ROTA_UPDATE_NESTEROV 8u /* momentum */
#define ROTA_UPDATE_SIGN 16u    /* momentum: Lion */

/* ---- adamw: p:READWRITE, g:READ, m:READWRITE, v:READWRITE, factor:READ, half:WRITE. m = beta1 * m + (1 -
 * beta1) * g'; v = beta2 * v + (1 - beta2) * g'^2; p = p * (1 - lr * weight_decay) - lr * (m / (1 -
 * beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps); step from 1. COUPLED: g' + weight_decay * p in place of
 * g', and p not scaled ---- */

typedef struct rota_adamw_params {
    uint32_t count;
    uint32_t flags;
    float lr;      /* bindable 0 "lr", varies by step */
    uint32_t step; /* bindable 1 "step", varies by step */
    float beta1, beta2, eps, weight_decay;
    uint32_t g_dtype, half_dtype;
} rota_adamw_params;

/* ---- momentum: p:READWRITE, g:READ, m:READWRITE, factor:READ, half:WRITE. SGD: d = g' + weight_decay * p; m
 * = beta1 * m + d; p = p - lr * (NESTEROV ? d + beta1 * m : m). SIGN: p = p * (1 - lr * weight_decay) - lr *
 * sign(beta1 * m + (1 - beta1) * g'); m = beta2 * m + (1 - beta2) * g' ---- */

typedef struct rota_momentum_params {
    uint32_t count;
    uint32_t flags;
    float lr; /* bindable 0 "lr", varies by step */
    float beta1, beta2, weight_decay;
    uint32_t g_dtype, half_dtype;
} rota_momentum_params;

/* ---- loss_scale: norm:READ [1], state:READWRITE [2], factor:WRITE [1]. state = {scale, steps since it
 * changed}; norm is that of gradients scale times too large. Infinite or NaN: factor = -1, scale *= backoff,
 * steps 0. Else factor = (norm / scale > max_norm ? max_norm / (norm / scale) : 1) / scale, and every
 * `interval` steps scale *= growth ---- */

typedef struct rota_loss_scale_params {
    uint32_t interval;
    float growth, backoff, max_norm;
} rota_loss_scale_params;

/* ---- check_finite: x:READ, found:READWRITE u32 [2]. found[0] += number of elements that are NaN or
 * infinite, found[1] = min(found[1], index of the first); both were set to 0 and UINT32_MAX before. On the
 * CPU executor the node fails, naming index and value. ---- */

typedef struct rota_check_finite_params {
    uint32_t count;
    uint32_t dtype;
} rota_check_finite_params;

#endif
