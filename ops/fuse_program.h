/* Programs of fused nodes. Internal. */
#ifndef ROTA_OPS_FUSE_PROGRAM_H
#define ROTA_OPS_FUSE_PROGRAM_H

#include "ops/fusion.h"

/* The program of that shape: made once, kept for the life of the process. NULL: no memory. Any thread. */
const rota_fused_program *rota_fused_program_get(const rota_fused_shape *shape);
/* Whether the program can run there; compiles it for a CUDA device. False: out_reason says why not. Any
 * thread; may block in the compiler. */
bool rota_fused_prepare(const rota_fused_program *program, const rota_rewrite_target *target,
                        char *out_reason, size_t capacity);
/* The name of a step's operation: "gelu", "mul". */
const char *rota_fused_step_name(const rota_fused_step *step);

#endif
