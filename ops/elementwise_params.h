/* Kernels element by element: operands, parameters, and what each computes. C and CUDA C++; see
 * kernel_params.h. */
#ifndef ROTA_OPS_ELEMENTWISE_PARAMS_H
#define ROTA_OPS_ELEMENTWISE_PARAMS_H

#include <stdint.h>

/* Dimensions that a strided kernel handles, after the op merged what is contiguous. */
#define ROTA_KERNEL_DIMS 6

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

/* ---- dropout: x:READ, residual:READ, y:WRITE; in place y on x or on residual. y[i] = residual[i] +
 * (word(i) >= threshold ? x[i] * scale : 0), word(i) is word i % 4 of Philox4x32-10 with counter {first + i / 4,
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
    uint32_t first; /* where x is a part of a whole: the elements before it, by four */
} rota_dropout_params;

#endif
