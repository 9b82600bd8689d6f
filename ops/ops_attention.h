/* Softmax, rotary positions and attention. f32, f16 or bf16, calculated in f32 and rounded when stored. The
 * rules that hold for all ops are in ops.h. */
#ifndef ROTA_OPS_OPS_ATTENTION_H
#define ROTA_OPS_OPS_ATTENTION_H

#include "ops_tape.h"

/* Along the last axis, the maximum subtracted. A row with NaN or infinity in it, or of -infinity alone, is
 * NaN; beside numbers -infinity gives 0. */
ROTA_API rota_status rota_op_softmax(rota_tape *tape, rota_tensor x, rota_tensor *out_y);
ROTA_API rota_status rota_op_softmax_into(rota_tape *tape, rota_tensor x, rota_tensor y);
/* x - log(sum(exp(x))) along the last axis. */
ROTA_API rota_status rota_op_log_softmax(rota_tape *tape, rota_tensor x, rota_tensor *out_y);
ROTA_API rota_status rota_op_log_softmax_into(rota_tape *tape, rota_tensor x, rota_tensor y);
/* x [..., queries, keys]: -infinity where key > query + keys - queries (keys >= queries). */
ROTA_API rota_status rota_op_causal_mask(rota_tape *tape, rota_tensor x, rota_tensor *out_y);
ROTA_API rota_status rota_op_causal_mask_into(rota_tape *tape, rota_tensor x, rota_tensor y);

typedef struct rota_rope {
    size_t struct_size; /* sizeof, by ROTA_ROPE() */
    rota_value offset;  /* position of the first row of the sequence, u32, varies by step */
    float base;         /* 10000 */
    uint32_t rotary;    /* columns that are turned, even; the others stay. 0: all */
    bool interleaved;   /* pairs are neighbours (GPT-J); else a column and the one half of `rotary` on (Llama,
                           GPT-NeoX) */
} rota_rope;
#define ROTA_ROPE(...) ROTA_SIZED(rota_rope, __VA_ARGS__)

/* x [..., sequence, dim], pair i of each row turned by position * base^(-2 i / rotary) (Su et al., RoFormer,
 * 2021). */
ROTA_API rota_status rota_op_rope(rota_tape *tape, rota_tensor x, const rota_rope *options,
                                  rota_tensor *out_y);
ROTA_API rota_status rota_op_rope_into(rota_tape *tape, rota_tensor x, const rota_rope *options,
                                       rota_tensor y);

/* softmax(scale * q k^T) v; q [batch, heads, queries, dim], k and v [batch, heads, keys, dim] (strided views
 * welcome; scale 0 means 1 / sqrt(dim)), or of fewer heads that divide those of q: each serves a group of
 * neighbours (grouped-query attention: Ainslie et al., 2023), and is copied for it. causal: query i sees keys
 * j <= i + keys - queries. Fused: one kernel, the scores never in memory; it saves the log-sum-exp of each
 * row for its gradient. Separate: matmul, softmax, matmul as nodes of their own. */
ROTA_API rota_status rota_op_attention(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v,
                                       bool causal, float scale, rota_tensor *out_y);
ROTA_API rota_status rota_op_attention_into(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v,
                                            bool causal, float scale, rota_tensor y);
ROTA_API rota_status rota_op_attention_separate(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v,
                                                bool causal, float scale, rota_tensor *out_y);

/* The same with dropout of the probabilities, (m * softmax(scale * q k^T)) v, fused as well. m is what
 * rota_op_dropout would draw for the probabilities [batch, heads, queries, keys] in its place: element e of them in
 * their order is kept, and multiplied by 1 / (1 - p), where word e % 4 of Philox4x32-10 with counter {e / 4, the
 * dropout's number in its tape, step, 0} and key {seed, 0} is at least p * 2^32, else 0. Replays with the same seed
 * and step, u32, which vary by step, repeat it, and so does the gradient, which draws again. p in [0, 1). Of a tape
 * of one of several ranks m is a part of the whole's, of more batches (rota_tape_options.ranks). UNSUPPORTED where dim
 * is over 65535. */
ROTA_API rota_status rota_op_attention_dropout(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v,
                                               bool causal, float scale, float p, rota_value seed,
                                               rota_value step, rota_tensor *out_y);
ROTA_API rota_status rota_op_attention_dropout_into(rota_tape *tape, rota_tensor q, rota_tensor k,
                                                    rota_tensor v, bool causal, float scale, float p,
                                                    rota_value seed, rota_value step, rota_tensor y);

/* Residual attention (He et al., RealFormer, 2020; PatchTST): scores = scale * q k^T + previous (the layer's
 * before, or ROTA_TENSOR_NONE), y = softmax(scores) v. Made of other ops. */
ROTA_API rota_status rota_op_attention_residual(rota_tape *tape, rota_tensor q, rota_tensor k, rota_tensor v,
                                                rota_tensor previous, float scale, rota_tensor *out_y,
                                                rota_tensor *out_scores);

#endif
