/* What the files that define ops share: their lists, and helpers for shape rules and examples. Internal. */
#ifndef ROTA_OPS_OP_H
#define ROTA_OPS_OP_H

#include "ops/tape.h"

/* Ops of each file, ended by one without name. */
extern const rota_op rota_ops_binary[], rota_ops_unary[], rota_ops_choose[], rota_ops_move[],
    rota_ops_reduce[], rota_ops_along[], rota_ops_matmul[], rota_ops_norm[], rota_ops_batch_norm[],
    rota_ops_rope[], rota_ops_scores[], rota_ops_loss[], rota_ops_attention[], rota_ops_update[],
    rota_ops_optimizer[];

/* All tensors that are there have this dtype; else an error that names the input. */
rota_status rota_shape_require(const rota_op_use *use, uint32_t inputs, rota_dtype dtype);
/* The inputs of the mask that are there are alike of one dtype of real numbers; else an error that names both
 * dtypes. */
rota_status rota_shape_require_real(const rota_op_use *use, uint32_t inputs, rota_dtype *out_dtype);
/* The shape that the inputs of the mask broadcast to, right-aligned; else an error with all of theirs. */
rota_status rota_shape_broadcast(const rota_op_use *use, uint32_t inputs, uint32_t *out_rank,
                                 uint64_t *out_shape);
/* Value `index` of the op, called `name`, is a u32 (a slot's is whatever it is filled with); else an error.
 */
rota_status rota_shape_require_u32(const rota_op_use *use, uint32_t index, const char *name);
/* out_outputs[0] like an input. */
rota_status rota_shape_like(const rota_tensor *x, rota_dtype dtype, rota_tensor *out);

void rota_example_input(rota_op_example *example, uint32_t input, rota_dtype dtype, uint32_t rank,
                        const uint64_t *shape, rota_fill_kind fill);
void rota_example_absent(rota_op_example *example, uint32_t input);
/* Sets bytes to those of all inputs and of these outputs. */
void rota_example_bytes(rota_op_example *example, const rota_tensor *outputs, uint32_t count);
/* The same and with dtypes. */
bool rota_example_typed(uint32_t index, uint32_t size, const char **out_label, rota_dtype *out_dtype,
                        uint32_t *out_rank, const uint64_t **out_shape);
/* Shapes that elementwise ops are tried with: false past the last. */
bool rota_example_shape(uint32_t index, uint32_t size, const char **out_label, uint32_t *out_rank,
                        const uint64_t **out_shape);

#endif
