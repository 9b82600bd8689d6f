/* What ops' shape rules and examples share. Internal. */
#ifndef ROTA_OPS_OP_RULES_H
#define ROTA_OPS_OP_RULES_H

#include "ops/tape.h"

/* Value `index` of the op, called `name`, is a u32 (a slot's is whatever it is filled with); else an error.
 */
rota_status rota_shape_require_u32(const rota_op_use *use, uint32_t index, const char *name);
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
