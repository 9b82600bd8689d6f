/* Losses and training: operands, parameters, and what each computes. C and CUDA C++; see kernel_params.h. */
#ifndef ROTA_OPS_TRAIN_PARAMS_H
#define ROTA_OPS_TRAIN_PARAMS_H

#include <stdint.h>

/* ---- cross_entropy: logits:READ [rows, pitch], labels:READ i32 [rows], loss:WRITE [rows], lse:WRITE
 * [rows]. Only the first `classes` of the pitch columns count, the rest are as if not there. lse = max +
 * log(sum(exp(logits - max))), loss = lse - (1 - smoothing) * logits[label] - smoothing * mean(logits); a row
 * whose label is `ignored` has loss 0 ----
 * ---- cross_entropy_mean: loss:READ [rows], labels:READ i32 [rows], mean:WRITE [1], inverse:WRITE [1].
 * inverse = 1 / number of rows whose label is not `ignored`, mean = sum(loss) * inverse ----
 * ---- cross_entropy_backward: logits:READ, labels:READ, lse:READ, dloss:READ [1], inverse:READ [1],
 * dlogits:WRITE [rows, pitch]; in place dlogits on logits. 0 from column `classes` on; else dlogits =
 * (exp(logits - lse) - (1 - smoothing) * (class == label) - smoothing / classes) * dloss[0] * inverse[0]; 0
 * in an ignored row ----
 * Where `all` is not 0 the logits are of classes [first, first + classes) of so many, all < 2^31, and a label of
 * another one is no mistake. Then the loss is without lse, and so the parts of all classes add up to it with the lse of
 * all: loss = -(1 - smoothing) * logits[label], where that is here, - smoothing * sum(logits) / all; backward gets the
 * lse of all, and has smoothing / all. Where all of a row's logits here are -infinity so is lse ---- */

typedef struct rota_cross_entropy_params {
    uint32_t rows, classes;
    int32_t ignored;
    float smoothing;
    uint32_t dtype; /* of logits and dlogits */
    uint32_t pitch;
    uint32_t first, all;
} rota_cross_entropy_params;

/* ---- cross_entropy_join: parts:READ [ranks, 2, rows], labels:READ i32 [rows], loss:WRITE [rows], lse:WRITE [rows].
 * parts[i] are loss and lse that cross_entropy gives of parts of the classes, in ascending order: lse = max of theirs +
 * log(sum(exp(theirs - max))), loss = lse + the sum of their losses, and 0 where the label is `ignored` ---- */

typedef struct rota_cross_entropy_join_params {
    uint32_t rows, ranks;
    int32_t ignored;
} rota_cross_entropy_join_params;

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
