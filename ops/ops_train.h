/* Training: losses (f32, of f32, f16 or bf16; labels i32), and what optimizers do. The rules that hold for
 * all ops are in ops.h. */
#ifndef ROTA_OPS_OPS_TRAIN_H
#define ROTA_OPS_OPS_TRAIN_H

#include "ops_tape.h"

/* Means over all elements of (x - target)^2, of |x - target|, and of Huber's loss: d^2 / 2 where |d| = |x -
 * target| <= delta, else delta * (|d| - delta / 2). x and target of one shape; loss f32 [1]. Made of other
 * ops; gradient flows to both. */
ROTA_API rota_status rota_op_mse(rota_tape *tape, rota_tensor x, rota_tensor target, rota_tensor *out_loss);
ROTA_API rota_status rota_op_l1(rota_tape *tape, rota_tensor x, rota_tensor target, rota_tensor *out_loss);
ROTA_API rota_status rota_op_huber(rota_tape *tape, rota_tensor x, rota_tensor target, float delta,
                                   rota_tensor *out_loss);

/* Rows with this label do not count in a loss, as in PyTorch. */
#define ROTA_IGNORED_LABEL (-100)

/* loss f32 [1] = mean of -log softmax(logits)[label] over the rows whose label is not ROTA_IGNORED_LABEL (NaN
 * if there is none). logits [..., classes], labels i32 of logits' leading shape. Another label outside the
 * classes fails the node (CPU executor), naming position and value; on a GPU the loss is NaN. The
 * probabilities are never in memory. */
ROTA_API rota_status rota_op_cross_entropy(rota_tape *tape, rota_tensor logits, rota_tensor labels,
                                           rota_tensor *out_loss);
ROTA_API rota_status rota_op_cross_entropy_into(rota_tape *tape, rota_tensor logits, rota_tensor labels,
                                                rota_tensor loss);

typedef struct rota_classifier {
    size_t struct_size; /* sizeof, by ROTA_CLASSIFIER() */
    int32_t ignored;    /* rows with this label do not count */
    float smoothing;    /* the label gets 1 - smoothing, and each class smoothing / classes (Szegedy et al.,
                           2016) */
    uint64_t classes;   /* how many of the last axis's columns are classes; the others don't count, and their
                           gradient is 0: rows padded for the products' sake. 0: all */
    /* The gradient takes the place of the logits: they are contiguous, and whoever reads them after this op
     * may read their gradient. Half the memory of the largest tensors of a language model. (It does not where
     * the logits are not the whole of a transient buffer, or where their gradient was asked for.) */
    bool in_place;
} rota_classifier;
#define ROTA_CLASSIFIER(...) ROTA_SIZED(rota_classifier, __VA_ARGS__)

/* cross_entropy with options; NULL: {ROTA_IGNORED_LABEL}. */
ROTA_API rota_status rota_op_classifier(rota_tape *tape, rota_tensor logits, rota_tensor labels,
                                        const rota_classifier *options, rota_tensor *out_loss);

/* ---- Without gradient ---- */

/* y[index[r]] += value for every r; y i32 [size], index i32. An index outside fails the node (CPU executor).
 */
ROTA_API rota_status rota_op_index_add(rota_tape *tape, rota_tensor index, int32_t value, rota_tensor y);

/* out [2] = {norm, factor}: the norm of all tensors together, and what scales them to at most max_norm (1 if
 * they are). */
ROTA_API rota_status rota_op_global_norm(rota_tape *tape, const rota_tensor *tensors, uint32_t count,
                                         float max_norm, rota_tensor *out_norm_factor);
/* The same, and scales the tensors in place. */
ROTA_API rota_status rota_op_clip_global_norm(rota_tape *tape, const rota_tensor *tensors, uint32_t count,
                                              float max_norm, rota_tensor *out_norm_factor);

/* Optimizers: one step in place on f32 p and its moments m and v, all contiguous and of one shape; g f32, f16
 * or bf16 of that shape. `factor` f32 [1] multiplies the gradient (what clips it), or ROTA_TENSOR_NONE; a
 * negative factor skips the step (rota_op_loss_scale). `half`, f16 or bf16, contiguous, gets p rounded in the
 * same pass, or ROTA_TENSOR_NONE: the copy that a mixed-precision model calculates with.
 *
 * To update a model in one node, or one for each group of parameters with the same weight decay, let
 * parameters be views of one buffer, and their gradients of another, in the same order. */

typedef struct rota_adamw {
    size_t struct_size; /* sizeof, by ROTA_ADAMW() */
    rota_value lr;      /* varies by step, f32 */
    rota_value step;    /* varies by step, u32, from 1 */
    float beta1, beta2, eps, weight_decay;
    rota_tensor factor;
    rota_tensor half;
    bool coupled; /* Adam with L2: weight_decay * p is added to the gradient */
} rota_adamw;
#define ROTA_ADAMW(...) ROTA_SIZED(rota_adamw, __VA_ARGS__)

/* AdamW (Loshchilov and Hutter, Decoupled weight decay regularization, 2019), or Adam (Kingma and Ba, 2015).
 * `factor` may be f32 [3], contiguous: {factor, learning rate, step}, which are then those of the device's
 * memory; lr and step are not read. */
ROTA_API rota_status rota_op_adamw(rota_tape *tape, rota_tensor p, rota_tensor g, rota_tensor m,
                                   rota_tensor v, const rota_adamw *options);

typedef struct rota_sgd {
    size_t struct_size; /* sizeof, by ROTA_SGD() */
    rota_value lr;      /* varies by step, f32 */
    float momentum, weight_decay;
    bool nesterov;
    rota_tensor factor, half;
} rota_sgd;
#define ROTA_SGD(...) ROTA_SIZED(rota_sgd, __VA_ARGS__)

/* As PyTorch's without dampening: d = g + weight_decay * p; m = momentum * m + d; p -= lr * m, or with
 * nesterov lr * (d + momentum * m). */
ROTA_API rota_status rota_op_sgd(rota_tape *tape, rota_tensor p, rota_tensor g, rota_tensor m,
                                 const rota_sgd *options);

typedef struct rota_lion {
    size_t struct_size; /* sizeof, by ROTA_LION() */
    rota_value lr;      /* varies by step, f32 */
    float beta1, beta2, weight_decay;
    rota_tensor factor, half;
} rota_lion;
#define ROTA_LION(...) ROTA_SIZED(rota_lion, __VA_ARGS__)

/* Lion (Chen et al., Symbolic discovery of optimization algorithms, 2023): p = p (1 - lr * weight_decay) - lr
 * * sign(beta1 * m + (1 - beta1) * g); m = beta2 * m + (1 - beta2) * g. */
ROTA_API rota_status rota_op_lion(rota_tape *tape, rota_tensor p, rota_tensor g, rota_tensor m,
                                  const rota_lion *options);

/* average = decay * average + (1 - decay) * x; f32, average contiguous: an exponential moving average of
 * parameters. */
ROTA_API rota_status rota_op_ema(rota_tape *tape, rota_tensor x, rota_tensor average, float decay);

typedef struct rota_loss_scale {
    size_t struct_size;    /* sizeof, by ROTA_LOSS_SCALE() */
    uint32_t interval;     /* steps without overflow after which the scale grows: 2000 */
    float growth, backoff; /* what it is multiplied by then, and after an overflow: 2 and 0.5 */
    float max_norm;        /* of the gradient without the scale; INFINITY: not clipped */
} rota_loss_scale;
#define ROTA_LOSS_SCALE(...) ROTA_SIZED(rota_loss_scale, __VA_ARGS__)

/* Dynamic loss scaling on the device, as PyTorch's GradScaler (Micikevicius et al., Mixed precision training,
 * 2018): the loss was multiplied by state[0] before rota_backward; norm f32 [1] is the gradients'
 * (rota_op_global_norm, its first element). factor [1], for the optimizer, takes the scale away again and
 * clips; where the norm is infinite or NaN it is negative, which skips the step, and the scale shrinks. state
 * f32 [2], in place: {scale, steps since it changed}. */
ROTA_API rota_status rota_op_loss_scale(rota_tape *tape, rota_tensor norm, rota_tensor state,
                                        const rota_loss_scale *options, rota_tensor *out_factor);

/* Fails the node if an element is NaN or infinite, naming index and value (CPU executor). out_found u32 [2]:
 * how many there are and the index of the first (UINT32_MAX: none), for devices whose kernels can't fail.
 * out_found may be NULL. */
ROTA_API rota_status rota_op_check_finite(rota_tape *tape, rota_tensor x, rota_tensor *out_found);

#endif
